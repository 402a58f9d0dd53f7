/* SPDX-License-Identifier: MIT */

#include "tests/unit/fsm_ends.h"

#include <stdlib.h>

void run_close(struct script *script, struct buffer *out)
{
    struct origin origin = origin_in(script);
    encode_close(out, &(struct close_command){.origin = origin});
}

void run_expire(struct script *script, struct buffer *out)
{
    uint64_t sessions[WORD_MAX];
    for (uint32_t i = 1; i < script->word_count; i++) {
        sessions[i - 1] = session_named(script, script->word[i]);
    }
    encode_expire(
        out, &(struct expire_command){.sessions = sessions,
                                      .session_count = script->word_count - 1});
}

/* The most steps of one entry, from here on. */
void run_slice(struct script *script, struct buffer *out)
{
    (void)out;
    script->slice = (uint32_t)strtoul(word(script, 1), NULL, 10);
    lockfsm_set_slice(script->plain.fsm, script->slice);
    lockfsm_set_slice(script->reloaded.fsm, script->slice);
}

void run_sweep(struct script *script, struct buffer *out)
{
    struct sweep_command c;
    (void)lockfsm_has_left_over(script->plain.fsm, &c.places);
    encode_sweep(out, &c);
}
