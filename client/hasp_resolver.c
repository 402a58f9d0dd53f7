/* SPDX-License-Identifier: MIT */

/* Changes whose outcome is not known, and that nobody waits for any more, must
 * not leave a lock behind that is held for as long as the session lives. A
 * thread, started when it is first needed, asks until there is an answer:
 *
 *     acquire   what became of it, without waiting; a grant is released
 *     convert   likewise; a grant is left: the hold is released as a whole
 *     release   again
 *
 * Each under its old number, so that nothing is done twice. Where the cluster
 * has forgotten that number a grant is released to be sure. */

#include <poll.h>
#include <stdlib.h>

#include "client/hasp_session.h"
#include "client/thread.h"

#define PAUSE_MS 200
#define ATTEMPT_MS 2000

static void *resolve(void *data);
static bool settle(struct change *change);

/* With the mutex. */
static bool start(struct hasp_session *session)
{
    session->has_resolver = session->has_resolver ||
                            client_thread_start(&session->resolver, resolve,
                                                session) == 0;
    return session->has_resolver;
}

void resolver_add(struct change *change)
{
    struct hasp_session *session = change->session;
    session_lock(session);
    /* Without a thread it stays here until another change starts one, or until
     * the session is closed, which releases everything. */
    list_push_back(&session->changes, &change->in_session);
    bool is_started = start(session);
    (void)is_started;
    pthread_cond_signal(&session->resolver_wake);
    session_unlock(session);
}

void resolver_stop(struct hasp_session *session)
{
    session_lock(session);
    session->is_closing = true;
    pthread_cond_signal(&session->resolver_wake);
    session_unlock(session);
    if (session->has_resolver) {
        pthread_join(session->resolver, NULL);
    }
    LIST_EACH_SAFE (node, &session->changes) {
        struct change *change = LIST_ENTRY(node, struct change, in_session);
        list_remove(node);
        change_free(change);
    }
}

/* The next change; NULL: the session is being closed. */
static struct change *next(struct hasp_session *session)
{
    session_lock(session);
    while (!session->is_closing && list_is_empty(&session->changes)) {
        pthread_cond_wait(&session->resolver_wake, &session->mutex);
    }
    struct change *change = NULL;
    if (!session->is_closing) {
        change = LIST_FIRST(&session->changes, struct change, in_session);
        list_remove(&change->in_session);
    }
    session_unlock(session);
    return change;
}

static void *resolve(void *data)
{
    struct hasp_session *session = data;
    struct change *change;
    while ((change = next(session)) != NULL) {
        struct owner *owner = change->owner;
        if (settle(change) || session_is_lost(session)) {
            bool is_held_on = change->kind == CHANGE_CONVERT;
            change_free(change);
            if (!is_held_on) {
                owner_put(session, owner);
            }
            continue;
        }
        session_lock(session);
        list_push_back(&session->changes, &change->in_session);
        session_unlock(session);
        struct pollfd stop = {.fd = session->stop_fd, .events = POLLIN};
        poll(&stop, 1, PAUSE_MS);
    }
    return NULL;
}

/* From an ACQUIRE that was granted to its RELEASE, in the same place. */
static bool turn_into_release(struct change *change, uint64_t token)
{
    struct hasp_session *session = change->session;
    uint64_t number;
    if (owner_begin(session, change->owner, &number) != 0) {
        return false;
    }
    owner_end(session, change->owner, change->number);
    change->number = number;
    change->kind = CHANGE_RELEASE;
    change->token = change->count == 1 ? token : 0;
    return true;
}

/* True: there is nothing left to do. */
static bool settle(struct change *change)
{
    struct hasp_session *session = change->session;
    struct change_result result = {
        .tokens = calloc(change->count, sizeof *result.tokens)};
    if (result.tokens == NULL) {
        return false;
    }
    uint64_t deadline_ns = client_now_ns() + ATTEMPT_MS * NS_PER_MS;
    int error = change_withdraw(change, deadline_ns, session->stop_fd, &result);
    bool is_settled = change->is_forgotten ||
                      (!change_is_open(error) && error != HASP_ENOMEM);
    /* A named owner may have other holds of these locks. */
    bool may_be_granted = change->is_forgotten && change->owner->is_private;
    if (error == 0) {
        may_be_granted = result.is_granted;
    }
    if (change->kind == CHANGE_ACQUIRE && may_be_granted) {
        is_settled = turn_into_release(change, result.tokens[0]) &&
                     !change_is_open(change_withdraw(
                         change, deadline_ns, session->stop_fd, &result));
    }
    free(result.tokens);
    return is_settled;
}
