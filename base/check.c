/* SPDX-License-Identifier: MIT */

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

/* Written once: the process ends. */
static char failure[512];

void check_failed(const char *file, int line, const char *fact)
{
    snprintf(failure, sizeof failure, "%s:%d: check failed: %s", file, line,
             fact);
    fprintf(stderr, "%s\n", failure);
    abort();
}

const char *check_failure(void)
{
    return failure;
}
