/* SPDX-License-Identifier: MIT */

#include "client/client.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "client/clock.h"

/* Between two rounds over the endpoints: short at first, since an election
 * takes a fraction of a second, and with a random part, since all clients of a
 * dead leader come at once. */
#define BACKOFF_FIRST_MS 20
#define BACKOFF_LAST_MS 400
#define ATTEMPT_MIN_MS 20

/* How an attempt ended. */
enum outcome {
    OUTCOME_ANSWER,
    OUTCOME_REFUSED,     /* An error that asking again does not mend. */
    OUTCOME_NO_LEADER,   /* Nothing was done. */
    OUTCOME_BUSY,        /* Nothing was done. */
    OUTCOME_MOVED,       /* Nothing was done. */
    OUTCOME_UNREACHABLE, /* Nothing was done. */
    OUTCOME_UNKNOWN,     /* Perhaps it was done. */
    OUTCOME_STRANGER,    /* No node of hasp. */
    OUTCOME_INTERRUPTED,
    OUTCOME_COUNT
};

struct client {
    struct endpoint *endpoint;
    char (*last)[96]; /* What each endpoint ended with, for a person. */
    uint32_t count;
    uint32_t at;
    struct connection connection;
    struct credentials credentials;
    bool has_session;
    bool is_attached;
    struct endpoint moved; /* Where a node sent us. */
    bool is_moved;
    struct query query; /* HELLO and ATTACH. */
    uint64_t random;
    char code[CLIENT_CODE_SIZE];
    char why[HASP_WHY_SIZE];
};

static enum outcome attempt(struct client *client, const struct query *query,
                            const struct client_options *options,
                            const struct resp_reply **ret_reply);
static int give_up(struct client *client, enum outcome last,
                   const bool seen[OUTCOME_COUNT]);
static void next_endpoint(struct client *client);
static bool back_off(struct client *client, uint32_t round,
                     uint64_t deadline_ns);

struct client *client_new(const struct endpoints *endpoints)
{
    CHECK(endpoints->count > 0);
    struct client *client = memory_new(sizeof *client);
    size_t size = endpoints->count * sizeof *client->endpoint;
    client->endpoint = memory_copy(endpoints->endpoint, size);
    client->last = memory_new(endpoints->count * sizeof *client->last);
    client->count = endpoints->count;
    client->random = client_now_ns() ^ (uint64_t)getpid() << 32;
    connection_init(&client->connection);
    return client;
}

void client_free(struct client *client)
{
    if (client != NULL) {
        connection_done(&client->connection);
        query_done(&client->query);
        free(client->endpoint);
        free(client->last);
        free(client);
    }
}

void client_set_session(struct client *client,
                        const struct credentials *credentials)
{
    client->has_session = credentials != NULL;
    client->is_attached = false;
    if (credentials != NULL) {
        client->credentials = *credentials;
    }
}

void client_adopt_session(struct client *client,
                          const struct credentials *credentials)
{
    client_set_session(client, credentials);
    client->is_attached = true;
}

void client_set_interrupt(struct client *client, int fd)
{
    client->connection.interrupt_fd = fd;
}

void client_set_push(struct client *client, connection_push_fn *push,
                     void *data)
{
    client->connection.push = push;
    client->connection.push_data = data;
}

int client_ask(struct client *client, const struct query *query,
               const struct client_options *options,
               const struct resp_reply **ret_reply)
{
    bool seen[OUTCOME_COUNT] = {false};
    for (uint32_t tried = 1;; tried++) {
        enum outcome outcome = attempt(client, query, options, ret_reply);
        if (outcome == OUTCOME_UNKNOWN && options->is_read) {
            outcome = OUTCOME_UNREACHABLE;
        }
        seen[outcome] = true;
        if (outcome == OUTCOME_ANSWER) {
            return 0;
        }
        if (outcome == OUTCOME_REFUSED || outcome == OUTCOME_INTERRUPTED ||
            (outcome == OUTCOME_UNKNOWN && !options->is_repeatable) ||
            options->is_once || client_now_ns() >= options->deadline_ns) {
            return give_up(client, outcome, seen);
        }
        /* Nodes that send us round in a circle end like all others. */
        if (outcome != OUTCOME_MOVED || tried % 8 == 0) {
            next_endpoint(client);
        }
        if (tried % client->count == 0 &&
            !back_off(client, tried / client->count, options->deadline_ns)) {
            return give_up(client, OUTCOME_INTERRUPTED, seen);
        }
        /* An attempt that cannot be answered in time would only turn what is
         * known ("nothing was done") into what is not. */
        if (client_now_ns() + ATTEMPT_MIN_MS * NS_PER_MS >=
            options->deadline_ns) {
            return give_up(client, outcome, seen);
        }
        if (options->again != NULL) {
            options->again(options->again_data);
        }
    }
}

int client_wait_push(struct client *client, uint64_t deadline_ns)
{
    return connection_receive_push(&client->connection, deadline_ns);
}

int client_fd(const struct client *client)
{
    return client->connection.fd;
}

void client_drop(struct client *client)
{
    next_endpoint(client);
}

uint32_t client_endpoint(const struct client *client)
{
    return client->at;
}

void client_begin_at(struct client *client, uint32_t endpoint)
{
    CHECK(!connection_is_open(&client->connection));
    client->at = endpoint % client->count;
}

void client_abandon(struct client *client)
{
    if (client->connection.fd >= 0) {
        close(client->connection.fd);
    }
}

const char *client_why(const struct client *client)
{
    return client->why;
}

const char *client_code(const struct client *client)
{
    return client->code;
}

const char *client_peer(const struct client *client)
{
    return client->is_moved ? client->moved.text
                            : client->endpoint[client->at].text;
}

static void next_endpoint(struct client *client)
{
    connection_close(&client->connection);
    client->is_moved = false;
    client->at = (client->at + 1) % client->count;
}

/* False: the interrupting descriptor has turned readable. Where nobody listens
 * an attempt ends so quickly that this is the only place to see it. */
static bool back_off(struct client *client, uint32_t round,
                     uint64_t deadline_ns)
{
    uint64_t limit_ms = BACKOFF_FIRST_MS;
    while (round-- > 1 && limit_ms < BACKOFF_LAST_MS) {
        limit_ms *= 2;
    }
    client->random = client->random * 6364136223846793005u +
                     1442695040888963407u;
    uint64_t pause_ms = limit_ms / 2 + (client->random >> 33) % limit_ms;
    uint64_t until_ns = client_now_ns() + pause_ms * NS_PER_MS;
    if (until_ns > deadline_ns) {
        until_ns = deadline_ns;
    }
    for (;;) {
        struct pollfd fd = {.fd = client->connection.interrupt_fd,
                            .events = POLLIN};
        if (poll(&fd, 1, client_poll_ms(until_ns)) > 0) {
            return false;
        }
        if (client_now_ns() >= until_ns) {
            return true;
        }
    }
}

__attribute__((format(printf, 2, 3))) static void note(struct client *client,
                                                       const char *format, ...)
{
    va_list args;
    if (client->is_moved) {
        return; /* It is not one of those that we were given. */
    }
    va_start(args, format);
    vsnprintf(client->last[client->at], sizeof client->last[0], format, args);
    va_end(args);
}

/* Splits "CODE text" of an error reply. */
static void keep_error(struct client *client, struct bytes text)
{
    const uint8_t *blank = text.size == 0 ? NULL
                                          : memchr(text.data, ' ', text.size);
    size_t size = blank != NULL ? (size_t)(blank - text.data) : text.size;
    size_t rest = blank != NULL ? text.size - size - 1 : 0;
    snprintf(client->code, sizeof client->code, "%.*s", (int)size,
             (const char *)text.data);
    snprintf(client->why, sizeof client->why, "%.*s",
             (int)(rest > 0 ? rest : text.size),
             (const char *)(rest > 0 ? blank + 1 : text.data));
}

static enum outcome of_connection_error(struct client *client, int error,
                                        enum outcome lost)
{
    switch (error) {
    case HASP_EINTR:
        connection_close(&client->connection);
        return OUTCOME_INTERRUPTED;
    case HASP_EPROTO:
        note(client, "does not speak the protocol");
        return OUTCOME_STRANGER;
    case HASP_ETIMEDOUT:
        connection_close(&client->connection);
        note(client, "no answer");
        return lost;
    default:
        connection_close(&client->connection);
        note(client, "closed the connection");
        return lost;
    }
}

/* What the word of an error means for asking again. */
static enum outcome of_reply_error(struct client *client, struct bytes text)
{
    char why[HASP_WHY_SIZE];
    keep_error(client, text);
    if (strcmp(client->code, "NOLEADER") == 0) {
        /* Why; that nothing was done is said of all of them together. */
        note(client, "%.*s", (int)strcspn(client->why, ";"), client->why);
        return OUTCOME_NO_LEADER;
    }
    if (strcmp(client->code, "BUSY") == 0) {
        note(client, "%s",
             client->why); /* What with, and perhaps for how long. */
        return OUTCOME_BUSY;
    }
    if (strcmp(client->code, "UNKNOWN") == 0) {
        note(client, "does not know the outcome");
        return OUTCOME_UNKNOWN;
    }
    if (strcmp(client->code, "MOVED") == 0) {
        const char *address = strrchr(client->why, ' ');
        address = address != NULL ? address + 1 : client->why;
        if (endpoint_parse(address, strlen(address), &client->moved, why) ==
            0) {
            note(client, "sent us to %s", client->moved.text);
            connection_close(&client->connection);
            client->is_moved = true;
            return OUTCOME_MOVED;
        }
        return OUTCOME_NO_LEADER;
    }
    return OUTCOME_REFUSED;
}

static uint64_t earlier(uint64_t deadline_ns, uint64_t time_ms)
{
    uint64_t limit_ns = client_now_ns() + time_ms * NS_PER_MS;
    return limit_ns < deadline_ns ? limit_ns : deadline_ns;
}

/* One query of our own on the open connection. */
static enum outcome ask_own(struct client *client, uint64_t deadline_ns,
                            const struct resp_reply **ret_reply)
{
    int error = connection_send(&client->connection, &client->query,
                                deadline_ns);
    if (error == 0) {
        error = connection_receive(&client->connection, deadline_ns, ret_reply);
    }
    if (error != 0) {
        return of_connection_error(client, error, OUTCOME_UNREACHABLE);
    }
    return OUTCOME_ANSWER;
}

/* Opens a connection where none is, greets the node and says which session we
 * act for. */
static enum outcome make_ready(struct client *client, uint64_t deadline_ns)
{
    const struct resp_reply *reply;
    enum outcome outcome;
    if (!connection_is_open(&client->connection)) {
        uint64_t limit_ns = earlier(deadline_ns, CLIENT_OPEN_MS);
        const struct endpoint *endpoint = client->is_moved
                                              ? &client->moved
                                              : &client->endpoint[client->at];
        char why[HASP_WHY_SIZE] = "";
        int error = connection_open(&client->connection, endpoint, limit_ns,
                                    why);
        if (error != 0) {
            note(client, "%.80s", why);
            return error == HASP_EINTR ? OUTCOME_INTERRUPTED
                                       : OUTCOME_UNREACHABLE;
        }
        client->is_attached = false;
        query_begin(&client->query, "HELLO");
        query_number(&client->query, 3);
        outcome = ask_own(client, limit_ns, &reply);
        if (outcome != OUTCOME_ANSWER) {
            return outcome;
        }
        if (reply->value[0].type == RESP_ERROR) {
            return of_reply_error(client, reply->value[0].bytes);
        }
    }
    if (client->has_session && !client->is_attached) {
        query_begin(&client->query, "SESSION.ATTACH");
        query_number(&client->query, client->credentials.session);
        query_text(&client->query, client->credentials.secret);
        outcome = ask_own(client, earlier(deadline_ns, CLIENT_ATTEMPT_MS),
                          &reply);
        if (outcome != OUTCOME_ANSWER) {
            return outcome;
        }
        if (reply->value[0].type == RESP_ERROR) {
            outcome = of_reply_error(client, reply->value[0].bytes);
            /* To attach twice does no harm. */
            return outcome == OUTCOME_UNKNOWN ? OUTCOME_BUSY : outcome;
        }
        client->is_attached = true;
    }
    return OUTCOME_ANSWER;
}

static enum outcome attempt(struct client *client, const struct query *query,
                            const struct client_options *options,
                            const struct resp_reply **ret_reply)
{
    uint64_t attempt_ms = options->attempt_ms != 0 ? options->attempt_ms
                                                   : CLIENT_ATTEMPT_MS;
    enum outcome outcome = make_ready(client, options->deadline_ns);
    if (outcome != OUTCOME_ANSWER) {
        return outcome;
    }
    uint64_t limit_ns = earlier(options->deadline_ns, attempt_ms);
    struct lease_clock sent = client_clock_read();
    int error = connection_send(&client->connection, query, limit_ns);
    if (error == 0) {
        error = connection_receive(&client->connection, limit_ns, ret_reply);
    }
    if (error != 0) {
        return of_connection_error(client, error, OUTCOME_UNKNOWN);
    }
    if ((*ret_reply)->value[0].type == RESP_ERROR) {
        return of_reply_error(client, (*ret_reply)->value[0].bytes);
    }
    if (options->ret_sent != NULL) {
        *options->ret_sent = sent;
    }
    return OUTCOME_ANSWER;
}

/* "127.0.0.1:7420: Connection refused; 127.0.0.1:7430: no leader was found" */
static void list_endpoints(const struct client *client, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < client->count && used < size; i++) {
        int count = snprintf(out + used, size - used, "%s%s: %s",
                             i > 0 ? "; " : "", client->endpoint[i].text,
                             client->last[i][0] != '\0' ? client->last[i]
                                                        : "not asked");
        used += count > 0 ? (size_t)count : 0;
    }
}

/* The worst of what was seen decides: that it may have been done weighs more
 * than that nobody leads, and that more than that one node was not there. */
static int give_up(struct client *client, enum outcome last,
                   const bool seen[OUTCOME_COUNT])
{
    static const struct {
        enum outcome outcome;
        int error;
        const char *text;
    } ends[] = {
        {OUTCOME_UNKNOWN, HASP_ETIMEDOUT,
         "no answer in time, it may have been done or not"},
        {OUTCOME_BUSY, HASP_EBUSY, "busy, nothing was done"},
        {OUTCOME_NO_LEADER, HASP_ENOTLEADER, "no leader, nothing was done"},
        {OUTCOME_MOVED, HASP_ENOTLEADER, "no leader, nothing was done"},
        {OUTCOME_STRANGER, HASP_EPROTO, "what answers is no node of hasp"},
        {OUTCOME_UNREACHABLE, HASP_ECONNECT, "no node answers"},
    };
    char list[HASP_WHY_SIZE - 80];
    if (last == OUTCOME_REFUSED) {
        return HASP_EREPLY;
    }
    client->code[0] = '\0';
    if (last == OUTCOME_INTERRUPTED) {
        snprintf(client->why, sizeof client->why, "interrupted");
        return HASP_EINTR;
    }
    size_t i = 0;
    while (!seen[ends[i].outcome]) {
        i++;
        CHECK(i < sizeof ends / sizeof ends[0]);
    }
    list_endpoints(client, list, sizeof list);
    snprintf(client->why, sizeof client->why, "%s (%s)", ends[i].text, list);
    return ends[i].error;
}
