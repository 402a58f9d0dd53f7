/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/option_spec.h"

#include <string.h>

/* Reads a line of the description; false if it does not describe an option. */
static bool option_spec_read_line(const char *line,
                                  struct option_spec *ret_option)
{
    struct option_spec option = {0};
    const char *at = line + strspn(line, " ");
    if (at[0] == '-' && at[1] != '-' && at[2] == ',') {
        option.letter = at[1];
        at += 4;
    }
    if (strncmp(at, "--", 2) != 0) {
        return false;
    }
    option.name = at + 2;
    option.name_size = strcspn(option.name, " \n");
    at = option.name + option.name_size;
    if (at[0] == ' ' && at[1] != ' ') {
        option.value = at + 1;
        option.value_size = strcspn(at + 1, " \n");
    }
    *ret_option = option;
    return true;
}

bool option_spec_next(const char **text, struct option_spec *ret_option)
{
    while (*text != NULL && **text != '\0') {
        const char *line = *text;
        *text += strcspn(line, "\n");
        *text += **text == '\n';
        if (option_spec_read_line(line, ret_option)) {
            return true;
        }
    }
    return false;
}

bool option_spec_find(const char *text, const char *name, size_t name_size,
                      char letter, struct option_spec *ret_option)
{
    while (option_spec_next(&text, ret_option)) {
        bool is_it = name == NULL
                         ? ret_option->letter == letter
                         : ret_option->name_size == name_size &&
                               memcmp(ret_option->name, name, name_size) == 0;
        if (is_it) {
            return true;
        }
    }
    return false;
}

bool option_spec_is(const struct option_spec *option, const char *name)
{
    return strlen(name) == option->name_size &&
           memcmp(name, option->name, option->name_size) == 0;
}
