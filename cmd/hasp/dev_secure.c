/* SPDX-License-Identifier: MIT */

/* hasp dev --secure: creates what is missing, by 'hasp cert' and through the
 * admin socket. The certificate of 'demo' is created last: once it exists,
 * role and user exist, too, and are left as the user has changed them. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/hasp/dev.h"
#include "cmd/hasp/tool.h"

#define DEMO "demo"
#define DEMO_GRANT "lock,read:demo/*"

/* Whether DIR/certs has this file. */
static bool dev_secure_has(const char *folder, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3800s/certs/%s", folder, name);
    return access(path, F_OK) == 0;
}

int dev_secure_check(const char *folder, bool is_secure)
{
    char config[PATH_MAX], door[PATH_MAX], why[HASP_WHY_SIZE];
    struct endpoint endpoint;
    bool has_ca = dev_secure_has(folder, "ca.crt");
    snprintf(config, sizeof config, "%.3800s/n1/haspd.conf", folder);
    snprintf(door, sizeof door, "%.3800s/n1/data", folder);
    if (is_secure && endpoint_parse(door, strlen(door), &endpoint, why) != 0) {
        return tool_fail(EX_USAGE, "%s; give a --dir with a shorter path", why);
    }
    if (has_ca && !is_secure) {
        return tool_fail(EX_CONFIG,
                         "the nodes in '%s' were made with --secure: give it "
                         "again, or another --dir",
                         folder);
    }
    if (is_secure && !has_ca && access(config, F_OK) == 0) {
        return tool_fail(EX_CONFIG,
                         "the nodes in '%s' were made without --secure: leave "
                         "it out, or give another --dir",
                         folder);
    }
    return 0;
}

int dev_secure_certify(const struct tool *tool, const char *folder,
                       uint64_t count)
{
    char certs[PATH_MAX];
    snprintf(certs, sizeof certs, "%.3800s/certs", folder);
    int exit_code = tool_make_ca(tool, certs, DEV_CLUSTER);
    for (uint64_t id = 1; exit_code == 0 && id <= count; id++) {
        char node[64];
        snprintf(node, sizeof node, "%" PRIu64 "=127.0.0.1,localhost", id);
        exit_code = tool_make_certificate(tool, "node", certs, node);
    }
    return exit_code ?: tool_make_certificate(tool, "user", certs, "admin");
}

static int make_demo(struct tool *by_door)
{
    int exit_code = tool_change(
        by_door, WORDS("ROLE.SET", DEMO, "IF", "0", "GRANTS", DEMO_GRANT),
        "cannot make role '" DEMO "'", NULL);
    if (exit_code == 0) {
        exit_code = tool_change(
            by_door, WORDS("USER.SET", DEMO, "IF", "0", "ROLES", DEMO),
            "cannot make user '" DEMO "'", NULL);
    }
    return exit_code;
}

int dev_secure_admit(const struct tool *tool, const char *folder,
                     const char *door)
{
    struct endpoint endpoint;
    struct tool by_door = {
        .timeout_ms = tool->timeout_ms,
        .endpoints = {.endpoint = &endpoint, .count = 1},
    };
    char why[HASP_WHY_SIZE], certs[PATH_MAX];
    snprintf(certs, sizeof certs, "%.3800s/certs", folder);
    if (dev_secure_has(folder, "user-" DEMO "/client.crt")) {
        return 0;
    }
    if (endpoint_parse(door, strlen(door), &endpoint, why) != 0) {
        return tool_fail(EX_USAGE, "%s", why);
    }
    int exit_code = make_demo(&by_door);
    client_free(by_door.client);
    return exit_code ?: tool_make_certificate(tool, "user", certs, DEMO);
}

void dev_secure_print(const char *folder, const char *address)
{
    const char *colon = strrchr(address, ':');
    fprintf(stderr,
            "hasp: as " DEMO ", which has the rights " DEMO_GRANT ":\n"
            "  export HASP_TLS=%s/certs/user-" DEMO "\n"
            "  hasp run " DEMO "/x -- echo done under the lock\n"
            "  redis-cli -p %s --tls --cacert %s/certs/ca.crt"
            " --cert %s/certs/user-" DEMO "/client.crt"
            " --key %s/certs/user-" DEMO "/client.key\n"
            "hasp: as admin, which has all rights:\n"
            "  export HASP_TLS=%s/certs/user-admin\n"
            "  hasp status\n",
            folder, colon == NULL ? address : colon + 1, folder, folder, folder,
            folder);
}
