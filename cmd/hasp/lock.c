/* SPDX-License-Identifier: MIT */

/* hasp show, please. */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/hasp/tool.h"

static const struct view_field holder_fields[] = {
    {"session", "SESSION", FIELD_NUMBER},
    {"client", "CLIENT", FIELD_TEXT},
    {"user", "USER", FIELD_TEXT},
    {"address", "ADDRESS", FIELD_TEXT},
    {"owner", "OWNER", FIELD_TEXT},
    {"mode", "MODE", FIELD_TEXT},
    {"token", "TOKEN", FIELD_NUMBER},
    {"count", "COUNT", FIELD_NUMBER},
    {"since_ms", "HELD", FIELD_DURATION},
    {"lease_left_ms", "LEASE", FIELD_DURATION},
    {"value", "VALUE", FIELD_TEXT},
    {0},
};

static const struct view_field waiter_fields[] = {
    {"session", "SESSION", FIELD_NUMBER},
    {"client", "CLIENT", FIELD_TEXT},
    {"user", "USER", FIELD_TEXT},
    {"owner", "OWNER", FIELD_TEXT},
    {"mode", "MODE", FIELD_TEXT},
    {"waiting_ms", "WAITING", FIELD_DURATION},
    {0},
};

static const struct view_field asked_fields[] = {
    {"client", "ASKED", FIELD_TEXT},
    {"session", "SESSION", FIELD_NUMBER},
    {"address", "ADDRESS", FIELD_TEXT},
    {"since_ms", "HELD", FIELD_DURATION},
    {0},
};

/* Prints why the hold has no lease, and who is breaking it. */
static void print_durable(json_t *holder)
{
    json_t *break_left = value_at(holder, "break_left_ms");
    if (value_at(holder, "reason") == NULL) {
        return;
    }
    printf("session %" PRIu64 " has no lease: ",
           value_number(holder, "session"));
    text_print(stdout, value_text(holder, "reason"));
    putchar('\n');
    if (break_left != NULL) {
        printf("  ");
        text_print(stdout, value_text(holder, "break_by"));
        printf(" breaks it in %s, unless its holder objects: ",
               DURATION((uint64_t)json_integer_value(break_left)));
        text_print(stdout, value_text(holder, "break_reason"));
        putchar('\n');
    }
}

/* The number of records that the answer omitted; prints it if there are any.
 */
static uint64_t count_more(json_t *lock, const char *key)
{
    return value_at(lock, key) != NULL ? value_number(lock, key) : 0;
}

static void print_more(json_t *lock, const char *key, const char *what)
{
    uint64_t count = count_more(lock, key);
    if (count > 0) {
        printf("and %" PRIu64 " more %s; see: hasp show --all\n", count, what);
    }
}

static void print_lock(json_t *lock)
{
    size_t holder_count = json_array_size(value_at(lock, "holders"));
    size_t waiter_count = json_array_size(value_at(lock, "queue"));
    uint64_t delay_ms = value_number(lock, "delay_left_ms");
    uint64_t slots = value_number(lock, "slots");
    value_make_printable(value_at(lock, "name"));
    value_make_printable(value_at(lock, "mode"));
    if (holder_count == 0) {
        printf("'%s' is free", value_text(lock, "name"));
    } else {
        printf("'%s' is held, %s", value_text(lock, "name"),
               value_text(lock, "mode"));
        if (slots > 1) {
            printf(", %" PRIu64 " of %" PRIu64 " slots",
                   holder_count + count_more(lock, "more_holders"), slots);
        }
    }
    if (delay_ms > 0) {
        printf(", kept closed for %s", DURATION(delay_ms));
    }
    putchar('\n');
    if (value_at(lock, "note") != NULL) {
        fputs("note: ", stdout);
        text_print(stdout, value_text(lock, "note"));
        putchar('\n');
    }
    if (holder_count > 0) {
        json_t *holder;
        size_t i;
        output_rows(FORMAT_TABLE, holder_fields, value_at(lock, "holders"));
        json_array_foreach (value_at(lock, "holders"), i, holder) {
            print_durable(holder);
        }
    }
    print_more(lock, "more_holders", "holders");
    if (waiter_count > 0) {
        printf("\n%" PRIu64 " waiting\n",
               waiter_count + count_more(lock, "more_waiters"));
        output_rows(FORMAT_TABLE, waiter_fields, value_at(lock, "queue"));
    }
    print_more(lock, "more_waiters", "waiters");
}

/* Adds the holders and waiters that the first answer omitted. */
static int add_rest(struct tool *tool, const char *name, json_t *lock)
{
    static const char *const lists[] = {"holders", "queue"};
    static const char *const more[] = {"more_holders", "more_waiters",
                                       "cursor"};
    while (value_at(lock, "cursor") != NULL) {
        json_auto_t *page = NULL;
        int exit_code = tool_ask(
            tool,
            WORDS("LOCK.SHOW", name, "CURSOR", value_text(lock, "cursor")),
            CANNOT("show", name), &page);
        if (exit_code != 0) {
            return exit_code;
        }
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
            json_array_extend(value_at(lock, lists[i]),
                              value_at(page, lists[i]));
        }
        for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
            json_object_del(lock, more[i]);
            if (value_at(page, more[i]) != NULL) {
                json_object_set(lock, more[i], value_at(page, more[i]));
            }
        }
    }
    return 0;
}

int run_show(struct tool *tool, char **argv)
{
    json_auto_t *lock = NULL;
    bool is_all = false;
    const struct option_row rows[] = {{"all", OPTION_FLAG, .value = &is_all},
                                      {0}};
    int exit_code = options_read(tool, argv, rows, 1, 1);
    if (exit_code == 0) {
        exit_code = tool_show_lock(tool, argv[1], "show", &lock);
    }
    if (exit_code == 0 && is_all) {
        exit_code = add_rest(tool, argv[1], lock);
    }
    if (exit_code != 0) {
        return exit_code;
    }
    if (tool->format == FORMAT_TABLE) {
        print_lock(lock);
    } else if (tool->format == FORMAT_JSON) {
        output_json(lock);
    } else {
        output_rows(FORMAT_PLAIN, holder_fields, value_at(lock, "holders"));
    }
    return 0;
}

int run_please(struct tool *tool, char **argv)
{
    const char *message = NULL;
    json_auto_t *lock = NULL, *notified = NULL;
    const struct option_row rows[] = {
        {"message", OPTION_TEXT, .value = &message}, {0}};
    int exit_code = options_read(tool, argv, rows, 1, 2);
    if (exit_code != 0) {
        return exit_code;
    }
    message = message != NULL ? message : argv[2];
    exit_code = tool_show_lock(tool, argv[1], "look at", &lock);
    if (exit_code == 0) {
        exit_code = tool_change(tool,
                                WORDS("LOCK.PLEASE", argv[1], "BY", USER,
                                      message != NULL ? "MESSAGE" : NULL,
                                      message),
                                "cannot ask the holders", &notified);
    }
    if (exit_code != 0) {
        return exit_code;
    }
    json_t *holders = value_at(lock, "holders");
    if (tool->format == FORMAT_JSON) {
        json_auto_t *result = json_pack("{s:O, s:O}", "notified", notified,
                                        "holders", holders);
        output_json(result);
    } else {
        output_rows(tool->format, asked_fields, holders);
    }
    if (json_array_size(holders) == 0) {
        tool_say(tool, "'%s' is not held: no request was sent", argv[1]);
    }
    return 0;
}
