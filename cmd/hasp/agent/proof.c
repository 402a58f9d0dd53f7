/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/agent/proof.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/proc_stat.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int proof_begin(int fd, bool is_old, struct proof *ret_proof)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    struct proof proof = {.pidfd = -1};
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
        return HASP_EIO;
    }
    proof.pid = peer.pid;
    proof.uid = peer.uid;
    size = sizeof proof.pidfd;
    if (is_old ||
        getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &proof.pidfd, &size) != 0) {
        proof.pidfd = -1; /* EINVAL: of a dead process, on some kernels. */
    } else {
        (void)fcntl(proof.pidfd, F_SETFD, FD_CLOEXEC);
    }
    *ret_proof = proof;
    return 0;
}

bool proof_is_dead(int pidfd)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

bool proof_is_good(struct proof *proof, uint64_t start, const char **ret_why)
{
    if (proof->pid <= 0) {
        *ret_why = "the process is in another pid namespace";
        return false;
    }
    if (proof->pidfd < 0) {
        proof->pidfd = (int)syscall(SYS_pidfd_open, proof->pid, 0);
        proof->start = 0;
    }
    if (proof->pidfd < 0) {
        *ret_why = errno == ESRCH ? "the process that connected is dead"
                                  : "no process descriptor could be opened";
        return false;
    }
    /* The descriptor first, then START, then whether it lives: so START is that
     * of the descriptor's process, not of one that has its number since. */
    struct proc_stat stat;
    if (proof->start == 0 && proc_stat_read(proof->pid, &stat)) {
        proof->start = stat.start;
    }
    if (proof_is_dead(proof->pidfd)) {
        *ret_why = "the process that connected is dead";
        return false;
    }
    if (proof->start == 0) {
        *ret_why = "its /proc/PID/stat cannot be read";
        return false;
    }
    if (proof->start != start) {
        *ret_why = "START is not that of the process that connected";
        return false;
    }
    return true;
}
