/* SPDX-License-Identifier: MIT */

/* Questions and changes that belong to no hold. */

#include <string.h>

#include "client/hasp_session.h"

/* The numbers of requests that act for no owner. */
#define NO_OWNER ""

static int ask(struct hasp_session *session, struct query *query, bool is_read,
               uint64_t *ret_number)
{
    struct line *line;
    const struct resp_reply *reply;
    int error = line_take(session, &line);
    if (error != 0) {
        return error;
    }
    struct client_options options = {
        .deadline_ns = session_deadline_ns(session),
        .is_read = is_read,
        .is_repeatable = true};
    error = client_ask(line->client, query, &options, &reply);
    if (error != 0) {
        error = line_error(session, line, error);
    } else if (reply->value[0].type != RESP_INTEGER) {
        error = why_set(HASP_EPROTO, "the answer is not what was asked for");
    } else {
        *ret_number = (uint64_t)reply->value[0].integer;
    }
    line_put(session, line);
    return error;
}

/* Sends a change under a number. One that stays without an answer is over for
 * us, too: the next one acknowledges its number, and a late copy of it is
 * refused. */
static int ask_change(struct hasp_session *session, struct query *query,
                      uint64_t *ret_number)
{
    struct owner *owner;
    uint64_t number;
    int error = owner_take(session, NO_OWNER, &owner);
    if (error != 0) {
        return error;
    }
    error = owner_begin(session, owner, &number);
    if (error != 0) {
        owner_put(session, owner);
        return error;
    }
    owner_write(session, owner, number, query);
    error = ask(session, query, false, ret_number);
    owner_end(session, owner, number);
    owner_put(session, owner);
    return error;
}

int hasp_check(struct hasp_session *session, const char *name, uint64_t token,
               bool *ret_is_holder)
{
    struct query query = {0};
    uint64_t number;
    if (name == NULL || token == 0 || ret_is_holder == NULL) {
        return why_set(HASP_EINVALID, "hasp_check: a name and a token");
    }
    int error = session_check(session);
    if (error != 0) {
        return error;
    }
    query_begin(&query, "LOCK.CHECK");
    query_text(&query, name);
    query_number(&query, token);
    error = ask(session, &query, true, &number);
    query_done(&query);
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
    int error = session_check(session);
    if (error != 0) {
        return error;
    }
    query_begin(&query, "LOCK.PLEASE");
    query_text(&query, name);
    if (message != NULL) {
        query_text(&query, "MESSAGE");
        query_text(&query, message);
    }
    error = ask_change(session, &query, ret_holder_count);
    query_done(&query);
    return error;
}

int hasp_admit(struct hasp_session *session, const char *resource,
               uint64_t token)
{
    struct query query = {0};
    uint64_t number;
    if (resource == NULL || token == 0) {
        return why_set(HASP_EINVALID, "hasp_admit: a resource and a token");
    }
    int error = session_check(session);
    if (error != 0) {
        return error;
    }
    query_begin(&query, "FENCE.ADMIT");
    query_text(&query, resource);
    query_number(&query, token);
    error = ask_change(session, &query, &number);
    query_done(&query);
    if (error == 0 && number != 1) {
        return why_set(HASP_ESTALE,
                       "a higher token than %llu has been seen "
                       "for '%.200s'",
                       (unsigned long long)token, resource);
    }
    return error;
}
