/* SPDX-License-Identifier: MIT */

/* The settings of the running node: what NODE.SETTINGS shows, NODE.SET changes,
 * and SIGHUP reads again from the sources with which haspd was started. */

#ifndef HASP_CMD_HASPD_RUNNING_H
#define HASP_CMD_HASPD_RUNNING_H

#include "cmd/haspd/config.h"

struct running {
    struct config *config; /* In use. */
    /* Reads and checks the sources into an initialized configuration. */
    int (*read)(void *data, struct config *ret_config, char why[HASP_WHY_SIZE]);
    void *data;
    struct hasp_node *node;
    /* What was read, until it is taken over. */
    struct config fresh;
    bool is_fresh_good;
    char why[HASP_WHY_SIZE];
    struct config_value shown; /* Texts of the setting described last. */
};

/* Fills in the options of 'running->config'. 'node' is set before the node
 * runs. */
void running_init(struct running *running);

#endif /* HASP_CMD_HASPD_RUNNING_H */
