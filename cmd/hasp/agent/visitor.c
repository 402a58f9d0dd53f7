/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/agent/visitor.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "client/clock.h"
#include "cmd/hasp/agent/upstream.h"
#include "net/rights.h"

#define WORDS_MAX 8
/* A longer TTL, which the cluster refuses, would keep a death for longer. */
#define TTL_MAX_MS 3600000

static void visitor_put(struct visitor *visitor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void visitor_put(struct visitor *visitor, const char *format, ...)
{
    va_list args;
    size_t room = sizeof visitor->output - visitor->output_size;
    va_start(args, format);
    int size = vsnprintf(visitor->output + visitor->output_size, room, format,
                         args);
    va_end(args);
    if (size < 0 || (size_t)size >= room) {
        visitor->is_doomed = true; /* It asks and does not read. */
        visitor->agent->closed++;
        return;
    }
    visitor->output_size += (size_t)size;
}

static void visitor_refuse(struct visitor *visitor, const char *why)
{
    visitor->agent->refused++;
    visitor_put(visitor, "ERR %s\n", why);
}

static bool number_read(const char *text, uint64_t *ret_number)
{
    char *end;
    errno = 0;
    *ret_number = strtoull(text, &end, 10);
    return isdigit((unsigned char)text[0]) && *end == '\0' && errno == 0;
}

/* No session has the id 0. */
static bool session_read(const char *text, uint64_t *ret_session)
{
    return number_read(text, ret_session) && *ret_session != 0;
}

static bool word_read(const char *text, char ret_word[TIE_WORD_SIZE])
{
    if (strlen(text) != TIE_WORD_SIZE - 1 ||
        strspn(text, "0123456789abcdef") != TIE_WORD_SIZE - 1) {
        return false;
    }
    memcpy(ret_word, text, TIE_WORD_SIZE);
    return true;
}

/* Finds the visitor's process, or proves that it has one. False: refused. */
static bool visitor_prove(struct visitor *visitor, uint64_t start)
{
    const char *why = NULL;
    if (visitor->process != NULL) {
        if (visitor->process->tied->start == start &&
            !proof_is_dead(visitor->process->watched.fd)) {
            return true;
        }
        visitor_refuse(visitor,
                       "START is not that of the process that connected");
        return false;
    }
    if (!proof_is_good(&visitor->proof, start, &why)) {
        visitor_refuse(visitor, why);
        return false;
    }
    if (agent_process(visitor->agent, visitor, start) == NULL) {
        visitor_refuse(visitor, "too many processes of this user, or in all");
        return false;
    }
    return true;
}

/* The program has closed the connection: it knows nothing of what is left to
 * read, and may have asked for the opposite on another one. */
static bool visitor_is_gone(const struct visitor *visitor)
{
    struct pollfd fd = {.fd = visitor->fd};
    return poll(&fd, 1, 0) > 0 && (fd.revents & POLLHUP) != 0;
}

/* TIE id word START n [TTL ms] */
static bool take_tie(struct visitor *visitor, char **word, int count)
{
    uint64_t session, start, ttl_ms = TIE_TTL_DEFAULT_MS;
    char death_word[TIE_WORD_SIZE];
    if ((count != 5 && count != 7) || !session_read(word[1], &session) ||
        !word_read(word[2], death_word) || strcmp(word[3], "START") != 0 ||
        !number_read(word[4], &start) ||
        (count == 7 &&
         (strcmp(word[5], "TTL") != 0 || !number_read(word[6], &ttl_ms) ||
          ttl_ms == 0 || ttl_ms > TTL_MAX_MS))) {
        return false;
    }
    if (visitor_is_gone(visitor)) {
        visitor_refuse(visitor, "the connection has ended");
        return true;
    }
    if (!visitor_prove(visitor, start)) {
        return true;
    }
    switch (ties_tie(visitor->agent->ties, visitor->process->tied, session,
                     death_word, ttl_ms)) {
    case TIE_DONE:
        visitor_put(visitor, "OK tied\n");
        break;
    case TIE_TAKEN:
        visitor_refuse(visitor, "another process has tied this session");
        break;
    case TIE_TOO_MANY:
        visitor_refuse(visitor, "too many ties of this process");
        break;
    case TIE_NO_ROOM:
        visitor_refuse(visitor, "too many ties of this user, or in all");
        break;
    }
    return true;
}

/* UNTIE id word START n. It proves who it is as well: a connection that is new
 * does not know of the ties of the one before. */
static bool take_untie(struct visitor *visitor, char **word, int count)
{
    uint64_t session, start;
    char death_word[TIE_WORD_SIZE];
    if (count != 5 || !session_read(word[1], &session) ||
        !word_read(word[2], death_word) || strcmp(word[3], "START") != 0 ||
        !number_read(word[4], &start)) {
        return false;
    }
    if (!visitor_prove(visitor, start)) {
        return true;
    }
    if (visitor->process->tied->connections > 1 && visitor_is_gone(visitor)) {
        visitor_refuse(visitor,
                       "the connection has ended"); /* It has another. */
    } else {
        bool is_untied = ties_untie(
            visitor->agent->ties, visitor->process->tied, session, death_word);
        visitor_put(visitor, is_untied ? "OK untied\n" : "OK not tied\n");
    }
    return true;
}

/* DIED id word */
static bool take_died(struct visitor *visitor, char **word, int count)
{
    uint64_t session;
    char death_word[TIE_WORD_SIZE];
    if (count != 3 || !session_read(word[1], &session) ||
        !word_read(word[2], death_word)) {
        return false;
    }
    if (ties_hear(visitor->agent->ties, visitor->proof.uid, session, death_word,
                  visitor->agent->now_ns)) {
        visitor_put(visitor, "OK passed on\n");
    } else {
        visitor_refuse(visitor, "too many ties and deaths of this user");
    }
    return true;
}

static void visitor_put_status(struct visitor *visitor)
{
    struct agent *agent = visitor->agent;
    struct tie_counts counts = ties_counts(agent->ties);
    uint64_t heard_ns = upstream_heard_ns(agent->upstream);
    uint64_t age_ms = (client_now_ns() - heard_ns) / NS_PER_MS;
    visitor_put(visitor,
                "processes %" PRIu64 "\nties %" PRIu64 "\nconnections %" PRIu64
                "\npending %" PRIu64 "\ntied_total %" PRIu64
                "\nuntied_total %" PRIu64 "\nrefused_total %" PRIu64
                "\nclosed_total %" PRIu64 "\ndied_total %" PRIu64
                "\nreported_total %" PRIu64 "\ntoo_late_total %" PRIu64
                "\nanswered_ms_ago %" PRId64 "\nrefuses_descriptors %d\n.\n",
                counts.processes, counts.ties, counts.connections,
                counts.pending, counts.tied, counts.untied, agent->refused,
                agent->closed, counts.died, counts.reported, counts.too_late,
                heard_ns == 0 ? -1 : (int64_t)age_ms, agent->is_refusing);
}

/* False: the line breaks a rule. */
static bool take_line(struct visitor *visitor, char *line)
{
    char *word[WORDS_MAX], *rest = line;
    int count = 0;
    visitor->heard_ns = visitor->agent->now_ns;
    while (count < WORDS_MAX &&
           (word[count] = strtok_r(rest, " ", &rest)) != NULL) {
        count++;
    }
    if (count == 0) {
        return false;
    }
    if (strcmp(word[0], "TIE") == 0) {
        return take_tie(visitor, word, count);
    }
    if (strcmp(word[0], "UNTIE") == 0) {
        return take_untie(visitor, word, count);
    }
    if (strcmp(word[0], "DIED") == 0) {
        return take_died(visitor, word, count);
    }
    if (strcmp(word[0], "STATUS") != 0 || count != 1) {
        return false;
    }
    visitor_put_status(visitor);
    return true;
}

static void take_lines(struct visitor *visitor)
{
    char *from = visitor->input;
    char *end = visitor->input + visitor->size, *line_end;
    while (!visitor->is_doomed &&
           (line_end = memchr(from, '\n', (size_t)(end - from))) != NULL) {
        *line_end = '\0';
        if (!take_line(visitor, from)) {
            visitor_put(visitor, "ERR not a request of the agent\n");
            visitor->is_doomed = true;
            visitor->agent->closed++;
        }
        from = line_end + 1;
    }
    visitor->size = (size_t)(end - from);
    memmove(visitor->input, from, visitor->size);
    if (visitor->size == sizeof visitor->input) {
        visitor->is_doomed = true;
        visitor->agent->closed++;
    }
}

static void visitor_flush(struct visitor *visitor)
{
    ssize_t sent = send(visitor->fd, visitor->output, visitor->output_size,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
        visitor->output_size -= (size_t)sent;
        memmove(visitor->output, visitor->output + sent, visitor->output_size);
    } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        visitor->is_doomed = true;
    }
    struct epoll_event event = {
        .events = EPOLLIN | (visitor->output_size > 0 ? EPOLLOUT : 0),
        .data.ptr = &visitor->watched};
    (void)epoll_ctl(visitor->agent->epoll_fd, EPOLL_CTL_MOD, visitor->fd,
                    &event);
}

void visitor_ready(struct visitor *visitor, uint32_t events)
{
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        ssize_t got = rights_read(visitor->fd, visitor->input + visitor->size,
                                  sizeof visitor->input - visitor->size);
        if (got > 0) {
            visitor->size += (size_t)got;
            take_lines(visitor);
        } else if (got != -EAGAIN && got != -EINTR) {
            visitor->agent->closed += got == -EBADMSG;
            visitor->is_doomed = true;
        }
    }
    if (visitor->output_size > 0) {
        visitor_flush(visitor);
    }
    if (visitor->is_doomed) {
        list_remove(&visitor->in_agent);
        list_push_back(&visitor->agent->gone, &visitor->in_agent);
    }
}

void visitor_new(struct agent *agent, int fd, uid_t uid)
{
    struct visitor *visitor = memory_new(sizeof *visitor);
    visitor->agent = agent;
    visitor->fd = fd;
    visitor->watched = (struct watched){WATCHED_VISITOR, fd};
    visitor->heard_ns = agent->now_ns;
    list_init(&visitor->in_process);
    list_push_back(&agent->visitors, &visitor->in_agent);
    visitor->proof = (struct proof){.pidfd = -1, .uid = uid};
    if (!agent->is_refusing) {
        rights_expect(fd);
    }
    if (proof_begin(fd, agent->is_old, &visitor->proof) != 0 ||
        !agent_watch(agent, &visitor->watched, EPOLLIN)) {
        visitor_free(visitor);
    }
}

void visitor_free(struct visitor *visitor)
{
    struct agent *agent = visitor->agent;
    list_remove(&visitor->in_agent);
    ties_dismiss(agent->ties, visitor->proof.uid);
    agent_leave(agent, visitor);
    if (visitor->proof.pidfd >= 0) {
        close(visitor->proof.pidfd);
    }
    /* Before the memory goes: a thread may close the socket later, and until
     * then it is readable. */
    (void)epoll_ctl(agent->epoll_fd, EPOLL_CTL_DEL, visitor->fd, NULL);
    /* Descriptors that were passed and are still queued are closed with the
     * socket, which can take as long as their sender likes. */
    if (agent->is_refusing || rights_drain(visitor->fd)) {
        close(visitor->fd);
    } else if (!rights_close_apart(visitor->fd, true)) {
        agent->closed++; /* It stays open: better than a loop that hangs. */
    }
    free(visitor);
}
