/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/secret.h"
#include "client/shown.h"
#include "include/hasp/hasp.h"

/* Room for a message, even with two paths. */
#define SAY_SIZE (2 * PATH_MAX + 1024)

__attribute__((format(printf, 1, 0))) static void
tool_say_text(const char *format, va_list args)
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
    tool_say_text(format, args);
    va_end(args);
    return exit_code;
}

void tool_say(const struct tool *tool, const char *format, ...)
{
    va_list args;
    if (!tool->is_quiet) {
        va_start(args, format);
        tool_say_text(format, args);
        va_end(args);
    }
}

int tool_usage(const struct tool *tool, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tool_say_text(format, args);
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

/* The exit code for each error word of the server, and a text for people if
 * the server's is not enough. */
struct word {
    const char *word;
    int exit_code;
    const char *text;
};

static const struct word *find_word(const char *code)
{
    static const struct word words[] = {
        {"NOSESSION", EX_DATAERR,
         "no such session (it may have ended), or the secret is wrong; see: "
         "hasp session list"},
        {"EXPIRED", EX_DATAERR, "the session has ended"},
        {"NOTHELD", EX_DATAERR,
         "this session and owner do not hold the lock; see: hasp show NAME"},
        {"BADARG", EX_USAGE, NULL},
        {"BLACKLISTED", EX_NOPERM,
         "this client is on the blacklist; see: hasp blacklist list"},
        {"NOAUTH", EX_NOPERM, "the node requires a user and a password"},
        {"WRONGPASS", EX_NOPERM, NULL},
        {"NOTLS", EX_CONFIG, NULL},
        {"FOREIGN", EX_CONFIG, NULL},
        {"NOPERM", EX_NOPERM, "not allowed"},
        {"DEADLOCK", EX_TEMPFAIL,
         "the wait would never end: the holder waits for this session "
         "(deadlock)"},
        {"LIMIT", EX_TEMPFAIL, "a limit or a quota is reached"},
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

/* Explains a failure; 'code' is the server's word, or "". */
static int tool_explain(int error, const char *code, const char *why,
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
            "HASP_ENDPOINTS, or start a test cluster with: hasp dev",
            what, why);
    case HASP_ECERT:
        return tool_fail(EX_CONFIG, "%s: %s", what, why);
    case HASP_ENOTLEADER:
        return tool_fail(EX_UNAVAILABLE, "%s: %s; see: hasp status", what, why);
    case HASP_EPROTO:
        return tool_fail(EX_PROTOCOL,
                         "%s: %s; check that %s is a port for clients", what,
                         why, peer);
    case HASP_EINTR:
        return tool_fail(EX_UNAVAILABLE, "%s: interrupted", what);
    default:
        return tool_fail(error == HASP_EINVALID ? EX_USAGE : EX_UNAVAILABLE,
                         "%s: %s", what, why);
    }
}

int tool_client_error(const struct client *client, int error, const char *what)
{
    return tool_explain(error, error == HASP_EREPLY ? client_code(client) : "",
                        client_why(client), client_peer(client), what);
}

int tool_hasp_error(const struct tool *tool, int error, const char *what)
{
    /* A refusal of the cluster begins with its word. */
    char word[32] = "";
    const char *why = hasp_why();
    size_t size = strspn(why, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (size > 1 && size < sizeof word && why[size] == ':') {
        snprintf(word, sizeof word, "%.*s", (int)size, why);
        why += size + (why[size + 1] == ' ' ? 2 : 1);
    }
    return tool_explain(error, word, why, tool->endpoints_text, what);
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

void tool_print(const struct tool *tool, json_t *record, const char *text)
{
    if (tool->format == FORMAT_JSON) {
        output_json(record);
    } else {
        puts(text);
    }
    json_decref(record);
}

void tool_print_number(const struct tool *tool, const char *key,
                       uint64_t number)
{
    tool_print(tool, json_pack("{s:I}", key, (json_int_t)number),
               NUMBER(number));
}

/* --- The connection ------------------------------------------------------- */

/* Makes the admin socket the only endpoint. */
static int read_socket(struct tool *tool)
{
    char *folder = realpath(tool->socket_text, NULL);
    if (tool->endpoints_text != NULL && tool->endpoints.count == 0) {
        free(folder);
        return tool_fail(EX_USAGE,
                         "--socket names the only node to ask: drop -e");
    }
    if (tool->secret_text != NULL) {
        free(folder);
        return tool_fail(
            EX_USAGE, "--socket needs no authentication: drop --secret-file");
    }
    if (folder == NULL) {
        return tool_fail(EX_NOINPUT, "--socket: '%s': %s", tool->socket_text,
                         strerror(errno));
    }
    tool->endpoints_text = folder; /* Kept until the tool exits. */
    return 0;
}

int tool_read_endpoints(struct tool *tool)
{
    char why[HASP_WHY_SIZE];
    const char *from = "-e";
    int exit_code = tool->socket_text != NULL ? read_socket(tool) : 0;
    if (exit_code != 0) {
        return exit_code;
    }
    if (tool->endpoints_text == NULL) {
        tool->endpoints_text = getenv("HASP_ENDPOINTS");
        from = "HASP_ENDPOINTS";
    }
    if (tool->endpoints_text == NULL || tool->endpoints_text[0] == '\0') {
        tool->endpoints_text = ENDPOINTS_DEFAULT;
    }
    if (endpoints_parse(tool->endpoints_text, &tool->endpoints, why) != 0) {
        return tool_fail(EX_USAGE, "%s: %s", from, why);
    }
    from = "--tls";
    if (tool->tls_text == NULL) {
        tool->tls_text = getenv("HASP_TLS");
        from = "HASP_TLS";
    }
    int error = shown_open(tool->tls_text, NULL, tool->secret_text,
                           &tool->shown, why);
    return error == 0            ? 0
           : error == HASP_ECERT ? tool_fail(EX_CONFIG, "%s: %s", from, why)
                                 : tool_fail(EX_NOPERM, "%s", why);
}
