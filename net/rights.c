/* SPDX-License-Identifier: MIT */

#include "net/rights.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#define STACK_SIZE (256u << 10)

static atomic_int apart_count;

bool rights_refuse(int fd)
{
    int off = 0;
    return setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off) == 0;
}

void rights_expect(int fd)
{
    /* Otherwise the next read would skip an urgent byte and free it with its
     * descriptors. */
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on);
}

ssize_t rights_read(int fd, void *data, size_t size)
{
    struct iovec part = {.iov_base = data, .iov_len = size};
    struct msghdr seen = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t count = recvmsg(fd, &seen, MSG_PEEK | MSG_DONTWAIT);
    if (count >= 0 && (seen.msg_flags & MSG_CTRUNC) != 0) {
        return -EBADMSG;
    }
    /* Peeking copies the references, so none is dropped as the last one. Read
     * no more than was peeked: descriptors may have arrived since. */
    if (count > 0) {
        count = recv(fd, data, (size_t)count, MSG_DONTWAIT);
    }
    return count >= 0 ? count : -errno;
}

bool rights_drain(int fd)
{
    char unread[16384];
    ssize_t count;
    (void)shutdown(fd, SHUT_RDWR); /* Nothing more can come. */
    do {
        count = rights_read(fd, unread, sizeof unread);
    } while (count > 0);
    return count != -EBADMSG;
}

bool rights_are_busy(void)
{
    return atomic_load(&apart_count) >= RIGHTS_APART_MAX;
}

static void *close_it(void *data)
{
    char unread[16384];
    int fd = (int)(intptr_t)data;
    /* The loop closes its own descriptor of the socket before or after this. So
     * the queue must be emptied here, and the loop's close never waits. */
    while (recv(fd, unread, sizeof unread, MSG_DONTWAIT) > 0) {
        /* The descriptors are dropped. */
    }
    close(fd);
    atomic_fetch_sub(&apart_count, 1);
    return NULL;
}

/* Starts a thread with all signals blocked. */
static bool begin_thread(int fd)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    (void)pthread_attr_setstacksize(&attributes, STACK_SIZE);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, close_it,
                               (void *)(intptr_t)fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error == 0;
}

bool rights_close_apart(int fd, bool is_urgent)
{
    if (!is_urgent && rights_are_busy()) {
        return false;
    }
    atomic_fetch_add(&apart_count, 1);
    if (begin_thread(fd)) {
        return true;
    }
    atomic_fetch_sub(&apart_count, 1);
    return false;
}
