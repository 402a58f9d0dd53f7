/* SPDX-License-Identifier: MIT */

/* Options of subcommands: one parser for all.
 *
 * The table of subcommands has the options, their letters and the words to
 * choose from (option_spec.h). A row has the kind of an option's value and the
 * variable for it. Options and operands can appear in any order, "--" ends the
 * options, and the options of hasp itself (-e, -o, -t, -q) can appear among
 * those of the subcommand. An error is one line, with the nearest name. */

#ifndef HASP_CMD_HASP_OPTIONS_H
#define HASP_CMD_HASP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tool;

enum option_kind {
    OPTION_FLAG,   /* bool, set to true; no value. */
    OPTION_TEXT,   /* char *, into argv. */
    OPTION_LIST,   /* struct option_list; repeatable. */
    OPTION_NUMBER, /* uint64_t, from 'min' to 'max'. */
    OPTION_TIME,   /* uint64_t of milliseconds, from 'min' to 'max'. */
    OPTION_CHOICE, /* int: index of the word in "table|json|plain". */
};

#define OPTION_LIST_MAX 64

struct option_list {
    char *text[OPTION_LIST_MAX];
    size_t count;
};

struct option_row {
    const char *name; /* Without the hyphens; NULL ends the table. */
    enum option_kind kind;
    void *value;       /* Unchanged if the option is not given. */
    uint64_t min, max; /* max 0: no limit. */
};

/* Reads the words after argv[0], up to a NULL. Afterwards argv[1] and so on
 * are the operands, 'min' to 'max' of them, followed by a NULL. 'rows' has a
 * row for each option in the subcommand's description (NULL: it has none);
 * rows of options that are not described are ignored. Returns 0 or an exit
 * code, explained. */
int options_read(struct tool *tool, char **argv, const struct option_row *rows,
                 size_t min, size_t max);
/* The same for a subcommand without its own options, whose operands are the
 * words of its usage line. */
int options_read_operands(struct tool *tool, char **argv);
/* The same with 'min' or more operands; options end at the 'min'th one, and
 * what follows belongs to another program. */
int options_read_before(struct tool *tool, char **argv,
                        const struct option_row *rows, size_t min);

/* The word of 'words' (separated by blanks) that is nearest to 'word'; "" if
 * none is near. */
void options_nearest(const char *word, const char *words, char *ret_nearest,
                     size_t size);

#endif /* HASP_CMD_HASP_OPTIONS_H */
