/* SPDX-License-Identifier: MIT */

/* Descriptors that are passed over a UNIX socket (SCM_RIGHTS). hasp wants none,
 * but whoever may connect can send some, and the last reference of a file is
 * dropped by the thread that reads or closes the socket. For a TCP socket with
 * SO_LINGER that takes as long as the sender likes, so it must not happen on a
 * loop.
 *
 * Linux 6.16 refuses them for a listening socket and what it accepts. Before
 * that, a socket is read by rights_read(), which stops at descriptors, and is
 * closed after rights_drain(), or by rights_close_apart() if any are queued. */

#ifndef HASP_NET_RIGHTS_H
#define HASP_NET_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* So many closes can be under way at once. */
#define RIGHTS_APART_MAX 64

/* Has the kernel refuse descriptors that are sent to 'fd', and to what it
 * accepts from now on; false: this kernel cannot. */
bool rights_refuse(int fd);
/* Prepares an accepted socket for rights_read(). */
void rights_expect(int fd);
/* Reads as read() does, but returns -errno: -EBADMSG if it sees descriptors,
 * which it leaves there with the bytes before them. */
ssize_t rights_read(int fd, void *data, size_t size);
/* Ends both directions and reads what has come; true: nothing is left, and
 * close() returns at once. */
bool rights_drain(int fd);
/* Empties the queue of 'fd' after rights_drain(), and closes it, on a thread of
 * its own; another descriptor of the socket can be closed at any time. False:
 * RIGHTS_APART_MAX are under way and 'is_urgent' is not set, or there is no
 * thread; the caller keeps 'fd'. */
bool rights_close_apart(int fd, bool is_urgent);
/* Another rights_close_apart() would be refused. */
bool rights_are_busy(void);

#endif /* HASP_NET_RIGHTS_H */
