/* SPDX-License-Identifier: MIT */

/* hasp session list, show, keep, close. */

#include "client/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd/hasp/credentials.h"

static const struct field session_fields[] = {
    {"id", "SESSION", FIELD_NUMBER},
    {"name", "NAME", FIELD_TEXT},
    {"address", "ADDRESS", FIELD_TEXT},
    {"ttl_ms", "TTL", FIELD_DURATION},
    {"left_ms", "LEFT", FIELD_DURATION},
    {"holds", "HOLDS", FIELD_COUNT},
    {"waits", "WAITS", FIELD_COUNT},
    {"blacklisted", "BLACKLISTED", FIELD_FLAG},
    {"labels", "LABELS", FIELD_TEXT},
    {0},
};

static const struct field kept_fields[] = {
    {"session", "SESSION", FIELD_NUMBER},
    {"ttl_ms", "TTL", FIELD_DURATION},
    {"linger_ms", "LINGER", FIELD_DURATION},
    {0},
};

int run_session_list(struct tool *tool, char **argv)
{
    return tool_run_list(tool, argv, "SESSION.LIST", session_fields);
}

int run_session_show(struct tool *tool, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    uint64_t id;
    char what[80];
    int exit_code = options_read(tool, argv, NULL, 1, 1);
    if (exit_code != 0) {
        return exit_code;
    }
    /* The secret that may stand behind is not needed and not sent. */
    if (!bytes_to_u64(bytes_of(argv[1], strcspn(argv[1], ":")), &id)) {
        return tool_usage(tool, "invalid session '%s': use its number",
                          argv[1]);
    }
    snprintf(what, sizeof what, "cannot show session %" PRIu64, id);
    query_begin(&query, "SESSION.SHOW");
    query_number(&query, id);
    exit_code = tool_read(tool, &query, what, &reply);
    query_done(&query);
    if (exit_code == 0) {
        json_t *session = value_of_reply(reply, 0);
        output_record(tool->format, session_fields, session);
        json_decref(session);
    }
    return exit_code;
}

/* The session whose credentials are the operand, in the file or in the
 * environment, attached; 'what' could not be done otherwise. */
static int attach(struct tool *tool, char **argv, const char *what,
                  struct session_source *source,
                  struct client_session *ret_session)
{
    const struct option_row rows[] = {SESSION_ROWS(source), {0}};
    int exit_code = options_read(tool, argv, rows, 0, 1);
    if (exit_code == 0 && source->text == NULL) {
        source->text = argv[1];
    }
    if (exit_code == 0) {
        exit_code = session_source_load(tool, source, true);
    }
    if (exit_code != 0) {
        return exit_code;
    }
    if (source->credentials.session == 0) {
        return tool_usage(tool, "which session? give --session-file FILE, or "
                                "ID:SECRET as 'hasp acquire' printed it; "
                                "another's session is ended with 'hasp "
                                "blacklist add'");
    }
    struct client *client = tool_client(tool);
    int error = client_session_attach(client, &source->credentials,
                                      tool_deadline_ns(tool), ret_session);
    return error == 0 ? 0 : tool_client_error(client, error, what);
}

int run_session_keep(struct tool *tool, char **argv)
{
    static const char what[] = "cannot keep the session";
    struct session_source source = {0};
    struct client_session session;
    int exit_code = attach(tool, argv, what, &source, &session);
    if (exit_code != 0) {
        return exit_code;
    }
    struct client *client = tool_client(tool);
    int error = client_session_keep(client, &session, tool_deadline_ns(tool));
    if (error != 0) {
        return tool_client_error(client, error, what);
    }
    json_t *kept = json_pack("{s:I, s:I, s:I}", "session",
                             (json_int_t)session.credentials.session, "ttl_ms",
                             (json_int_t)session.ttl_ms, "linger_ms",
                             (json_int_t)session.linger_ms);
    output_record(tool->format, kept_fields, kept);
    json_decref(kept);
    return 0;
}

int run_session_close(struct tool *tool, char **argv)
{
    static const char what[] = "cannot close the session";
    struct session_source source = {0};
    struct client_session session;
    uint64_t released;
    char text[24];
    int exit_code = attach(tool, argv, what, &source, &session);
    if (exit_code == 0) {
        struct client *client = tool_client(tool);
        int error = client_session_close(client, tool_deadline_ns(tool),
                                         &released);
        exit_code = error == 0 ? 0 : tool_client_error(client, error, what);
    }
    /* A session that has ended needs its file no more. */
    const char *code = client_code(tool_client(tool));
    bool is_over = exit_code == 0 || strcmp(code, "NOSESSION") == 0 ||
                   strcmp(code, "EXPIRED") == 0;
    if (source.path != NULL && source.credentials.session != 0 && is_over) {
        unlink(source.path);
    }
    if (exit_code == 0) {
        snprintf(text, sizeof text, "%" PRIu64, released);
        tool_print(tool, json_pack("{s:I}", "released", (json_int_t)released),
                   text);
    }
    return exit_code;
}
