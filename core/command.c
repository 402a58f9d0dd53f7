/* SPDX-License-Identifier: MIT */

/* Finding a command by its name. */

#include "core/command.h"

#include <string.h>

#include "base/account.h"
#include "base/check.h"
#include "core/state.h"

/* FNV-1a over the name. It maps upper and lower case to the same hash (and some
 * other bytes, too, which does no harm). */
static uint32_t name_hash(const uint8_t *name, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ (name[i] & 0xdfu)) * 16777619u;
    }
    return hash;
}

void command_init(struct core *core)
{
    const struct command_table *commands = core->run.commands;
    /* The table has free places, so each search ends. */
    CHECK(commands->count < 512 / 2);
    memset(core->run.command_slots, 0, sizeof core->run.command_slots);
    for (uint32_t i = 0; i < commands->count; i++) {
        const struct command *command = &commands->row[i];
        CHECK(command->needs != NEEDS_MISSING);
        uint32_t slot = name_hash((const uint8_t *)command->name,
                                  strlen(command->name));
        while (core->run.command_slots[slot % 512] != 0) {
            slot++;
        }
        core->run.command_slots[slot % 512] = (uint16_t)(i + 1);
    }
}

const struct command *command_find(const struct core *core, struct bytes name)
{
    uint32_t slot = name_hash(name.data, name.size);
    for (;; slot++) {
        uint32_t i = core->run.command_slots[slot % 512];
        if (i == 0) {
            return NULL;
        }
        const struct command *command = &core->run.commands->row[i - 1];
        if (bytes_is_word(name, command->name)) {
            return command;
        }
    }
}

uint32_t command_place(const struct core *core, const struct command *command)
{
    const struct command_table *commands = core->run.commands;
    CHECK(command >= commands->row &&
          command < commands->row + commands->count);
    return (uint32_t)(command - commands->row);
}

bool command_takes(const struct command *command, uint32_t count)
{
    return command->arity > 0 ? count == (uint32_t)command->arity
                              : count >= (uint32_t)-command->arity;
}

/* As measured from receiving the bytes to sending the answer. */
#define COST_LOCAL 1
#define COST_READ 3
#define COST_CHANGE 6
#define COST_SCRIPT 20

uint64_t command_cost(const struct command *command)
{
    if (command->cost != 0) {
        return command->cost;
    }
    return (command->flags & COMMAND_LOCAL) != 0    ? COST_LOCAL
           : (command->flags & COMMAND_SCRIPT) != 0 ? COST_SCRIPT
           : (command->flags & COMMAND_CHANGE) != 0 ? COST_CHANGE
                                                    : COST_READ;
}

void command_spend(struct core *core, uint64_t units)
{
    if (core->options.account != NULL) {
        account_count(core->options.account, units);
    }
}

bool command_is_urgent(const struct command *command)
{
    const uint32_t gives_back = COMMAND_CHANGE | COMMAND_SESSION |
                                COMMAND_FREES;
    return (command->flags & COMMAND_KEEPS) != 0 ||
           (command->flags & gives_back) == gives_back;
}
