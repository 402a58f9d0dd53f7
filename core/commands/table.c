/* SPDX-License-Identifier: MIT */

/* The table of commands, the only list of them. */

#include "core/commands/table.h"

#include "base/check.h"

static const struct command_rows *const sections[] = {
    &commands_locks,
    &commands_admin,
    &commands_redis,
};

enum { SECTIONS = sizeof sections / sizeof *sections };

uint32_t commands_count(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SECTIONS; i++) {
        count += sections[i]->count;
    }
    return count;
}

const struct command *command_at(uint32_t place)
{
    for (uint32_t i = 0; i < SECTIONS; i++) {
        if (place < sections[i]->count) {
            return &sections[i]->rows[place];
        }
        place -= sections[i]->count;
    }
    return NULL;
}

uint32_t command_place(const struct command *command)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < SECTIONS; i++) {
        uintptr_t away = (uintptr_t)command - (uintptr_t)sections[i]->rows;
        if (away < sections[i]->count * sizeof *command) {
            return place + (uint32_t)(away / sizeof *command);
        }
        place += sections[i]->count;
    }
    CHECK(false); /* There is no command beside the table. */
    return place;
}
