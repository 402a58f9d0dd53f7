/* SPDX-License-Identifier: MIT */

/* Requests under way: where they come from, how they wait, how they are
 * answered.
 *
 * An answer is written between request_reply() and request_done(); in between
 * nothing else may be answered. Structures come from a free list and keep their
 * buffers, so that the steady state allocates nothing. */

#ifndef HASP_CORE_REQUEST_H
#define HASP_CORE_REQUEST_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/units.h"
#include "core/outcome.h"
#include "net/frame.h"
#include "net/resp.h"

/* How long a request waits for a leader before NOLEADER. */
#define LEADER_WAIT_NS (3000 * NS_PER_MS)
/* Of a session's secret. */
#define SECRET_SIZE 16

struct call;
struct command;
struct conn;
struct core;

/* The station of a request: what it waits for. Those up to CHANGING stand in
 * no list. */
enum request_state {
    REQUEST_NEW,
    REQUEST_HELD, /* For those before it on its connection to be answered. */
    REQUEST_CHANGING,  /* For a change of the members, or a transfer. */
    REQUEST_PARKED,    /* For a leader to be known, or for this one's BEGIN. */
    REQUEST_FORWARDED, /* For the leader's ANSWER. */
    REQUEST_ASKING, /* For a confirmed question: reads, heartbeats, refusals. */
    REQUEST_LOGGED, /* For its entry to be applied. */
    REQUEST_QUEUED, /* For the end of its wait in a lock's queue. */
    REQUEST_DOOMED, /* Heartbeats: for their session's EXPIRE. */
    REQUEST_RESUMED, /* For nothing: to be dealt with anew in this stage. */
    REQUEST_READY,   /* For nothing: to be read or answered in this stage. */
    REQUEST_AUTHENTICATING, /* AUTH: for its secret to be known here. */
    REQUEST_SNAPSHOT,       /* RAFT.SNAPSHOT, RAFT.BACKUP: for one on disk. */
    REQUEST_RESTING, /* Of a peer: for its user's turn (forward_queue.h). */
    REQUEST_STATE_COUNT
};

/* What may have come of a request by now: two facts, since a leader that knows
 * what became of its own entry knows nothing of an earlier leader's. What only
 * reads sets neither. While one is set, no answer says that nothing was done.
 */
struct request_effect {
    /* It was sent to another leader, or logged by one before this reign.
     * Cleared by the log, for a number that the log knows, and by that leader's
     * ANSWER_NOT_LEADER. */
    bool earlier;
    /* This leader has logged it, and the entry is not applied. Cleared when it
     * is applied and has done nothing. */
    bool own;
};

/* What tells the requests of all sessions apart. */
struct request_number {
    uint64_t session;
    uint64_t req; /* Not 0. */
};

struct request {
    struct list in_list;
    struct list in_asker; /* Resting. */
    struct request *next; /* Of those that wait for the same entry or place. */
    const struct command *command;
    struct call *call; /* As understood, while it is needed; or NULL. */
    enum request_state state;
    struct request_effect effect;
    struct outcome outcome; /* Once it is decided. */
    uint64_t req;           /* Its number; 0: none. */
    bool is_pushed;         /* Its wait is not waited for: a push tells. */
    bool is_full;           /* All of what was granted is told. */
    bool is_heard;          /* KEEP: all its sessions' deadlines were moved. */
    bool is_unwelcome; /* A change that is to be refused: no room on the disk,
                          or a feature level that is too low. */
    bool is_confirmed; /* While it is decided on: this node leads for sure. */
    uint8_t version;
    struct bytes address; /* Of a remote one: its client's, ... */
    struct bytes client;  /* ... borrowed from the body. */
    struct conn *conn;    /* Of a local one. */
    uint64_t peer;        /* Of a remote one; with conn NULL and 0: nobody's. */
    uint64_t peer_conn;   /* Of a remote one, and of an orphan. */
    uint64_t slot;
    uint32_t sending; /* How often it was sent; of a remote one, which. */
    uint64_t session; /* That acts; 0: none. */
    uint64_t user;    /* Who asks, and by which secret he came (0: by none), */
    uint64_t secret_number; /* ... as his connection was when it came. */
    uint64_t received_ns;
    uint64_t deadline_ns;   /* Parked: until when. */
    uint64_t not_before_ns; /* Parked: not to be sent sooner. */
    uint64_t question;      /* Asking: the number that it needs. */
    uint64_t read_index;    /* Asking: must be applied. */
    uint64_t index;         /* Logged: its entry. Queued: its wait. */
    uint64_t sent_to;       /* Forwarded. */
    uint64_t sent_term;     /* Likewise; of a remote one, to which leader. */
    /* Of Redis: the answer, if its entry is applied as it was proposed; the
     * sessions that it renews, as u64s; and how many entries were not. */
    struct buffer answer;
    bool answer_is_error; /* A script's own: data all the same. */
    struct buffer renewed;
    uint32_t tries;
    struct authentication *authentication; /* Of AUTH; owned. */
    char secret[2 * SECRET_SIZE + 1]; /* OPEN: made here, told once; or "". */
    UT_hash_handle by_wait;           /* Queued: the first of its wait. */
    UT_hash_handle by_number;         /* Logged, and numbered. */
    struct request_number number;     /* Likewise. */
    struct buffer body;               /* The FORWARD frame, ... */
    uint32_t count;                   /* ... with so many arguments. */
    uint64_t held_size;               /* Counted with its connection. */
};

/* Lives as long as the core. */
struct requests {
    struct request *free;
    uint32_t free_count;
    uint32_t in_flight;                  /* All but the queued. */
    struct list at[REQUEST_STATE_COUNT]; /* Those in each station. */
    struct request *by_wait;
    struct request *by_number; /* Logged; a number may stand twice. */
    struct call *free_calls;
    uint32_t free_call_count;
    /* The reply at hand: it begins at 'reply_start' of writer.out, which is
     * 'reply' if it goes to a peer, or nowhere. */
    struct resp_writer writer;
    size_t reply_start;
    struct buffer reply;
};

/* A request of a local connection; takes the next slot. */
struct request *request_new_local(struct core *core, struct conn *conn);
/* One that a peer forwarded, with what it asks for kept. Its command is NULL if
 * this node does not know it. An error: the frame is malformed. */
MUST_CHECK int request_new_remote(struct core *core, uint64_t peer,
                                  struct bytes body,
                                  struct request **ret_request,
                                  uint64_t *ret_term);
void requests_free(struct core *core);

/* Keeps the arguments for later: as the frame in which they are forwarded. */
void request_keep(struct core *core, struct request *request,
                  const struct bytes *argument, uint32_t count);
/* Sees to it that request->call is there: what was kept is understood, unless
 * it has been. False: it is not; then the error is the reply at hand, and its
 * word the outcome. */
MUST_CHECK bool request_understand(struct core *core, struct request *request);
/* Likewise, of arguments that are borrowed: they are not kept. */
MUST_CHECK bool request_understand_borrowed(struct core *core,
                                            struct request *request,
                                            const struct bytes *argument,
                                            uint32_t count);
/* The call is not needed any more, unless leadership moves. */
void request_release_call(struct core *core, struct request *request);

/* Moves it to another station (but see request_wait()). */
void request_move(struct core *core, struct request *request,
                  enum request_state state);
/* True if one of this number is logged, and not applied yet. */
bool requests_are_logged(const struct core *core,
                         const struct request_number *number);
/* Takes it out of its station. */
void request_leave(struct core *core, struct request *request);
/* Lets it wait for the end of a wait in a lock's queue. Several may: a
 * repetition joins the one it repeats. */
void request_wait(struct core *core, struct request *request,
                  uint64_t wait_index);
/* Takes out those that waited for it: a chain by 'next'. */
struct request *requests_end_wait(struct core *core, uint64_t wait_index);

/* Where to write its answer. */
struct resp_writer *request_reply(struct core *core, struct request *request);
/* The answer is complete: sends it and frees the request. */
void request_done(struct core *core, struct request *request);
/* Likewise; 'session' is now attached to its connection, or detached. */
void request_done_as(struct core *core, struct request *request,
                     enum frame_answer_kind kind, uint64_t session);
void request_answer_ok(struct core *core, struct request *request);
void request_answer_integer(struct core *core, struct request *request,
                            int64_t value);
/* From now on it may have been done: it is on its way to a leader. Nothing for
 * what only reads. */
void request_mark_sent(struct request *request);
/* Likewise: its entry is logged here. */
void request_mark_logged(struct request *request);
bool request_may_be_done(const struct request *request);
/* It changed something; request_done() follows. */
void request_has_changed(struct request *request);
/* True if it may be carried to the next leader: nothing was done, or doing it
 * twice does no harm. */
bool request_may_go_on(const struct request *request);
/* False: answers with an error, 'word' and why, if nothing was done. If it may
 * have been, the word is UNKNOWN, whatever 'word' is, and the text says so. */
bool request_refuse(struct core *core, struct request *request,
                    enum core_word word, const char *why);
/* Answers with an error that is the result of its entry, or what was found
 * without one. It is UNKNOWN if 'word' says that nothing was done, and an
 * earlier leader may have done it. */
void request_fail(struct core *core, struct request *request,
                  enum core_word word, struct bytes text);
/* A peer's request whose arguments are not understood here: the error that says
 * so is the reply at hand. */
void request_misunderstood(struct core *core, struct request *request);
/* This node cannot carry it out, another may lead: a local one is parked for
 * the next leader, or refused if doing it twice might do harm; a remote one
 * goes back. */
void request_return(struct core *core, struct request *request);
/* It was logged, and the reign has ended: whether it will take effect is not
 * known. One of a peer is left to that peer, which learns of the new term as
 * well. */
void request_abandon(struct core *core, struct request *request);
/* Frees it without an answer: its asker asks elsewhere, or has gone. */
void request_drop(struct core *core, struct request *request);
/* Its asker has gone. */
void request_orphan(struct core *core, struct request *request);

/* The name of the client that asks (CLIENT SETNAME), and its address. */
struct bytes request_client(const struct request *request);
struct bytes request_address(const struct request *request);

#endif /* HASP_CORE_REQUEST_H */
