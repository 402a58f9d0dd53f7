/* SPDX-License-Identifier: MIT */

/* The operations of a script as entries. */

#ifndef HASP_TESTS_PROPERTY_OPERATIONS_H
#define HASP_TESTS_PROPERTY_OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* Appends the entry of this name, with arguments from the words of the line.
 * True if it has a number (REQ). */
bool operation_write(struct buffer *command, const char *name, uint64_t user);

#endif /* HASP_TESTS_PROPERTY_OPERATIONS_H */
