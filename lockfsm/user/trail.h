/* SPDX-License-Identifier: MIT */

/* Who did what: administrative entries carry from where and by whom they were
 * asked for, and tell it when they are applied, for a line in each node's log,
 * and for what the state keeps of them (lockfsm/user/audit.h). */

#ifndef HASP_LOCKFSM_USER_TRAIL_H
#define HASP_LOCKFSM_USER_TRAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "lockfsm/model.h"

struct lockfsm;

#define TRAIL_FIELD_MAX 6

struct trail_field {
    const char *key;
    bool is_text;
    uint64_t number;
    struct bytes text;
};

/* An entry as an operator knows it. Bytes are borrowed until the next entry. */
struct trail {
    const char *command; /* "BLACKLIST.ADD"; NULL: no administrative entry. */
    struct bytes from;   /* "host:port" as the asked node saw it; empty: nobody
                            asked, the cluster did it by itself. */
    struct bytes user;   /* Whose it is; empty: nobody said. */
    struct bytes by;     /* The operator's name, or the connection's. */
    uint64_t session;    /* In which it was asked; 0: none. */
    struct trail_field field[TRAIL_FIELD_MAX];
    uint32_t count;
    char digits[2 * FINGERPRINT_SIZE + 1]; /* Of a field's text. */
    bool is_for_log; /* Anybody may ask it: no administrator's act. */
    bool begins_life;
    bool tells_itself; /* The result says nothing that no field says. */
};

/* What the entry that was applied last has left. */
const struct trail *lockfsm_trail(const struct lockfsm *fsm);

#endif /* HASP_LOCKFSM_USER_TRAIL_H */
