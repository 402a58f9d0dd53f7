/* SPDX-License-Identifier: MIT */

/* The local door of a node: a stream socket in its data directory, mode 0600,
 * which takes root and the user that the node runs as. Who can open it could
 * read the directory anyway, so it needs no secret: it is how the first
 * administrator is made, and the way back in for those who have locked
 * themselves out. */

#ifndef HASP_NET_ADMIN_SOCKET_H
#define HASP_NET_ADMIN_SOCKET_H

#include <stdbool.h>

#include "base/err.h"

#define ADMIN_SOCKET_NAME "admin.sock"
/* The address of those who come by it. */
#define ADMIN_SOCKET_ADDRESS "local"
#define ADMIN_SOCKET_CONNECTION_MAX 8

/* The bound socket in 'folder', which belongs to this process alone; one that
 * lies there from before goes. */
MUST_CHECK int admin_socket_bind(const char *folder, int *ret_fd,
                                 char why[HASP_WHY_SIZE]);
/* Takes it out of the folder. */
void admin_socket_remove(const char *folder);
/* True if who has connected is root, or who this process runs as. */
bool admin_socket_lets_in(int fd);

#endif /* HASP_NET_ADMIN_SOCKET_H */
