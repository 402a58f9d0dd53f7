/* SPDX-License-Identifier: MIT */

/* The scripts of Redis lock clients: recognised, not interpreted.
 *
 * A script is known by the SHA-1 under which a client calls it, or by its text
 * with comments, white space and the kind of quotes left out. What it means is
 * one of a few operations. Sources: redis-py lock.py, go-redsync v4,
 * node-redlock 4 and 5, redlock-rb, bsm/redislock, Laravel, Spring. */

#ifndef HASP_CORE_REDIS_SCRIPTS_H
#define HASP_CORE_REDIS_SCRIPTS_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/sha.h"

enum script_op {
    SCRIPT_NONE,
    /* (key, value): 1 or 0. */
    SCRIPT_DELETE,
    SCRIPT_DELETE_ABSENT, /* -1 if there is no such key. */
    /* (key, value, ms): 1 or 0. */
    SCRIPT_EXPIRE,
    SCRIPT_EXPIRE_S,      /* Seconds. */
    SCRIPT_EXTEND,        /* (key, value, ms, "0": add to what is left). */
    SCRIPT_SET_OR_EXPIRE, /* Sets it if it is absent. */
    SCRIPT_SET_TRUE,      /* Likewise; 1 or nil. */
    SCRIPT_SET_OK,        /* (key, value, ms, "yes": may be new): OK or nil. */
    /* (keys..., value, ms): how many, all or none. */
    SCRIPT_MULTI_SET,
    SCRIPT_MULTI_EXPIRE,
    SCRIPT_MULTI_DELETE, /* (keys..., value): how many. */
    /* Reading. */
    SCRIPT_GET_PTTL, /* (key): [value, pttl]. */
    SCRIPT_PTTL_IF   /* (key, value): pttl, -3 if another's. */
};

/* Scripts that a client of this node has loaded, in other words than ours. */
#define SCRIPTS_LOADED_MAX 64
struct scripts {
    struct loaded_script {
        char sha[SHA1_TEXT_SIZE];
        enum script_op op;
    } loaded[SCRIPTS_LOADED_MAX];
    uint32_t count;
};

/* By SHA-1 in hex, any case. */
enum script_op scripts_find(const struct scripts *scripts, struct bytes sha);
/* By its text. */
enum script_op scripts_recognise(struct bytes body);
/* Remembers a recognised text under its SHA-1. */
void scripts_load(struct scripts *scripts, const char *sha, enum script_op op);
/* Forgets those that were loaded. */
void scripts_clear(struct scripts *scripts);
/* A SHA-1 under which every node knows the operation. */
const char *scripts_name(enum script_op op);

#endif /* HASP_CORE_REDIS_SCRIPTS_H */
