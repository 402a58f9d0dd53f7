/* SPDX-License-Identifier: MIT */

/* One of those who share an asker (client/asker.h), and how its session is
 * attached to the connection.
 *
 * A member asks for a session of its own (machine.h), or for none. On each new
 * connection the session of each member is attached, behind the heartbeats,
 * which need no attachment; who asks something comes first, a few at a time.
 * What else a member asks is sent when its own session is attached:
 *
 *     no session --set--> APART --OPEN: ATTACH is sent--> ASKED --OK-->
 * ATTACHED ^   ^                           |   |            | |   '-- refused:
 * later ---------'   |            |
 *                         '------- the connection is lost ----+------------'
 *
 * A refused ATTACH is told to that member alone, with all that it asks; the
 * others' requests and the connection go on. */

#ifndef HASP_CLIENT_ASKER_MEMBER_H
#define HASP_CLIENT_ASKER_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "client/asking.h"
#include "client/credentials.h"
#include "lease/lease.h"
#include "net/resp.h"

/* What a member gives; each may be NULL. */
struct asker_hooks {
    /* Its turn: time has come, or something that it asked has ended. Returns
     * the nanoseconds until the next one; UINT64_MAX: none is due. */
    uint64_t (*turn)(void *data, struct lease_clock now);
    /* A message that no request asked for, and that tells of its session;
     * borrowed. */
    void (*push)(void *data, const struct resp_reply *reply);
    /* The connection has been given up, whatever was asked for on it. */
    void (*lost)(void *data);
    /* ATTACH was refused: the session has ended, or may not be attached. */
    void (*ended)(void *data, const char *code, const char *why);
    /* Something that people should know of the connection. */
    void (*noticed)(void *data, const char *text);
    void *data;
};

/* It stays where it is from asker_join() to asker_part(). */
struct asker_member {
    struct asker_hooks hooks;
    bool is_wanted;   /* A connection, even if it asks nothing. */
    uint64_t open_ms; /* For connection and greeting; 0: CLIENT_OPEN_MS. */
    /* The rest is the asker's. */
    struct asker *asker;
    struct list in_asker;
    struct credentials credentials;
    struct asking attach;
    bool has_session;
    bool is_attached;
    uint32_t refusals; /* Of ATTACH: asked anew with the next request. */
    bool is_touched;   /* Its turn is due. */
    uint64_t due_ns;   /* Its turn is due then, in CLOCK_BOOTTIME. */
};

/* Becomes one of the members; 'member' is zeroed memory with hooks. */
void asker_join(struct asker *asker, struct asker_member *member);
/* Is none any more. What it asked has been cancelled. Nothing is sent: who goes
 * on living calls asker_leave() first. */
void asker_part(struct asker_member *member);

/* From now on each connection acts for this session; NULL: for none. */
void asker_set_session(struct asker_member *member,
                       const struct credentials *credentials,
                       struct lease_clock now);
/* Likewise; the connection that is open does so already. */
void asker_adopt_session(struct asker_member *member,
                         const struct credentials *credentials);

/* --- For the asker's files ------------------------------------------------ */

/* A connection is open: the sessions of all are to be attached. */
void asker_members_attach(struct asker *asker);
/* A request has been asked, which may need its member's session. */
void asker_member_asks(const struct asking *ask);
/* True if the request's session must be attached first. */
bool asker_member_holds_up(const struct asking *ask);
/* The connection is lost: all are to be attached anew on the next one. */
void asker_members_forget(struct asker *asker);
void asker_members_notify_lost(struct asker *asker);
void asker_members_notice(struct asker *asker, const char *text);
/* Gives the push that was just read to the member whose session it names. */
void asker_members_push(struct asker *asker);
/* Gives a turn to each member whose time has come, or that was touched. */
void asker_members_turn(struct asker *asker, struct lease_clock now);

#endif /* HASP_CLIENT_ASKER_MEMBER_H */
