/* SPDX-License-Identifier: MIT */

/* A port for clients that is a path: a stream socket for the programs of the
 * node's own machine. It is a port like the others, private as 127.0.0.1 is,
 * and costs the processor less than TCP. Who may connect is who may write to
 * the file: its owner and its group (mode 0660). */

#ifndef HASP_NET_LOCAL_H
#define HASP_NET_LOCAL_H

#include "base/err.h"

/* The address of those who come by it. */
#define LOCAL_ADDRESS "unix"
/* Of a path that fits into an address, without its zero. */
#define LOCAL_PATH_MAX 107

/* The bound socket at 'path'. One that lies there and that nobody listens on
 * any more (of a process that was killed) goes; what else lies there stays, and
 * is an error. */
MUST_CHECK int local_bind(const char *path, int *ret_fd,
                          char why[HASP_WHY_SIZE]);
/* Takes it away. */
void local_remove(const char *path);

#endif /* HASP_NET_LOCAL_H */
