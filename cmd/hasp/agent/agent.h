/* SPDX-License-Identifier: MIT */

/* hasp agent: a witness of processes. It ends the sessions of a process that
 * has died, at once (SESSION.DIED), however long their TTL is. Programs keep
 * their own connections; the agent carries none of their requests. If it is
 * away, everything is as without it: the TTL decides.
 *
 *     agent.c      the loop: listening socket, connections, process descriptors
 *     visitor      a connection: the lines that programs send
 *     proof        that the sender is the process that connected, and lives
 *     ties         which sessions end with which process (no I/O)
 *     upstream     SESSION.DIED to the cluster, on a thread of its own
 *     listen.c     the socket, from systemd or of its own; READY=1 */

#ifndef HASP_CMD_HASP_AGENT_AGENT_H
#define HASP_CMD_HASP_AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "cmd/hasp/agent/ties.h"

#define AGENT_SOCKET_DEFAULT "/run/hasp-agent/agent.sock"

struct tool;
struct upstream;
struct visitor;

/* The subject of an event of epoll. */
struct watched {
    enum {
        WATCHED_LISTENER,
        WATCHED_UPSTREAM,
        WATCHED_SIGNAL,
        WATCHED_VISITOR,
        WATCHED_PROCESS
    } kind;
    int fd;
};

/* A process with ties or a connection. */
struct agent_ward {
    struct watched watched; /* The process descriptor. */
    struct tied_process *tied;
    struct list visitors;
};

struct agent {
    struct tool *tool;
    const char *path;
    bool is_own_path; /* It made the socket, and removes it. */
    bool is_old;      /* As on a kernel without SO_PEERPIDFD. */
    bool is_refusing; /* The kernel refuses passed descriptors. */
    bool is_stopping;
    int epoll_fd;
    int spare_fd; /* Given up to accept and close, if none is left. */
    uint64_t now_ns;
    uint64_t idle_ns; /* Next search for idle connections. */
    struct watched listener;
    struct watched upstream_news;
    struct watched signals;
    struct list visitors;
    uint32_t visitor_max;
    struct list gone; /* Visitors that are freed at the end of the turn. */
    struct ties *ties;
    struct upstream *upstream;
    uint64_t refused; /* TIEs. */
    uint64_t closed;  /* Connections that broke a rule. */
};

/* Adds 'watched' to the loop; false: no memory. */
bool agent_watch(struct agent *agent, struct watched *watched, uint32_t events);
/* The process of a visitor whose proof is good; NULL: no room. */
struct agent_ward *agent_process(struct agent *agent, struct visitor *visitor,
                                 uint64_t start);
/* The visitor's connection ends. */
void agent_leave(struct agent *agent, struct visitor *visitor);

/* --- listen.c ------------------------------------------------------------- */

/* The socket that systemd has passed, or -1. */
int listen_inherited(void);
/* Binds 'path', replacing a socket at which nobody listens; -1, explained. */
int listen_bind(const char *path);
/* Reports to systemd, if it wants that. */
void listen_notify(const char *state);

#endif /* HASP_CMD_HASP_AGENT_AGENT_H */
