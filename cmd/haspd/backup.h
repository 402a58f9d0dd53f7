/* SPDX-License-Identifier: MIT */

/* Backups, which haspd handles instead of running a node. Messages go to
 * stderr; 'hasp snapshot inspect' reads JSON from stdout. The node's library
 * (hasp/node.h) does the work. */

#ifndef HASP_CMD_HASPD_BACKUP_H
#define HASP_CMD_HASPD_BACKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "include/hasp/node.h"

enum backup_users {
    BACKUP_USERS_NOT_SAID,
    BACKUP_USERS_KEEP,
    BACKUP_USERS_SUSPEND
};

struct backup_request {
    const char *file;
    bool may_replace; /* Overwrite 'file'. */
    /* HASP_NODE_QUARANTINE_FULL: as long as a lease can be. */
    uint64_t quarantine_ms;
    enum backup_users users;
};
extern const struct backup_request backup_request_default;

/* Parses "90s", "500ms", "1h" or a number of seconds. Returns 0 or an exit
 * code. */
int backup_quarantine(struct backup_request *request, const char *text);

/* Parses "keep" or "suspend". Returns 0 or an exit code. */
int backup_users(struct backup_request *request, const char *text);

/* Each prints any error and returns an exit code. */
int backup_inspect(const struct backup_request *request);
int backup_export(const struct backup_request *request,
                  const struct hasp_node_options *options);
/* 'config_path' is shown in the next steps; it may be NULL. */
int backup_restore(const struct backup_request *request,
                   const struct hasp_node_options *options,
                   const char *config_path);

#endif /* HASP_CMD_HASPD_BACKUP_H */
