/* SPDX-License-Identifier: MIT */

/* hasp list, show, check, please. */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/hasp/names.h"
#include "cmd/hasp/tool.h"

static const struct field lock_fields[] = {
    {"name", "NAME", FIELD_TEXT},
    {"mode", "MODE", FIELD_TEXT},
    {"holders", "HOLDERS", FIELD_COUNT},
    {"holders.0.client", "HOLDER", FIELD_TEXT},
    {"holders.0.token", "TOKEN", FIELD_NUMBER},
    {"holders.0.since_ms", "HELD", FIELD_DURATION},
    {"queue", "WAITING", FIELD_COUNT},
    {0},
};

static const struct field holder_fields[] = {
    {"session", "SESSION", FIELD_NUMBER},
    {"client", "CLIENT", FIELD_TEXT},
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

static const struct field waiter_fields[] = {
    {"session", "SESSION", FIELD_NUMBER},
    {"client", "CLIENT", FIELD_TEXT},
    {"owner", "OWNER", FIELD_TEXT},
    {"mode", "MODE", FIELD_TEXT},
    {"waiting_ms", "WAITING", FIELD_DURATION},
    {0},
};

int run_list(struct tool *tool, int argc, char **argv)
{
    return tool_run_list(tool, argc, argv, "LOCK.LIST", lock_fields);
}

static void print_lock(json_t *lock)
{
    char text[DURATION_TEXT_SIZE];
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
            printf(", %zu of %" PRIu64 " slots", holder_count, slots);
        }
    }
    if (delay_ms > 0) {
        duration_format(delay_ms, text);
        printf(", kept closed for %s", text);
    }
    putchar('\n');
    if (holder_count > 0) {
        output_rows(FORMAT_TABLE, holder_fields, value_at(lock, "holders"));
    }
    if (waiter_count > 0) {
        printf("\n%zu waiting\n", waiter_count);
        output_rows(FORMAT_TABLE, waiter_fields, value_at(lock, "queue"));
    }
}

int run_show(struct tool *tool, int argc, char **argv)
{
    json_t *lock;
    int exit_code = tool_show_lock(tool, argc, argv, "show", &lock);
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
    json_decref(lock);
    return 0;
}

int run_check(struct tool *tool, int argc, char **argv)
{
    static const struct option options[] = {
        {"token", required_argument, NULL, 'T'}, {0}};
    struct query query = {0};
    const struct resp_reply *reply;
    const char *token_text = NULL;
    uint64_t token;
    int option;
    tool_options_begin();
    while ((option = tool_option(tool, argc, argv, "", options)) != -1) {
        if (option == '?') {
            return EX_USAGE;
        }
        token_text = optarg;
    }
    if (token_text == NULL && argc - optind == 2) {
        token_text = argv[optind + 1];
    } else if (argc - optind != 1 || token_text == NULL) {
        return tool_usage(tool, "a name and a token are needed");
    }
    if (!parse_number(token_text, &token)) {
        return tool_usage(tool, "'%s' is no token", token_text);
    }
    query_begin(&query, "LOCK.CHECK");
    query_text(&query, argv[optind]);
    query_number(&query, token);
    int exit_code = tool_read(tool, &query, "cannot check the token", &reply);
    query_done(&query);
    if (exit_code != 0) {
        return exit_code;
    }
    bool is_current = reply->value[0].integer == 1;
    if (tool->format == FORMAT_JSON) {
        json_t *result = json_pack("{s:b}", "current", is_current);
        output_json(result);
        json_decref(result);
    } else {
        puts(is_current ? "current" : "stale");
    }
    return is_current ? 0 : EXIT_NO;
}

int run_please(struct tool *tool, int argc, char **argv)
{
    static const struct option options[] = {
        {"message", required_argument, NULL, 'm'}, {0}};
    struct query query = {0};
    const struct resp_reply *reply;
    const char *message = NULL;
    int option;
    tool_options_begin();
    while ((option = tool_option(tool, argc, argv, "m:", options)) != -1) {
        if (option == '?') {
            return EX_USAGE;
        }
        message = optarg;
    }
    if (message == NULL && argc - optind == 2) {
        message = argv[optind + 1];
    } else if (argc - optind != 1) {
        return tool_usage(tool, "a name and at most one message");
    }
    query_begin(&query, "LOCK.PLEASE");
    query_text(&query, argv[optind]);
    if (message != NULL) {
        query_text(&query, "MESSAGE");
        query_text(&query, message);
    }
    name_query(&query);
    int exit_code = tool_change(tool, &query, "cannot ask the holders", &reply);
    query_done(&query);
    if (exit_code != 0) {
        return exit_code;
    }
    if (tool->format == FORMAT_JSON) {
        json_t *result = json_pack("{s:I}", "told",
                                   (json_int_t)reply->value[0].integer);
        output_json(result);
        json_decref(result);
    } else {
        printf("%" PRId64 "\n", reply->value[0].integer);
    }
    return 0;
}
