/* SPDX-License-Identifier: MIT */

/* A connection does one request at a time and waits for its answer, so each
 * call takes one from a pool and gives it back. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "client/hasp_session.h"

/* Connections that are kept open for later calls. */
#define IDLE_MAX 8

static _Thread_local char why[HASP_WHY_SIZE] = "";

static int of_word(struct hasp_session *session, const char *word);

const char *hasp_why(void)
{
    return why;
}

int why_set(int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return error;
}

static struct line *find_idle(struct hasp_session *session)
{
    LIST_EACH (node, &session->lines) {
        struct line *line = LIST_ENTRY(node, struct line, in_session);
        if (!line->is_busy) {
            return line;
        }
    }
    return NULL;
}

/* A connection that was closed while it was idle is dropped before anything is
 * sent on it: afterwards nobody could tell whether it arrived. */
static void drop_if_closed(struct line *line)
{
    char byte;
    int fd = client_fd(line->client);
    if (fd >= 0) {
        ssize_t count = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
            client_drop(line->client);
        }
    }
}

int line_take(struct hasp_session *session, struct line **ret_line)
{
    session_lock(session);
    struct line *line = find_idle(session);
    if (line != NULL) {
        line->is_busy = true;
    }
    session_unlock(session);
    if (line != NULL) {
        drop_if_closed(line);
    } else {
        line = calloc(1, sizeof *line);
        if (line == NULL) {
            return why_set(HASP_ENOMEM, "out of memory");
        }
        line->client = client_new(&session->endpoints);
        line->is_busy = true;
        client_set_session(line->client, &session->opened.credentials);
        session_lock(session);
        client_begin_at(line->client, session->endpoint);
        list_push_front(&session->lines, &line->in_session);
        session_unlock(session);
    }
    *ret_line = line;
    return 0;
}

void line_put(struct hasp_session *session, struct line *line)
{
    uint32_t idle = 0;
    client_set_interrupt(line->client, -1);
    session_lock(session);
    LIST_EACH (node, &session->lines) {
        idle += !LIST_ENTRY(node, struct line, in_session)->is_busy;
    }
    line->is_busy = false;
    session->endpoint = client_endpoint(line->client);
    bool is_surplus = idle >= IDLE_MAX;
    if (is_surplus) {
        list_remove(&line->in_session);
    }
    session_unlock(session);
    if (is_surplus) {
        client_free(line->client);
        free(line);
    }
}

int line_error(struct hasp_session *session, const struct line *line, int error)
{
    const char *text = client_why(line->client);
    if (error == HASP_EREPLY) {
        const char *word = client_code(line->client);
        return why_set(of_word(session, word), "%s: %s", word, text);
    }
    if (error == HASP_ETIMEDOUT || error == HASP_ECLOSED) {
        error = HASP_EUNKNOWN;
    }
    return why_set(error, "%s", text[0] != '\0' ? text : hasp_strerror(error));
}

static int of_word(struct hasp_session *session, const char *word)
{
    static const struct {
        const char *word;
        int error;
    } words[] = {
        {"NOTHELD", HASP_ENOTHELD},   {"DEADLOCK", HASP_EDEADLOCK},
        {"LIMIT", HASP_EFULL},        {"BADARG", HASP_EINVALID},
        {"NOAUTH", HASP_EREFUSED},    {"WRONGPASS", HASP_EREFUSED},
        {"NOPERM", HASP_EREFUSED},    {"BLACKLISTED", HASP_EBLACKLISTED},
        {"EXPIRED", HASP_ELOST},      {"NOSESSION", HASP_ELOST},
        {"FORGOTTEN", HASP_EUNKNOWN},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i].word) == 0) {
            /* Nobody else's request may find the session held after this. */
            if (words[i].error == HASP_ELOST && session != NULL &&
                session->keeper != NULL) {
                keeper_lose(session->keeper);
            }
            return words[i].error;
        }
    }
    return HASP_EREPLY;
}
