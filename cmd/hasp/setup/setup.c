/* SPDX-License-Identifier: MIT */

/* hasp setup: creates, from the names and addresses of machines, a file for
 * each that makes it a node of a new cluster with TLS and users. Existing
 * files in the folder are kept, so the command can be repeated. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/address.h"
#include "base/memory.h"
#include "cmd/hasp/setup/bundle.h"
#include "cmd/hasp/setup/machines.h"
#include "cmd/hasp/setup/node.h"
#include "cmd/hasp/tool.h"
#include "net/tls.h"

#define CLUSTER "production"
#define FOLDER "certs"

struct setup {
    struct tool *tool;
    char *cluster;
    char *folder;
    struct machines machines;
};

/* --- The folder ----------------------------------------------------------- */

/* "certs/lock1.setup" */
static const char *path_in(const struct setup *setup, const char *name,
                           const char *suffix, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%.3000s/%s%s", setup->folder, name, suffix);
    return out;
}

/* Reserves the folder for these machines: the certificates and configurations
 * of others would not match. */
static int take_folder(const struct setup *setup)
{
    AUTO(buffer_done) struct buffer lines = {0};
    char path[PATH_MAX];
    buffer_printf(&lines, "# Machines of cluster %s: node, name, hosts.\n",
                  setup->cluster);
    for (size_t i = 0; i < setup->machines.count; i++) {
        const struct machine *machine = &setup->machines.machine[i];
        buffer_printf(&lines, "%zu %s %s\n", i + 1, machine->name,
                      machine->hosts);
    }
    path_in(setup, "machines", "", path);
    if (mkdir(setup->folder, 0700) != 0 && errno != EEXIST) {
        return tool_fail(EX_CANTCREAT, "cannot create the folder '%s': %s",
                         setup->folder, strerror(errno));
    }
    if (access(path, F_OK) == 0) {
        return file_is(path, buffer_bytes(&lines))
                   ? 0
                   : tool_fail(EX_CANTCREAT,
                               "'%s' belongs to another cluster or other "
                               "machines; use another --dir for a new cluster; "
                               "to add a machine to a running cluster: hasp "
                               "member add (docs/operations.md)",
                               path);
    }
    return file_write(path, buffer_bytes(&lines), 0644, (gid_t)-1);
}

static int certify(const struct setup *setup)
{
    int rv = tool_make_ca(setup->tool, setup->folder, setup->cluster);
    for (size_t i = 0; rv == 0 && i < setup->machines.count; i++) {
        char word[1280];
        snprintf(word, sizeof word, "%zu=%s", i + 1,
                 setup->machines.machine[i].hosts);
        rv = tool_make_certificate(setup->tool, "node", setup->folder, word);
    }
    return rv
               ?: tool_make_certificate(setup->tool, "user", setup->folder,
                                        "admin");
}

/* --- Bundles -------------------------------------------------------------- */

static void put_members(struct buffer *out, const struct setup *setup)
{
    for (size_t i = 0; i < setup->machines.count; i++) {
        const struct machine *machine = &setup->machines.machine[i];
        buffer_printf(out, "# %s\nmember = %zu ", machine->name, i + 1);
        machine_put_address(out, machine, PORT_PEER);
        buffer_put_text(out, " ");
        machine_put_address(out, machine, PORT_CLIENT);
        buffer_put_text(out, "\n");
    }
}

static void put_config(struct buffer *out, const struct setup *setup, size_t i)
{
    const struct machine *machine = &setup->machines.machine[i];
    buffer_printf(out,
                  "# haspd.conf(5) of %s, made by 'hasp setup'. On the other "
                  "machines only\n# node.id differs.\n"
                  "[node]\n"
                  "id = %zu\n"
                  "dir = " NODE_DATA "\n"
                  "\n"
                  "[cluster]\n"
                  "name = %s\n",
                  machine->name, i + 1, setup->cluster);
    put_members(out, setup);
    if (setup->machines.count == 1) {
        buffer_put_text(out, "# A cluster of one node.\n"
                             "alone = yes\n");
    }
    buffer_put_text(out, "\n[listen]\n# For clients on this machine, which "
                         "name it unix:" NODE_SOCKET ".\n"
                         "local = " NODE_SOCKET "\n");
    if (address_is_loopback(machine->address)) {
        /* The machines share one loopback interface. */
        buffer_put_text(out, "http = ");
        machine_put_address(out, machine, PORT_HTTP);
        buffer_put_text(out, "\n");
    }
    buffer_put_text(out, "\n[tls]\n"
                         "dir = " NODE_TLS "\n"
                         "client = require\n"
                         "peer = require\n"
                         "\n[security]\n"
                         "access = required\n"
                         "\n[audit]\n"
                         "file = " NODE_AUDIT "\n");
}

static int make_bundle(const struct setup *setup, size_t i)
{
    AUTO(bundle_done) struct bundle bundle = {0};
    char path[PATH_MAX], file[96];
    int rv = 0;
    put_config(&bundle.part[PART_CONFIG], setup, i);
    for (size_t part = PART_CA; rv == 0 && part < PART_COUNT; part++) {
        snprintf(file, sizeof file, "node-%zu/%s", i + 1, part_names[part]);
        rv = file_read(path_in(setup, file, "", path), &bundle.part[part]);
    }
    return rv
               ?: bundle_write(&bundle,
                               path_in(setup, setup->machines.machine[i].name,
                                       ".setup", path));
}

/* --- What comes next ------------------------------------------------------ */

/* Adds a path as a word of a shell, quoted if necessary. */
static void put_path(struct buffer *out, const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-._/+:@";
    if (path[strspn(path, plain)] == '\0') {
        buffer_put_text(out, path);
    } else {
        format_quoted(out, path);
    }
}

/* The command that makes a machine a node, run in the current folder. */
static void put_command(struct buffer *out, const struct setup *setup, size_t i)
{
    const struct machine *machine = &setup->machines.machine[i];
    char path[PATH_MAX];
    path_in(setup, machine->name, ".setup", path);
    if (machine->is_here) {
        buffer_put_text(out, "sudo hasp setup --install ");
    } else {
        buffer_printf(out, "ssh %s sudo hasp setup --install - < ",
                      machine->address);
    }
    put_path(out, path);
    buffer_put_u8(out, '\0');
}

static void print_next(const struct setup *setup)
{
    AUTO(buffer_done) struct buffer endpoints = {0};
    json_auto_t *rows = json_array();
    char full[PATH_MAX], path[PATH_MAX];
    for (size_t i = 0; i < setup->machines.count; i++) {
        AUTO(buffer_done) struct buffer command = {0};
        const struct machine *machine = &setup->machines.machine[i];
        buffer_put_text(&endpoints, i > 0 ? "," : "");
        machine_put_address(&endpoints, machine, PORT_CLIENT);
        put_command(&command, setup, i);
        json_array_append_new(rows, json_pack("{s:s, s:i, s:s}", "machine",
                                              machine->name, "node", (int)i + 1,
                                              "command", (char *)command.data));
    }
    buffer_put_u8(&endpoints, '\0');
    if (setup->tool->format != FORMAT_TABLE) {
        output_rows(setup->tool->format, setup->tool->subcommand->fields, rows);
        return;
    }
    printf("On each machine, as root:\n");
    for (size_t i = 0; i < setup->machines.count; i++) {
        printf("  %s\n", value_text(json_array_get(rows, i), "command"));
    }
    if (realpath(setup->folder, full) == NULL) {
        snprintf(full, sizeof full, "%.4000s", setup->folder);
    }
    AUTO(buffer_done) struct buffer admin = {0};
    snprintf(path, sizeof path, "%.4000s/user-admin", full);
    put_path(&admin, path);
    buffer_put_u8(&admin, '\0');
    printf("Then, as the administrator of the cluster:\n"
           "  export HASP_ENDPOINTS=%s HASP_TLS=%s\n"
           "  hasp status\n",
           (const char *)endpoints.data, (const char *)admin.data);
}

/* --- The subcommand ------------------------------------------------------- */

static void say_losses(const struct setup *setup)
{
    size_t count = setup->machines.count;
    if (count < 3) {
        tool_say(setup->tool,
                 "%zu machine%s the loss of none: use three or five", count,
                 count == 1 ? " survives" : "s survive");
    } else if (count % 2 == 0) {
        tool_say(setup->tool, "%zu machines survive no more failures than %zu",
                 count, count - 1);
    }
}

static int make_all(struct setup *setup)
{
    int rv = take_folder(setup);
    rv = rv ?: certify(setup);
    for (size_t i = 0; rv == 0 && i < setup->machines.count; i++) {
        rv = make_bundle(setup, i);
    }
    if (rv != 0) {
        return rv;
    }
    tool_say(setup->tool,
             "%s: certificates and a file for each machine of cluster '%s'; "
             "keep them, above all ca.key, where only you can read them",
             setup->folder, setup->cluster);
    say_losses(setup);
    print_next(setup);
    return 0;
}

int run_setup(struct tool *tool, char **argv)
{
    struct setup setup = {.tool = tool, .cluster = CLUSTER, .folder = FOLDER};
    char *file = NULL;
    bool is_check = false;
    const struct option_row rows[] = {
        {"cluster", OPTION_TEXT, .value = &setup.cluster},
        {"dir", OPTION_TEXT, .value = &setup.folder},
        {"install", OPTION_TEXT, .value = &file},
        {"check", OPTION_FLAG, .value = &is_check},
        {0},
    };
    int rv = options_read(tool, argv, rows, 0, SIZE_MAX);
    if (rv != 0) {
        return rv;
    }
    size_t ways = (argv[1] != NULL) + (file != NULL) + is_check;
    if (ways != 1) {
        return tool_usage(tool, "missing machines: give e.g. lock1=10.0.0.1, "
                                "or --install FILE, or --check");
    }
    if (file != NULL) {
        return setup_install(tool, file);
    }
    if (is_check) {
        return setup_check(tool);
    }
    if (!tls_word_is_fine(bytes_of_text(setup.cluster))) {
        return tool_usage(tool,
                          "invalid cluster '%s': use up to 64 letters, digits, "
                          "'.', '_' and '-'",
                          setup.cluster);
    }
    rv = machines_read(tool, argv + 1, &setup.machines);
    return rv ?: make_all(&setup);
}
