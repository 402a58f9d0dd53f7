/* SPDX-License-Identifier: MIT */

/* The newest events of locks that this node has applied: for LOCK.HISTORY, and
 * for watchers that reconnect.
 *
 * An event's id is "life-index-ordinal": when the cluster was founded or
 * restored (seconds since 2025), the entry, and which of the entry's events it
 * is. It is the same on each node and unique: indexes go back after a restore,
 * but the first number differs. Events older than the newest EVENT_LOG_COUNT,
 * or EVENT_LOG_SIZE bytes of names and messages, are dropped, and all of them
 * are when a snapshot replaces the state; event_log_knows() reports that.
 * Nothing is allocated per event. */

#ifndef HASP_CORE_EVENTS_EVENT_LOG_H
#define HASP_CORE_EVENTS_EVENT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/traceparent.h"

struct core;
struct effect;

#define EVENT_LOG_COUNT 65536
#define EVENT_LOG_SIZE ((size_t)16 << 20)
#define EVENT_LOG_ID_SIZE 64

struct event_log_id {
    uint64_t life;
    uint64_t index;
    uint32_t ordinal; /* From 0; UINT32_MAX: all of this entry. */
};

struct event_log_event {
    uint64_t index;
    uint32_t ordinal;
    uint32_t message_size;
    uint16_t name_size;
    bool has_trace;   /* Its bytes follow those of the message. */
    const char *kind; /* Static. */
    uint64_t session;
    uint64_t token;
    uint64_t
        wall_ms;     /* When it was applied, for people; 0: before the start. */
    uint64_t at;     /* Where its bytes are; private, as the next: */
    uint64_t before; /* The previous event with the same name hash. */
};

/* Lives as long as the core. */
struct event_log {
    struct event_log_event *events; /* A ring; NULL before the first one. */
    uint8_t *bytes;                 /* The bytes of the ring. */
    uint64_t *newest_of; /* By the hash of a name: number + 1; or NULL. */
    uint64_t first;      /* Numbers of events, from 0. */
    uint64_t next;
    uint64_t bytes_next; /* Bytes ever written, from 0. */
    /* The id of the newest event; and the index up to which events may be
     * missing. */
    struct event_log_id newest;
    struct event_log_id missing;
    uint64_t wall_ms; /* The wall clock in the turn that began at ... */
    uint64_t wall_at_ns;
};

/* The state is that of 'applied_index', by whatever way. */
void event_log_reset(struct core *core, uint64_t applied_index);
void event_log_done(struct event_log *event_log);
/* Adds an event, whose id is then event_log.newest. */
void event_log_add(struct core *core, const char *kind,
                   const struct effect *effect, struct bytes message);

/* An event by its number, from 'first' to before 'next'; borrowed until the
 * next one is added. */
const struct event_log_event *event_log_event(const struct event_log *event_log,
                                              uint64_t number);
struct bytes event_log_name(const struct event_log *event_log,
                            const struct event_log_event *event);
struct bytes event_log_message(const struct event_log *event_log,
                               const struct event_log_event *event);

/* The trace of the hold or wait as text; "" if its request had none. */
void event_log_trace(const struct event_log *event_log,
                     const struct event_log_event *event,
                     char out[TRACE_TEXT_SIZE]);

/* The newest event of this name with a number below 'below'; false if none is
 * known. It takes a step for each event of this name and of names with the same
 * hash, and adds them to '*steps'. */
bool event_log_find(const struct event_log *event_log, struct bytes name,
                    uint64_t below, uint64_t *ret_number, uint64_t *steps);

/* True if all events after this one are known. */
bool event_log_knows(const struct core *core, const struct event_log_id *id);
bool event_log_is_behind(const struct event_log_event *event,
                         const struct event_log_id *id);
void event_log_id_format(const struct core *core, uint64_t index,
                         uint32_t ordinal, char out[EVENT_LOG_ID_SIZE]);
/* Parses "life-index-ordinal", or "life-index": the end of that entry. */
bool event_log_id_parse(struct bytes text, struct event_log_id *ret_id);

#endif /* HASP_CORE_EVENTS_EVENT_LOG_H */
