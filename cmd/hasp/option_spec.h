/* SPDX-License-Identifier: MIT */

/* Options as the table of subcommands describes them, in lines such as "-o,
 * --output table|json  format of results". The parser, the completion and the
 * manual read the same lines. */

#ifndef HASP_CMD_HASP_OPTION_SPEC_H
#define HASP_CMD_HASP_OPTION_SPEC_H 1

#include <stdbool.h>
#include <stddef.h>

struct option_spec {
    char letter;      /* 0: none. */
    const char *name; /* Without the hyphens; points into the text. */
    size_t name_size;
    const char *value; /* Its value, such as "FILE" or "a|b". */
    size_t value_size; /* 0: it has no value. */
};

/* Reads the next option of '*text', which may be NULL, and moves '*text' past
 * it; skips other lines. Returns false at the end. */
bool option_spec_next(const char **text, struct option_spec *ret_option);
/* The option with that name, or with that letter if 'name' is NULL. */
bool option_spec_find(const char *text, const char *name, size_t name_size,
                      char letter, struct option_spec *ret_option);
/* True if that is its name. */
bool option_spec_is(const struct option_spec *option, const char *name);

#endif /* HASP_CMD_HASP_OPTION_SPEC_H */
