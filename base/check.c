/* SPDX-License-Identifier: MIT */

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *fact)
{
    fprintf(stderr, "%s:%d: check failed: %s\n", file, line, fact);
    abort();
}
