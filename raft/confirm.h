/* SPDX-License-Identifier: MIT */

/* Confirmation of leadership: numbered questions and the members that have
 * answered them.
 *
 * A leader asks CONFIRM(term, number); a member whose current term is still
 * 'term' answers CONFIRMED(term, number). Before a voter helps to elect another
 * leader it raises its term, so a majority's answers to a question prove that
 * no other leader had been elected when the question was asked (thesis 6.4). An
 * answer to a later question answers all earlier ones. Numbers grow until the
 * process ends and then restart. A node never leads the same term again after a
 * restart, so term and number together are unique. */

#ifndef HASP_RAFT_CONFIRM_H
#define HASP_RAFT_CONFIRM_H

#include <stdint.h>

#include "raft/replica.h"

struct confirm_answer {
    uint64_t id;
    uint64_t number; /* The newest question answered. */
};

struct confirm {
    uint64_t term;         /* Term in which this replica leads, or 0. */
    uint64_t asked;        /* The newest question's number. */
    uint64_t asked_before; /* Numbers up to here belong to earlier terms. */
    struct confirm_answer answers[MEMBER_COUNT_MAX];
    uint32_t answer_count;
};

/* This replica leads in 'term' from now on; 0: it no longer leads. */
void confirm_begin(struct confirm *confirm, uint64_t term);

/* Forgets the answers of nodes that are no longer members. */
void confirm_keep(struct confirm *confirm,
                  const struct replica_members *members);

/* Asks a new question and returns its number. */
uint64_t confirm_ask(struct confirm *confirm);

/* Records an answer of member 'id'. It is ignored if it is for another term or
 * for a question that was never asked. */
void confirm_take(struct confirm *confirm, uint64_t id, uint64_t term,
                  uint64_t number);

/* The newest question that 'id' has answered, 0 if none. */
uint64_t confirm_answered(const struct confirm *confirm, uint64_t id);

/* The newest question that a majority of the voters in 'members' has answered,
 * 0 if none. */
uint64_t confirm_count(const struct confirm *confirm,
                       const struct replica_members *members);

#endif /* HASP_RAFT_CONFIRM_H */
