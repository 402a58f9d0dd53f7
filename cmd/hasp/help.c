/* SPDX-License-Identifier: MIT */

/* hasp help: what the table of subcommands says about all, a group, or one. */

#include "cmd/hasp/help.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cmd/hasp/options.h"

static void help_put_lines(FILE *out, const char *text)
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

void help_print(const struct tool *tool, FILE *out)
{
    const char *topic = "";
    fputs("usage: hasp [options] SUBCOMMAND ...\n\n", out);
    help_put_lines(out, tool_options_text);
    for (const struct subcommand *s = tool->subcommands; s->name != NULL; s++) {
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
          "lost, 80 seal failed.\n",
          out);
}

static void print_subcommand(const struct subcommand *s)
{
    printf("usage: hasp %s%s%s\n\n%s\n", s->name,
           s->arguments[0] == '\0' ? "" : " ", s->arguments, s->summary);
    if (s->details != NULL) {
        putchar('\n');
        help_put_lines(stdout, s->details);
    }
    print_notes(s->name);
}

const struct subcommand *tool_find(const struct tool *tool, const char *first,
                                   const char *second)
{
    char two[64];
    const struct subcommand *found = NULL;
    snprintf(two, sizeof two, "%.30s %.30s", first, second);
    for (const struct subcommand *s = tool->subcommands; s->name != NULL; s++) {
        if (strcmp(s->name, two) == 0) {
            return s;
        }
        found = strcmp(s->name, first) == 0 ? s : found;
    }
    return found;
}

const struct subcommand *help_find(const struct tool *tool, char **argv)
{
    return tool_find(tool, argv[0], argv[1] != NULL ? argv[1] : "");
}

static bool is_in_group(const struct subcommand *s, const char *group)
{
    size_t size = strlen(group);
    return strncmp(s->name, group, size) == 0 && s->name[size] == ' ';
}

bool help_print_group(const struct tool *tool, const char *group)
{
    bool is_group = false;
    for (const struct subcommand *s = tool->subcommands; s->name != NULL; s++) {
        if (is_in_group(s, group)) {
            printf("%s hasp %s%s%s\n", is_group ? "      " : "usage:", s->name,
                   s->arguments[0] == '\0' ? "" : " ", s->arguments);
            is_group = true;
        }
    }
    if (is_group) {
        putchar('\n');
    }
    for (const struct subcommand *s = tool->subcommands; s->name != NULL; s++) {
        if (is_in_group(s, group)) {
            printf("  %-17s %s\n", s->name, s->summary);
        }
    }
    print_notes(group);
    return is_group;
}

/* Puts the first words of all subcommands, or the second ones of a group, with
 * 'separator' between them. */
static void help_put_words(const struct tool *tool, struct buffer *out,
                           const char *group, const char *separator)
{
    const char *before = "";
    for (const struct subcommand *s = tool->subcommands; s->name != NULL; s++) {
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

int help_unknown(const struct tool *tool, char **argv)
{
    AUTO(buffer_done) struct buffer words = {0};
    AUTO(buffer_done) struct buffer list = {0};
    char nearest[64];
    help_put_words(tool, &words, argv[0], " ");
    bool is_group = words.size > 1;
    help_put_words(tool, &list, is_group ? argv[0] : NULL, ", ");
    if (!is_group) {
        buffer_clear(&words);
        help_put_words(tool, &words, NULL, " ");
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

int help_run(const struct tool *tool, char **argv)
{
    if (argv[0] == NULL) {
        help_print(tool, stdout);
        return 0;
    }
    if (strcmp(argv[0], "--man") == 0) {
        if (argv[1] != NULL) {
            return manual_print_page(tool, argv[1]);
        }
        manual_print(tool->subcommands);
        return 0;
    }
    const struct subcommand *s = help_find(tool, argv);
    if (s == NULL && argv[1] == NULL && help_print_group(tool, argv[0])) {
        return 0;
    }
    if (s == NULL) {
        return help_unknown(tool, argv);
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
        help_print(tool, stdout);
    }
    return -1;
}
