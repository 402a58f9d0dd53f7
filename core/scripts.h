/* SPDX-License-Identifier: MIT */

/* The scripts that clients of this node have sent (EVAL, SCRIPT LOAD), by
 * SHA-1. EVALSHA is forwarded as EVAL with the text. As in Redis, a client
 * cannot rely on a stored script: after NOSCRIPT it sends the text again. */

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

/* TIME as scripts see it. It starts at the wall clock if the cluster has never
 * had a time, and runs at 0.8 of a node's own clock since the newest time in
 * the log. So a client whose clock is 10 % slow trusts what it has until 'TIME
 * + ttl' no longer than the scripts do, whichever node leads (rule 18), and a
 * jump of a wall clock ends no lease. */
struct script_clock {
    uint64_t seen_ms; /* The newest time in the log. */
    uint64_t base_ms;
    uint64_t base_ns; /* This node's clock when it was base_ms. */
};

/* Lives as long as the core. */
struct scripts {
    struct loaded_script loaded[SCRIPTS_LOADED_MAX];
    struct loaded_script *by_sha;
    uint64_t count; /* Scripts loaded so far; the oldest is replaced. */
    /* The newest refused scripts: each is logged once. */
    char refused[SCRIPTS_REFUSED_MAX][SHA1_TEXT_SIZE];
    uint32_t refused_count;
    /* The newest grants after which a script was refused, and the reason. */
    struct refused_grant {
        uint64_t token;
        char why[SCRIPT_WHY_SIZE];
    } refused_grants[SCRIPTS_REFUSED_MAX];
    uint32_t refused_grant_count;
    struct script_clock clock;
    struct arena arena; /* For the current command or script. */
};

/* The text of a SHA-1 in hex, in any case; borrowed until the next load. */
bool scripts_find(const struct scripts *scripts, struct bytes sha,
                  struct bytes *ret_text);
/* Stores a script; 'ret_sha' is its SHA-1. Texts above SCRIPT_SIZE_MAX are not
 * stored, since no node runs them. */
void scripts_load(struct scripts *scripts, struct bytes text,
                  char ret_sha[SHA1_TEXT_SIZE]);
/* True if it is not among the newest refused ones. */
bool scripts_note_refused(struct scripts *scripts, const char *sha);
/* Records that a script on the key granted under this token was refused: its
 * holder may have tried to release it. */
void scripts_note_refusal(struct scripts *scripts, uint64_t token,
                          const char *why);
/* The reason, or NULL if no script was refused or it is no longer stored. */
const char *scripts_refusal(const struct scripts *scripts, uint64_t token);
/* Called after applying or loading; 'time_ms' is the newest time in the log.
 * 'is_own': this node as the leader proposed the entry that was applied
 * last. */
void scripts_note_time(struct scripts *scripts, uint64_t time_ms, bool is_own,
                       uint64_t now_ns);
uint64_t scripts_time_ms(struct scripts *scripts, uint64_t wall_ms,
                         uint64_t now_ns);
void scripts_clear(struct scripts *scripts);
void scripts_done(struct scripts *scripts);

#endif /* HASP_CORE_SCRIPTS_H */
