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

int run_session_list(struct tool *tool, int argc, char **argv)
{
    return tool_run_list(tool, argc, argv, "SESSION.LIST", session_fields);
}

int run_session_show(struct tool *tool, int argc, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    uint64_t id;
    char what[80];
    tool_options_begin();
    if (tool_option(tool, argc, argv, "", NULL) != -1) {
        return EX_USAGE;
    }
    /* The secret that may stand behind is not needed and not sent. */
    if (argc - optind != 1 ||
        !bytes_to_u64(bytes_of(argv[optind], strcspn(argv[optind], ":")),
                      &id)) {
        return tool_usage(tool, "the number of a session is needed");
    }
    snprintf(what, sizeof what, "cannot show session %" PRIu64, id);
    query_begin(&query, "SESSION.SHOW");
    query_number(&query, id);
    int exit_code = tool_read(tool, &query, what, &reply);
    query_done(&query);
    if (exit_code == 0) {
        json_t *session = value_of_reply(reply, 0);
        output_record(tool->format, session_fields, session);
        json_decref(session);
    }
    return exit_code;
}

/* The session whose credentials are the operand, or in the file, attached;
 * 'what' could not be done otherwise. */
static int attach(struct tool *tool, int argc, char **argv, const char *what,
                  struct session_source *source,
                  struct client_session *ret_session)
{
    static const struct option options[] = {
        SESSION_OPTION, SESSION_FILE_OPTION, {0}};
    int option;
    tool_options_begin();
    while ((option = tool_option(tool, argc, argv, "", options)) != -1) {
        if (session_option(tool, option, optarg, source) != 0) {
            return EX_USAGE;
        }
    }
    int exit_code = session_source_load(tool, source);
    if (exit_code == 0 && source->credentials.session == 0 &&
        argc - optind == 1) {
        exit_code = session_operand(tool, argv[optind++], source);
    }
    if (exit_code != 0) {
        return exit_code;
    }
    if (source->credentials.session == 0 || argc != optind) {
        return tool_usage(tool, "--session-file FILE is needed, or the session "
                                "as ID:SECRET, as 'hasp acquire' printed it; "
                                "another's session is ended with 'hasp "
                                "blacklist add'");
    }
    struct client *client = tool_client(tool);
    int error = client_session_attach(client, &source->credentials,
                                      tool_deadline_ns(tool), ret_session);
    return error == 0 ? 0 : tool_client_error(client, error, what);
}

int run_session_keep(struct tool *tool, int argc, char **argv)
{
    static const char what[] = "cannot keep the session";
    struct session_source source = {0};
    struct client_session session;
    int exit_code = attach(tool, argc, argv, what, &source, &session);
    if (exit_code != 0) {
        return exit_code;
    }
    struct client *client = tool_client(tool);
    int error = client_session_keep(client, &session, tool_deadline_ns(tool),
                                    NULL, NULL);
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

/* A session that has ended needs its file no more. */
static void remove_if_over(struct tool *tool,
                           const struct session_source *source)
{
    const char *code = client_code(tool_client(tool));
    if (source->path != NULL && source->credentials.session != 0 &&
        (strcmp(code, "NOSESSION") == 0 || strcmp(code, "EXPIRED") == 0)) {
        unlink(source->path);
    }
}

int run_session_close(struct tool *tool, int argc, char **argv)
{
    static const char what[] = "cannot close the session";
    struct session_source source = {0};
    struct client_session session;
    uint64_t released;
    int exit_code = attach(tool, argc, argv, what, &source, &session);
    if (exit_code != 0) {
        remove_if_over(tool, &source);
        return exit_code;
    }
    struct client *client = tool_client(tool);
    int error = client_session_close(client, &session, tool_deadline_ns(tool),
                                     &released);
    if (error != 0) {
        exit_code = tool_client_error(client, error, what);
        remove_if_over(tool, &source);
        return exit_code;
    }
    if (source.path != NULL) {
        unlink(source.path);
    }
    if (tool->format == FORMAT_JSON) {
        json_t *result = json_pack("{s:I}", "released", (json_int_t)released);
        output_json(result);
        json_decref(result);
    } else {
        printf("%" PRIu64 "\n", released);
    }
    return 0;
}
