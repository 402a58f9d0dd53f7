/* SPDX-License-Identifier: MIT */

/* The header traceparent of W3C Trace Context, level 1: which trace, and which
 * span of it, a request belongs to.
 *
 *     00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *
 * hasp keeps it as 25 bytes: trace-id, parent-id and flags. All zero: none. */

#ifndef HASP_BASE_TRACEPARENT_H
#define HASP_BASE_TRACEPARENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define TRACE_SIZE 25
/* With the final zero. */
#define TRACE_TEXT_SIZE 56
/* Longer values are ignored unread. */
#define TRACE_TEXT_SIZE_MAX 512

/* Returns false, and no trace, unless the text is valid, because the standard
 * ignores invalid headers. Fields that a later version has added are skipped.
 */
bool traceparent_parse(struct bytes text, uint8_t ret_trace[TRACE_SIZE]);
bool traceparent_is_set(const uint8_t trace[TRACE_SIZE]);
/* Writes it as version 00; "" if there is none. */
void traceparent_format(const uint8_t trace[TRACE_SIZE],
                        char out[TRACE_TEXT_SIZE]);

#endif /* HASP_BASE_TRACEPARENT_H */
