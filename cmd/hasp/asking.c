/* SPDX-License-Identifier: MIT */

/* Requests of the subcommands: a single one, a paged list, and the subcommands
 * that consist of one request. */

#include <stdio.h>

#include "base/memory.h"
#include "base/minmax.h"
#include "cmd/hasp/nodes.h"
#include "cmd/hasp/tool.h"
#include "include/hasp/hasp.h"

struct client *tool_client(struct tool *tool)
{
    if (tool->client == NULL) {
        tool->client = client_new(&tool->endpoints, tool->shown);
        if (tool->endpoints.count > 1) {
            client_begin_at(tool->client, nodes_first(tool));
        }
    }
    return tool->client;
}

bool tool_is_by_door(const struct tool *tool)
{
    return tool->endpoints.count == 1 &&
           endpoint_is_local(&tool->endpoints.endpoint[0]);
}

int tool_use(struct tool *tool, const char *address)
{
    struct endpoint endpoint;
    char why[HASP_WHY_SIZE];
    if (endpoint_parse(address, strlen(address), &endpoint, why) != 0) {
        return tool_fail(EX_PROTOCOL, "invalid address '%s' of a node: %s",
                         address, why);
    }
    struct endpoints one = {.endpoint = &endpoint, .count = 1};
    client_free(tool->client);
    tool->client = client_new(&one, tool->shown);
    return 0;
}

uint64_t tool_deadline_ns(const struct tool *tool)
{
    return client_now_ns() + tool->timeout_ms * NS_PER_MS;
}

void tool_session_options(const struct tool *tool,
                          struct hasp_options *ret_options)
{
    hasp_options_init(ret_options);
    ret_options->endpoints = tool->endpoints_text;
    ret_options->tls = tool->tls_text;
    ret_options->secret_file = tool->secret_text;
    ret_options->timeout_ms = (uint32_t)u64_min(tool->timeout_ms, UINT32_MAX);
}

int tool_send(struct client *client, const char *const *words,
              const struct client_options *options, json_t **ret_answer)
{
    AUTO(query_done) struct query query = {0};
    const struct resp_reply *reply;
    query_begin(&query, *words);
    while (*++words != NULL) {
        query_text(&query, *words);
    }
    int error = client_ask(client, &query, options, &reply);
    if (error == 0 && ret_answer != NULL) {
        *ret_answer = value_of_reply(reply, 0);
    }
    return error;
}

static int asking_ask(struct tool *tool, const char *const *words, bool is_read,
                      const char *what, json_t **ret_answer)
{
    struct client_options options = {.deadline_ns = tool_deadline_ns(tool),
                                     .is_repeatable = true,
                                     .is_read = is_read};
    int error = tool_send(tool_client(tool), words, &options, ret_answer);
    return error == 0     ? 0
           : what == NULL ? EX_UNAVAILABLE
                          : tool_client_error(tool->client, error, what);
}

int tool_ask(struct tool *tool, const char *const *words, const char *what,
             json_t **ret_answer)
{
    return asking_ask(tool, words, true, what, ret_answer);
}

int tool_change(struct tool *tool, const char *const *words, const char *what,
                json_t **ret_answer)
{
    return asking_ask(tool, words, false, what, ret_answer);
}

int tool_change_one(struct tool *tool, const char *const *words,
                    const char *what, const char *if_none)
{
    json_auto_t *answer = NULL;
    int exit_code = tool_change(tool, words, what, &answer);
    bool is_none = json_is_integer(answer) && json_integer_value(answer) == 0;
    return exit_code == 0 && is_none && if_none != NULL
               ? tool_fail(EX_DATAERR, "%s", if_none)
               : exit_code;
}

int tool_list(struct tool *tool, const char *command, const char *prefix,
              json_t **ret_rows)
{
    /* A cursor can have any bytes. */
    AUTO(buffer_done) struct buffer cursor = {0};
    AUTO(query_done) struct query query = {0};
    json_auto_t *rows = json_array();
    do {
        struct client_options options = {.deadline_ns = tool_deadline_ns(tool),
                                         .is_read = true};
        const struct resp_reply *reply;
        query_begin(&query, command);
        if (prefix != NULL) {
            query_text(&query, "PREFIX");
            query_text(&query, prefix);
        }
        if (cursor.size > 0) {
            query_text(&query, "CURSOR");
            query_bytes(&query, buffer_bytes(&cursor));
        }
        int error = client_ask(tool_client(tool), &query, &options, &reply);
        if (error != 0) {
            return tool_client_error(tool->client, error, "cannot list");
        }
        json_auto_t *page = value_of_reply(reply, 0);
        json_array_extend(rows, json_array_get(page, 1));
        buffer_clear(&cursor);
        if (reply->count > 1 && reply->value[1].type == RESP_BULK &&
            !bytes_equal(reply->value[1].bytes, BYTES_LITERAL("0"))) {
            buffer_put_bytes(&cursor, reply->value[1].bytes);
        }
    } while (cursor.size > 0);
    *ret_rows = json_incref(rows);
    return 0;
}

int tool_show_lock(struct tool *tool, const char *name, const char *verb,
                   json_t **ret_lock)
{
    return tool_ask(tool, WORDS("LOCK.SHOW", name), CANNOT(verb, name),
                    ret_lock);
}

/* --- Subcommands that are one request ------------------------------------- */

int run_list(struct tool *tool, char **argv)
{
    const struct subcommand *s = tool->subcommand;
    json_auto_t *rows = NULL;
    int exit_code = tool_list(tool, s->command, argv[1], &rows);
    if (exit_code == 0) {
        output_rows(tool->format, s->fields, rows);
    }
    return exit_code;
}

int run_rows(struct tool *tool, char **argv)
{
    const struct subcommand *s = tool->subcommand;
    json_auto_t *rows = NULL;
    int exit_code = tool_ask(tool, WORDS(s->command, argv[1]), s->what, &rows);
    if (exit_code == 0) {
        output_rows(tool->format, s->fields, rows);
    }
    return exit_code;
}

int run_judge(struct tool *tool, char **argv)
{
    const struct subcommand *s = tool->subcommand;
    json_auto_t *answer = NULL;
    uint64_t token;
    if (!parse_number(argv[2], &token)) {
        return tool_bad_token(tool, argv[2]);
    }
    int exit_code = tool_change(tool, WORDS(s->command, argv[1], argv[2]),
                                s->what, &answer);
    if (exit_code != 0) {
        return exit_code;
    }
    bool is_good = value_number(answer, "") == 1;
    tool_print(tool, json_pack("{s:b}", s->yes, is_good),
               is_good ? s->yes : "stale");
    return is_good ? 0 : EXIT_NO;
}
