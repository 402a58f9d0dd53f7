/* SPDX-License-Identifier: MIT */

/* The door for Consul: sessions, and keys as locks (docs/consul.md). Private to
 * http.
 *
 * A session is a session of hasp; a key is the lock "consul/KEY", and its value
 * and flags are the value of the hold (consul_format.h). So a key exists while
 * it is held, or while a lock-delay keeps it closed.
 *
 * Clients of Consul believe in an answer that looks true. So every refusal is
 * plain text with status 400, 403 or 500, which all of them take for an error;
 * 404 is for GET and for renew. A key never shows a session that has ended.
 *
 * The index of a key is its token; that of a key that nobody holds is the
 * newest entry that this node had applied before it asked the leader. The
 * answer is at least as new, so a client that waits with this index misses no
 * change; it may be woken once too often. */

#ifndef HASP_HTTP_CONSUL_H
#define HASP_HTTP_CONSUL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "http/consul_format.h"
#include "http/problem.h"

struct exchange;
struct resp_reply;

/* A blocking GET waits at most for this. */
#define CONSUL_WAIT_MAX_S 60
#define CONSUL_NODE "hasp"
#define CONSUL_PREFIX "consul/"
#define CONSUL_LIST_MAX 1000

/* Which reply a request waits for. */
enum consul_stage {
    CONSUL_NEW,
    CONSUL_ATTACH,
    CONSUL_SESSION, /* SESSION.SHOW, .OPEN, .KEEP, .CLOSE, .LIST */
    CONSUL_KEEP,
    CONSUL_LOOK, /* LOCK.SHOW or LIST */
    CONSUL_ACQUIRE,
    CONSUL_UNDO, /* A second acquisition of the same session, given back. */
    CONSUL_RELEASE,
    CONSUL_SUBSCRIBE,
    CONSUL_HISTORY,
    CONSUL_WAIT,
    CONSUL_STATUS
};

struct consul {
    enum consul_stage stage;
    struct consul_id id;
    struct buffer key;   /* The lock's name, or the prefix of names. */
    struct buffer value; /* As the hold stores it. */
    uint64_t delay_ms;
    uint64_t token;   /* The released hold's. */
    uint64_t wanted;  /* The index from which GET waits; 0: it does not. */
    uint64_t wait_ns; /* For how long. */
    uint64_t until_ns;
    uint64_t base;    /* A lower bound of the index of what was read. */
    bool is_list;     /* "keys" or "recurse". */
    bool has_changed; /* An event has said so. */
    bool is_last;     /* The next look is answered. */
    /* The GET is answered after a while, changed or not. */
    bool is_unwatched;
};
void consul_done(struct consul *consul);

/* --- Shared by the files of the door -------------------------------------- */

/* The rest of the path, decoded. False: it is wrong. */
bool consul_rest(const struct exchange *exchange, const char *what,
                 struct buffer *out, struct problem *problem);
/* Adds SESSION.ATTACH. */
void consul_attach(struct exchange *exchange);
void consul_answer(struct exchange *exchange, unsigned status,
                   const char *content_type, struct buffer *body,
                   uint64_t index);
void consul_answer_text(struct exchange *exchange, unsigned status,
                        const char *text);
/* Takes ownership of the document. */
void consul_answer_json(struct exchange *exchange, void *document);
/* Sets 'consul.base'. */
void consul_note_base(struct exchange *exchange);

/* Sessions and the agent: as the functions of struct door. */
bool consul_session_begin(struct exchange *exchange, struct problem *problem);
void consul_session_reply(struct exchange *exchange,
                          const struct resp_reply *reply);
bool consul_session_fail(struct exchange *exchange,
                         const struct problem *problem);
/* The lock-delay of a session that SESSION.SHOW has returned. */
uint64_t consul_session_delay(const struct resp_reply *reply);

#endif /* HASP_HTTP_CONSUL_H */
