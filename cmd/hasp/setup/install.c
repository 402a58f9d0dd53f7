/* SPDX-License-Identifier: MIT */

/* hasp setup --install: makes this machine a node. Existing files are not
 * overwritten, except by a renewed certificate of the same CA, and haspd has
 * to accept the configuration before the file gets its final name. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "cmd/hasp/setup/bundle.h"
#include "cmd/hasp/setup/node.h"
#include "cmd/hasp/setup/program.h"
#include "cmd/hasp/tool.h"

/* A unit that cannot start has failed after this time. */
#define FAILS_WITHIN_MS 1500
#define LOOK_MS 100

static const char *const part_paths[PART_COUNT] = {
    NODE_CONFIG, NODE_TLS "/ca.crt", NODE_TLS "/node.crt",
    NODE_TLS "/node.key"};

/* --- Before anything is written ------------------------------------------- */

static int check_machine(struct node_user *ret_user)
{
    char haspd[PATH_MAX];
    if (geteuid() != 0) {
        return tool_fail(EX_NOPERM,
                         "writing /etc/hasp needs root: sudo hasp setup "
                         "--install FILE");
    }
    if (!node_find_user(ret_user)) {
        return tool_fail(
            EX_CONFIG, "no user '" NODE_USER "' on this machine: "
                       "install the package haspd, or see docs/operations.md");
    }
    return tool_find_haspd(haspd);
}

/* Another configuration, or certificates of another CA, belong to another node
 * or cluster. */
static int check_there(const struct bundle *bundle)
{
    for (size_t i = PART_CONFIG; i <= PART_CA; i++) {
        const char *path = part_paths[i];
        if (access(path, F_OK) == 0 &&
            !file_is(path, buffer_bytes(&bundle->part[i]))) {
            return tool_fail(
                EX_CANTCREAT,
                "'%s' exists and differs: this machine was set up before; to "
                "set it up again, stop haspd and move /etc/hasp and " NODE_DATA
                " away",
                path);
        }
    }
    return 0;
}

/* --- Writing -------------------------------------------------------------- */

static int make_folder(const char *path, mode_t mode, uid_t owner, gid_t group)
{
    if (mkdir(path, 0700) != 0) {
        return errno == EEXIST ? 0
                               : tool_fail(EX_CANTCREAT,
                                           "cannot create the folder '%s': %s",
                                           path, strerror(errno));
    }
    return chown(path, owner, group) == 0 && chmod(path, mode) == 0
               ? 0
               : tool_fail(EX_CANTCREAT, "cannot give '%s' to its user: %s",
                           path, strerror(errno));
}

/* The package has created most of them. */
static int make_folders(const struct node_user *as)
{
    int rv = make_folder("/etc/hasp", 0755, 0, 0);
    rv = rv ?: make_folder(NODE_TLS, 0750, 0, as->group);
    rv = rv ?: make_folder("/var/lib/hasp", 0700, as->user, as->group);
    rv = rv ?: make_folder("/var/log/hasp", 0700, as->user, as->group);
    return rv ?: make_folder("/run/hasp", 0750, as->user, as->group);
}

/* Checks the configuration with the certificates in place, under a name with
 * which the service does not start. */
static int write_parts(const struct bundle *bundle, const struct node_user *as)
{
    static const char candidate[] = NODE_CONFIG ".candidate";
    AUTO(buffer_done) struct buffer said = {0};
    int rv = 0;
    for (size_t i = PART_COUNT; rv == 0 && i-- > PART_CA;) {
        bool is_key = i == PART_KEY;
        rv = file_write(part_paths[i], buffer_bytes(&bundle->part[i]),
                        is_key ? 0640 : 0644, is_key ? as->group : 0);
    }
    rv = rv
             ?: file_write(candidate, buffer_bytes(&bundle->part[PART_CONFIG]),
                           0644, 0);
    if (rv != 0) {
        return rv;
    }
    if (node_ask_haspd(candidate, "--check-config", &said) != 0) {
        (void)unlink(candidate);
        return tool_fail(EX_CONFIG,
                         "haspd does not accept its configuration: "
                         "%s",
                         (const char *)said.data);
    }
    if (rename(candidate, NODE_CONFIG) != 0) {
        return tool_fail(EX_CANTCREAT, "cannot write '" NODE_CONFIG "': %s",
                         strerror(errno));
    }
    if (said.size > 0) {
        fprintf(stderr, "%s\n", (const char *)said.data);
    }
    return 0;
}

/* --- Starting ------------------------------------------------------------- */

/* --no-block: the first start waits for all founders. */
static int start(const struct tool *tool)
{
    AUTO(buffer_done) struct buffer said = {0};
    if (!node_has_systemd()) {
        tool_say(
            tool,
            "systemd is not running here: start haspd --config " NODE_CONFIG
            " as the user " NODE_USER);
        return 0;
    }
    int status = program_run(
        WORDS("systemctl", "enable", "--now", "--no-block", "haspd"), 0, 0,
        &said);
    if (status != 0) {
        return tool_fail(EX_UNAVAILABLE, "cannot start the service haspd: %s",
                         (const char *)said.data);
    }
    for (int ms = 0; ms < FAILS_WITHIN_MS; ms += LOOK_MS) {
        AUTO(buffer_done) struct buffer state = {0};
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL);
        if (node_ask_systemd("is-active", &state) == 0) {
            break;
        }
        if (strcmp((const char *)state.data, "failed") == 0) {
            return tool_fail(EX_UNAVAILABLE,
                             "the service haspd did not start; see: journalctl "
                             "-u haspd -n 20");
        }
    }
    tool_say(tool, "haspd runs; the cluster starts once all its machines are "
                   "set up; see: sudo hasp setup --check");
    return 0;
}

int setup_install(const struct tool *tool, const char *path)
{
    AUTO(bundle_done) struct bundle bundle = {0};
    struct node_user as;
    int rv = check_machine(&as);
    rv = rv ?: bundle_read(path, &bundle);
    rv = rv ?: check_there(&bundle);
    rv = rv ?: make_folders(&as);
    rv = rv ?: write_parts(&bundle, &as);
    if (rv == 0) {
        tool_say(tool, NODE_CONFIG " and " NODE_TLS " are written");
    }
    return rv ?: start(tool);
}
