/* SPDX-License-Identifier: MIT */

/* The admin socket of a node: a stream socket in its data directory, mode 0600,
 * for root and the user that the node runs as. These can read the directory
 * anyway, so the socket needs no secret. It is used to create the first
 * administrator, and to regain access after all administrators were locked
 * out. */

#ifndef HASP_NET_ADMIN_SOCKET_H
#define HASP_NET_ADMIN_SOCKET_H

#include <stdbool.h>

#include "base/err.h"

#define ADMIN_SOCKET_NAME "admin.sock"
/* The client address of its connections. */
#define ADMIN_SOCKET_ADDRESS "local"
#define ADMIN_SOCKET_CONNECTION_MAX 8

/* Binds the socket in 'folder', which only this process uses; an old socket
 * file is removed. */
MUST_CHECK int admin_socket_bind(const char *folder, int *ret_fd,
                                 char why[HASP_WHY_SIZE]);
/* Removes the socket file. */
void admin_socket_remove(const char *folder);
/* True if the peer is root or the user of this process. */
bool admin_socket_lets_in(int fd);

#endif /* HASP_NET_ADMIN_SOCKET_H */
