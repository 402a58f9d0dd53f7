/* SPDX-License-Identifier: MIT */

/* The scripts that clients of this node have brought (EVAL, SCRIPT LOAD), by
 * their SHA-1: EVALSHA leaves this node as EVAL with the text. As in Redis,
 * nobody may rely on what is kept: a client that hears NOSCRIPT sends the text
 * again. */

#ifndef HASP_CORE_REDIS_SCRIPTS_H
#define HASP_CORE_REDIS_SCRIPTS_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/sha.h"
#include "lockfsm/arena.h"

#define SCRIPTS_LOADED_MAX 256
#define SCRIPTS_REFUSED_MAX 64
#define SCRIPT_WHY_SIZE 256

struct loaded_script {
    UT_hash_handle hh;
    char sha[SHA1_TEXT_SIZE];
    struct buffer text;
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
void scripts_clear(struct scripts *scripts);
void scripts_done(struct scripts *scripts);

#endif /* HASP_CORE_REDIS_SCRIPTS_H */
