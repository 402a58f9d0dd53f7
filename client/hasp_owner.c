/* SPDX-License-Identifier: MIT */

/* The cluster knows a request by (session, owner, number). A number may be
 * acknowledged, and its result forgotten, when it and all below it have been
 * answered. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/hasp_session.h"

/* What begins the tags that the library chooses. */
#define PRIVATE_MARK '#'

static struct owner *find(struct hasp_session *session, const char *tag)
{
    LIST_EACH (node, &session->owners) {
        struct owner *owner = LIST_ENTRY(node, struct owner, in_session);
        bool is_it = tag == NULL ? owner->is_private && !owner->is_taken
                                 : strcmp(owner->tag, tag) == 0;
        if (is_it) {
            return owner;
        }
    }
    return NULL;
}

static struct owner *make(struct hasp_session *session, const char *tag)
{
    struct owner *owner = calloc(1, sizeof *owner);
    if (owner == NULL) {
        return NULL;
    }
    owner->is_private = tag == NULL;
    if (tag != NULL) {
        snprintf(owner->tag, sizeof owner->tag, "%s", tag);
    } else {
        snprintf(owner->tag, sizeof owner->tag, "%c%" PRIu64, PRIVATE_MARK,
                 ++session->private_owner_count);
    }
    list_push_front(&session->owners, &owner->in_session);
    return owner;
}

int owner_take(struct hasp_session *session, const char *tag,
               struct owner **ret_owner)
{
    if (tag != NULL &&
        (strlen(tag) >= OWNER_TAG_SIZE || tag[0] == PRIVATE_MARK)) {
        return why_set(HASP_EINVALID,
                       "an owner is at most %d bytes and does not begin with "
                       "'%c'",
                       OWNER_TAG_SIZE - 1, PRIVATE_MARK);
    }
    session_lock(session);
    struct owner *owner = find(session, tag);
    if (owner == NULL) {
        owner = make(session, tag);
    }
    if (owner != NULL) {
        owner->is_taken = true;
    }
    session_unlock(session);
    if (owner == NULL) {
        return why_set(HASP_ENOMEM, "out of memory");
    }
    *ret_owner = owner;
    return 0;
}

void owner_put(struct hasp_session *session, struct owner *owner)
{
    session_lock(session);
    /* A request that is still open could otherwise act on a later hold. */
    if (owner->open_count == 0) {
        owner->is_taken = false;
    }
    session_unlock(session);
}

int owner_begin(struct hasp_session *session, struct owner *owner,
                uint64_t *ret_number)
{
    int error = 0;
    session_lock(session);
    if (owner->open_count == OWNER_OPEN_MAX) {
        error = why_set(HASP_EFULL,
                        "%d requests of owner '%s' are without an answer",
                        OWNER_OPEN_MAX, owner->tag);
    } else {
        owner->newest++;
        owner->open[owner->open_count++] = owner->newest;
        *ret_number = owner->newest;
    }
    session_unlock(session);
    return error;
}

void owner_end(struct hasp_session *session, struct owner *owner,
               uint64_t number)
{
    session_lock(session);
    for (uint32_t i = 0; i < owner->open_count; i++) {
        if (owner->open[i] == number) {
            owner->open[i] = owner->open[--owner->open_count];
            break;
        }
    }
    session_unlock(session);
}

void owner_write(struct hasp_session *session, const struct owner *owner,
                 uint64_t number, struct query *query)
{
    session_lock(session);
    uint64_t lowest = number;
    for (uint32_t i = 0; i < owner->open_count; i++) {
        lowest = owner->open[i] < lowest ? owner->open[i] : lowest;
    }
    session_unlock(session);
    if (owner->tag[0] != '\0') {
        query_text(query, "OWNER");
        query_text(query, owner->tag);
    }
    query_text(query, "REQ");
    query_number(query, number);
    if (lowest > 1) {
        query_text(query, "ACKED");
        query_number(query, lowest - 1);
    }
}
