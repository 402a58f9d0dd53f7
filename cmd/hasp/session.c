/* SPDX-License-Identifier: MIT */

/* hasp session show, keep, close. */

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd/hasp/credentials.h"

static const struct view_field kept_fields[] = {
    {"session", "SESSION", FIELD_NUMBER},
    {"ttl_ms", "TTL", FIELD_DURATION},
    {"linger_ms", "LINGER", FIELD_DURATION},
    {0},
};

int run_session_show(struct tool *tool, char **argv)
{
    char what[80];
    json_auto_t *session = NULL;
    uint64_t id;
    /* A secret after the number is not needed, and is not sent. */
    if (!bytes_to_u64(bytes_of(argv[1], strcspn(argv[1], ":")), &id)) {
        return tool_usage(tool, "invalid session '%s': use its number",
                          argv[1]);
    }
    snprintf(what, sizeof what, "cannot show session %" PRIu64, id);
    int exit_code = tool_ask(tool, WORDS("SESSION.SHOW", NUMBER(id)), what,
                             &session);
    if (exit_code == 0) {
        output_record(tool->format, tool->subcommand->fields, session);
    }
    return exit_code;
}

/* Acts for a session whose credentials are in the operand, the file or the
 * environment. */
static int session_attach(struct tool *tool, char **argv,
                          struct session_source *source)
{
    const struct option_row rows[] = {SESSION_ROWS(source), {0}};
    int exit_code = options_read(tool, argv, rows, 0, 1);
    if (exit_code == 0 && source->text == NULL) {
        source->text = argv[1];
    }
    exit_code = exit_code ?: session_source_load(tool, source, true);
    if (exit_code != 0) {
        return exit_code;
    }
    if (source->credentials.session == 0) {
        return tool_usage(tool,
                          "missing session: give --session-file FILE, or "
                          "ID:SECRET as 'hasp acquire' printed it; to end a "
                          "session without its secret: hasp blacklist add");
    }
    client_set_session(tool_client(tool), &source->credentials);
    return 0;
}

int run_session_keep(struct tool *tool, char **argv)
{
    struct session_source source = {0};
    json_auto_t *kept = NULL;
    int exit_code = session_attach(tool, argv, &source);
    if (exit_code == 0) {
        exit_code = tool_ask(tool, WORDS("SESSION.KEEP", "FULL"),
                             "cannot keep the session", &kept);
    }
    if (exit_code == 0) {
        json_object_set_new(
            kept, "session",
            json_integer((json_int_t)source.credentials.session));
        output_record(tool->format, kept_fields, kept);
    }
    return exit_code;
}

int run_session_close(struct tool *tool, char **argv)
{
    struct session_source source = {0};
    json_auto_t *released = NULL;
    int exit_code = session_attach(tool, argv, &source);
    if (exit_code != 0) {
        return exit_code;
    }
    exit_code = tool_change(tool, WORDS("SESSION.CLOSE"),
                            "cannot close the session", &released);
    /* The file of an ended session is useless. */
    const char *code = client_code(tool->client);
    if (source.path != NULL &&
        (exit_code == 0 || strcmp(code, "NOSESSION") == 0 ||
         strcmp(code, "EXPIRED") == 0)) {
        unlink(source.path);
    }
    if (exit_code == 0) {
        tool_print_number(tool, "released", value_number(released, ""));
    }
    return exit_code;
}
