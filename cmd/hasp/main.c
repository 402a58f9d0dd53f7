/* SPDX-License-Identifier: MIT */

/* hasp, the command line tool: global options, one table of subcommands. */

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "client/secret.h"
#include "client/shown.h"
#include "cmd/hasp/tool.h"

static void main_print_lines(FILE *out, const char *text)
{
    while (*text != '\0') {
        int size = (int)strcspn(text, "\n");
        fprintf(out, "  %.*s\n", size, text);
        text += size + (text[size] == '\n');
    }
}

static void print_notes(const char *name)
{
    struct bytes notes = manual_notes(name);
    if (notes.size > 0) {
        printf("\n%.*s\n", (int)notes.size, (const char *)notes.data);
    }
}

static void print_help(FILE *out)
{
    const char *topic = "";
    fputs("usage: hasp [options] SUBCOMMAND ...\n\n", out);
    main_print_lines(out, tool_options_text);
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        if (strcmp(s->topic, topic) != 0) {
            topic = s->topic;
            fprintf(out, "\n%s\n", topic);
        }
        fprintf(out, "  %-17s %s\n", s->name, s->summary);
    }
    fputs("\nhasp help SUBCOMMAND prints more; options can appear anywhere. "
          "Data goes to\nstdout, messages to stderr. Exit codes: 64 usage, 65 "
          "no such thing, 66 a file\nthat cannot be read, 69 no leader or no "
          "node, 70 storage error, 73 exists\nalready, 75 not acquired in "
          "time, 76 not a hasp node, 77 denied,\n78 configuration, 79 lock "
          "lost.\n",
          out);
}

static void print_subcommand(const struct subcommand *s)
{
    printf("usage: hasp %s%s%s\n\n%s\n", s->name,
           s->arguments[0] == '\0' ? "" : " ", s->arguments, s->summary);
    if (s->details != NULL) {
        putchar('\n');
        main_print_lines(stdout, s->details);
    }
    print_notes(s->name);
}

const struct subcommand *tool_find(const char *first, const char *second)
{
    char two[64];
    const struct subcommand *found = NULL;
    snprintf(two, sizeof two, "%.30s %.30s", first, second);
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        if (strcmp(s->name, two) == 0) {
            return s;
        }
        found = strcmp(s->name, first) == 0 ? s : found;
    }
    return found;
}

static const struct subcommand *main_find(char **argv)
{
    return tool_find(argv[0], argv[1] != NULL ? argv[1] : "");
}

static bool is_in_group(const struct subcommand *s, const char *group)
{
    size_t size = strlen(group);
    return strncmp(s->name, group, size) == 0 && s->name[size] == ' ';
}

/* Prints the subcommands of a group; false if there is no such group. */
static bool print_group(const char *group)
{
    bool is_group = false;
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        if (is_in_group(s, group)) {
            printf("%s hasp %s%s%s\n", is_group ? "      " : "usage:", s->name,
                   s->arguments[0] == '\0' ? "" : " ", s->arguments);
            is_group = true;
        }
    }
    if (is_group) {
        putchar('\n');
    }
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        if (is_in_group(s, group)) {
            printf("  %-17s %s\n", s->name, s->summary);
        }
    }
    print_notes(group);
    return is_group;
}

/* Puts the first words of all subcommands, or the second ones of a group, with
 * 'separator' between them. */
static void main_put_words(struct buffer *out, const char *group,
                           const char *separator)
{
    const char *before = "";
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        size_t size = strcspn(s->name, " ");
        if (group != NULL && is_in_group(s, group)) {
            buffer_printf(out, "%s%s", out->size > 0 ? separator : "",
                          s->name + size + 1);
        } else if (group == NULL && strncmp(s->name, before, size + 1) != 0) {
            buffer_printf(out, "%s%.*s", out->size > 0 ? separator : "",
                          (int)size, s->name);
            before = s->name;
        }
    }
    buffer_put_u8(out, '\0');
}

static int unknown_subcommand(char **argv)
{
    AUTO(buffer_done) struct buffer words = {0};
    AUTO(buffer_done) struct buffer list = {0};
    char nearest[64];
    main_put_words(&words, argv[0], " ");
    bool is_group = words.size > 1;
    main_put_words(&list, is_group ? argv[0] : NULL, ", ");
    if (!is_group) {
        buffer_clear(&words);
        main_put_words(&words, NULL, " ");
    }
    const char *word = is_group ? argv[1] : argv[0];
    options_nearest(word != NULL ? word : "", (const char *)words.data, nearest,
                    sizeof nearest);
    if (word == NULL) {
        tool_fail(0, "'%s' needs one of: %s", argv[0], (const char *)list.data);
    } else if (nearest[0] != '\0') {
        tool_fail(0, "unknown subcommand '%s%s%s'; did you mean %s%s%s?",
                  is_group ? argv[0] : "", is_group ? " " : "", word,
                  is_group ? argv[0] : "", is_group ? " " : "", nearest);
    } else if (is_group) {
        tool_fail(0, "unknown subcommand '%s %s'; use one of: %s", argv[0],
                  word, (const char *)list.data);
    } else {
        tool_fail(0, "unknown subcommand '%s'; see: hasp help", word);
    }
    return EX_USAGE;
}

static bool asks_for_help(char **argv)
{
    return argv[1] != NULL &&
           (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

static int main_help(char **argv)
{
    if (argv[0] == NULL) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[0], "--man") == 0) {
        if (argv[1] != NULL) {
            return manual_print_page(argv[1]);
        }
        manual_print();
        return 0;
    }
    const struct subcommand *s = main_find(argv);
    if (s == NULL && argv[1] == NULL && print_group(argv[0])) {
        return 0;
    }
    if (s == NULL) {
        return unknown_subcommand(argv);
    }
    print_subcommand(s);
    return 0;
}

int tool_help(const struct tool *tool, bool is_version)
{
    if (is_version) {
        printf("hasp %s\n", HASP_VERSION);
    } else if (tool->subcommand != NULL) {
        print_subcommand(tool->subcommand);
    } else {
        print_help(stdout);
    }
    return -1;
}

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

static int main_dispatch(struct tool *tool, char **argv)
{
    if (argv[0] == NULL) {
        print_help(stderr);
        return EX_USAGE;
    }
    if (strcmp(argv[0], "help") == 0) {
        return main_help(argv + 1);
    }
    tool->subcommand = main_find(argv);
    if (tool->subcommand == NULL) {
        return asks_for_help(argv) && print_group(argv[0])
                   ? 0
                   : unknown_subcommand(argv);
    }
    argv += strchr(tool->subcommand->name, ' ') != NULL;
    int exit_code = tool->subcommand->details == NULL
                        ? options_read_operands(tool, argv)
                        : 0;
    return exit_code ?: tool->subcommand->run(tool, argv);
}

int main(int argc, char **argv)
{
    struct tool tool = {.timeout_ms = TIMEOUT_DEFAULT_MS};
    setlocale(LC_CTYPE, "");
    (void)argc;
    int exit_code = options_read_before(&tool, argv, NULL, 0);
    exit_code = exit_code ?: main_dispatch(&tool, argv + 1);
    client_free(tool.client);
    endpoints_done(&tool.endpoints);
    shown_unref(tool.shown);
    /* A full disk or a closed pipe must not pass for success. */
    if (fflush(stdout) != 0 && exit_code <= 0) {
        exit_code = tool_fail(EX_IOERR, "cannot write to stdout");
    }
    return exit_code < 0 ? 0 : exit_code;
}
