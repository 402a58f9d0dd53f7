/* SPDX-License-Identifier: MIT */

/* Random numbers, the same in each run: for tests beside a naive model. */

#ifndef HASP_TESTS_UNIT_DRAWN_H
#define HASP_TESTS_UNIT_DRAWN_H

#include <stddef.h>
#include <stdint.h>

struct drawn {
    uint64_t state; /* Any number but 0. */
};

uint64_t drawn_next(struct drawn *drawn);
/* Between 0 and count - 1. */
uint32_t drawn_below(struct drawn *drawn, uint32_t count);
/* Writes 'size' of the characters of 'letters', without a zero byte; returns
 * 'size'. */
size_t drawn_text(struct drawn *drawn, const char *letters, size_t size,
                  char *out);

#endif /* HASP_TESTS_UNIT_DRAWN_H */
