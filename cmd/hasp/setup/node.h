/* SPDX-License-Identifier: MIT */

/* The node on this machine: its files, and the programs that report on it. */

#ifndef HASP_CMD_HASP_SETUP_NODE_H
#define HASP_CMD_HASP_SETUP_NODE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/bytes.h"

#define NODE_CONFIG "/etc/hasp/haspd.conf"
#define NODE_TLS "/etc/hasp/tls"
#define NODE_DATA "/var/lib/hasp/data"
#define NODE_SOCKET "/run/hasp/client.sock"
#define NODE_AUDIT "/var/log/hasp/audit.jsonl"
#define NODE_USER "hasp"

struct tool;

/* The user that runs haspd. */
struct node_user {
    uid_t user;
    gid_t group;
};

/* False if this machine has no such user. */
bool node_find_user(struct node_user *ret_user);
/* True if systemd runs this machine. */
bool node_has_systemd(void);
/* Runs haspd --config CONFIG WHAT, as the node's user if this process is root,
 * and adds its output, except "configuration ok", to an empty 'out'. Returns
 * its exit status. */
int node_ask_haspd(const char *config, const char *what, struct buffer *out);
/* Runs systemctl WORD haspd; returns its output, such as "active". */
int node_ask_systemd(const char *word, struct buffer *out);

/* hasp setup --install FILE, and --check: an exit code. */
int setup_install(const struct tool *tool, const char *path);
int setup_check(struct tool *tool);

#endif /* HASP_CMD_HASP_SETUP_NODE_H */
