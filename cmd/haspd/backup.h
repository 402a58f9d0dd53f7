/* SPDX-License-Identifier: MIT */

/* What haspd does with backups instead of running: in words on stderr, and for
 * 'hasp snapshot inspect' as JSON on stdout. The work is done by the node's
 * library (hasp/node.h). */

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
    bool may_replace;       /* A file that is there. */
    uint64_t quarantine_ms; /* HASP_NODE_QUARANTINE_FULL: as long as need be. */
    enum backup_users users;
};
extern const struct backup_request backup_request_default;

/* Takes "90s", "500ms", "1h", a bare number being seconds; 0 or an exit
 * code. */
int backup_quarantine(struct backup_request *request, const char *text);

/* Takes "keep" or "suspend"; likewise. */
int backup_users(struct backup_request *request, const char *text);

/* Each returns an exit code and has explained it. */
int backup_inspect(const struct backup_request *request);
int backup_export(const struct backup_request *request,
                  const struct hasp_node_options *options);
/* 'config_path' for the words about what to do next; or NULL. */
int backup_restore(const struct backup_request *request,
                   const struct hasp_node_options *options,
                   const char *config_path);

#endif /* HASP_CMD_HASPD_BACKUP_H */
