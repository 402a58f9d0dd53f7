/* SPDX-License-Identifier: MIT */

/* One file with all that a machine needs to become a node, written by 'hasp
 * setup' and read by 'hasp setup --install': haspd's configuration and the
 * three files of tls.dir, each after a line that names it. It contains the
 * node's key, so its mode is 0600. */

#ifndef HASP_CMD_HASP_SETUP_BUNDLE_H
#define HASP_CMD_HASP_SETUP_BUNDLE_H

#include <sys/types.h>

#include "base/bytes.h"

enum part { PART_CONFIG, PART_CA, PART_CERTIFICATE, PART_KEY, PART_COUNT };

/* "haspd.conf", "ca.crt", "node.crt", "node.key". */
extern const char *const part_names[PART_COUNT];

struct bundle {
    struct buffer part[PART_COUNT];
};

void bundle_done(struct bundle *bundle);

/* These return an exit code, explained on stderr, or 0. */

/* Writes the bundle; replaces an existing file atomically. */
int bundle_write(const struct bundle *bundle, const char *path);
/* Reads a bundle from a file, or from stdin if 'path' is "-". */
int bundle_read(const char *path, struct bundle *ret_bundle);

/* Adds a file's bytes, at most 256 KiB, to 'out'. */
int file_read(const char *path, struct buffer *out);
/* Writes a file under another name and renames it, so a crash leaves the old
 * or the new file; 'group' -1: the group of this process. */
int file_write(const char *path, struct bytes bytes, mode_t mode, gid_t group);
/* True if the file has these bytes. */
bool file_is(const char *path, struct bytes bytes);

#endif /* HASP_CMD_HASP_SETUP_BUNDLE_H */
