/* SPDX-License-Identifier: MIT */

/* The marker of a volume: a file REPLACE_MARKER beside the data directory, made
 * once by an operator. A mount that is missing looks like an empty disk, but it
 * lacks the marker, so the leader does not replace that directory by itself
 * (cluster.replace_empty).
 *
 * The marker has to be in the file system of the data directory. If the data
 * directory is a mount of its own, a marker beside it would be there without
 * the mount, too: it does not count. */

#ifndef HASP_NODE_VOLUME_H
#define HASP_NODE_VOLUME_H

#include <stdbool.h>

/* True if the marker is there. 'directory' exists. */
bool volume_is_marked(const char *directory);

#endif /* HASP_NODE_VOLUME_H */
