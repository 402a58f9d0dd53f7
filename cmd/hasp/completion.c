/* SPDX-License-Identifier: MIT */

/* hasp completion: a script for the shell, which asks 'hasp completion --words'
 * what can follow. The answer comes from the table of subcommands, and the
 * cluster is asked for names of locks, sessions, members, resources and limits.
 *
 * An answer is a line for each word: the word, a tab, its meaning. For "@file"
 * and "@command" the shell's own completion is used. */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/embed.h"
#include "cmd/hasp/nodes.h"
#include "cmd/hasp/option_spec.h"
#include "cmd/hasp/tool.h"

/* Time limit for the cluster, so that the shell does not hang. */
#define ASK_MS 700

EMBED_TEXT(hasp_shell_bash, "cmd/hasp/shell/hasp.bash");
EMBED_TEXT(hasp_shell_zsh, "cmd/hasp/shell/hasp.zsh");
EMBED_TEXT(hasp_shell_fish, "cmd/hasp/shell/hasp.fish");

/* --- What begins like the word -------------------------------------------- */

static void completion_put(const char *word, const char *size_of_word,
                           const char *begun, const char *meaning)
{
    size_t size = size_of_word != NULL ? (size_t)(size_of_word - word)
                                       : strlen(word);
    if (strlen(begun) <= size && strncmp(word, begun, strlen(begun)) == 0) {
        printf("%.*s\t%s\n", (int)size, word, meaning);
    }
}

/* Prints the choices of "a|b|c". */
static void put_choices(const char *text, size_t size, const char *begun)
{
    const char *end = text + size;
    while (text < end) {
        size_t length = strcspn(text, "| ");
        completion_put(text, text + length, begun, "");
        text += length + 1;
    }
}

/* The values under 'key' of the records of a list. */
static void completion_put_list(struct tool *tool, const char *command,
                                const char *key, const char *meaning,
                                const char *begun)
{
    json_auto_t *rows = NULL;
    json_t *row;
    size_t i;
    bool is_text = strcmp(key, "id") != 0;
    if (tool_list(tool, command, is_text ? begun : NULL, &rows) != 0) {
        return;
    }
    json_array_foreach (rows, i, row) {
        value_make_printable(row);
        completion_put(is_text ? value_text(row, key)
                               : NUMBER(value_number(row, key)),
                       NULL, begun, value_text(row, meaning));
    }
}

static void completion_put_members(struct tool *tool, const char *begun)
{
    json_auto_t *nodes = nodes_ask(tool, NODES_LEADER);
    json_t *member;
    size_t i;
    json_array_foreach (value_at(nodes_best(nodes), "members"), i, member) {
        completion_put(NUMBER(value_number(member, "id")), NULL, begun,
                       value_text(member, "address"));
    }
}

static void put_limits(struct tool *tool, const char *begun)
{
    json_auto_t *rows = NULL;
    json_t *row;
    size_t i;
    tool_ask(tool, WORDS("LIMITS.LIST"), NULL, &rows);
    json_array_foreach (rows, i, row) {
        completion_put(value_text(row, "name"), NULL, begun, "");
    }
}

/* Prints the possible values of an operand or of an option's value, by its
 * name. */
static void put_values(struct tool *tool, const char *name, size_t size,
                       const char *begun)
{
    const struct subcommand *s = tool->subcommand;
    bool is_member = s != NULL && strncmp(s->name, "member ", 7) == 0;
    char word[40];
    snprintf(word, sizeof word, "%.*s", (int)size, name);
    if (strchr(word, '|') != NULL) {
        put_choices(word, strlen(word), begun);
    } else if (strncmp(word, "NAME", 4) == 0 || strcmp(word, "PREFIX") == 0) {
        bool is_session = s != NULL && strncmp(s->name, "session", 7) == 0;
        bool is_fence = s != NULL && strncmp(s->name, "fence", 5) == 0;
        completion_put_list(tool,
                            is_session ? "SESSION.LIST"
                            : is_fence ? "FENCE.LIST"
                                       : "LOCK.LIST",
                            is_fence ? "resource" : "name",
                            is_session ? "address" : "holders.0.client", begun);
    } else if (strcmp(word, "RESOURCE") == 0) {
        completion_put_list(tool, "FENCE.LIST", "resource", "", begun);
    } else if (strcmp(word, "ID") == 0 && is_member) {
        completion_put_members(tool, begun);
    } else if (strcmp(word, "ID") == 0) {
        completion_put_list(tool, "SESSION.LIST", "id", "name", begun);
    } else if (strcmp(word, "LIMIT") == 0) {
        put_limits(tool, begun);
    } else if (strcmp(word, "FILE") == 0 || strcmp(word, "DIR") == 0) {
        puts("@file");
    } else if (strncmp(word, "COMMAND", 7) == 0) {
        puts("@command");
    }
}

/* --- Options -------------------------------------------------------------- */

/* Finds the option 'word'. */
static bool find_option(const char *details, const char *word,
                        struct option_spec *ret_option)
{
    bool is_long = word[1] == '-';
    const char *name = is_long ? word + 2 : NULL;
    size_t size = is_long ? strlen(name) : 0;
    if (!is_long && (word[1] == '\0' || word[2] != '\0')) {
        return false;
    }
    return option_spec_find(details, name, size, word[1], ret_option) ||
           option_spec_find(tool_options_text, name, size, word[1], ret_option);
}

static void completion_put_options(const char *details, const char *begun)
{
    const char *texts[] = {details, tool_options_text};
    struct option_spec option;
    for (int i = 0; i < 2; i++) {
        const char *text = texts[i];
        while (option_spec_next(&text, &option)) {
            /* The name includes its two hyphens. */
            completion_put(option.name - 2, option.name + option.name_size,
                           begun, "");
        }
    }
}

/* --- The words ------------------------------------------------------------ */

/* Prints the first words of subcommands, or the second ones of 'group'. */
static void put_subcommands(const struct tool *tool, const char *group,
                            const char *begun)
{
    const char *before = "";
    for (const struct subcommand *s = tool->subcommands; s->name != NULL; s++) {
        size_t size = strcspn(s->name, " ");
        bool is_inside = group != NULL && strlen(group) == size &&
                         strncmp(s->name, group, size) == 0 &&
                         s->name[size] == ' ';
        if (is_inside) {
            completion_put(s->name + size + 1, NULL, begun, s->summary);
        } else if (group == NULL && strncmp(before, s->name, size + 1) != 0) {
            completion_put(s->name, s->name + size, begun,
                           s->name[size] == '\0' ? s->summary : "");
            before = s->name;
        }
    }
    if (group == NULL) {
        completion_put("help", NULL, begun, "what a subcommand does");
    }
}

/* Prints the values of the subcommand's i-th operand, by its line of usage. */
static void put_operand(struct tool *tool, size_t i, const char *begun)
{
    const char *at = tool->subcommand->arguments;
    bool is_option = false;
    while (*at != '\0') {
        size_t size = strcspn(at, " ");
        const char *word = at + strspn(at, "[");
        size_t length = strcspn(word, " ].");
        bool is_operand = !is_option && word[0] != '-' && word[0] != '|';
        is_option = word[0] == '-' && word[length] == ' ' && word[2] != '\0';
        bool is_last = strncmp(word + length, "...", 3) == 0;
        if (is_operand && (i == 0 || is_last)) {
            put_values(tool, word, length, begun);
            return;
        }
        i -= is_operand;
        at += size + (at[size] == ' ');
    }
}

/* The words before the one that is being typed. */
struct line {
    const char *operands[3]; /* The first words that are not options. */
    size_t count;
    /* The option whose value is typed, if it has a name. */
    struct option_spec option;
};

/* Asks the cluster that the command line names. */
static void take_endpoints(struct tool *tool, const struct option_spec *option,
                           char *value)
{
    char why[HASP_WHY_SIZE];
    struct endpoints endpoints = {0};
    if (option->letter == 'e' && endpoints_parse(value, &endpoints, why) == 0) {
        endpoints_done(&tool->endpoints);
        tool->endpoints = endpoints;
    }
}

static void completion_read_line(struct tool *tool, char **words,
                                 const char *details, struct line *line)
{
    *line = (struct line){.operands = {"", "", ""}};
    for (; words[0] != NULL && words[1] != NULL; words++) {
        struct option_spec option = {0};
        line->option = (struct option_spec){0};
        if (words[0][0] != '-') {
            if (line->count < 3) {
                line->operands[line->count] = words[0];
            }
            line->count++;
        } else if (find_option(details, words[0], &option) &&
                   option.value_size > 0) {
            if (words[2] == NULL) {
                line->option = option;
            } else {
                words++;
                take_endpoints(tool, &option, words[0]);
            }
        }
    }
}

static void completion_complete(struct tool *tool, char **words)
{
    struct line line;
    const char *begun = "";
    for (char **word = words; *word != NULL; word++) {
        begun = *word;
    }
    completion_read_line(tool, words, NULL, &line);
    if (strcmp(line.operands[0], "help") == 0) {
        put_subcommands(tool, line.count > 1 ? line.operands[1] : NULL, begun);
        return;
    }
    tool->subcommand = line.count > 0
                           ? tool_find(tool, line.operands[0], line.operands[1])
                           : NULL;
    const char *details = tool->subcommand != NULL ? tool->subcommand->details
                                                   : NULL;
    completion_read_line(tool, words, details, &line);
    if (line.option.name != NULL) {
        put_values(tool, line.option.value, line.option.value_size, begun);
    } else if (begun[0] == '-') {
        completion_put_options(details, begun);
    } else if (tool->subcommand == NULL) {
        put_subcommands(tool, line.count > 0 ? line.operands[0] : NULL, begun);
    } else {
        size_t own = strchr(tool->subcommand->name, ' ') != NULL ? 2 : 1;
        if (own == 1 && line.count == 1) {
            put_subcommands(tool, line.operands[0], begun); /* limits set */
        }
        put_operand(tool, line.count - own, begun);
    }
}

int run_completion(struct tool *tool, char **argv)
{
    static const struct {
        const char *name;
        const char *script;
    } shells[] = {{"bash", hasp_shell_bash},
                  {"zsh", hasp_shell_zsh},
                  {"fish", hasp_shell_fish}};
    bool is_asked = false;
    const struct option_row rows[] = {
        {"words", OPTION_FLAG, .value = &is_asked}, {0}};
    int exit_code = options_read(tool, argv, rows, 0, SIZE_MAX);
    if (exit_code != 0) {
        return exit_code;
    }
    if (is_asked) {
        tool->timeout_ms = ASK_MS;
        tool->is_quiet = true;
        completion_complete(tool, argv + 1);
        return 0;
    }
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (argv[1] != NULL && strcmp(argv[1], shells[i].name) == 0) {
            fputs(shells[i].script, stdout);
            return 0;
        }
    }
    return tool_usage(tool, "which shell? bash, zsh or fish");
}
