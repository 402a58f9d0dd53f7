/* SPDX-License-Identifier: MIT */

/* hasp history: the past events of a lock. */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/hasp/tool.h"

#define EVENT_FIELDS                                                    \
    {"time", "TIME", FIELD_TEXT}, {"kind", "KIND", FIELD_TEXT},         \
        {"session", "SESSION", FIELD_ID}, {"token", "TOKEN", FIELD_ID}, \
        {"message", "MESSAGE", FIELD_TEXT},                             \
    {                                                                   \
        "id", "ID", FIELD_TEXT                                          \
    }
static const struct view_field event_fields[] = {EVENT_FIELDS, {0}};
static const struct view_field traced_fields[] = {
    EVENT_FIELDS, {"trace", "TRACE", FIELD_TEXT}, {0}};

/* The column of traces is wide, so it is shown only if there are any. */
static const struct view_field *history_fields(const json_t *events)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        if (json_object_get(json_array_get(events, i), "trace") != NULL) {
            return traced_fields;
        }
    }
    return event_fields;
}

int run_history(struct tool *tool, char **argv)
{
    uint64_t count = 100;
    const struct option_row rows[] = {
        {"count", OPTION_NUMBER, .value = &count, .min = 1}, {0}};
    json_auto_t *history = NULL;
    int exit_code = options_read(tool, argv, rows, 1, 1);
    if (exit_code != 0) {
        return exit_code;
    }
    exit_code = tool_ask(tool,
                         WORDS("LOCK.HISTORY", argv[1], "COUNT", NUMBER(count)),
                         CANNOT("read the history of", argv[1]), &history);
    if (exit_code != 0) {
        return exit_code;
    }
    json_t *events = value_at(history, "events");
    for (size_t i = 0; i < json_array_size(events); i++) {
        value_add_time(json_array_get(events, i), "time_ms",
                       "before its start");
    }
    output_rows(tool->format, history_fields(events), events);
    json_t *is_cut = value_at(history, "is_cut");
    if (json_is_true(is_cut) || json_integer_value(is_cut) != 0) {
        tool_say(tool,
                 "older events are left out: the newest %zu fill one answer",
                 json_array_size(events));
    }
    if (value_number(history, "known_from") > 1) {
        tool_say(tool,
                 "at %s; it has no entries before %" PRIu64
                 ", but other nodes might",
                 client_peer(tool->client),
                 value_number(history, "known_from"));
    }
    return 0;
}
