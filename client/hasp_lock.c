/* SPDX-License-Identifier: MIT */

/* Locks, and what else is asked of the cluster; what is asked of a hold. */

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "client/hasp_session.h"

void hasp_acquire_options_init(struct hasp_acquire_options *options)
{
    if (options != NULL) {
        *options = (struct hasp_acquire_options){.size = sizeof *options,
                                                 .wait_ms = HASP_FOREVER,
                                                 .interrupt_fd = -1};
    }
}

/* --- Arguments ------------------------------------------------------------ */

static int check_options(const struct hasp_acquire_options *options,
                         struct hasp_acquire_options *ret_options)
{
    hasp_acquire_options_init(ret_options);
    if (options == NULL) {
        return 0;
    }
    /* Also refuses a program that was compiled with an older, smaller
     * struct. */
    if (options->size < sizeof *options) {
        return why_set(HASP_EINVALID, "options without "
                                      "hasp_acquire_options_init()");
    }
    *ret_options = *options;
    if ((options->mode == HASP_SLOTS) != (options->slots != 0) ||
        options->mode < HASP_EXCLUSIVE || options->mode > HASP_SLOTS) {
        return why_set(HASP_EINVALID, "slots go with HASP_SLOTS");
    }
    if (options->owner != NULL && !owner_tag_is_good(options->owner)) {
        return why_set(HASP_EINVALID,
                       "an owner is at most %d bytes and does not begin with "
                       "'%c'",
                       OWNER_TAG_SIZE - 1, OWNER_PRIVATE_MARK);
    }
    return 0;
}

int acquire_check(const char *const *names, size_t count,
                  const struct hasp_acquire_options *options,
                  struct hasp_acquire_options *ret_options)
{
    if (names == NULL || count == 0) {
        return why_set(HASP_EINVALID, "hasp_acquire: no name");
    }
    for (size_t i = 0; i < count; i++) {
        if (names[i] == NULL || names[i][0] == '\0' ||
            strlen(names[i]) >= HASP_EVENT_NAME_SIZE) {
            return why_set(HASP_EINVALID,
                           "the name of a lock has 1 to %d "
                           "bytes",
                           HASP_EVENT_NAME_SIZE - 1);
        }
    }
    return check_options(options, ret_options);
}

int convert_check(const struct hasp_hold *hold, enum hasp_mode mode,
                  const struct hasp_acquire_options *options,
                  struct hasp_acquire_options *ret_options)
{
    if (hold == NULL || (mode != HASP_EXCLUSIVE && mode != HASP_SHARED) ||
        hold->count != 1) {
        return why_set(HASP_EINVALID,
                       "hasp_convert: one lock, to shared or exclusive");
    }
    int error = check_options(options, ret_options);
    ret_options->mode = mode;
    ret_options->wait_ms = mode == HASP_SHARED ? 0 : ret_options->wait_ms;
    return error;
}

int wait_check(struct hasp_session *session, int interrupt_fd)
{
    struct pollfd fd = {.fd = interrupt_fd, .events = POLLIN};
    int ready = interrupt_fd >= 0 ? poll(&fd, 1, 0) : 0;
    if (ready > 0 && (fd.revents & POLLNVAL) != 0) {
        return why_set(HASP_EINVALID,
                       "the interrupting descriptor cannot be polled");
    }
    if (ready > 0 || atomic_load(&session->is_interrupted)) {
        return why_set(HASP_EINTR, "interrupted");
    }
    return 0;
}

/* Begins to wait for a lock, which may be interrupted. The caller holds the
 * mutex. */
static int lock_begin_wait(struct waiting *wait,
                           const struct hasp_acquire_options *options)
{
    if (options->wait_ms == 0) {
        return 0;
    }
    wait->interrupt_fd = options->interrupt_fd;
    list_push_back(&wait->session->waits, &wait->in_session);
    if (options->interrupt_fd >= 0) {
        list_push_back(&wait->session->link->interrupts, &wait->in_link);
    }
    return wait_check(wait->session, options->interrupt_fd);
}

/* --- Locks ---------------------------------------------------------------- */

int hasp_acquire(struct hasp_session *session, const char *name,
                 const struct hasp_acquire_options *options,
                 struct hasp_hold **ret_hold)
{
    return hasp_acquire_many(session, &name, 1, options, ret_hold);
}

static void lock_take(struct waiting *wait, struct hasp_hold **ret_hold)
{
    wait->call.hold->session = wait->session;
    *ret_hold = wait->call.hold;
}

int hasp_acquire_many(struct hasp_session *session, const char *const *names,
                      size_t count, const struct hasp_acquire_options *options,
                      struct hasp_hold **ret_hold)
{
    struct hasp_acquire_options all;
    struct lease_clock now;
    struct waiting wait;
    int error = acquire_check(names, count, options, &all);
    if (error == 0 && ret_hold == NULL) {
        error = why_set(HASP_EINVALID, "nowhere to put the hold");
    }
    if (error == 0) {
        error = wait_lock(session, &wait, &now);
        session_refused(session, names[0], all.trace, error);
    }
    if (error != 0) {
        return error;
    }
    error = lock_begin_wait(&wait, &all);
    if (error == 0) {
        error = session_fsm_acquire(&session->fsm, names, count, &all,
                                    &wait.call, now);
    }
    error = call_wait_end(&wait, error);
    if (error != 0) {
        return error;
    }
    struct hasp_hold *hold = NULL;
    lock_take(&wait, &hold);
    if (all.on_grant != NULL) {
        error = seal_run(hold, names, &all);
    }
    if (error == 0) {
        *ret_hold = hold;
    }
    return error;
}

int hasp_resume(struct hasp_session *session, const char *name,
                const char *owner, struct hasp_hold **ret_hold)
{
    struct lease_clock now;
    struct waiting wait;
    if (name == NULL || name[0] == '\0' || owner == NULL ||
        !owner_tag_is_good(owner) || ret_hold == NULL) {
        return why_set(HASP_EINVALID, "hasp_resume: a name, an owner, and "
                                      "where to put the hold");
    }
    int error = wait_lock(session, &wait, &now);
    if (error != 0) {
        return error;
    }
    error = session_fsm_resume(&session->fsm, name, owner, &wait.call, now);
    error = call_wait_end(&wait, error);
    if (error == 0) {
        lock_take(&wait, ret_hold);
    }
    return error;
}

int hasp_release(struct hasp_hold *hold)
{
    struct lease_clock now;
    struct waiting wait;
    if (hold == NULL) {
        return why_set(HASP_EINVALID, "hasp_release: no hold");
    }
    struct hasp_session *session = hold->session;
    int error = wait_lock(session, &wait, &now);
    if (error == HASP_ELOST) {
        session_lock(session);
        session_fsm_forget(&session->fsm, hold);
        session_unlock(session);
    }
    if (error != 0) {
        /* The hold is the parent's; hasp_close() frees the copy. */
        return error;
    }
    error = session_fsm_release(&session->fsm, hold, &wait.call, now);
    return call_wait_end(&wait, error);
}

int hasp_convert(struct hasp_hold *hold, enum hasp_mode mode,
                 const struct hasp_acquire_options *options)
{
    struct hasp_acquire_options all;
    struct lease_clock now;
    struct waiting wait;
    /* After a fork the hold is a copy of the parent's, and its mutex may be
     * locked for ever: nothing of it is read. */
    if (hold != NULL && session_check_process(hold->session) != 0) {
        return HASP_EFORKED;
    }
    int error = convert_check(hold, mode, options, &all);
    if (error == 0) {
        error = wait_lock(hold->session, &wait, &now);
    }
    if (error != 0) {
        return error;
    }
    error = lock_begin_wait(&wait, &all);
    if (error == 0) {
        error = session_fsm_convert(hold->fsm, hold, &all, &wait.call, now);
    }
    return call_wait_end(&wait, error);
}

/* --- What is asked of a hold without a round trip ------------------------- */

uint64_t hasp_token(const struct hasp_hold *hold)
{
    return hasp_token_of(hold, 0);
}

uint64_t hasp_token_of(const struct hasp_hold *hold, size_t i)
{
    if (hold == NULL || session_check_process(hold->session) != 0 ||
        i >= hold->count) {
        return 0;
    }
    struct hasp_session *session = hold->session;
    session_lock(session);
    uint64_t token = hold->held[i].token;
    session_unlock(session);
    return token;
}

int hasp_look(struct hasp_hold *hold, struct hasp_lease *ret_lease)
{
    if (ret_lease != NULL) {
        *ret_lease = (struct hasp_lease){0};
    }
    if (hold == NULL || ret_lease == NULL) {
        return why_set(HASP_EINVALID, "hasp_look: no hold, or no place for "
                                      "the lease");
    }
    struct hasp_session *session = hold->session;
    int error = session_check_process(session);
    if (error != 0) {
        return error;
    }
    session_lock(session);
    session_fsm_look(hold->fsm, hold, client_clock_read(), ret_lease);
    session_unlock(session);
    return 0;
}

uint64_t hasp_remaining(struct hasp_hold *hold)
{
    struct hasp_lease lease;
    return hasp_look(hold, &lease) == 0 ? lease.remaining_ns : 0;
}

int hasp_guard(struct hasp_hold *hold, uint64_t need_ns)
{
    struct hasp_lease lease;
    int error = hasp_look(hold, &lease);
    if (error != 0) {
        return error;
    }
    const char *name = hold->held[0].name;
    /* Lost for good comes first: with linger 'remaining_ns' is 0 in jeopardy,
     * too, from which the session can recover (rule 8). */
    if (lease.sure_ns == 0) {
        return why_set(HASP_ELOST, "the hold of '%.200s' is lost", name);
    }
    if (lease.remaining_ns >= need_ns && lease.remaining_ns > 0) {
        return 0;
    }
    if (need_ns > lease.most_ns) {
        return why_set(HASP_ESHORT,
                       "'%.200s': %" PRIu64 " ns are needed, and there are "
                       "never more than %" PRIu64 ", 0.8 of the smallest "
                       "of ttl_ms, linger_ms and hold_ms",
                       name, need_ns, lease.most_ns);
    }
    return why_set(HASP_ESHORT,
                   "'%.200s': %" PRIu64 " ns of the lease are left, "
                   "%" PRIu64 " ns are needed",
                   name, lease.remaining_ns, need_ns);
}

/* --- Questions and changes that belong to no hold ------------------------- */

static int lock_ask(struct hasp_session *session, struct query *query,
                    bool is_change, uint64_t *ret_number)
{
    struct lease_clock now;
    struct waiting wait;
    int error = wait_lock(session, &wait, &now);
    if (error == 0) {
        error = session_fsm_query(&session->fsm, query, is_change, &wait.call,
                                  now);
        error = call_wait_end(&wait, error);
    }
    query_done(query);
    if (error == 0) {
        *ret_number = wait.call.number;
    }
    return error;
}

int hasp_check(struct hasp_session *session, const char *name, uint64_t token,
               bool *ret_is_holder)
{
    struct query query = {0};
    uint64_t number = 0;
    if (name == NULL || token == 0 || ret_is_holder == NULL) {
        return why_set(HASP_EINVALID, "hasp_check: a name and a token");
    }
    query_begin(&query, "LOCK.CHECK");
    query_text(&query, name);
    query_number(&query, token);
    int error = lock_ask(session, &query, false, &number);
    if (error == 0) {
        *ret_is_holder = number == 1;
    }
    return error;
}

int hasp_please(struct hasp_session *session, const char *name,
                const char *message, uint64_t *ret_holder_count)
{
    struct query query = {0};
    if (name == NULL || ret_holder_count == NULL) {
        return why_set(HASP_EINVALID, "hasp_please: a name and a number");
    }
    query_begin(&query, "LOCK.PLEASE");
    query_text(&query, name);
    if (message != NULL) {
        query_text(&query, "MESSAGE");
        query_text(&query, message);
    }
    return lock_ask(session, &query, true, ret_holder_count);
}

/* Writes LOCK.NOTE of a hold; HASP_ENOTHELD if that is over. */
static int write_note(struct hasp_hold *hold, const char *text,
                      struct query *query)
{
    struct hasp_session *session = hold->session;
    session_lock(session);
    bool is_over = hold->has_ended;
    query_begin(query, "LOCK.NOTE");
    query_text(query, hold->held[0].name);
    query_number(query, hold->held[0].token);
    query_text(query, text);
    query_text(query, "OWNER");
    query_text(query, hold->owner->tag);
    session_unlock(session);
    return is_over ? why_set(HASP_ENOTHELD, "the hold is over") : 0;
}

int hasp_note(struct hasp_hold *hold, const char *text)
{
    struct query query = {0};
    uint64_t number;
    if (hold == NULL || text == NULL) {
        return why_set(HASP_EINVALID, "hasp_note: a hold and a text");
    }
    int error = session_check_process(hold->session);
    if (error == 0) {
        error = write_note(hold, text, &query);
    }
    if (error != 0) {
        query_done(&query);
        return error;
    }
    /* A change: without an answer its outcome is unknown, and a late copy of it
     * must not replace a newer note. */
    return lock_ask(hold->session, &query, true, &number);
}

int hasp_admit(struct hasp_session *session, const char *resource,
               uint64_t token)
{
    struct query query = {0};
    uint64_t number = 0;
    if (resource == NULL || token == 0) {
        return why_set(HASP_EINVALID, "hasp_admit: a resource and a token");
    }
    query_begin(&query, "FENCE.ADMIT");
    query_text(&query, resource);
    query_number(&query, token);
    int error = lock_ask(session, &query, true, &number);
    /* The token is older than one that the resource has seen: its holder has
     * lost the lock (rule 11). */
    if (error == 0 && number != 1) {
        return why_set(HASP_ESTALE,
                       "a higher token than %llu has been seen "
                       "for '%.200s'",
                       (unsigned long long)token, resource);
    }
    return error;
}
