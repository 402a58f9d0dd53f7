/* SPDX-License-Identifier: MIT */

/* hasp acquire, convert, release, note: locks for a script; the session
 * outlives each of the commands. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "cmd/hasp/acquire.h"
#include "cmd/hasp/credentials.h"
#include "cmd/hasp/run/child.h"

static void hold_print_quoted(const char *text)
{
    AUTO(buffer_done) struct buffer quoted = {0};
    format_quoted(&quoted, text);
    fwrite(quoted.data, 1, quoted.size, stdout);
}

/* Prints lines for eval; with several locks the variable has a line for each.
 */
static void print_export(json_t *locks, const char *credentials, bool is_filed)
{
    json_t *lock;
    size_t i;
    AUTO(buffer_done) struct buffer names = {0};
    AUTO(buffer_done) struct buffer tokens = {0};
    json_array_foreach (locks, i, lock) {
        buffer_printf(&names, "%s%s", i > 0 ? "\n" : "",
                      value_text(lock, "name"));
        buffer_printf(&tokens, "%s%" PRIu64, i > 0 ? "\n" : "",
                      value_number(lock, "token"));
    }
    buffer_put_u8(&names, '\0');
    buffer_put_u8(&tokens, '\0');
    fputs("export HASP_LOCK=", stdout);
    hold_print_quoted((const char *)names.data);
    fputs(" HASP_TOKEN=", stdout);
    hold_print_quoted((const char *)tokens.data);
    printf(" HASP_SESSION=%.*s", (int)strcspn(credentials, ":"), credentials);
    if (!is_filed) {
        printf(" " CREDENTIALS_VARIABLE "=%s", credentials);
    }
    putchar('\n');
}

/* With 'is_filed' the secret is only in its file. */
static void print_acquired(const struct tool *tool,
                           const struct acquire_options *options,
                           const struct hasp_hold *hold,
                           const char *credentials, bool is_filed,
                           bool is_export)
{
    json_auto_t *locks = json_array();
    char *end;
    json_int_t session = (json_int_t)strtoull(credentials, &end, 10);
    for (size_t i = 0; i < options->names.count; i++) {
        json_t *lock = json_pack(
            "{s:o, s:I, s:I}", "name",
            value_of_bytes(bytes_of_text(options->names.text[i])), "token",
            (json_int_t)hasp_token_of(hold, i), "session", session);
        if (!is_filed) {
            json_object_set_new(lock, "secret", json_string(end + 1));
        }
        json_array_append_new(locks, lock);
    }
    if (is_export) {
        print_export(locks, credentials, is_filed);
    } else if (tool->format != FORMAT_JSON) {
        struct view_field fields[5] = {{"token", "TOKEN", FIELD_NUMBER},
                                       {"session", "SESSION", FIELD_NUMBER}};
        size_t count = 2;
        if (!is_filed) {
            fields[count++] = (struct view_field){"secret", "SECRET",
                                                  FIELD_TEXT};
        }
        if (options->names.count > 1) {
            fields[count++] = (struct view_field){"name", "LOCK", FIELD_TEXT};
        }
        output_rows(tool->format, fields, locks);
    } else {
        json_auto_t *record = json_copy(json_array_get(locks, 0));
        json_object_set(record, "locks", locks);
        output_json(record);
    }
}

/* Acquires in the given session, or in a new one, whose credentials are
 * written to the file. */
static int acquire_as(struct tool *tool, const struct acquire_options *options,
                      const struct session_source *source, bool is_new_file,
                      bool is_export)
{
    struct acquired acquired = {0};
    char credentials[HASP_CREDENTIALS_SIZE] = "";
    sigset_t signals;
    int signal_fd;
    if (source->credentials.session != 0) {
        snprintf(credentials, sizeof credentials, "%" PRIu64 ":%s",
                 source->credentials.session, source->credentials.secret);
    }
    child_signals(&signals);
    int exit_code = acquire_lock(tool, options,
                                 credentials[0] != '\0' ? credentials : NULL,
                                 &signals, &signal_fd, &acquired);
    if (exit_code != 0) {
        if (acquired.was_not_free) {
            tool_say(tool, "%s is not free; see: hasp why %s",
                     acquire_name(options), options->names.text[0]);
        }
        return exit_code;
    }
    int error = hasp_credentials(acquired.session, credentials);
    exit_code = error != 0 ? tool_hasp_error(tool, error, "no credentials") : 0;
    if (exit_code == 0 && is_new_file) {
        exit_code = session_file_write(source->path, credentials);
    }
    if (exit_code != 0) {
        acquired_close(&acquired);
        return exit_code;
    }
    print_acquired(tool, options, acquired.hold, credentials,
                   source->path != NULL, is_export);
    /* Detaching renews the lease, since a wait may have used part of it. */
    error = hasp_detach(acquired.session);
    return error == 0 ? 0
                      : tool_hasp_error(tool, error,
                                        "the lock is held, but its session "
                                        "could not be kept");
}

int run_acquire(struct tool *tool, char **argv)
{
    struct acquire_options options = ACQUIRE_DEFAULTS;
    struct session_source source = {0};
    bool is_export = false, is_new_file = false;
    const struct option_row rows[] = {
        ACQUIRE_ROWS(&options),
        SESSION_ROWS(&source),
        {"owner", OPTION_TEXT, .value = &options.owner},
        {"durable", OPTION_FLAG, .value = &options.is_durable},
        {"reason", OPTION_TEXT, .value = &options.reason},
        {"export", OPTION_FLAG, .value = &is_export},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 1, OPTION_LIST_MAX);
    exit_code = exit_code ?: acquire_options_check(tool, &options, argv + 1);
    if (exit_code == 0 && source.path != NULL && source.text == NULL) {
        exit_code = session_file_begin(source.path, &is_new_file);
    }
    if (exit_code == 0 && !is_new_file) {
        exit_code = session_source_load(tool, &source, false);
    }
    if (exit_code == 0 && options.is_durable &&
        source.credentials.session != 0) {
        exit_code = tool_usage(tool, "--durable opens its own session: drop "
                                     "--session and --session-file");
    }
    if (exit_code == 0) {
        exit_code = acquire_as(tool, &options, &source, is_new_file, is_export);
    }
    if (exit_code != 0 && is_new_file) {
        unlink(source.path);
    }
    return exit_code;
}

static int need_session(const struct tool *tool, struct session_source *source)
{
    int exit_code = session_source_load(tool, source, true);
    return exit_code != 0 || source->credentials.session != 0
               ? exit_code
               : tool_usage(tool, "missing session: give --session-file FILE, "
                                  "or --session ID:SECRET as 'hasp acquire' "
                                  "printed it, or use 'hasp acquire --export'");
}

static int hold_convert(struct tool *tool, const char *name, const char *owner,
                        enum hasp_mode mode, uint64_t wait_ms,
                        const struct session_source *source,
                        uint64_t *ret_token)
{
    char credentials[HASP_CREDENTIALS_SIZE];
    struct hasp_session *session;
    struct hasp_hold *hold;
    struct hasp_options options;
    struct hasp_acquire_options how;
    sigset_t signals;
    tool_session_options(tool, &options);
    hasp_acquire_options_init(&how);
    how.wait_ms = wait_ms;
    child_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    how.interrupt_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    snprintf(credentials, sizeof credentials, "%" PRIu64 ":%s",
             source->credentials.session, source->credentials.secret);
    options.credentials = credentials;
    int error = hasp_open(&options, &session);
    if (error != 0) {
        return error;
    }
    error = hasp_resume(session, name, owner, &hold);
    if (error == HASP_NOT_ACQUIRED) {
        error = HASP_ENOTHELD;
    } else if (error == 0) {
        error = hasp_convert(hold, mode, &how);
        *ret_token = hasp_token(hold);
    }
    (void)!hasp_detach(session);
    return error;
}

int run_convert(struct tool *tool, char **argv)
{
    struct session_source source = {0};
    const char *owner = "";
    bool is_trying = false;
    int mode = -1;
    uint64_t wait_ms = HASP_FOREVER, exit_code_no = EX_TEMPFAIL, token = 0;
    const struct option_row rows[] = {
        {"to", OPTION_CHOICE, .value = &mode},
        {"nonblock", OPTION_FLAG, .value = &is_trying},
        {"wait", OPTION_TIME, .value = &wait_ms},
        {"exit-code", OPTION_NUMBER, .value = &exit_code_no, .max = 255},
        {"owner", OPTION_TEXT, .value = &owner},
        SESSION_ROWS(&source),
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 1, 1);
    if (exit_code == 0 && mode < 0) {
        exit_code = tool_usage(tool, "missing --to: shared or exclusive");
    }
    exit_code = exit_code ?: need_session(tool, &source);
    if (exit_code != 0) {
        return exit_code;
    }
    int error = hold_convert(tool, argv[1], owner, (enum hasp_mode)mode,
                             is_trying ? 0 : wait_ms, &source, &token);
    const char *what = CANNOT("convert", argv[1]);
    if (error == HASP_ENOTHELD) {
        return tool_fail(EX_DATAERR,
                         "%s: this session does not hold it; see: hasp show %s",
                         what, argv[1]);
    }
    if (error == HASP_NOT_ACQUIRED) {
        tool_say(tool, "'%s' has other holders; it is still shared", argv[1]);
        return (int)exit_code_no;
    }
    if (error != 0) {
        return tool_hasp_error(tool, error, what);
    }
    tool_print_number(tool, "token", token);
    return 0;
}

int run_release(struct tool *tool, char **argv)
{
    struct session_source source = {0};
    json_auto_t *left = NULL;
    const char *owner = NULL, *token = NULL;
    uint64_t count = 0, ignored;
    const struct option_row rows[] = {
        {"owner", OPTION_TEXT, .value = &owner},
        {"token", OPTION_TEXT, .value = &token},
        SESSION_ROWS(&source),
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 1, OPTION_LIST_MAX);
    if (exit_code == 0 && token != NULL && !parse_number(token, &ignored)) {
        exit_code = tool_bad_token(tool, token);
    }
    exit_code = exit_code ?: need_session(tool, &source);
    if (exit_code != 0) {
        return exit_code;
    }
    while (argv[count + 1] != NULL) {
        count++;
    }
    const char *words[2 * OPTION_LIST_MAX + 8] = {"LOCK.RELEASE"};
    const char *number = NUMBER(count);
    size_t n = 1;
    if (count > 1) {
        words[0] = "LOCK.MRELEASE";
        words[n++] = number;
    }
    for (uint64_t i = 0; i < count; i++) {
        words[n++] = argv[i + 1];
    }
    if (owner != NULL) {
        words[n++] = "OWNER";
        words[n++] = owner;
    }
    if (token != NULL) {
        /* Locks that were acquired at once share one token. */
        words[n++] = count > 1 ? "TOKENS" : "TOKEN";
        for (uint64_t i = 0; i < count; i++) {
            words[n++] = token;
        }
    }
    client_set_session(tool_client(tool), &source.credentials);
    exit_code = tool_change(tool, words, CANNOT("release", argv[1]), &left);
    if (exit_code != 0) {
        return exit_code;
    }
    uint64_t answer = value_number(left, "");
    if (count > 1 && answer < count) {
        return tool_fail(EX_DATAERR,
                         "only %" PRIu64 " of %" PRIu64
                         " were held; see: hasp list",
                         answer, count);
    }
    if (count == 1 && answer > 0) {
        tool_say(tool, "still held %" PRIu64 " times by this owner", answer);
    }
    return 0;
}

int run_object(struct tool *tool, char **argv)
{
    struct session_source source = {0};
    const char *owner = "", *message = NULL;
    json_auto_t *kept = NULL;
    const struct option_row rows[] = {
        {"owner", OPTION_TEXT, .value = &owner},
        {"message", OPTION_TEXT, .value = &message},
        SESSION_ROWS(&source),
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 1, 1);
    exit_code = exit_code ?: need_session(tool, &source);
    if (exit_code != 0) {
        return exit_code;
    }
    client_set_session(tool_client(tool), &source.credentials);
    exit_code = tool_change(tool,
                            WORDS("LOCK.OBJECT", argv[1], "OWNER", owner,
                                  message != NULL ? "MESSAGE" : NULL, message),
                            CANNOT("keep", argv[1]), &kept);
    if (exit_code == 0 && value_number(kept, "") == 0) {
        tool_say(tool, "no break of '%s' is pending", argv[1]);
    }
    return exit_code;
}

/* Searches a page of the session's holds for this name and owner; false:
 * continue on the next page. */
static bool find_on_page(json_t *holds, const char *name, const char *owner,
                         uint64_t *ret_token)
{
    json_auto_t *lock = value_of_bytes(bytes_of_text(name));
    json_auto_t *tag = value_of_bytes(bytes_of_text(owner));
    json_t *hold;
    size_t i;
    json_array_foreach (holds, i, hold) {
        if (!json_equal(value_at(hold, "lock"), lock)) {
            return true; /* Longer names follow it. */
        }
        if (json_equal(value_at(hold, "owner"), tag)) {
            *ret_token = value_number(hold, "token");
            return true;
        }
    }
    return false;
}

/* Finds the token of the hold of the attached session and this owner. */
static int find_token(struct tool *tool, const char *name, const char *owner,
                      uint64_t *ret_token)
{
    AUTO(buffer_done)
    struct buffer cursor = {0}; /* A cursor can have any bytes. */
    AUTO(query_done) struct query query = {0};
    bool is_over = false;
    *ret_token = 0;
    while (!is_over) {
        struct client_options options = {.deadline_ns = tool_deadline_ns(tool),
                                         .is_read = true};
        const struct resp_reply *reply;
        query_begin(&query, "SESSION.HOLDS");
        query_text(&query, "PREFIX");
        query_text(&query, name);
        if (cursor.size > 0) {
            query_text(&query, "CURSOR");
            query_bytes(&query, buffer_bytes(&cursor));
        }
        int error = client_ask(tool_client(tool), &query, &options, &reply);
        if (error != 0) {
            return tool_client_error(tool->client, error,
                                     CANNOT("leave a note at", name));
        }
        json_auto_t *page = value_of_reply(reply, 0);
        const struct resp_value *next = resp_find(reply, 0, "cursor");
        buffer_clear(&cursor);
        if (next != NULL) {
            buffer_put_bytes(&cursor, next->bytes);
        }
        is_over = find_on_page(value_at(page, "holds"), name, owner,
                               ret_token) ||
                  bytes_equal(buffer_bytes(&cursor), BYTES_LITERAL("0")) ||
                  next == NULL;
    }
    return *ret_token != 0
               ? 0
               : tool_fail(EX_DATAERR,
                           "cannot leave a note at '%s': this session does not "
                           "hold it; see: hasp show %s",
                           name, name);
}

static int print_note(struct tool *tool, const char *name)
{
    json_auto_t *lock = NULL;
    int exit_code = tool_show_lock(tool, name, "look at", &lock);
    json_t *note = value_at(lock, "note");
    if (exit_code != 0) {
        return exit_code;
    }
    if (note == NULL) {
        return tool_fail(EX_DATAERR, "'%s' has no note", name);
    }
    if (tool->format == FORMAT_JSON) {
        json_auto_t *record = json_pack("{s:O, s:O*}", "note", note, "note_b64",
                                        value_at(lock, "note_b64"));
        output_json(record);
    } else {
        text_print(stdout, json_string_value(note));
        putchar('\n');
    }
    return 0;
}

int run_note(struct tool *tool, char **argv)
{
    struct session_source source = {0};
    const char *owner = "", *token_text = NULL;
    uint64_t token = 0;
    const struct option_row rows[] = {
        {"owner", OPTION_TEXT, .value = &owner},
        {"token", OPTION_TEXT, .value = &token_text},
        SESSION_ROWS(&source),
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 1, 2);
    if (exit_code != 0 || argv[2] == NULL) {
        return exit_code ?: print_note(tool, argv[1]);
    }
    if (token_text != NULL && !parse_number(token_text, &token)) {
        return tool_bad_token(tool, token_text);
    }
    exit_code = need_session(tool, &source);
    if (exit_code == 0) {
        client_set_session(tool_client(tool), &source.credentials);
    }
    if (exit_code == 0 && token_text == NULL) {
        exit_code = find_token(tool, argv[1], owner, &token);
    }
    if (exit_code != 0) {
        return exit_code;
    }
    return tool_change(
        tool,
        WORDS("LOCK.NOTE", argv[1], NUMBER(token), argv[2], "OWNER", owner),
        CANNOT("leave a note at", argv[1]), NULL);
}
