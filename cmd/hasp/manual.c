/* SPDX-License-Identifier: MIT */

/* hasp help --man: the manual page, made from the table of subcommands. */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/embed.h"
#include "base/roff.h"
#include "cmd/hasp/tool.h"

/* For each subcommand or group: a heading, and paragraphs. */
EMBED_TEXT(hasp_notes, "cmd/hasp/notes.txt");

struct term {
    const char *name;
    const char *meaning;
};

static const struct term exit_codes[] = {
    {"0", "Done, or yes."},
    {"1", "No (hasp check), or a warning (hasp doctor)."},
    {"2", "A failure (hasp doctor)."},
    {"64", "Wrong usage."},
    {"65", "A name does not exist, or a value does not fit."},
    {"69", "No leader, no node or no answer."},
    {"70", "The disk failed, or its data is corrupt (hasp snapshot)."},
    {"73", "The output exists already (hasp snapshot)."},
    {"75", "Not acquired in time (-E changes it); member add did not finish in "
           "time."},
    {"76", "The peer is not a hasp node."},
    {"77", "Denied."},
    {"78", "Wrong configuration."},
    {"79", "The lock was lost; the command was stopped before the lock could "
           "pass on."},
    {"80", "The command of --seal failed or took too long; the lock was given "
           "back."},
    {"other", "The exit status of the command of hasp run."},
};

static const struct term variables[] = {
    {"HASP_ENDPOINTS", "The nodes, as for -e."},
    {"HASP_LOCK, HASP_TOKEN, HASP_SESSION",
     "Set for the command of hasp run: the name of the lock, the token of the "
     "hold, the number of the session. With several locks, one line for each."},
    {"HASP_CREDENTIALS", "ID:SECRET of a session; see hasp acquire."},
    {"HASP_RUNS",
     "Set for the command of hasp run: one entry for it and for each hasp run "
     "around it."},
    {"NO_COLOR", "If set and not empty: no colours."},
    {"TRACEPARENT",
     "A W3C traceparent, shown with what hasp run and hasp acquire hold."},
};

struct bytes manual_notes(const char *name)
{
    char heading[64];
    int size = snprintf(heading, sizeof heading, "\n[%s]\n\n", name);
    const char *at = strstr(hasp_notes, heading);
    if (at == NULL) {
        return bytes_of(NULL, 0);
    }
    at += size;
    return bytes_of(at, (size_t)(strstr(at, "\n\n[") - at));
}

static size_t first_word(const struct subcommand *s)
{
    return strcspn(s->name, " ");
}

static bool is_same_group(const struct subcommand *a,
                          const struct subcommand *b)
{
    return first_word(a) == first_word(b) &&
           strncmp(a->name, b->name, first_word(a)) == 0;
}

/* --- The manual page ------------------------------------------------------ */

/* Puts an option and its meaning, which are two blanks apart; or the
 * continuation of a meaning. */
static void put_option(const char *line, size_t size)
{
    size_t from = 0, end;
    while (from < size && line[from] == ' ') {
        from++;
    }
    if (line[from] != '-') {
        roff_put(stdout, line + from, size - from);
        putchar('\n');
        return;
    }
    for (end = from; end + 1 < size; end++) {
        if (line[end] == ' ' && line[end + 1] == ' ') {
            break;
        }
    }
    end = end + 1 < size ? end : size;
    fputs(".TP\n.B ", stdout);
    roff_put(stdout, line + from, end - from);
    putchar('\n');
    while (end < size && line[end] == ' ') {
        end++;
    }
    roff_put(stdout, line + end, size - end);
    putchar('\n');
}

static void manual_put_options(const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t size = strcspn(text, "\n");
        bool is_prose = isupper((unsigned char)text[0]);
        if (is_prose) {
            puts(".PP");
        }
        put_option(text, size);
        text += size + (text[size] == '\n');
    }
}

static void put_notes(const char *name)
{
    struct bytes notes = manual_notes(name);
    const char *text = (const char *)notes.data;
    while (notes.size > 0) {
        const char *end = memmem(text, notes.size, "\n\n", 2);
        size_t size = end != NULL ? (size_t)(end - text) : notes.size;
        puts(".PP");
        roff_put(stdout, text, size);
        putchar('\n');
        size += end != NULL ? 2 : 0;
        text += size;
        notes.size -= size;
    }
}

static void put_subcommand(const struct subcommand *s)
{
    fputs(".SS \"hasp ", stdout);
    roff_put_text(stdout, s->name);
    if (s->arguments[0] != '\0') {
        putchar(' ');
        roff_put_text(stdout, s->arguments);
    }
    puts("\"");
    putchar(toupper((unsigned char)s->summary[0]));
    roff_put_text(stdout, s->summary + 1);
    puts(".");
    manual_put_options(s->details);
    put_notes(s->name);
}

static void manual_put_terms(const struct term *terms, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        printf(".TP\n.B %s\n", terms[i].name);
        roff_put_text(stdout, terms[i].meaning);
        putchar('\n');
    }
}

static void put_exit_status(void)
{
    manual_put_terms(exit_codes, sizeof exit_codes / sizeof exit_codes[0]);
}

/* hasp-run(1): the row and the notes of "run". */
static void manual_print_run(const struct tool *tool)
{
    const struct subcommand *run = tool_find(tool, "run", "");
    CHECK(run != NULL);
    roff_put_title(stdout, "HASP-RUN", 1, "User Commands");
    fputs(".SH NAME\nhasp\\-run \\- ", stdout);
    roff_put_text(stdout, run->summary);
    fputs("\n.SH SYNOPSIS\n.B hasp run\n", stdout);
    roff_put_text(stdout, run->arguments);
    puts("\n.SH DESCRIPTION\nIt is a subcommand of\n.BR hasp (1),\n"
         "whose options can appear before the command, too.");
    put_notes(run->name);
    puts(".SH OPTIONS");
    manual_put_options(run->details);
    puts(".SH EXIT STATUS");
    put_exit_status();
    puts(".SH ENVIRONMENT");
    manual_put_terms(variables, sizeof variables / sizeof variables[0]);
    puts(".SH SEE ALSO\n.BR hasp (1),\n.BR flock (1),\n"
         ".BR hasp\\-exit\\-codes (7)");
}

/* hasp-exit-codes(7) */
static void manual_print_codes(void)
{
    roff_put_title(stdout, "HASP-EXIT-CODES", 7, "Miscellaneous");
    puts(".SH NAME\nhasp\\-exit\\-codes \\- exit codes of hasp\n"
         ".SH DESCRIPTION\nMost are those of\n.IR sysexits.h :");
    put_exit_status();
    puts(".PP\nThose of the daemon are in\n.BR haspd (8).\n"
         ".SH SEE ALSO\n.BR hasp (1),\n.BR hasp\\-run (1),\n"
         ".BR haspd (8)");
}

int manual_print_page(const struct tool *tool, const char *name)
{
    if (strcmp(name, "run") == 0) {
        manual_print_run(tool);
    } else if (strcmp(name, "exit-codes") == 0) {
        manual_print_codes();
    } else {
        return tool_fail(
            EX_USAGE, "no manual page '%s': expected run or exit-codes", name);
    }
    return 0;
}

void manual_print(const struct subcommand *table)
{
    roff_put_title(stdout, "HASP", 1, "User Commands");
    puts(".SH NAME\n"
         "hasp \\- locks of a hasp cluster, for people and scripts\n"
         ".SH SYNOPSIS\n"
         ".B hasp\n"
         "[\\fIoptions\\fR] \\fIsubcommand\\fR [\\fIarguments\\fR]\n"
         ".SH DESCRIPTION\n"
         "hasp talks to the nodes of a cluster (haspd). Results go to stdout, "
         "messages to\n"
         "stderr. Times are written 500ms, 10s, 2m or 1h; a bare number is "
         "seconds. Options can\n"
         "appear anywhere, those for\n"
         ".B hasp run\n"
         "before the command; -- ends them.\n"
         ".SH OPTIONS");
    manual_put_options(tool_options_text);
    puts(".SH SUBCOMMANDS");
    for (const struct subcommand *s = table; s->name != NULL; s++) {
        put_subcommand(s);
        if (s->name[first_word(s)] == ' ' &&
            ((s + 1)->name == NULL || !is_same_group(s, s + 1))) {
            char group[32];
            snprintf(group, sizeof group, "%.*s", (int)first_word(s), s->name);
            put_notes(group);
        }
    }
    puts(".SH EXIT STATUS");
    put_exit_status();
    puts(".SH ENVIRONMENT");
    manual_put_terms(variables, sizeof variables / sizeof variables[0]);
    puts(".SH EXAMPLES\n"
         "A cluster to try things with, and a job that never runs twice at a "
         "time:\n"
         ".PP\n"
         ".nf\n"
         ".RS\n"
         "hasp dev &\n"
         "hasp run nightly\\-backup \\-\\- /usr/local/bin/backup\n"
         "hasp why nightly\\-backup\n"
         ".RE\n"
         ".fi\n"
         ".PP\n"
         "In cron: do not wait, and be quiet if another machine already runs "
         "it:\n"
         ".PP\n"
         ".nf\n"
         ".RS\n"
         "hasp \\-q run \\-n \\-E 0 nightly\\-backup /usr/local/bin/backup\n"
         ".RE\n"
         ".fi\n"
         ".SH SEE ALSO\n"
         ".BR flock (1),\n"
         ".BR hasp\\-run (1),\n"
         ".BR hasp (3),\n"
         ".BR hasp\\-exit\\-codes (7),\n"
         ".BR haspd (8)");
}
