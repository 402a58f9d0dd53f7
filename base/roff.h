/* SPDX-License-Identifier: MIT */

/* Text for a manual page: roff, with the macros of man(7). */

#ifndef HASP_BASE_ROFF_H
#define HASP_BASE_ROFF_H

#include <stddef.h>
#include <stdio.h>

/* Writes the page's title, with the version and its day. */
void roff_put_title(FILE *out, const char *name, int section,
                    const char *volume);

/* Writes text that roff shows as it is: a backslash, a hyphen, and a dot at the
 * beginning of a line mean something to it. */
void roff_put(FILE *out, const char *text, size_t size);
void roff_put_text(FILE *out, const char *text);

/* The same, with text between `backticks` in bold. */
void roff_put_marked(FILE *out, const char *text, size_t size);

#endif /* HASP_BASE_ROFF_H */
