/* SPDX-License-Identifier: MIT */

/* The configuration files of 'hasp dev'. */

#ifndef HASP_CMD_HASP_DEV_H
#define HASP_CMD_HASP_DEV_H

#include <stdint.h>

#define DEV_NODES_MAX 9

struct dev_config {
    uint64_t id;    /* From 1. */
    uint64_t count; /* Of nodes. */
    uint64_t port;  /* For clients, of node 1. */
    const char *folder;
};

/* Writes the configuration 'path', or keeps the one that is there; tells the
 * address for clients that stands in it. 0 or an exit code, explained. */
int dev_config_make(const char *path, const struct dev_config *config,
                    char ret_address[64]);

/* Removes a folder and all in it; links are not followed. */
void dev_remove_folder(const char *path);

#endif /* HASP_CMD_HASP_DEV_H */
