/* SPDX-License-Identifier: MIT */

/* hasp session list, show, keep, close. */

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
    json_t *session;
    uint64_t id;
    char what[80], number[24];
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
    snprintf(number, sizeof number, "%" PRIu64, id);
    exit_code = tool_ask(tool, WORDS("SESSION.SHOW", number), what, &session);
    if (exit_code == 0) {
        output_record(tool->format, session_fields, session);
        json_decref(session);
    }
    return exit_code;
}

/* Acts for the session whose credentials are the operand, in the file or in the
 * environment. */
static int attach(struct tool *tool, char **argv, struct session_source *source)
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
    client_set_session(tool_client(tool), &source->credentials);
    return 0;
}

int run_session_keep(struct tool *tool, char **argv)
{
    struct session_source source = {0};
    json_t *kept;
    int exit_code = attach(tool, argv, &source);
    if (exit_code == 0) {
        exit_code = tool_ask(tool, WORDS("SESSION.KEEP", "FULL"),
                             "cannot keep the session", &kept);
    }
    if (exit_code == 0) {
        json_object_set_new(
            kept, "session",
            json_integer((json_int_t)source.credentials.session));
        output_record(tool->format, kept_fields, kept);
        json_decref(kept);
    }
    return exit_code;
}

int run_session_close(struct tool *tool, char **argv)
{
    struct session_source source = {0};
    json_t *released;
    char text[24];
    int exit_code = attach(tool, argv, &source);
    if (exit_code != 0) {
        return exit_code;
    }
    exit_code = tool_change(tool, WORDS("SESSION.CLOSE"),
                            "cannot close the session", &released);
    /* A session that has ended needs its file no more. */
    const char *code = client_code(tool->client);
    if (source.path != NULL &&
        (exit_code == 0 || strcmp(code, "NOSESSION") == 0 ||
         strcmp(code, "EXPIRED") == 0)) {
        unlink(source.path);
    }
    if (exit_code == 0) {
        snprintf(text, sizeof text, "%" PRIu64, value_number(released, ""));
        tool_print(tool, json_pack("{s:o}", "released", released), text);
    }
    return exit_code;
}
