/* SPDX-License-Identifier: MIT */

/* hasp debug FILE: a bundle for a bug report.
 *
 * Each piece becomes a file of a temporary folder; tar(1) makes one archive of
 * it. Nothing secret is read: no key, no file of secrets, no secret of a
 * session; RAFT.STATUS, LIMITS.LIST and the like have none. With --redact the
 * names that clients and operators chose are replaced by a hash, the same for
 * the same name within one bundle. */

#ifndef HASP_CMD_HASP_DEBUG_DEBUG_H
#define HASP_CMD_HASP_DEBUG_DEBUG_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "cmd/hasp/tool.h"

#define BUNDLE_SALT_SIZE 16

struct debug_bundle {
    struct tool *tool;
    char folder[64];
    bool redacts;
    uint8_t salt[BUNDLE_SALT_SIZE]; /* For the hashes; not in the bundle. */
    json_t *manifest;               /* An object: name, size, sha256. */
};

/* Adds a file; 'name' has no folder. The second one redacts the names in
 * 'value', if it 'has_names'. */
void bundle_add(struct debug_bundle *bundle, const char *name,
                struct bytes content);
void bundle_add_json(struct debug_bundle *bundle, const char *name,
                     json_t *value, bool has_names);
/* Adds log lines; names are quoted there. */
void bundle_add_log(struct debug_bundle *bundle, const char *name,
                    struct bytes lines);

/* Adds a page of metrics; the labels 'user' and 'class' have names. */
void bundle_add_metrics(struct debug_bundle *bundle, const char *name,
                        struct bytes page);
/* Adds what haspd --print-config prints; metrics.class has names. */
void bundle_add_config(struct debug_bundle *bundle, const char *name,
                       struct bytes printed);

/* Appends the text; values in quotes after one of these keys, which end with
 * a NULL, are hashed. */
void redact_after(const struct debug_bundle *bundle, struct bytes text,
                  const char *const *keys, struct buffer *out);
/* Appends the lines; the rest of one that begins with 'start' is hashed, up to
 * the comment of --print-config. */
void redact_lines_of(const struct debug_bundle *bundle, struct bytes lines,
                     const char *start, struct buffer *out);
/* Replaces the names inside by hashes. */
void redact_json(const struct debug_bundle *bundle, json_t *value);
/* Appends the lines with hashes instead of quoted values, except that of
 * "event". */
void redact_lines(const struct debug_bundle *bundle, struct bytes lines,
                  struct buffer *out);

/* The pieces: from all nodes that answer, and from this machine. */
void gather_nodes(struct debug_bundle *bundle);
void gather_machine(struct debug_bundle *bundle, const char *config,
                    const char *log_path);

#endif /* HASP_CMD_HASP_DEBUG_DEBUG_H */
