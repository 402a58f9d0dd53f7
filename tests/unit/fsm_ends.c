/* SPDX-License-Identifier: MIT */

#include "tests/unit/fsm_ends.h"

#include <stdlib.h>

void run_close(struct script *script, struct buffer *out)
{
    struct origin origin = origin_in(script);
    encode_close(
        out, &(struct close_command){.origin = origin,
                                     .is_unclean = flag(script, "unclean")});
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

/* A word in a script stands for its hash: its first letter, repeated. */
void read_will(const char *text, uint8_t ret_will[PROOF_SIZE])
{
    memset(ret_will, text != NULL ? text[0] : 0, PROOF_SIZE);
}

/* "died s1=x s2=y": the sessions and their death words. */
void run_died(struct script *script, struct buffer *out)
{
    struct testimony testimonies[WORD_MAX];
    struct died_command c = {.testimonies = testimonies};
    for (uint32_t i = 1; i < script->word_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", script->word[i]);
        char *value = strchr(name, '=');
        CHECK(value != NULL);
        *value++ = '\0';
        if (strcmp(name, "as") == 0) { /* The user that asks. */
            continue;
        }
        struct testimony *one = &testimonies[c.testimony_count++];
        one->session = session_named(script, name);
        read_will(value, one->will);
    }
    encode_died(out, &c);
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
