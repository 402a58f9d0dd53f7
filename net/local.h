/* SPDX-License-Identifier: MIT */

/* A UNIX stream socket for clients on the node's machine (listen.local). It is
 * a port like the others, private like 127.0.0.1, and costs less CPU time than
 * TCP. A user that can write to the file can connect: its owner and its group
 * (mode 0660). */

#ifndef HASP_NET_LOCAL_H
#define HASP_NET_LOCAL_H

#include "base/err.h"

/* The client address of its connections. */
#define LOCAL_ADDRESS "unix"
/* Bytes of the longest path that fits into a socket address. */
#define LOCAL_PATH_MAX 107

/* Binds a socket at 'path'. A socket file there on which no process listens
 * (left by a killed one) is removed; any other file is an error. */
MUST_CHECK int local_bind(const char *path, int *ret_fd,
                          char why[HASP_WHY_SIZE]);
/* Removes the socket file. */
void local_remove(const char *path);

#endif /* HASP_NET_LOCAL_H */
