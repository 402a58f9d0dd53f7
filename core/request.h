/* SPDX-License-Identifier: MIT */

/* Requests under way: where they come from, what they wait for, and how they
 * are answered.
 *
 * An answer is written between request_reply() and request_done(); nothing else
 * may be answered in between. Structures come from a free list and keep their
 * buffers, so the steady state allocates nothing. */

#ifndef HASP_CORE_REQUEST_H
#define HASP_CORE_REQUEST_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/units.h"
#include "core/in_flight.h"
#include "core/outcome.h"
#include "core/slow_log.h"
#include "net/frame.h"
#include "net/resp.h"

/* How long a request waits for a leader before NOLEADER. */
#define LEADER_WAIT_NS (3000 * NS_PER_MS)
/* Bytes of a session's secret. */
#define SECRET_SIZE 16

struct call;
struct command;
struct conn;
struct core;

/* The state of a request: what it waits for. Requests in a state up to CHANGING
 * are in no list. */
enum request_state {
    REQUEST_NEW,
    REQUEST_HELD,      /* Earlier requests on its connection. */
    REQUEST_CHANGING,  /* A change of the members, or a transfer. */
    REQUEST_PARKED,    /* A known leader, or this leader's BEGIN. */
    REQUEST_FORWARDED, /* The leader's ANSWER. */
    REQUEST_ASKING,    /* A confirmed question: reads, heartbeats, refusals. */
    REQUEST_LOGGED,    /* Its entry to be applied. */
    REQUEST_QUEUED,    /* The end of its wait in a lock's queue. */
    REQUEST_DOOMED,    /* Heartbeats: their session's EXPIRE. */
    REQUEST_RESUMED,   /* Nothing: it is decided on again in this stage. */
    REQUEST_READY,     /* Nothing: it is read or answered in this stage. */
    REQUEST_AUTHENTICATING, /* AUTH: its secret to be known here. */
    REQUEST_SNAPSHOT, /* RAFT.SNAPSHOT, RAFT.BACKUP: a snapshot on disk. */
    REQUEST_RESTING,  /* A peer's: its user's turn (forward_queue.h). */
    REQUEST_STATE_COUNT
};

/* Whether a request may have taken effect. There are two facts, because a
 * leader that knows the outcome of its own entry knows nothing of an earlier
 * leader's. A read sets neither. While one is set, no answer says that nothing
 * was done. */
struct request_effect {
    /* The request was sent to another leader, or logged by one before this
     * leadership. Cleared by the log, if the log knows its number, and by that
     * leader's ANSWER_NOT_LEADER. */
    bool earlier;
    /* This leader has logged it, and the entry is not applied. Cleared when the
     * entry is applied and has changed nothing. */
    bool own;
};

/* Identifies a request among those of all sessions. */
struct request_number {
    uint64_t session;
    uint64_t req; /* Not 0. */
};

struct request {
    struct list in_list;
    struct list in_asker; /* Resting. */
    struct request *next; /* The next that waits for the same entry or wait. */
    const struct command *command;
    struct call *call; /* The parsed call while it is needed, or NULL. */
    enum request_state state;
    struct request_effect effect;
    struct outcome outcome; /* Set once it is decided. */
    uint64_t req;           /* The client's number; 0: none. */
    bool is_pushed;         /* A push reports the end of its wait. */
    bool is_full;           /* The answer has everything about the grant. */
    bool is_heard;          /* KEEP: all its sessions' deadlines were moved. */
    /* A change that is to be refused: the disk is full, or the feature level is
     * too low. */
    bool must_be_refused;
    bool is_confirmed; /* While it is decided on: leadership is confirmed. */
    uint8_t version;
    struct bytes address; /* Its client's address, if it is remote. */
    struct bytes client;  /* Its client's name, borrowed from the body. */
    struct conn *conn;    /* Its connection, if it is local. */
    uint64_t peer; /* The peer, if it is remote; conn NULL and 0: an orphan. */
    uint64_t peer_conn; /* The peer's connection; also of an orphan. */
    uint64_t slot;
    uint32_t sending;       /* How often it was sent; remote: which sending. */
    uint64_t session;       /* The session that acts; 0: none. */
    uint64_t user;          /* The requester, and its secret (0: none), ... */
    uint64_t secret_number; /* ... as its connection had them on receipt. */
    uint64_t payer;         /* See in_flight.h. */
    struct in_flight_payer *counted; /* Where it is counted; NULL: it is not. */
    uint64_t received_ns;
    struct slow_clock clock;
    uint64_t deadline_ns;   /* Parked: until this time. */
    uint64_t not_before_ns; /* Parked: not sent before this time. */
    uint64_t question;      /* Asking: the question that it waits for. */
    uint64_t read_index;    /* Asking: the index that must be applied. */
    uint64_t index;         /* Logged: its entry. Queued: its wait. */
    uint64_t sent_to;       /* Forwarded. */
    /* Forwarded: the leader's term; remote: of which leader. */
    uint64_t sent_term;
    /* Redis commands: the answer if its entry is applied as proposed; the
     * sessions that it renews, as u64s; and how many entries were not applied
     * as proposed. */
    struct buffer answer;
    bool answer_is_error; /* A script's own error, which counts as data. */
    struct buffer renewed;
    uint32_t tries;
    struct authentication *authentication; /* AUTH only; owned. */
    /* OPEN: made here and sent once; or "". */
    char secret[2 * SECRET_SIZE + 1];
    UT_hash_handle by_wait;       /* Queued: the first request of its wait. */
    UT_hash_handle by_number;     /* Logged, with a number. */
    struct request_number number; /* Likewise. */
    struct buffer body;           /* The FORWARD frame, ... */
    uint32_t count;               /* ... with this number of arguments. */
    uint64_t held_size;           /* Counted with its connection. */
};

/* Lives as long as the core. */
struct requests {
    struct request *free;
    uint32_t free_count;
    struct in_flight in_flight;
    struct list at[REQUEST_STATE_COUNT]; /* The requests in each state. */
    struct request *by_wait;
    struct request *by_number; /* Logged; several may have the same number. */
    struct call *free_calls;
    uint32_t free_call_count;
    /* The current reply: it begins at 'reply_start' of writer.out, which is
     * 'reply' if it goes to a peer or is dropped. */
    struct resp_writer writer;
    size_t reply_start;
    struct buffer reply;
};

/* Makes a request of a local connection and gives it the next slot. */
struct request *request_new_local(struct core *core, struct conn *conn);
/* Makes a request that a peer has forwarded, and keeps its arguments. Its
 * command is NULL if this node does not know it. An error means that the frame
 * is malformed. */
MUST_CHECK int request_new_remote(struct core *core, uint64_t peer,
                                  struct bytes body,
                                  struct request **ret_request,
                                  uint64_t *ret_term);
void requests_free(struct core *core);

/* Keeps the arguments for later, as the frame in which they are forwarded. */
void request_keep(struct core *core, struct request *request,
                  const struct bytes *argument, uint32_t count);
/* Parses the kept arguments into request->call, unless that was done before.
 * False: they cannot be parsed; the current reply is then the error, and the
 * outcome its word. */
MUST_CHECK bool request_understand(struct core *core, struct request *request);
/* The same for borrowed arguments, which are not kept. */
MUST_CHECK bool request_understand_borrowed(struct core *core,
                                            struct request *request,
                                            const struct bytes *argument,
                                            uint32_t count);
/* Releases the call, which is needed again only if leadership moves. */
void request_release_call(struct core *core, struct request *request);

/* Moves it to another state (but see request_wait()). */
void request_move(struct core *core, struct request *request,
                  enum request_state state);
/* True if a request with this number is logged and not applied yet. */
bool requests_are_logged(const struct core *core,
                         const struct request_number *number);
/* Removes it from the list of its state. */
void request_leave(struct core *core, struct request *request);
/* Makes it wait for the end of a wait in a lock's queue. Several requests may:
 * a repetition joins the one that it repeats. */
void request_wait(struct core *core, struct request *request,
                  uint64_t wait_index);
/* Removes and returns the requests that waited for it, chained by 'next'. */
struct request *requests_end_wait(struct core *core, uint64_t wait_index);

/* The writer for its answer. */
struct resp_writer *request_reply(struct core *core, struct request *request);
/* The answer is complete: sends it and frees the request. */
void request_done(struct core *core, struct request *request);
/* The same; 'session' is now attached to its connection, or detached. */
void request_done_as(struct core *core, struct request *request,
                     enum frame_answer_kind kind, uint64_t session);
void request_answer_ok(struct core *core, struct request *request);
void request_answer_integer(struct core *core, struct request *request,
                            int64_t value);
/* Records that it may take effect from now on, because it is sent to a leader.
 * Does nothing for a read. */
void request_mark_sent(struct request *request);
/* The same, because its entry is logged here. */
void request_mark_logged(struct request *request);
bool request_may_be_done(const struct request *request);
/* Records that it changed something; request_done() follows. */
void request_has_changed(struct request *request);
/* True if it may be repeated at the next leader: it had no effect, or repeating
 * it does no harm. */
bool request_may_go_on(const struct request *request);
/* Answers with an error and returns false: 'word' and 'why' if the request had
 * no effect. If it may have had one, the word is UNKNOWN whatever 'word' is,
 * and the text says so. */
bool request_refuse(struct core *core, struct request *request,
                    enum core_word word, const char *why);
/* Answers with an error that is the result of its entry, or was found without
 * an entry. It becomes UNKNOWN if 'word' says that nothing was done and an
 * earlier leader may have done it. */
void request_fail(struct core *core, struct request *request,
                  enum core_word word, struct bytes text);
/* Answers a peer's request whose arguments cannot be parsed here; the error is
 * the current reply. */
void request_misunderstood(struct core *core, struct request *request);
/* This node cannot execute the request, but another may lead: a local one is
 * parked for the next leader, or refused if repeating it might do harm; a
 * remote one is returned. */
void request_return(struct core *core, struct request *request);
/* The request was logged and the leadership has ended, so its outcome is
 * unknown. A peer's request is left to that peer, which learns of the new term
 * as well. */
void request_abandon(struct core *core, struct request *request);
/* Frees it without an answer: its requester asks elsewhere, or has
 * disconnected. */
void request_drop(struct core *core, struct request *request);
/* Its requester has disconnected. */
void request_orphan(struct core *core, struct request *request);

/* The name (CLIENT SETNAME) and the address of the client that sent it. */
struct bytes request_client(const struct request *request);
struct bytes request_address(const struct request *request);

#endif /* HASP_CORE_REQUEST_H */
