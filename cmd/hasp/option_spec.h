/* SPDX-License-Identifier: MIT */

/* Options as the table of subcommands describes them, in lines such as
 * "-o, --output table|json  how results are written". The parser, the
 * completion and the manual read the same lines. */

#ifndef HASP_CMD_HASP_OPTION_SPEC_H
#define HASP_CMD_HASP_OPTION_SPEC_H 1

#include <stdbool.h>
#include <stddef.h>

struct option_spec {
    char letter;      /* 0: none. */
    const char *name; /* Without the hyphens; inside the text. */
    size_t name_size;
    const char *value; /* What it takes, "FILE" or "a|b". */
    size_t value_size; /* 0: nothing. */
};

/* The next option of '*text', which may be NULL, and moves that behind it;
 * lines of anything else are skipped. False: there is none left. */
bool option_spec_next(const char **text, struct option_spec *ret_option);
/* The option with that name, or, where 'name' is NULL, with that letter. */
bool option_spec_find(const char *text, const char *name, size_t name_size,
                      char letter, struct option_spec *ret_option);
/* Is that its name? */
bool option_spec_is(const struct option_spec *option, const char *name);

#endif /* HASP_CMD_HASP_OPTION_SPEC_H */
