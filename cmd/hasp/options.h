/* SPDX-License-Identifier: MIT */

/* Options of subcommands: one parser for all.
 *
 * Which options there are, their letters and the words to choose from stand in
 * the table of subcommands (option_spec.h). A row says what kind of value one
 * of them takes and where the value goes. Options and operands may stand in any
 * order, "--" ends the options, and the options of hasp itself (-e, -o, -t, -q)
 * may stand among those of the subcommand. What is wrong is said in one line,
 * with the nearest name there is. */

#ifndef HASP_CMD_HASP_OPTIONS_H
#define HASP_CMD_HASP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tool;

enum option_kind {
    OPTION_FLAG,   /* bool: no value, sets it. */
    OPTION_TEXT,   /* char *, into argv. */
    OPTION_LIST,   /* struct option_list: may come again. */
    OPTION_NUMBER, /* uint64_t, from 'min' to 'max'. */
    OPTION_TIME,   /* uint64_t of milliseconds, likewise. */
    OPTION_CHOICE, /* int: which of the words of "table|json|plain". */
};

#define OPTION_LIST_MAX 64

struct option_list {
    char *text[OPTION_LIST_MAX];
    size_t count;
};

struct option_row {
    const char *name; /* Without the hyphens; NULL ends the table. */
    enum option_kind kind;
    void *value;       /* Untouched if the option does not come. */
    uint64_t min, max; /* max 0: no limit. */
};

/* Reads the words after argv[0], up to a NULL; afterwards argv[1] and so on are
 * the operands, 'min' to 'max' of them, and a NULL behind them. 'rows' has each
 * option that the subcommand is described with, maybe more, which are then not
 * taken; NULL: it has none. 0 or an exit code, explained. */
int options_read(struct tool *tool, char **argv, const struct option_row *rows,
                 size_t min, size_t max);
/* Likewise for a subcommand without options of its own, whose operands are the
 * words of its line of usage. */
int options_read_operands(struct tool *tool, char **argv);
/* Likewise with any number of operands from 'min' on; options end at the
 * 'min'th one: what follows belongs to somebody else. */
int options_read_before(struct tool *tool, char **argv,
                        const struct option_row *rows, size_t min);

/* The word of 'words' (separated by blanks) that 'word' was meant to be; "" if
 * none is near. */
void options_nearest(const char *word, const char *words, char *ret_nearest,
                     size_t size);

#endif /* HASP_CMD_HASP_OPTIONS_H */
