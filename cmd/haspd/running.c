/* SPDX-License-Identifier: MIT */

#include "cmd/haspd/running.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/memory.h"
#include "cmd/haspd/log_stderr.h"

static void running_use(struct running *running)
{
    log_stderr_use(running->config->options.log_format);
    hasp_node_change(running->node, &running->config->options);
}

static bool running_describe(void *data, size_t index,
                             struct hasp_node_setting *ret_setting)
{
    struct running *running = data;
    struct config_value *shown = &running->shown;
    if (!config_describe(running->config, index, shown)) {
        return false;
    }
    *ret_setting = (struct hasp_node_setting){.name = shown->name,
                                              .value = shown->value,
                                              .source = shown->source,
                                              .changes = shown->changes};
    return true;
}

static int running_set(void *data, const char *name, const char *value,
                       char why[HASP_NODE_WHY_SIZE])
{
    struct running *running = data;
    if (config_set_running(running->config, name, value, why) != 0) {
        return -1;
    }
    running_use(running);
    return 0;
}

/* On a thread of its own. */
static void running_read(void *data)
{
    struct running *running = data;
    running->why[0] = '\0';
    config_init(&running->fresh);
    running->is_fresh_good = running->read(running->data, &running->fresh,
                                           running->why) == 0;
}

/* Takes over each setting that is reloaded, and names the others that
 * differ. */
static void take_fresh(struct running *running)
{
    AUTO(buffer_done) struct buffer changed = {0}, waiting = {0};
    struct config_value now, next;
    for (size_t i = 0; config_describe(running->config, i, &now); i++) {
        bool is_there = config_describe(&running->fresh, i, &next);
        bool differs = is_there && strcmp(now.value, next.value) != 0;
        bool is_reloaded = strcmp(now.changes, CONFIG_RELOAD) == 0;
        if (is_reloaded) {
            config_adopt(running->config, i, &running->fresh);
        }
        if (differs) {
            struct buffer *names = is_reloaded ? &changed : &waiting;
            buffer_printf(names, "%s%s", names->size > 0 ? " " : "", now.name);
        }
    }
    running_use(running);
    LOG_INFO("settings were read again", "changed=\"%.*s\"", (int)changed.size,
             changed.size > 0 ? (const char *)changed.data : "");
    if (waiting.size > 0) {
        LOG_WARN("settings wait for a restart", "names=\"%.*s\"",
                 (int)waiting.size, (const char *)waiting.data);
    }
}

static void running_take(void *data)
{
    struct running *running = data;
    if (running->is_fresh_good) {
        take_fresh(running);
    } else {
        LOG_ERROR("settings were not read again",
                  "why=%s hint=\"the former ones stay in use\"",
                  log_quote(running->why));
    }
    config_done(&running->fresh);
}

void running_init(struct running *running)
{
    struct hasp_node_options *options = &running->config->options;
    options->settings = (struct hasp_node_settings){
        .describe = running_describe,
        .set = running_set,
        .read = running_read,
        .take = running_take,
        .data = running};
    log_stderr_use(options->log_format);
}
