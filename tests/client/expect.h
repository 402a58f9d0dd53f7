/* SPDX-License-Identifier: MIT */

/* How the programs here say what did not come true, and end. */

#ifndef HASP_TESTS_CLIENT_EXPECT_H
#define HASP_TESTS_CLIENT_EXPECT_H

#include <hasp/hasp.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPECT(fact)                                                       \
    do {                                                                   \
        if (!(fact)) {                                                     \
            fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #fact, \
                    hasp_why());                                           \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

#endif /* HASP_TESTS_CLIENT_EXPECT_H */
