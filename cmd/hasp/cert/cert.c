/* SPDX-License-Identifier: MIT */

/* hasp cert ca, node, user, renew: three commands give a cluster mutual TLS.
 * */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cmd/hasp/cert/cert_files.h"
#include "cmd/hasp/tool.h"

#define CA_DAYS 3650
#define USER_DAYS 365
#define FOLDER "certs"

/* --- Folders -------------------------------------------------------------- */

/* Paths of the files of one node or user in the CA's folder. */
struct cert_place {
    char folder[PATH_MAX / 2];
    char ca_of_all[PATH_MAX];
    char ca[PATH_MAX];
    char certificate[PATH_MAX];
    char key[PATH_MAX];
};

static void set_place(struct cert_place *place, const char *ca_folder,
                      const char *folder, enum tls_role role)
{
    const char *stem = role == TLS_NODE ? "node" : "client";
    snprintf(place->folder, sizeof place->folder, "%.2000s", folder);
    snprintf(place->ca_of_all, PATH_MAX, "%.3000s/ca.crt", ca_folder);
    snprintf(place->ca, PATH_MAX, "%s/ca.crt", place->folder);
    snprintf(place->certificate, PATH_MAX, "%s/%s.crt", place->folder, stem);
    snprintf(place->key, PATH_MAX, "%s/%s.key", place->folder, stem);
}

/* Creates the certificate of 'wish' in 'folder'. */
static int cert_issue(const struct cert_files_wish *wish, const char *ca_folder,
                      const char *folder, bool may_replace)
{
    struct cert_place place;
    struct cert_files ca, cert_files;
    struct tls_name ca_name;
    struct cert_files_wish whole = *wish;
    int rv = cert_files_load_ca(ca_folder, &ca, &ca_name);
    if (rv != 0) {
        return rv;
    }
    if (whole.name.cluster[0] != '\0' &&
        strcmp(whole.name.cluster, ca_name.cluster) != 0) {
        cert_files_done(&ca);
        return tool_fail(EX_DATAERR,
                         "'%s' is for cluster '%s', but the CA in '%s' is for "
                         "'%s'; name the right CA with --dir",
                         folder, whole.name.cluster, ca_folder,
                         ca_name.cluster);
    }
    memcpy(whole.name.cluster, ca_name.cluster, sizeof ca_name.cluster);
    if (cert_files_make(&whole, &ca, &cert_files) != 0) {
        cert_files_done(&ca);
        return tool_fail(EX_USAGE,
                         "invalid host in '%s': use names and addresses with "
                         "commas between them, e.g. 1=10.0.0.1,lock1.lan",
                         wish->hosts);
    }
    set_place(&place, ca_folder, folder, wish->name.role);
    rv = cert_files_make_folder(folder);
    rv = rv
             ?: cert_files_write(&cert_files, place.certificate, place.key,
                                 may_replace);
    rv = rv ?: cert_files_copy(place.ca_of_all, place.ca, true);
    cert_files_done(&cert_files);
    cert_files_done(&ca);
    return rv;
}

/* --- ca ------------------------------------------------------------------- */

int run_cert_ca(struct tool *tool, char **argv)
{
    char *cluster = NULL, *folder = FOLDER;
    uint64_t days = CA_DAYS;
    const struct option_row rows[] = {
        {"cluster", OPTION_TEXT, .value = &cluster},
        {"dir", OPTION_TEXT, .value = &folder},
        {"days", OPTION_NUMBER, .value = &days, .min = 1,
         .max = CERT_FILES_DAYS_MAX},
        {0},
    };
    int rv = options_read(tool, argv, rows, 0, 0);
    if (rv != 0) {
        return rv;
    }
    if (cluster == NULL) {
        return tool_usage(tool, "missing --cluster: the cluster.name in "
                                "haspd's configuration");
    }
    if (!tls_word_is_fine(bytes_of_text(cluster))) {
        return tool_usage(tool,
                          "invalid cluster '%s': use up to 64 letters, digits, "
                          "'.', '_' and '-'",
                          cluster);
    }
    char certificate[PATH_MAX], key[PATH_MAX];
    struct cert_files_wish wish = {.name.role = TLS_CA, .days = days};
    struct cert_files cert_files;
    snprintf(wish.name.cluster, sizeof wish.name.cluster, "%s", cluster);
    snprintf(certificate, sizeof certificate, "%.3000s/ca.crt", folder);
    snprintf(key, sizeof key, "%.3000s/ca.key", folder);
    rv = cert_files_make_folder(folder);
    if (rv != 0) {
        return rv;
    }
    if (cert_files_make(&wish, NULL, &cert_files) != 0) {
        return tool_fail(EX_SOFTWARE, "cannot create the certificate");
    }
    rv = cert_files_write(&cert_files, certificate, key, false);
    cert_files_done(&cert_files);
    if (rv == 0) {
        tool_say(tool,
                 "%s and %s: the CA of cluster '%s', for %" PRIu64
                 " days; keep ca.key off the nodes",
                 certificate, key, cluster, days);
    }
    return rv;
}

/* --- node, user ----------------------------------------------------------- */

/* Parses "3=10.0.0.3,lock3.lan"; 'hosts' points into the text. */
static bool parse_node(char *text, uint64_t *ret_id, const char **ret_hosts)
{
    char *equals = strchr(text, '=');
    if (equals == NULL || equals[1] == '\0') {
        return false;
    }
    *equals = '\0';
    bool is_fine = parse_number(text, ret_id) && *ret_id != 0;
    *equals = '=';
    *ret_hosts = equals + 1;
    return is_fine;
}

/* Calls 'each' for each operand. */
typedef int each_fn(struct tool *tool, char *word, const char *ca_folder,
                    uint64_t days);

static int for_each(struct tool *tool, char **argv, uint64_t days,
                    each_fn *each)
{
    char *ca_folder = FOLDER;
    const struct option_row rows[] = {
        {"dir", OPTION_TEXT, .value = &ca_folder},
        {"days", OPTION_NUMBER, .value = &days, .min = 1,
         .max = CERT_FILES_DAYS_MAX},
        {0},
    };
    int rv = options_read(tool, argv, rows, 1, SIZE_MAX);
    for (int i = 1; rv == 0 && argv[i] != NULL; i++) {
        rv = each(tool, argv[i], ca_folder, days);
    }
    return rv;
}

static int issue_node(struct tool *tool, char *word, const char *ca_folder,
                      uint64_t days)
{
    struct cert_files_wish wish = {.name.role = TLS_NODE, .days = days};
    char folder[PATH_MAX];
    if (!parse_node(word, &wish.name.node, &wish.hosts)) {
        return tool_usage(tool,
                          "invalid node '%s': use ID=HOST[,HOST...], e.g. "
                          "1=10.0.0.1,lock1.lan",
                          word);
    }
    snprintf(folder, sizeof folder, "%.3000s/node-%" PRIu64, ca_folder,
             wish.name.node);
    int rv = cert_issue(&wish, ca_folder, folder, false);
    if (rv == 0) {
        tool_say(
            tool,
            "%s: node %" PRIu64
            " (%s); copy it to that node, and set tls.dir there to its path",
            folder, wish.name.node, wish.hosts);
    }
    return rv;
}

int run_cert_node(struct tool *tool, char **argv)
{
    return for_each(tool, argv, 0, issue_node);
}

static int issue_user(struct tool *tool, char *word, const char *ca_folder,
                      uint64_t days)
{
    struct cert_files_wish wish = {.name.role = TLS_USER, .days = days};
    char folder[PATH_MAX];
    if (!tls_word_is_fine(bytes_of_text(word))) {
        return tool_usage(tool,
                          "invalid user '%s': use up to 64 letters, "
                          "digits, '.', '_' and '-'",
                          word);
    }
    snprintf(wish.name.user, sizeof wish.name.user, "%s", word);
    snprintf(folder, sizeof folder, "%.3000s/user-%s", ca_folder, word);
    int rv = cert_issue(&wish, ca_folder, folder, false);
    if (rv == 0) {
        tool_say(tool, "%s: user %s, for %" PRIu64 " days; HASP_TLS=%s", folder,
                 word, days, folder);
    }
    return rv;
}

int run_cert_user(struct tool *tool, char **argv)
{
    return for_each(tool, argv, USER_DAYS, issue_user);
}

/* --- renew ---------------------------------------------------------------- */

/* Renews a certificate; 'days' 0 means the default. */
static int cert_renew(struct tool *tool, char *word, const char *ca_folder,
                      uint64_t days)
{
    struct cert_files old;
    struct cert_files_wish wish = {.days = days};
    int rv = cert_files_load_folder(word, &old);
    if (rv != 0) {
        return rv;
    }
    char *hosts = cert_files_hosts(old.certificate);
    wish.hosts = hosts[0] != '\0' ? hosts : NULL;
    if (!cert_files_name(old.certificate, &wish.name) ||
        wish.name.role == TLS_CA) {
        rv = tool_fail(EX_DATAERR,
                       "'%s' has no certificate of a node or a user of hasp",
                       word);
    } else {
        if (days == 0 && wish.name.role == TLS_USER) {
            wish.days = USER_DAYS;
        }
        rv = cert_issue(&wish, ca_folder, word, true);
    }
    if (rv == 0) {
        tool_say(tool, "%s: renewed, with a new key%s", word,
                 wish.name.role == TLS_NODE
                     ? "; haspd reads it within a minute, or at SIGHUP"
                     : "");
    }
    free(hosts);
    cert_files_done(&old);
    return rv;
}

int run_cert_renew(struct tool *tool, char **argv)
{
    return for_each(tool, argv, 0, cert_renew);
}

/* --- For other subcommands ------------------------------------------------ */

/* Runs: hasp -q cert WHAT --dir FOLDER WORD MORE; 'more' may be NULL. */
static int run_quietly(const struct tool *tool, const char *what,
                       const char *folder, const char *word, const char *more)
{
    struct tool quiet = *tool;
    char copy[5][PATH_MAX];
    const char *words[] = {"--dir", folder, word, more};
    char *argv[6] = {"cert"};
    for (size_t i = 0; i < 4 && words[i] != NULL; i++) {
        snprintf(copy[i], sizeof copy[i], "%s", words[i]);
        argv[i + 1] = copy[i];
    }
    quiet.subcommand = tool_find(tool, "cert", what);
    quiet.is_quiet = true;
    return quiet.subcommand->run(&quiet, argv);
}

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3800s/%s", folder, name);
    return access(path, F_OK) == 0;
}

int tool_make_ca(const struct tool *tool, const char *folder,
                 const char *cluster)
{
    struct cert_files ca;
    struct tls_name name;
    if (!has_file(folder, "ca.crt")) {
        return run_quietly(tool, "ca", folder, "--cluster", cluster);
    }
    int rv = cert_files_load_ca(folder, &ca, &name);
    if (rv != 0) {
        return rv;
    }
    cert_files_done(&ca);
    return strcmp(name.cluster, cluster) == 0
               ? 0
               : tool_fail(EX_DATAERR,
                           "the CA in '%s' is for cluster '%s', not for '%s'; "
                           "name another folder with --dir",
                           folder, name.cluster, cluster);
}

int tool_make_certificate(const struct tool *tool, const char *what,
                          const char *folder, const char *word)
{
    char file[256];
    snprintf(file, sizeof file, "%s-%.*s/%s.crt", what,
             (int)(strcspn(word, "=") < 128 ? strcspn(word, "=") : 128), word,
             strcmp(what, "node") == 0 ? "node" : "client");
    return has_file(folder, file) ? 0
                                  : run_quietly(tool, what, folder, word, NULL);
}
