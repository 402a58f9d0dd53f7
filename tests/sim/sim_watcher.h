/* SPDX-License-Identifier: MIT */

/* A watcher: a separate connection, in addition to what its client does with
 * locks. It sends LOCK.WATCH (or, in RESP2, PSUBSCRIBE), resumes FROM the
 * newest event that it knows, ends the watch, and sends LOCK.HISTORY.
 *
 * Oracle: it gets the events of the log, in order, none left out and none
 * twice. It gets `gap` if and only if the node cannot know them. The history of
 * a lock is that of the log. Until the first event of a watch the next event is
 * uncertain; only the two bounds between which it must be are known. */

#ifndef HASP_TESTS_SIM_SIM_WATCHER_H
#define HASP_TESTS_SIM_SIM_WATCHER_H

#include "tests/sim/sim_channel.h"

struct sim_client;

struct sim_watcher {
    struct sim_client *client;
    struct sim_channel channel;
    bool is_there;
    bool is_json; /* RESP2. */
    enum {
        WATCHER_NONE,
        WATCHER_HELLO,
        WATCHER_WATCH,
        WATCHER_WATCH_TOO, /* A longer prefix, which brings nothing new. */
        WATCHER_UNWATCH,
        WATCHER_HISTORY,
        WATCHER_PING
    } asked;
    uint64_t think_until_ns;
    bool is_greeted;
    bool is_watching;
    const char *prefix;
    /* Life of the node when it last got a request. */
    uint32_t life;
    uint64_t process;
    uint64_t applied; /* Places, as all others. */
    uint64_t known_from;
    uint64_t watched_from; /* For WATCH: the node knew all events after this. */
    /* The next event is at least 'low', and the first that fits from 'high' on
     * at the latest. */
    uint64_t low;
    uint64_t high;
    bool has_known;
    uint64_t known; /* The newest event that it got. */
    uint64_t from;  /* WATCH: the first event after FROM; or UINT64_MAX. */
    bool is_of_other_life; /* FROM: nothing comes before a `gap`. */
    uint32_t lock;         /* HISTORY: the lock, and ... */
    uint64_t count;        /* ... how many events. */
};

void sim_watcher_init(struct sim_watcher *watcher, struct sim_client *client);
/* The process is gone. */
void sim_watcher_done(struct sim_watcher *watcher);
void sim_watcher_work(struct sim_watcher *watcher);
/* When it next has work, in true time. */
uint64_t sim_watcher_next(const struct sim_watcher *watcher);
/* True if it has received everything in the log by now, unless it watches at a
 * node that is not a member. */
bool sim_watcher_is_told(const struct sim_watcher *watcher);

#endif /* HASP_TESTS_SIM_SIM_WATCHER_H */
