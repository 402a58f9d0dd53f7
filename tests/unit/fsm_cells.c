/* SPDX-License-Identifier: MIT */

#include "tests/unit/fsm_cells.h"

#include <string.h>

#include "lockfsm/cells.h"
#include "lockfsm/entry.h"

static const char *const kinds[] = {
    [CELLS_JOIN] = "join",   [CELLS_GIVE] = "give",
    [CELLS_TAKE] = "take",   [CELLS_POINT] = "point",
    [CELLS_VOUCH] = "vouch", [CELLS_CONFIRM] = "confirm"};

void run_cells(struct script *script, struct buffer *out)
{
    struct cells_command c = {.endpoints = text_of(script, "at"),
                              .epoch = number(script, "epoch"),
                              .token = number(script, "token")};
    bool has_prefix = script->word_count > 2 &&
                      strchr(script->word[2], '=') == NULL;
    while (c.kind < sizeof kinds / sizeof kinds[0] &&
           strcmp(kinds[c.kind], word(script, 1)) != 0) {
        c.kind++;
    }
    if (has_prefix && strcmp(script->word[2], ".") != 0) {
        c.prefix = bytes_of_text(script->word[2]);
    }
    c.giver[0] = (uint8_t)number(script, "from");
    c.taker[0] = (uint8_t)number(script, "to");
    encode_cells(out, &c);
}

void show_cells(struct script *script, struct buffer *out)
{
    buffer_put_text(out, "map");
    put_number(out, "epoch", lockfsm_cell_epoch(script->shown));
    buffer_put_text(
        out, lockfsm_cells_are_doubtful(script->shown) ? " doubtful\n" : "\n");
    LIST_FOR (const struct cell, cell, lockfsm_cells(script->shown), in_order) {
        buffer_put_text(out, cell->is_own ? "own" : "other");
        put_text(out, " prefix=", cell->prefix);
        put_text(out, " at=", cell->endpoints);
        put_number(out, "cluster", cell->cluster[0]);
        put_number(out, "epoch", cell->epoch);
        put_number(out, "token", cell->token);
        buffer_put_text(out, "\n");
    }
}
