/* SPDX-License-Identifier: MIT */

#include "node/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "node/node.h"
#include "node/options.h"
#include "storage/disk_watch.h"

void settings_init(struct settings *settings, struct hasp_node *node)
{
    *settings = (struct settings){.node = node};
}

static const struct hasp_node_settings *
settings_of_host(const struct hasp_node *node)
{
    return &node->options.settings;
}

/* --- The host's sources --------------------------------------------------- */

static void settings_read(uv_work_t *work)
{
    struct settings *settings = work->data;
    const struct hasp_node_settings *host = settings_of_host(settings->node);
    host->read(host->data);
}

static void settings_were_read(uv_work_t *work, int status)
{
    struct settings *settings = work->data;
    const struct hasp_node_settings *host = settings_of_host(settings->node);
    CHECK(status == 0 && settings->is_busy);
    settings->is_busy = false;
    if (turn_is_over(&settings->node->turn)) {
        return;
    }
    for (int i = 0; i < SETTING_REVERT_MAX; i++) {
        settings->revert[i].at_ns = 0;
    }
    host->take(host->data);
    turn_wake(&settings->node->turn);
    if (settings->must_again) {
        settings_reload(settings);
    }
}

void settings_reload(struct settings *settings)
{
    if (settings_of_host(settings->node)->read == NULL) {
        return;
    }
    settings->must_again = settings->is_busy;
    if (!settings->is_busy) {
        settings->is_busy = true;
        settings->work.data = settings;
        CHECK(uv_queue_work(&settings->node->uv, &settings->work, settings_read,
                            settings_were_read) == 0);
    }
}

static void settings_copy_text(const char **to, const char *from)
{
    char *copy = from == NULL ? NULL : memory_text(from);
    free((void *)(uintptr_t)*to);
    *to = copy;
}

void settings_change(struct hasp_node *node,
                     const struct hasp_node_options *options)
{
    struct core_options core_options;
#define LIVE(member) node->options.member = options->member;
#define LIVE_TEXT(member) \
    settings_copy_text(&node->options.member, options->member);
#include "node/settings_live.def"
    log_set_level((enum log_level)options->log_level);
    clients_use_limits(&node->clients, &node->options.limits);
    if (node->has_begun) {
        options_for_core(&node->options, &core_options);
        core_change(node->core, &core_options);
    }
}

/* --- NODE.SETTINGS and NODE.SET ------------------------------------------- */

bool settings_port_setting(void *data, uint32_t index,
                           struct core_setting *ret_setting)
{
    const struct hasp_node_settings *host = settings_of_host(data);
    struct hasp_node_setting setting;
    if (host->describe == NULL ||
        !host->describe(host->data, index, &setting)) {
        return false;
    }
    *ret_setting = (struct core_setting){.name = setting.name,
                                         .value = setting.value,
                                         .source = setting.source,
                                         .changes = setting.changes};
    return true;
}

/* Copies the present value; false if there is no such setting. */
static bool settings_value(struct hasp_node *node, const char *name,
                           char out[SETTING_VALUE_SIZE_MAX + 1])
{
    struct core_setting setting;
    for (uint32_t i = 0; settings_port_setting(node, i, &setting); i++) {
        if (strcmp(setting.name, name) == 0) {
            snprintf(out, SETTING_VALUE_SIZE_MAX + 1, "%s", setting.value);
            return true;
        }
    }
    return false;
}

/* The place of a setting that is to be reverted; NULL if it has none. With
 * 'name' NULL an unused one. */
static struct setting_revert *settings_find_revert(struct settings *settings,
                                                   const char *name)
{
    for (int i = 0; i < SETTING_REVERT_MAX; i++) {
        struct setting_revert *revert = &settings->revert[i];
        if (name == NULL
                ? revert->at_ns == 0
                : revert->at_ns != 0 && strcmp(revert->name, name) == 0) {
            return revert;
        }
    }
    return NULL;
}

static int settings_set(struct settings *settings, const char *name,
                        const char *value, const char *reason,
                        char why[HASP_WHY_SIZE])
{
    const struct hasp_node_settings *host = settings_of_host(settings->node);
    char before[SETTING_VALUE_SIZE_MAX + 1] = "";
    (void)settings_value(settings->node, name, before);
    int rv = host->set(host->data, name, value, why);
    if (rv == 0) {
        LOG_WARN("setting changed", "name=%s value=%s before=%s reason=\"%s\"",
                 name, log_quote(value), log_quote(before), reason);
    }
    return rv;
}

int settings_port_set(void *data, struct bytes name, struct bytes value,
                      uint64_t for_ms, char why[HASP_WHY_SIZE])
{
    struct hasp_node *node = data;
    struct settings *settings = &node->settings;
    char key[SETTING_NAME_SIZE_MAX + 1], text[SETTING_VALUE_SIZE_MAX + 1];
    char before[SETTING_VALUE_SIZE_MAX + 1] = "";
    CHECK(name.size < sizeof key && value.size < sizeof text);
    snprintf(key, sizeof key, "%.*s", (int)name.size, (const char *)name.data);
    snprintf(text, sizeof text, "%.*s", (int)value.size,
             (const char *)value.data);
    if (settings_of_host(node)->set == NULL) {
        snprintf(why, HASP_WHY_SIZE, "the settings of this node have no names");
        return HASP_EINVALID;
    }
    struct setting_revert *revert = settings_find_revert(settings, key);
    struct setting_revert *room = revert != NULL
                                      ? revert
                                      : settings_find_revert(settings, NULL);
    if (for_ms != 0 && room == NULL) {
        snprintf(why, HASP_WHY_SIZE,
                 "%d settings already have a time: wait, or leave out FOR",
                 SETTING_REVERT_MAX);
        return HASP_EINVALID;
    }
    (void)settings_value(node, key, before);
    int rv = settings_set(settings, key, text, "NODE.SET", why);
    if (rv == 0 && for_ms != 0) {
        if (revert == NULL) {
            memcpy(room->name, key, sizeof key);
            memcpy(room->value, before, sizeof before);
        }
        room->at_ns = turn_now() + for_ms * NS_PER_MS;
    } else if (rv == 0 && revert != NULL) {
        revert->at_ns = 0;
    }
    return rv;
}

void settings_tick(struct settings *settings, uint64_t now_ns)
{
    char why[HASP_WHY_SIZE] = "";
    for (int i = 0; i < SETTING_REVERT_MAX; i++) {
        struct setting_revert *revert = &settings->revert[i];
        if (revert->at_ns == 0 || now_ns < revert->at_ns) {
            continue;
        }
        revert->at_ns = 0;
        if (settings_set(settings, revert->name, revert->value,
                         "its time is over", why) != 0) {
            LOG_WARN("setting not reverted", "name=%s value=%s why=%s",
                     revert->name, log_quote(revert->value), log_quote(why));
        }
    }
}
