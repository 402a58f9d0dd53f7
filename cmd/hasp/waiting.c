/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/waiting.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "client/thread.h"
#include "cmd/hasp/view/screen.h"

/* A wait that lasts longer than this is explained. */
#define PATIENCE_MS 700
/* How often the holder is read: for a live line, and for a log. */
#define LIVE_MS 1000
#define LOG_MS 15000
/* Time limit for a read: a silent cluster must not delay the end of the wait.
 */
#define ASK_MS 2000

struct waiting_view {
    struct tool *tool;
    const struct option_list *names;
    uint64_t session;
    uint64_t begun_ns;
    bool is_live; /* The line is overwritten in place. */
    int stop_fd;
    pthread_t thread;
    bool has_printed;
    uint64_t printed_token; /* Token of the holder that was printed last. */
};

/* --- What is printed ------------------------------------------------------ */

/* Number of sessions before this one; the queue's length if it is not queued.
 */
static size_t waiting_place_of(json_t *lock, uint64_t session)
{
    size_t i;
    json_t *waiter, *queue = value_at(lock, "queue");
    json_array_foreach (queue, i, waiter) {
        if (value_number(waiter, "session") == session) {
            return i;
        }
    }
    return json_array_size(queue);
}

static void waiting_put_holder(struct buffer *out, json_t *lock)
{
    json_t *holder = value_at(lock, "holders.0");
    size_t count = json_array_size(value_at(lock, "holders"));
    const char *client = value_text(holder, "client");
    if (holder == NULL) {
        buffer_put_text(out, "which is kept closed");
        return;
    }
    buffer_printf(out, "held by %s%s (session %" PRIu64 ") for %s",
                  client[0] != '\0' ? client : "a client without a name",
                  count > 1 ? " and others" : "",
                  value_number(holder, "session"),
                  DURATION(value_number(holder, "since_ms")));
}

/* Puts such as "14 s: position 2 in the queue for 'a'; ann@host has it since
 * 12:03:11; free in 7.4s at the earliest". */
static void put_live(const struct waiting_view *waiting, struct buffer *out,
                     json_t *lock)
{
    json_t *holder = value_at(lock, "holders.0");
    const char *client = value_text(holder, "client");
    time_t since = time(NULL) -
                   (time_t)(value_number(holder, "since_ms") / 1000);
    buffer_printf(
        out, "hasp: %" PRIu64 " s: position %zu in the queue for '%s'",
        (client_now_ns() - waiting->begun_ns) / NS_PER_S,
        waiting_place_of(lock, waiting->session) + 1, value_text(lock, "name"));
    if (holder != NULL) {
        buffer_printf(out, "; %s%s has it since %s",
                      client[0] != '\0' ? client : "another client",
                      json_array_size(value_at(lock, "holders")) > 1
                          ? " with others"
                          : "",
                      CLOCK(since));
    }
    buffer_printf(out, "; free in %s at the earliest",
                  DURATION(value_number(lock, "earliest_ms")));
}

/* Writes the line over the one before, cut to the width of the terminal. */
static void show_live(const char *text)
{
    unsigned width = screen_width(STDERR_FILENO);
    fputs("\r\033[K", stderr);
    text_print_cut(stderr, text, width - 1);
    fflush(stderr);
}

static void waiting_tell(struct waiting_view *waiting, json_t *lock)
{
    AUTO(buffer_done) struct buffer text = {0};
    size_t place = waiting_place_of(lock, waiting->session);
    uint64_t token = value_number(lock, "holders.0.token");
    if (waiting->is_live) {
        put_live(waiting, &text, lock);
        buffer_put_u8(&text, '\0');
        show_live((const char *)text.data);
    } else if (token != waiting->printed_token || token == 0) {
        waiting_put_holder(&text, lock);
        if (place > 0 && place < json_array_size(value_at(lock, "queue"))) {
            buffer_printf(&text, ", %zu before us", place);
        }
        buffer_put_u8(&text, '\0');
        tool_say(waiting->tool, "waiting for '%s', %s",
                 value_text(lock, "name"), (const char *)text.data);
        waiting->printed_token = token;
    }
    waiting->has_printed = true;
}

/* Shows the first of the locks that others hold. */
static void waiting_look(struct waiting_view *waiting, struct client *client)
{
    for (size_t i = 0; i < waiting->names->count; i++) {
        const char *name = waiting->names->text[i];
        bool is_last = i + 1 == waiting->names->count;
        struct client_options ask = {.deadline_ns = client_now_ns() +
                                                    ASK_MS * NS_PER_MS,
                                     .is_read = true};
        json_auto_t *lock = NULL;
        int error = tool_send(client, WORDS("LOCK.SHOW", name), &ask, &lock);
        if (error == HASP_EINTR) {
            return;
        }
        if (error != 0) {
            if (waiting->is_live) {
                show_live(client_why(client));
            } else if (!waiting->has_printed) {
                tool_say(waiting->tool, "%s; still waiting for '%s'",
                         client_why(client), name);
            }
            waiting->has_printed = true;
            return;
        }
        if (is_last || json_array_size(value_at(lock, "holders")) > 0) {
            waiting_tell(waiting, lock);
            return;
        }
    }
}

static void *waiting_run(void *data)
{
    struct waiting_view *waiting = data;
    struct pollfd stop = {.fd = waiting->stop_fd, .events = POLLIN};
    int wait_ms = PATIENCE_MS;
    struct client *client = client_new(&waiting->tool->endpoints,
                                       waiting->tool->shown);
    client_set_interrupt(client, waiting->stop_fd);
    while (poll(&stop, 1, wait_ms) == 0) {
        waiting_look(waiting, client);
        wait_ms = waiting->is_live ? LIVE_MS : LOG_MS;
    }
    client_free(client);
    return NULL;
}

/* --- The beginning and the end -------------------------------------------- */

struct waiting_view *waiting_begin(struct tool *tool,
                                   const struct option_list *names,
                                   uint64_t session, bool is_waiting)
{
    if (!is_waiting || tool->is_quiet) {
        return NULL;
    }
    struct waiting_view *waiting = memory_new(sizeof *waiting);
    *waiting = (struct waiting_view){.tool = tool,
                                     .names = names,
                                     .session = session,
                                     .begun_ns = client_now_ns(),
                                     .is_live = isatty(STDERR_FILENO),
                                     .stop_fd = eventfd(0, EFD_CLOEXEC)};
    if (waiting->stop_fd < 0 ||
        client_thread_start(&waiting->thread, waiting_run, waiting) != 0) {
        close(waiting->stop_fd);
        free(waiting);
        return NULL;
    }
    return waiting;
}

void waiting_end(struct waiting_view *waiting, bool is_acquired)
{
    uint64_t one = 1;
    if (waiting == NULL) {
        return;
    }
    /* Writing cannot fail: the counter of this eventfd is far from its end. */
    (void)!write(waiting->stop_fd, &one, sizeof one);
    pthread_join(waiting->thread, NULL);
    if (waiting->is_live && waiting->has_printed) {
        fputs("\r\033[K", stderr);
    }
    if (is_acquired && waiting->has_printed) {
        tool_say(waiting->tool, "got it after %" PRIu64 " s",
                 (client_now_ns() - waiting->begun_ns + NS_PER_S / 2) /
                     NS_PER_S);
    }
    close(waiting->stop_fd);
    free(waiting);
}
