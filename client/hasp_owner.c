/* SPDX-License-Identifier: MIT */

/* The cluster knows a request by the session and a number that no other request
 * of the session has. A number is acknowledged, and its result forgotten, once
 * it has been answered or given up: each request tells which ones are over, as
 * ranges between those that are open. */

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
        bool is_it = tag == NULL ? owner->is_private && owner->use_count == 0
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
        owner->use_count++;
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
    if (!owner->is_private || owner->open_count == 0) {
        owner->use_count--;
    }
    bool is_unused = owner->use_count == 0 && !owner->is_private;
    if (is_unused) {
        list_remove(&owner->in_session);
    }
    session_unlock(session);
    if (is_unused) {
        free(owner);
    }
}

/* With the mutex. */
static bool make_room(struct hasp_session *session)
{
    if (session->open_count < session->open_room) {
        return true;
    }
    uint32_t room = session->open_room == 0 ? 16 : 2 * session->open_room;
    uint64_t *open = realloc(session->open, room * sizeof *open);
    if (open != NULL) {
        session->open = open;
        session->open_room = room;
    }
    return open != NULL;
}

int owner_begin(struct hasp_session *session, struct owner *owner,
                uint64_t *ret_number)
{
    session_lock(session);
    bool has_room = make_room(session);
    if (has_room) {
        *ret_number = ++session->newest;
        session->open[session->open_count++] = session->newest;
        owner->open_count++;
    }
    session_unlock(session);
    return has_room ? 0 : why_set(HASP_ENOMEM, "out of memory");
}

void owner_end(struct hasp_session *session, struct owner *owner,
               uint64_t number)
{
    session_lock(session);
    uint64_t *open = session->open;
    for (uint32_t i = 0; i < session->open_count; i++) {
        if (open[i] == number) {
            session->open_count--;
            memmove(&open[i], &open[i + 1],
                    (session->open_count - i) * sizeof *open);
            owner->open_count--;
            break;
        }
    }
    session_unlock(session);
}

/* "4,6-9,11": all up to the first one, and the ranges between open numbers; of
 * very many some, and others with the next request. */
static void write_acked(struct hasp_session *session, char *out, size_t size)
{
    const uint64_t *open = session->open;
    uint32_t count = session->open_count, written = 0, i = 0;
    size_t used = (size_t)snprintf(out, size, "%" PRIu64, open[0] - 1);
    for (; i < count && written < ACKED_RANGE_MAX; i++) {
        uint32_t at = (session->acked_turn + i) % count;
        uint64_t from = open[at] + 1;
        uint64_t to = at + 1 < count ? open[at + 1] - 1 : session->newest;
        if (from <= to) {
            used += (size_t)snprintf(out + used, size - used,
                                     ",%" PRIu64 "-%" PRIu64, from, to);
            written++;
        }
    }
    session->acked_turn = i < count ? session->acked_turn + i : 0;
}

void owner_write(struct hasp_session *session, const struct owner *owner,
                 uint64_t number, struct query *query)
{
    char acked[24 + ACKED_RANGE_MAX * 42];
    session_lock(session);
    write_acked(session, acked, sizeof acked);
    session_unlock(session);
    if (owner->tag[0] != '\0') {
        query_text(query, "OWNER");
        query_text(query, owner->tag);
    }
    query_text(query, "REQ");
    query_number(query, number);
    if (strcmp(acked, "0") != 0) {
        query_text(query, "ACKED");
        query_text(query, acked);
    }
}
