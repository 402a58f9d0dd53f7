/* SPDX-License-Identifier: MIT */

/* How the programs here say what did not come true, and end. */

#ifndef HASP_TESTS_CLIENT_EXPECT_H
#define HASP_TESTS_CLIENT_EXPECT_H

#include <hasp/hasp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define EXPECT(fact)                                                       \
    do {                                                                   \
        if (!(fact)) {                                                     \
            fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #fact, \
                    hasp_why());                                           \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

/* Those of this process that have a peer. */
static inline int count_connections(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        count += getpeername(fd, (struct sockaddr *)&peer, &size) == 0;
    }
    return count;
}

#endif /* HASP_TESTS_CLIENT_EXPECT_H */
