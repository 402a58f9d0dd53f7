/* SPDX-License-Identifier: MIT */

/* The public header comes first here, so that its enumeration is the one in
 * force, and is compared with the list of base/err.h. */
#include "include/hasp/hasp.h"

#include "base/err.h"

#define SAME(name, value, text) \
    _Static_assert(name == value, "hasp.h and base/err.h differ: " #name);
HASP_ERRORS(SAME)
#undef SAME

const char *hasp_version(void)
{
    return HASP_VERSION;
}
