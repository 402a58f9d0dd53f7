/* SPDX-License-Identifier: MIT */

/* hasp watch: events of locks, one line each. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/minmax.h"
#include "cmd/hasp/tool.h"

static const struct view_field event_fields[] = {
    {"kind", "KIND", FIELD_TEXT},
    {"lock", "LOCK", FIELD_TEXT},
    {"session", "SESSION", FIELD_NUMBER},
    {"token", "TOKEN", FIELD_NUMBER},
    {"index", "INDEX", FIELD_NUMBER},
    {"message", "MESSAGE", FIELD_TEXT},
    {0},
};

/* How often the node is pinged, and the time limit for the answer: a paused
 * node keeps its connections open. */
#define SILENCE_MS 5000
#define ANSWER_MS 2000

struct watch_view {
    struct tool *tool;
    /* Number of events left to print; UINT64_MAX: unlimited. */
    uint64_t left;
    /* The index of the newest event, and of the newest that was printed before
     * the connection was lost: another node can repeat those. */
    uint64_t index;
    uint64_t index_before;
};

/* True if another node repeats an event. */
static bool is_old(struct watch_view *watch, json_t *event)
{
    uint64_t index = value_number(event, "index");
    watch->index = u64_max(watch->index, index);
    return index != 0 && index <= watch->index_before;
}

/* Prints ["lock", kind, {lock, session, token, index, message}] as one line. */
static void print_event(void *data, const struct resp_reply *reply)
{
    struct watch_view *watch = data;
    json_auto_t *push = value_of_reply(reply, 0);
    json_t *event = value_at(push, "2");
    if (strcmp(value_text(push, "0"), "lock") != 0 || !json_is_object(event) ||
        watch->left == 0 || is_old(watch, event)) {
        return;
    }
    json_object_set(event, "kind", value_at(push, "1"));
    if (watch->tool->format == FORMAT_JSON) {
        json_dumpf(event, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (watch->tool->format == FORMAT_PLAIN) {
        output_record(FORMAT_PLAIN, event_fields, event);
    } else {
        value_make_printable(event);
        printf("%s %-12s %s", CLOCK(time(NULL)), value_text(event, "kind"),
               value_text(event, "lock"));
        if (value_number(event, "session") != 0) {
            printf("  session %" PRIu64, value_number(event, "session"));
        }
        if (value_number(event, "token") != 0) {
            printf("  token %" PRIu64, value_number(event, "token"));
        }
        if (value_text(event, "message")[0] != '\0') {
            printf("  \"%s\"", value_text(event, "message"));
        }
        putchar('\n');
    }
    fflush(stdout);
    if (watch->left != UINT64_MAX) {
        watch->left--;
    }
}

static int ask_alive(struct tool *tool)
{
    struct client_options options = {.deadline_ns = client_now_ns() +
                                                    ANSWER_MS * NS_PER_MS,
                                     .is_read = true,
                                     .is_once = true};
    return tool_send(tool->client, WORDS("PING"), &options, NULL);
}

/* Watches on one connection until it is lost; 0 if all events were printed. */
static int watch_once(struct watch_view *watch, const char *prefix)
{
    struct tool *tool = watch->tool;
    int exit_code = tool_ask(tool, WORDS("LOCK.WATCH", prefix), "cannot watch",
                             NULL);
    if (exit_code != 0) {
        return exit_code;
    }
    tool_say(tool, "watching at %s", client_peer(tool->client));
    while (watch->left > 0) {
        int error = client_wait_push(tool->client,
                                     client_now_ns() + SILENCE_MS * NS_PER_MS);
        if (error == HASP_ETIMEDOUT) {
            error = ask_alive(tool);
        }
        if (error != 0) {
            return -1;
        }
        if (ferror(stdout)) {
            return EX_IOERR;
        }
    }
    return 0;
}

int run_watch(struct tool *tool, char **argv)
{
    struct watch_view watch = {.tool = tool, .left = UINT64_MAX};
    const struct option_row rows[] = {
        {"count", OPTION_NUMBER, .value = &watch.left, .min = 1}, {0}};
    int exit_code = options_read(tool, argv, rows, 0, 1);
    if (exit_code != 0) {
        return exit_code;
    }
    client_set_push(tool_client(tool), print_event, &watch);
    do {
        exit_code = watch_once(&watch, argv[1] != NULL ? argv[1] : "");
        if (exit_code == -1) {
            tool_say(tool, "lost the connection: events might be missing here");
            client_drop(tool->client);
            watch.index_before = watch.index;
        }
    } while (exit_code == -1);
    return exit_code;
}
