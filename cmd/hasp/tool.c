/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/hasp/names.h"
#include "cmd/hasp/nodes.h"
#include "include/hasp/hasp.h"

/* Of a message; two paths fit into it. */
#define SAY_SIZE (2 * PATH_MAX + 1024)

__attribute__((format(printf, 1, 0))) static void say(const char *format,
                                                      va_list args)
{
    char text[SAY_SIZE];
    vsnprintf(text, sizeof text, format, args);
    fflush(stdout);
    fputs("hasp: ", stderr);
    text_print(stderr, text);
    fputc('\n', stderr);
}

int tool_fail(int exit_code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return exit_code;
}

void tool_say(const struct tool *tool, const char *format, ...)
{
    va_list args;
    if (!tool->is_quiet) {
        va_start(args, format);
        say(format, args);
        va_end(args);
    }
}

int tool_usage(const struct tool *tool, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    const struct subcommand *s = tool->subcommand;
    if (s == NULL) {
        fputs("see: hasp help\n", stderr);
        return EX_USAGE;
    }
    fprintf(stderr, "usage: hasp %s%s%s\n       hasp help %s\n", s->name,
            s->arguments[0] == '\0' ? "" : " ", s->arguments, s->name);
    return EX_USAGE;
}

/* What each word of the server means to a script, and, where the server's text
 * is not enough, to people. */
struct word {
    const char *word;
    int exit_code;
    const char *text;
};

static const struct word *find_word(const char *code)
{
    static const struct word words[] = {
        {"NOSESSION", EX_DATAERR,
         "there is no such session (any more), or the secret is wrong; see: "
         "hasp session list"},
        {"EXPIRED", EX_DATAERR, "the session has ended"},
        {"NOTHELD", EX_DATAERR,
         "this session and owner do not hold it; see: hasp show NAME"},
        {"BADARG", EX_USAGE, NULL},
        {"BLACKLISTED", EX_NOPERM,
         "this client is on the blacklist; see: hasp blacklist list"},
        {"NOAUTH", EX_NOPERM, "the node wants a user and a password"},
        {"WRONGPASS", EX_NOPERM, NULL},
        {"NOPERM", EX_NOPERM, "not allowed"},
        {"DEADLOCK", EX_TEMPFAIL,
         "the wait would never end: who is waited for waits for this session"},
        {"LIMIT", EX_TEMPFAIL, "a limit of the cluster is reached"},
        {"ERR", EX_PROTOCOL, NULL},
        {"UNFINISHED", EX_TEMPFAIL, NULL},
        {NULL, EX_UNAVAILABLE, NULL},
    };
    const struct word *found = words;
    while (found->word != NULL && strcmp(found->word, code) != 0) {
        found++;
    }
    return found;
}

/* 'code' is the server's word, or "". */
static int explain(int error, const char *code, const char *why,
                   const char *peer, const char *what)
{
    const struct word *word = find_word(code);
    if (code[0] != '\0') {
        if (word->text != NULL && why[0] != '\0' && strcmp(why, code) != 0) {
            return tool_fail(word->exit_code, "%s: %s (%s %s)", what,
                             word->text, code, why);
        }
        return tool_fail(word->exit_code, "%s: %s", what,
                         word->text != NULL ? word->text : why);
    }
    switch (error) {
    case HASP_ECONNECT:
        return tool_fail(
            EX_UNAVAILABLE,
            "%s: %s; see: hasp status; name other nodes with -e or "
            "HASP_ENDPOINTS, or start a cluster to try with: hasp dev",
            what, why);
    case HASP_ENOTLEADER:
        return tool_fail(EX_UNAVAILABLE, "%s: %s; see: hasp status", what, why);
    case HASP_EPROTO:
        return tool_fail(EX_PROTOCOL, "%s: %s; is %s the port for clients?",
                         what, why, peer);
    case HASP_EINTR:
        return tool_fail(EX_UNAVAILABLE, "%s: interrupted", what);
    default:
        return tool_fail(error == HASP_EINVALID ? EX_USAGE : EX_UNAVAILABLE,
                         "%s: %s", what, why);
    }
}

int tool_client_error(const struct client *client, int error, const char *what)
{
    return explain(error, error == HASP_EREPLY ? client_code(client) : "",
                   client_why(client), client_peer(client), what);
}

int tool_hasp_error(const struct tool *tool, int error, const char *what)
{
    /* "WORD: text" where the cluster has refused. */
    char word[32] = "";
    const char *why = hasp_why();
    size_t size = strspn(why, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (size > 1 && size < sizeof word && why[size] == ':') {
        snprintf(word, sizeof word, "%.*s", (int)size, why);
        why += size + (why[size + 1] == ' ' ? 2 : 1);
    }
    return explain(error, word, why, tool->endpoints_text, what);
}

int tool_bad_time(const struct tool *tool, const char *text)
{
    return tool_usage(tool,
                      "invalid duration '%s': use a number with ms, s, m, h, "
                      "e.g. 20s",
                      text);
}

int tool_bad_token(const struct tool *tool, const char *text)
{
    return tool_usage(tool,
                      "invalid token '%s': use the number that came with the "
                      "lock",
                      text);
}

bool parse_number(const char *text, uint64_t *ret_number)
{
    return bytes_to_u64(bytes_of_text(text), ret_number);
}

int tool_find_haspd(char ret_path[PATH_MAX])
{
    static const char *const places[] = {"haspd", "../sbin/haspd"};
    char self[PATH_MAX - 16];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size < 0) {
        return tool_fail(EX_OSERR, "cannot find this program's folder: %s",
                         strerror(errno));
    }
    self[size] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(ret_path, PATH_MAX, "%s/%s", self, places[i]);
        if (access(ret_path, X_OK) == 0) {
            return 0;
        }
    }
    return tool_fail(
        EX_UNAVAILABLE,
        "cannot run '%s/haspd': %s; haspd must be beside hasp, or in ../sbin",
        self, strerror(errno));
}

struct client *tool_client(struct tool *tool)
{
    if (tool->client == NULL) {
        tool->client = client_new(&tool->endpoints);
        if (tool->endpoints.count > 1) {
            client_begin_at(tool->client, nodes_first(tool));
        }
    }
    return tool->client;
}

uint64_t tool_deadline_ns(const struct tool *tool)
{
    return client_now_ns() + tool->timeout_ms * NS_PER_MS;
}

uint32_t tool_timeout_ms(const struct tool *tool)
{
    return tool->timeout_ms < UINT32_MAX ? (uint32_t)tool->timeout_ms
                                         : UINT32_MAX;
}

/* Takes 'query'. */
static int ask(struct tool *tool, struct query *query, bool is_read,
               const char *what, json_t **ret_answer)
{
    struct client_options options = {.deadline_ns = tool_deadline_ns(tool),
                                     .is_repeatable = true,
                                     .is_read = is_read};
    int error = words_send_query(tool_client(tool), query, &options,
                                 ret_answer);
    return error == 0     ? 0
           : what == NULL ? EX_UNAVAILABLE
                          : tool_client_error(tool->client, error, what);
}

int tool_ask(struct tool *tool, const char *const *words, const char *what,
             json_t **ret_answer)
{
    struct query query = {0};
    words_put(&query, words);
    return ask(tool, &query, true, what, ret_answer);
}

int tool_change(struct tool *tool, const char *const *words, const char *what,
                json_t **ret_answer)
{
    struct query query = {0};
    words_put(&query, words);
    return ask(tool, &query, false, what, ret_answer);
}

int tool_change_one(struct tool *tool, const char *const *words,
                    const char *what, const char *if_none)
{
    struct query query = {0};
    json_t *answer;
    words_put(&query, words);
    name_query(&query);
    int exit_code = ask(tool, &query, false, what, &answer);
    if (exit_code != 0) {
        return exit_code;
    }
    bool is_none = json_is_integer(answer) && json_integer_value(answer) == 0;
    json_decref(answer);
    return is_none && if_none != NULL ? tool_fail(EX_DATAERR, "%s", if_none)
                                      : 0;
}

int tool_list(struct tool *tool, const char *command, const char *prefix,
              json_t **ret_rows)
{
    struct buffer cursor = {0}; /* Bytes, not always text. */
    json_t *rows = json_array();
    int exit_code;
    do {
        struct query query = {0};
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
        query_done(&query);
        buffer_clear(&cursor);
        exit_code = error == 0
                        ? 0
                        : tool_client_error(tool->client, error, "cannot list");
        if (error == 0) {
            json_t *page = value_of_reply(reply, 0);
            json_array_extend(rows, json_array_get(page, 1));
            json_decref(page);
        }
        if (error == 0 && reply->count > 1 &&
            reply->value[1].type == RESP_BULK &&
            !bytes_equal(reply->value[1].bytes, BYTES_LITERAL("0"))) {
            buffer_put_bytes(&cursor, reply->value[1].bytes);
        }
    } while (exit_code == 0 && cursor.size > 0);
    buffer_done(&cursor);
    if (exit_code != 0) {
        json_decref(rows);
        return exit_code;
    }
    *ret_rows = rows;
    return 0;
}

void tool_print(const struct tool *tool, json_t *record, const char *text)
{
    if (tool->format == FORMAT_JSON) {
        output_json(record);
    } else {
        puts(text);
    }
    json_decref(record);
}

int tool_run_list(struct tool *tool, char **argv, const char *command,
                  const struct field *fields)
{
    json_t *rows;
    int exit_code = options_read(tool, argv, NULL, 0, 1);
    if (exit_code == 0) {
        exit_code = tool_list(tool, command, argv[1], &rows);
    }
    if (exit_code == 0) {
        output_rows(tool->format, fields, rows);
        json_decref(rows);
    }
    return exit_code;
}

int tool_run_rows(struct tool *tool, char **argv, const char *command,
                  const struct field *fields)
{
    json_t *rows;
    int exit_code = options_read(tool, argv, NULL, 0, 0);
    if (exit_code == 0) {
        exit_code = tool_ask(tool, WORDS(command), "cannot list", &rows);
    }
    if (exit_code == 0) {
        output_rows(tool->format, fields, rows);
        json_decref(rows);
    }
    return exit_code;
}

int tool_show_lock(struct tool *tool, const char *name, const char *verb,
                   json_t **ret_lock)
{
    char what[600];
    snprintf(what, sizeof what, "cannot %s '%.511s'", verb, name);
    return tool_ask(tool, WORDS("LOCK.SHOW", name), what, ret_lock);
}
