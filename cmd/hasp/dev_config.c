/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/dev.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/hasp/tool.h"

static uint64_t port_of(const struct dev_config *config, uint64_t id)
{
    return config->port + 10 * (id - 1);
}

static int write_config(const char *path, const struct dev_config *config)
{
    uint64_t port = port_of(config, config->id);
    FILE *file = fopen(path, "wx");
    if (file == NULL) {
        return tool_fail(EX_CANTCREAT, "cannot write '%s': %s", path,
                         strerror(errno));
    }
    fprintf(file,
            "# Made by 'hasp dev', which keeps it as it is from now on.\n"
            "[node]\n"
            "id = %" PRIu64 "\n"
            "dir = %s/n%" PRIu64 "/data\n"
            "\n"
            "[listen]\n"
            "client = 127.0.0.1:%" PRIu64 "\n"
            "peer = 127.0.0.1:%" PRIu64 "\n"
            "http = 127.0.0.1:%" PRIu64 "\n"
            "\n"
            "[cluster]\n"
            "%s",
            config->id, config->folder, config->id, port, port + 1, port + 2,
            config->is_secure ? "name = " DEV_CLUSTER "\n" : "");
    for (uint64_t id = 1; id <= config->count; id++) {
        fprintf(file,
                "member = %" PRIu64 " 127.0.0.1:%" PRIu64 " 127.0.0.1:%" PRIu64
                "\n",
                id, port_of(config, id) + 1, port_of(config, id));
    }
    if (config->is_secure) {
        fprintf(file,
                "\n"
                "[tls]\n"
                "dir = %s/certs/node-%" PRIu64 "\n"
                "client = require\n"
                "peer = require\n"
                "http = require\n"
                "\n"
                "[security]\n"
                "access = required\n",
                config->folder, config->id);
    }
    if (fclose(file) != 0) {
        remove(path);
        return tool_fail(EX_CANTCREAT, "cannot write '%s': %s", path,
                         strerror(errno));
    }
    return 0;
}

/* Finds "client = ..." in the section [listen]. */
static int read_address(const char *path, char ret_address[64])
{
    char line[512], section[32] = "", address[64];
    bool is_found = false;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return tool_fail(EX_CONFIG, "cannot read '%s': %s", path,
                         strerror(errno));
    }
    while (!is_found && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, " [%31[^]]]", section) == 1) {
            continue;
        }
        is_found = strcmp(section, "listen") == 0 &&
                   sscanf(line, " client = %63s", address) == 1;
    }
    fclose(file);
    if (!is_found) {
        return tool_fail(EX_CONFIG,
                         "'%s' has no 'client = host:port' in [listen]; add "
                         "it, or remove the file to have it created again",
                         path);
    }
    memcpy(ret_address, address, sizeof address);
    return 0;
}

int dev_config_make(const char *path, const struct dev_config *config,
                    char ret_address[64])
{
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        fclose(file);
    } else if (errno == ENOENT) {
        int exit_code = write_config(path, config);
        if (exit_code != 0) {
            return exit_code;
        }
    }
    return read_address(path, ret_address);
}

static int dev_config_remove_entry(const char *path, const struct stat *stat_,
                                   int type, struct FTW *where)
{
    (void)stat_;
    (void)type;
    (void)where;
    remove(path);
    return 0;
}

void dev_remove_folder(const char *path)
{
    nftw(path, dev_config_remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
