/* SPDX-License-Identifier: MIT */

/* Descriptors that are passed over a UNIX socket (SCM_RIGHTS). hasp uses none,
 * but any client can send some, and then the thread that reads or closes the
 * socket drops the last reference of the file. For a TCP socket with SO_LINGER
 * that takes as long as the sender likes, so it must not happen on a loop.
 *
 * Linux 6.16 refuses them for a listening socket and what it accepts. Before
 * that, a socket is read by rights_read(), which stops at descriptors, and is
 * closed after rights_drain(), or by rights_close_apart() if any are queued. */

#ifndef HASP_NET_RIGHTS_H
#define HASP_NET_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Closes that can be in progress at once. */
#define RIGHTS_APART_MAX 64

/* Makes the kernel refuse descriptors sent to 'fd' and to the sockets that it
 * accepts from now on; false: this kernel cannot. */
bool rights_refuse(int fd);
/* Prepares an accepted socket for rights_read(). */
void rights_expect(int fd);
/* Reads as read() does, but returns -errno: -EBADMSG if it sees descriptors,
 * which it leaves there with the bytes before them. */
ssize_t rights_read(int fd, void *data, size_t size);
/* Shuts down both directions and reads the input; true: nothing is left, and
 * close() returns at once. */
bool rights_drain(int fd);
/* Empties the queue of 'fd' after rights_drain() and closes it, on a separate
 * thread; another descriptor of the socket can be closed at any time. False:
 * RIGHTS_APART_MAX closes are in progress and 'is_urgent' is not set, or no
 * thread could be started; the caller keeps 'fd'. */
bool rights_close_apart(int fd, bool is_urgent);
/* True if another rights_close_apart() would be refused. */
bool rights_are_busy(void);

#endif /* HASP_NET_RIGHTS_H */
