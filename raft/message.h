/* SPDX-License-Identifier: MIT */

/* The messages of replicas, to bytes and back.
 *
 *     offset 0  u8   kind (enum message_kind)
 *            1  u8   format, 0
 *            2  u64  term
 *           10  ...  by kind, integers little-endian:
 *
 *     APPEND         u64 prev_index, u64 prev_term, u64 commit_index,
 *                    u32 count, count x (u64 term, u8 type, u32 size), bodies
 *     APPEND_RESULT  u64 rejected_index, u64 last_index
 *     VOTE           u64 candidate, u64 last_index, u64 last_term, u8 flags,
 *                    u32 flush_ms
 *     VOTE_RESULT    u8 flags, u32 flush_ms
 *     TIMEOUT_NOW    u64 last_index, u64 last_term
 *     CONFIRM        u64 number
 *     CONFIRMED      u64 number
 *
 * Pure, and bounded: decoding allocates nothing; every count and length is
 * checked against the available bytes before it is used. This module checks a
 * message by itself (terms that do not decrease, known types, configurations
 * that decode); receive.c checks it against the log. InstallSnapshot is not a
 * message: the caller sends the file. */

#ifndef HASP_RAFT_MESSAGE_H
#define HASP_RAFT_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "raft/replica.h"

enum message_kind {
    MESSAGE_APPEND = 1,
    MESSAGE_APPEND_RESULT = 2,
    MESSAGE_VOTE = 3,
    MESSAGE_VOTE_RESULT = 4,
    MESSAGE_TIMEOUT_NOW = 6,
    MESSAGE_CONFIRM = 7,
    MESSAGE_CONFIRMED = 8
};

/* Terms and indexes stay below this: sums of two never overflow. */
#define MESSAGE_NUMBER_MAX (UINT64_C(1) << 62)

struct message_append {
    uint64_t prev_index;
    uint64_t prev_term;
    uint64_t commit_index;
    uint32_t count;
    const struct replica_entry *entries; /* To encode. */
    struct bytes heads;                  /* Decoded: message_entries() ... */
    struct bytes bodies;                 /* ... reads them. */
};

struct message {
    enum message_kind kind;
    uint64_t term;
    union {
        struct message_append append;
        struct {
            uint64_t rejected_index; /* 0: accepted. */
            uint64_t last_index;
        } append_result;
        struct {
            uint64_t candidate;
            uint64_t last_index;
            uint64_t last_term;
            bool is_disrupting;
            bool is_pre_vote;
            bool is_standing;  /* Announces a candidacy; the vote is requested
                                  later. */
            uint32_t flush_ms; /* Longest of those known to the candidate. */
        } vote;
        struct {
            bool is_granted;
            bool is_pre_vote;
            uint32_t flush_ms; /* At the voter. */
        } vote_result;
        struct {
            uint64_t last_index;
            uint64_t last_term;
        } timeout_now;
        uint64_t number; /* CONFIRM, CONFIRMED. */
    };
};

void message_encode(const struct message *message, struct buffer *out);

/* Decodes a whole message; runs of bytes are borrowed from 'encoded'.
 * HASP_EPROTO if anything is wrong. */
MUST_CHECK int message_decode(struct bytes encoded,
                              struct message *ret_message);

/* Reads the 'count' entries of a decoded APPEND into 'ret_entries'; bodies are
 * borrowed. */
void message_entries(const struct message_append *append,
                     struct replica_entry *ret_entries);

#endif /* HASP_RAFT_MESSAGE_H */
