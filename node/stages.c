/* SPDX-License-Identifier: MIT */

#include "node/stages.h"

#include "base/check.h"

const char *const stage_names[STAGE_COUNT] = {
    [STAGE_RECEIVE] = "receive", [STAGE_PROPOSE] = "propose",
    [STAGE_APPLY] = "apply",     [STAGE_TABLE] = "table",
    [STAGE_UPKEEP] = "upkeep",   [STAGE_SEND] = "send",
    [STAGE_REPLY] = "reply",     [STAGE_REST] = "rest"};

void stages_begin(struct stages *stages, uint64_t now_ns)
{
    CHECK(now_ns != 0);
    if (stages->at_ns == 0) {
        stages->at_ns = now_ns;
    }
}

void stages_end(struct stages *stages, enum stage stage, uint64_t now_ns)
{
    CHECK((unsigned)stage < STAGE_COUNT && now_ns >= stages->at_ns);
    if (stages->at_ns != 0) {
        stages->spent_ns[stage] += now_ns - stages->at_ns;
        stages->at_ns = now_ns;
    }
}

void stages_sleep(struct stages *stages)
{
    for (int i = 0; i < STAGE_COUNT; i++) {
        uint64_t spent_ns = stages->spent_ns[i];
        if (spent_ns > 0) {
            histogram_note(&stages->times[i], spent_ns);
            stages->max_ns[i] = spent_ns > stages->max_ns[i]
                                    ? spent_ns
                                    : stages->max_ns[i];
            stages->spent_ns[i] = 0;
        }
    }
    stages->at_ns = 0;
}

const char *stages_longest(const struct stages *stages)
{
    int longest = 0;
    for (int i = 1; i < STAGE_COUNT; i++) {
        if (stages->spent_ns[i] > stages->spent_ns[longest]) {
            longest = i;
        }
    }
    return stages->spent_ns[longest] > 0 ? stage_names[longest] : "none";
}
