/* SPDX-License-Identifier: MIT */

/* The configuration files of 'hasp dev', and its certificates. */

#ifndef HASP_CMD_HASP_DEV_H
#define HASP_CMD_HASP_DEV_H

#include <stdbool.h>
#include <stdint.h>

#define DEV_NODES_MAX 9
#define DEV_CLUSTER "dev" /* Its name, where certificates want one. */

struct tool;

struct dev_config {
    uint64_t id;    /* From 1. */
    uint64_t count; /* Of nodes. */
    uint64_t port;  /* For clients, of node 1. */
    const char *folder;
    bool is_secure; /* All ports want TLS, and access is required. */
};

/* Writes the configuration 'path', or keeps the one that is there; tells the
 * address for clients that stands in it. 0 or an exit code, explained. */
int dev_config_make(const char *path, const struct dev_config *config,
                    char ret_address[64]);

/* --- With --secure (dev_secure.c); 0 or an exit code, explained ------------
 */

/* Whether what the folder has is of the kind that is asked for. */
int dev_secure_check(const char *folder, bool is_secure);
/* Makes in 'folder'/certs what is missing: the CA, the nodes, admin. */
int dev_secure_certify(const struct tool *tool, const char *folder,
                       uint64_t count);
/* Makes role, user and certificate of 'demo', if there is no such certificate.
 * 'door' is the data directory of a node that serves. */
int dev_secure_admit(const struct tool *tool, const char *folder,
                     const char *door);
/* Prints the lines to be copied; 'address' is a node's, for clients. */
void dev_secure_print(const char *folder, const char *address);

/* Removes a folder and all in it; links are not followed. */
void dev_remove_folder(const char *path);

#endif /* HASP_CMD_HASP_DEV_H */
