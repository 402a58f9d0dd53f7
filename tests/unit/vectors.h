/* SPDX-License-Identifier: MIT */

/* Files with which the clients in other languages are compared to the C
 * library: made by unit tests, and compared with those in the repository. */

#ifndef HASP_TESTS_UNIT_VECTORS_H
#define HASP_TESTS_UNIT_VECTORS_H

#include "base/bytes.h"

/* The test fails unless 'text' equals the file at 'path'; with REWRITE=1 in the
 * environment it is written there first. */
void vectors_compare(const char *path, struct bytes text);
/* Appends the contents of the file. */
void vectors_read(const char *path, struct buffer *ret_text);

/* Runs the lines of a transcript, a text that ends with a zero byte and is
 * changed. Each block has commands, "----", and the output of the commands,
 * which run() appends to 'output'. 'ret_text' gets the transcript with the
 * present output. Lines that begin with '#' are comments. */
typedef void vectors_run_fn(void *data, char *line);
void vectors_replay(char *text, vectors_run_fn *run, void *data,
                    struct buffer *output, struct buffer *ret_text);

#endif /* HASP_TESTS_UNIT_VECTORS_H */
