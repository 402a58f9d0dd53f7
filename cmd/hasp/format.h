/* SPDX-License-Identifier: MIT */

/* Texts for one use: each macro returns one in its own buffer, which lives as
 * long as the enclosing block. */

#ifndef HASP_CMD_HASP_FORMAT_H
#define HASP_CMD_HASP_FORMAT_H

#include <stdint.h>
#include <time.h>

#include "base/bytes.h"
#include "base/duration.h"

#define NUMBER_TEXT_SIZE 24
/* The server accepts names of at most 128 bytes. */
#define NAME_TEXT_SIZE 129
#define CLOCK_TEXT_SIZE 16
#define CANNOT_TEXT_SIZE 600

#define NUMBER(n) format_number(n, (char[NUMBER_TEXT_SIZE]){""})
#define DURATION(ms) duration_format(ms, (char[DURATION_TEXT_SIZE]){""})
/* The user of this process, for the logs of the nodes: "user@host". */
#define USER format_user((char[NAME_TEXT_SIZE]){""})
/* "user@host:pid", the name of a session. */
#define PROCESS format_process((char[NAME_TEXT_SIZE]){""})
/* "12:03:11", of a time_t. */
#define CLOCK(time) format_clock(time, (char[CLOCK_TEXT_SIZE]){""})
/* "cannot show 'orders'" */
#define CANNOT(verb, name) \
    format_failure(verb, name, (char[CANNOT_TEXT_SIZE]){""})

/* The functions of these macros; each returns 'out'. */
const char *format_number(uint64_t number, char out[NUMBER_TEXT_SIZE]);
const char *format_user(char out[NAME_TEXT_SIZE]);
const char *format_process(char out[NAME_TEXT_SIZE]);
const char *format_clock(time_t time, char out[CLOCK_TEXT_SIZE]);
const char *format_failure(const char *verb, const char *name,
                           char out[CANNOT_TEXT_SIZE]);

/* Adds a word, quoted so that a shell reads it unchanged. */
void format_quoted(struct buffer *out, const char *word);

#endif /* HASP_CMD_HASP_FORMAT_H */
