/* SPDX-License-Identifier: MIT */

#include "raft/confirm.h"

#include "base/check.h"
#include "base/minmax.h"
#include "raft/members.h"

void confirm_begin(struct confirm *confirm, uint64_t term)
{
    confirm->term = term;
    confirm->asked_before = confirm->asked;
    confirm->answer_count = 0;
}

void confirm_keep(struct confirm *confirm,
                  const struct replica_members *members)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < confirm->answer_count; i++) {
        if (replica_members_find(members, confirm->answers[i].id) != NULL) {
            confirm->answers[kept++] = confirm->answers[i];
        }
    }
    confirm->answer_count = kept;
}

uint64_t confirm_ask(struct confirm *confirm)
{
    CHECK(confirm->term > 0);
    return ++confirm->asked;
}

void confirm_take(struct confirm *confirm, uint64_t id, uint64_t term,
                  uint64_t number)
{
    if (confirm->term == 0 || term != confirm->term ||
        number <= confirm->asked_before || number > confirm->asked) {
        return;
    }
    for (uint32_t i = 0; i < confirm->answer_count; i++) {
        if (confirm->answers[i].id == id) {
            confirm->answers[i].number = u64_max(confirm->answers[i].number,
                                                 number);
            return;
        }
    }
    if (confirm->answer_count < MEMBER_COUNT_MAX) {
        confirm->answers[confirm->answer_count++] = (struct confirm_answer){
            .id = id, .number = number};
    }
}

uint64_t confirm_answered(const struct confirm *confirm, uint64_t id)
{
    for (uint32_t i = 0; i < confirm->answer_count; i++) {
        if (confirm->answers[i].id == id) {
            return confirm->answers[i].number;
        }
    }
    return 0;
}

uint64_t confirm_count(const struct confirm *confirm,
                       const struct replica_members *members)
{
    uint64_t best = 0;
    uint32_t voters = members_voter_count(members);
    for (uint32_t i = 0; i < confirm->answer_count; i++) {
        uint64_t number = confirm->answers[i].number;
        uint32_t votes = 0;
        MEMBER_EACH (member, members) {
            if (member->role == MEMBER_VOTER &&
                confirm_answered(confirm, member->id) >= number) {
                votes++;
            }
        }
        if (votes > voters / 2 && number > best) {
            best = number;
        }
    }
    /* Answers come only to questions of this term that were asked. */
    CHECK(best == 0 ||
          (best > confirm->asked_before && best <= confirm->asked));
    return best;
}
