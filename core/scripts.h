/* SPDX-License-Identifier: MIT */

/* The scripts that clients of this node have brought (EVAL, SCRIPT LOAD), by
 * their SHA-1: EVALSHA leaves this node as EVAL with the text. As in Redis,
 * nobody may rely on what is kept: a client that hears NOSCRIPT sends the text
 * again. */

#ifndef HASP_CORE_SCRIPTS_H
#define HASP_CORE_SCRIPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/sha.h"
#include "lockfsm/store/arena.h"

#define SCRIPT_SIZE_MAX 8192
#define SCRIPTS_LOADED_MAX 256
#define SCRIPTS_REFUSED_MAX 64
#define SCRIPT_WHY_SIZE 256

struct loaded_script {
    UT_hash_handle hh;
    char sha[SHA1_TEXT_SIZE];
    struct buffer text;
};

/* TIME as scripts are told it. It begins at a wall clock, when the cluster has
 * never told it, and goes on at 0.8 of a node's own clock since the newest time
 * that the log has: so a client whose clock is a tenth slow believes in what it
 * has until 'TIME + ttl' no longer than the scripts do, whichever node leads
 * (rule 18), and no wall clock that jumps ends a lease. */
struct script_clock {
    uint64_t seen_ms; /* The newest of the log. */
    uint64_t base_ms;
    uint64_t base_ns; /* When it was base_ms, by this node's clock. */
};

/* Lives as long as the core. */
struct scripts {
    struct loaded_script loaded[SCRIPTS_LOADED_MAX];
    struct loaded_script *by_sha;
    uint64_t count; /* That were ever loaded: the oldest makes room. */
    /* The newest that were refused: each is told once. */
    char refused[SCRIPTS_REFUSED_MAX][SHA1_TEXT_SIZE];
    uint32_t refused_count;
    /* The newest grants on which a script was refused, and why. */
    struct vain_script {
        uint64_t token;
        char why[SCRIPT_WHY_SIZE];
    } vain[SCRIPTS_REFUSED_MAX];
    uint32_t vain_count;
    struct script_clock clock;
    struct arena arena; /* Of the command or script at hand. */
};

/* The text under a SHA-1 in hex, any case; borrowed until the next load. */
bool scripts_find(const struct scripts *scripts, struct bytes sha,
                  struct bytes *ret_text);
/* Keeps it; 'ret_sha' is its SHA-1. Longer texts than SCRIPT_SIZE_MAX are not
 * kept: nobody runs them. */
void scripts_load(struct scripts *scripts, struct bytes text,
                  char ret_sha[SHA1_TEXT_SIZE]);
/* True if it is not among the newest that were. */
bool scripts_note_refused(struct scripts *scripts, const char *sha);
/* A script on the key that was granted under this token was refused: its
 * holder may have asked in vain to release it. */
void scripts_note_vain(struct scripts *scripts, uint64_t token,
                       const char *why);
/* Why, or NULL: none was, or it is forgotten. */
const char *scripts_vain(const struct scripts *scripts, uint64_t token);
/* After applying or loading: 'time_ms' is the newest of the log. 'is_own': what
 * was applied last is what this node itself has proposed as the leader. */
void scripts_note_time(struct scripts *scripts, uint64_t time_ms, bool is_own,
                       uint64_t now_ns);
uint64_t scripts_time_ms(struct scripts *scripts, uint64_t wall_ms,
                         uint64_t now_ns);
void scripts_clear(struct scripts *scripts);
void scripts_done(struct scripts *scripts);

#endif /* HASP_CORE_SCRIPTS_H */
