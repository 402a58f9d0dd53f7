/* SPDX-License-Identifier: MIT */

/* hasp, the command line tool: global options, one table of subcommands. */

#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/hasp/tool.h"

/* Columns, a little less than a terminal has. */
#define NOTES_WIDTH 76

static void print_lines(FILE *out, const char *text)
{
    while (*text != '\0') {
        int size = (int)strcspn(text, "\n");
        fprintf(out, "  %.*s\n", size, text);
        text += size + (text[size] == '\n');
    }
}

/* Each line of the notes is a paragraph. */
static void print_notes(const char *name)
{
    const char *text = manual_notes(name);
    size_t column = 0;
    if (text == NULL) {
        return;
    }
    putchar('\n');
    while (*text != '\0') {
        size_t size = strcspn(text, " \n");
        if (column > 0 && column + 1 + size > NOTES_WIDTH) {
            putchar('\n');
            column = 0;
        }
        column += (size_t)printf("%s%.*s", column > 0 ? " " : "", (int)size,
                                 text);
        text += size;
        if (*text == '\n') {
            fputs("\n\n", stdout);
            column = 0;
        }
        text += *text != '\0';
    }
    putchar('\n');
}

static void print_help(FILE *out)
{
    fputs("usage: hasp [options] SUBCOMMAND ...\n\n", out);
    print_lines(out, tool_options_text);
    fputc('\n', out);
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        fprintf(out, "  %-17s %s\n", s->name, s->summary);
    }
    fputs("\nhasp help SUBCOMMAND tells more. Data goes to stdout, talk to "
          "stderr. Exit codes:\n"
          "64 usage, 65 no such thing, 69 no leader or no node, 70 storage "
          "error, 73 exists\n"
          "already, 75 not acquired in time, 76 not a node of hasp, 77 "
          "denied,\n"
          "78 configuration, 79 lock lost.\n",
          out);
}

static void print_subcommand(const struct subcommand *s)
{
    printf("usage: hasp %s%s%s\n\n%s\n", s->name,
           s->arguments[0] == '\0' ? "" : " ", s->arguments, s->summary);
    if (s->details != NULL) {
        putchar('\n');
        print_lines(stdout, s->details);
    }
    print_notes(s->name);
}

/* Finds "first second" or "first"; tells how many words that was. */
static const struct subcommand *find(int argc, char **argv, int *ret_words)
{
    char two[64] = "";
    if (argc > 1) {
        snprintf(two, sizeof two, "%.30s %.30s", argv[0], argv[1]);
    }
    const struct subcommand *found = NULL;
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        if (strcmp(s->name, two) == 0) {
            *ret_words = 2;
            return s;
        }
        if (strcmp(s->name, argv[0]) == 0) {
            *ret_words = 1;
            found = s;
        }
    }
    return found;
}

static bool is_in_group(const struct subcommand *s, const char *group)
{
    size_t size = strlen(group);
    return strncmp(s->name, group, size) == 0 && s->name[size] == ' ';
}

/* True if there is such a group; its subcommands are then printed. */
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

static int unknown_subcommand(int argc, char **argv)
{
    struct buffer group = {0};
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        if (is_in_group(s, argv[0])) {
            buffer_printf(&group, "%s%s", group.size > 0 ? ", " : "",
                          s->name + strlen(argv[0]) + 1);
        }
    }
    buffer_put_u8(&group, '\0');
    int exit_code = group.size > 1
                        ? tool_fail(EX_USAGE, "'%s' needs one of: %s%s%s",
                                    argv[0], (const char *)group.data,
                                    argc > 1 ? "; not " : "",
                                    argc > 1 ? argv[1] : "")
                        : tool_fail(EX_USAGE,
                                    "'%s' is no subcommand; see: hasp help",
                                    argv[0]);
    buffer_done(&group);
    return exit_code;
}

static bool asks_for_help(int argc, char **argv)
{
    return argc > 1 &&
           (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

static int help(int argc, char **argv)
{
    int words;
    if (argc == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[0], "--man") == 0) {
        manual_print();
        return 0;
    }
    const struct subcommand *s = find(argc, argv, &words);
    if (s == NULL && argc == 1 && print_group(argv[0])) {
        return 0;
    }
    if (s == NULL) {
        return unknown_subcommand(argc, argv);
    }
    print_subcommand(s);
    return 0;
}

static bool parse_format(const char *text, enum format *ret_format)
{
    static const char *const names[] = {"table", "json", "plain"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_format = (enum format)i;
            return true;
        }
    }
    return false;
}

/* Reads the options before the subcommand; 0, or an exit code, or -1: done. */
static int read_options(struct tool *tool, int argc, char **argv)
{
    static const struct option options[] = {
        {"endpoints", required_argument, NULL, 'e'},
        {"output", required_argument, NULL, 'o'},
        {"timeout", required_argument, NULL, 't'},
        {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {0},
    };
    int option;
    tool_options_begin();
    while ((option = getopt_long(argc, argv, "+e:o:t:qhV", options, NULL)) !=
           -1) {
        switch (option) {
        case 'e':
            tool->endpoints_text = optarg;
            break;
        case 'o':
            if (!parse_format(optarg, &tool->format)) {
                return tool_fail(EX_USAGE,
                                 "'%s' is no format; use table, json or plain",
                                 optarg);
            }
            break;
        case 't':
            if (!duration_parse(optarg, &tool->timeout_ms)) {
                return tool_fail(EX_USAGE, "'%s' is no time; write 5s or 500ms",
                                 optarg);
            }
            break;
        case 'q':
            tool->is_quiet = true;
            break;
        case 'h':
            print_help(stdout);
            return -1;
        case 'V':
            printf("hasp %s\n", HASP_VERSION);
            return -1;
        default:
            return tool_fail(EX_USAGE,
                             "'%s' is no option of hasp, or its value is "
                             "missing; see: hasp help",
                             argv[optind > 1 ? optind - 1 : 1]);
        }
    }
    return 0;
}

static int read_endpoints(struct tool *tool)
{
    char why[HASP_WHY_SIZE];
    const char *from = "-e";
    if (tool->endpoints_text == NULL) {
        tool->endpoints_text = getenv("HASP_ENDPOINTS");
        from = "HASP_ENDPOINTS";
    }
    if (tool->endpoints_text == NULL || tool->endpoints_text[0] == '\0') {
        tool->endpoints_text = ENDPOINTS_DEFAULT;
    }
    return endpoints_parse(tool->endpoints_text, &tool->endpoints, why) == 0
               ? 0
               : tool_fail(EX_USAGE, "%s: %s", from, why);
}

static int dispatch(struct tool *tool, int argc, char **argv)
{
    int words;
    if (argc == 0) {
        print_help(stderr);
        return EX_USAGE;
    }
    if (strcmp(argv[0], "help") == 0) {
        return help(argc - 1, argv + 1);
    }
    tool->subcommand = find(argc, argv, &words);
    if (tool->subcommand == NULL) {
        return asks_for_help(argc, argv) && print_group(argv[0])
                   ? 0
                   : unknown_subcommand(argc, argv);
    }
    argc -= words - 1;
    argv += words - 1;
    if (asks_for_help(argc, argv)) {
        print_subcommand(tool->subcommand);
        return 0;
    }
    int exit_code = read_endpoints(tool);
    return exit_code != 0 ? exit_code : tool->subcommand->run(tool, argc, argv);
}

int main(int argc, char **argv)
{
    struct tool tool = {.timeout_ms = TIMEOUT_DEFAULT_MS};
    setlocale(LC_CTYPE, "");
    int exit_code = read_options(&tool, argc, argv);
    if (exit_code == 0) {
        exit_code = dispatch(&tool, argc - optind, argv + optind);
    }
    client_free(tool.client);
    endpoints_done(&tool.endpoints);
    /* A full disk or a closed pipe must not pass for success. */
    if (fflush(stdout) != 0 && exit_code <= 0) {
        exit_code = tool_fail(EX_IOERR, "cannot write to stdout");
    }
    return exit_code < 0 ? 0 : exit_code;
}
