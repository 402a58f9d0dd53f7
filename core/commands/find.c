/* SPDX-License-Identifier: MIT */

/* A command by its name. */

#include <string.h>

#include "base/check.h"
#include "core/commands/commands.h"
#include "core/state.h"

/* FNV-1a over the name, which takes upper and lower case for the same (and some
 * other bytes, too, which does no harm). */
static uint32_t name_hash(const uint8_t *name, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ (name[i] & 0xdfu)) * 16777619u;
    }
    return hash;
}

void commands_init(struct core *core)
{
    /* The table has free places, so each search ends. */
    CHECK(commands_count() < 512 / 2);
    memset(core->run.command_slots, 0, sizeof core->run.command_slots);
    for (uint32_t i = 0; i < commands_count(); i++) {
        const char *name = command_at(i)->name;
        CHECK(command_at(i)->needs != NEEDS_MISSING);
        uint32_t slot = name_hash((const uint8_t *)name, strlen(name));
        while (core->run.command_slots[slot % 512] != 0) {
            slot++;
        }
        core->run.command_slots[slot % 512] = (uint16_t)(i + 1);
    }
}

const struct command *commands_find(const struct core *core, struct bytes name)
{
    uint32_t slot = name_hash(name.data, name.size);
    for (;; slot++) {
        uint32_t i = core->run.command_slots[slot % 512];
        if (i == 0) {
            return NULL;
        }
        const struct command *command = command_at(i - 1);
        if (bytes_is_word(name, command->name)) {
            return command;
        }
    }
}
