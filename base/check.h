/* SPDX-License-Identifier: MIT */

/* Assertions that stay on in release builds.
 *
 * CHECK() states a guarantee of the program itself. If it fails there is a bug,
 * and stopping is a node's only safe reaction. Conditions that the outside can
 * cause (bytes, files, limits, a full disk) are never CHECKed: they are errors,
 * see base/err.h. CHECK_SLOW() walks whole structures and is compiled in only
 * with HASP_CHECK_SLOW (make check, asan, tsan, fuzz and the simulator). */

#ifndef HASP_BASE_CHECK_H
#define HASP_BASE_CHECK_H

#include <stdbool.h>

/* Prints the place and the failed fact on stderr and aborts. */
_Noreturn void check_failed(const char *file, int line, const char *fact);

/* The text of check_failed(), for the handler of SIGABRT; "" before. */
const char *check_failure(void);

#define CHECK(fact)                                  \
    do {                                             \
        if (__builtin_expect(!(fact), 0)) {          \
            check_failed(__FILE__, __LINE__, #fact); \
        }                                            \
    } while (0)

#ifdef HASP_CHECK_SLOW
#define CHECK_SLOW(fact) CHECK(fact)
#else
#define CHECK_SLOW(fact) \
    do {                 \
    } while (0)
#endif

/* True unless 'a' holds and 'b' does not. */
#define IMPLIES(a, b) (!(a) || (b))

#define UNREACHABLE() check_failed(__FILE__, __LINE__, "unreachable")

#endif /* HASP_BASE_CHECK_H */
