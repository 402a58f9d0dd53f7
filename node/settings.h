/* SPDX-License-Identifier: MIT */

/* Settings that change while the node runs: NODE.SETTINGS, NODE.SET, and the
 * sources that are read again after hasp_node_reload(). The host program knows
 * their names (struct hasp_node_settings).
 *
 * NODE.SET with FOR is reverted after that time, by the tick; another NODE.SET
 * of the same setting replaces the time, and a reload reverts nothing, since it
 * has set all of them.
 *
 * Threads: the loop's; a worker reads the sources. */

#ifndef HASP_NODE_SETTINGS_H
#define HASP_NODE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/bytes.h"
#include "core/core.h"

struct hasp_node;
struct hasp_node_options;

/* Settings that can be reverted at the same time. */
#define SETTING_REVERT_MAX 16

struct setting_revert {
    uint64_t at_ns; /* 0: unused. */
    char name[SETTING_NAME_SIZE_MAX + 1];
    char value[SETTING_VALUE_SIZE_MAX + 1]; /* The former one. */
};

struct settings {
    struct hasp_node *node;
    uv_work_t work;
    bool is_busy;    /* A worker reads. */
    bool must_again; /* A reload was requested meanwhile. */
    struct setting_revert revert[SETTING_REVERT_MAX];
};

void settings_init(struct settings *settings, struct hasp_node *node);
/* Starts to read the sources. */
void settings_reload(struct settings *settings);
/* Reverts what is due. Call it each second. */
void settings_tick(struct settings *settings, uint64_t now_ns);
/* hasp_node_change(). */
void settings_change(struct hasp_node *node,
                     const struct hasp_node_options *options);

/* For struct core_port; 'data' is the node. */
bool settings_port_setting(void *data, uint32_t index,
                           struct core_setting *ret_setting);
int settings_port_set(void *data, struct bytes name, struct bytes value,
                      uint64_t for_ms, char why[HASP_WHY_SIZE]);

#endif /* HASP_NODE_SETTINGS_H */
