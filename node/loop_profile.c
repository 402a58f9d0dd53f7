/* SPDX-License-Identifier: MIT */

#include "node/loop_profile.h"

#include "base/check.h"

const char *const stage_names[STAGE_COUNT] = {
    [STAGE_RECEIVE] = "receive", [STAGE_PROPOSE] = "propose",
    [STAGE_APPLY] = "apply",     [STAGE_TABLE] = "table",
    [STAGE_UPKEEP] = "upkeep",   [STAGE_SEND] = "send",
    [STAGE_REPLY] = "reply",     [STAGE_REST] = "rest"};

void loop_profile_begin(struct loop_profile *loop_profile, uint64_t now_ns)
{
    CHECK(now_ns != 0);
    if (loop_profile->at_ns == 0) {
        loop_profile->at_ns = now_ns;
    }
}

void loop_profile_end(struct loop_profile *loop_profile, enum stage stage,
                      uint64_t now_ns)
{
    CHECK((unsigned)stage < STAGE_COUNT && now_ns >= loop_profile->at_ns);
    if (loop_profile->at_ns != 0) {
        loop_profile->spent_ns[stage] += now_ns - loop_profile->at_ns;
        loop_profile->at_ns = now_ns;
    }
}

void loop_profile_sleep(struct loop_profile *loop_profile)
{
    for (int i = 0; i < STAGE_COUNT; i++) {
        uint64_t spent_ns = loop_profile->spent_ns[i];
        if (spent_ns > 0) {
            histogram_note(&loop_profile->times[i], spent_ns);
            loop_profile->max_ns[i] = spent_ns > loop_profile->max_ns[i]
                                          ? spent_ns
                                          : loop_profile->max_ns[i];
            loop_profile->spent_ns[i] = 0;
        }
    }
    loop_profile->at_ns = 0;
}

const char *loop_profile_longest(const struct loop_profile *loop_profile)
{
    int longest = 0;
    for (int i = 1; i < STAGE_COUNT; i++) {
        if (loop_profile->spent_ns[i] > loop_profile->spent_ns[longest]) {
            longest = i;
        }
    }
    return loop_profile->spent_ns[longest] > 0 ? stage_names[longest] : "none";
}
