/* SPDX-License-Identifier: MIT */

/* The virtual network: TCP connections between hosts.
 *
 * It shows what real TCP shows: the bytes of a connection arrive in order and
 * once, or the connection breaks and loses the bytes in flight. The two ends
 * learn of that at different times, or only by silence. A blocked direction (an
 * asymmetric partition) holds its bytes back: they arrive late, when it opens
 * again, or never, when the connection has timed out. There is no loss of
 * single messages and no reordering within a connection.
 *
 * Arrivals are put into the receiver's inbox as sim_news, also while its
 * process is stopped: the kernel receives bytes for it. */

#ifndef HASP_TESTS_SIM_SIM_NET_H
#define HASP_TESTS_SIM_SIM_NET_H

#include "core/core.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_users.h"

enum wire_kind { WIRE_PEER, WIRE_CLIENT };

struct wire_side {
    bool is_open; /* The process of this end has the socket. */
    bool is_established;
    struct list arriving; /* Chunks in flight to this end. */
    uint64_t last_ns;     /* Delivery of the last of them. */
    struct sim_event delivery;
};

struct sim_wire {
    struct list in_net;
    uint64_t id;
    enum wire_kind kind;
    uint32_t port;             /* PEER: where it was dialled (sim_move.h). */
    uint32_t host[2];          /* [0] has dialled ... */
    struct sim_identity shown; /* ... and shows this, ... */
    uint64_t accepted;         /* ... and [1] had applied this at that time. */
    struct wire_side side[2];
    bool is_over;
};

enum news_kind {
    NEWS_ACCEPTED,
    NEWS_CONNECTED,
    NEWS_DATA,
    NEWS_CLOSED,
    /* Not from the network: */
    NEWS_DISK, /* A write has ended, or has failed. */
    NEWS_SNAPSHOT_TAKEN,
    NEWS_SNAPSHOT_RECEIVED,
    NEWS_PROBED
};

struct sim_news {
    struct list in_inbox;
    enum news_kind kind;
    struct sim_wire *wire;
    int side;           /* The end that the host has. */
    bool is_by_peer;    /* CLOSED: the other end closed or reset it. */
    uint64_t log_index; /* SNAPSHOT_TAKEN; PROBED: which one. */
    int error;          /* DISK, SNAPSHOT_..., PROBED. */
    struct core_directory directory; /* PROBED: the one that is there. */
    struct bytes bytes;              /* DATA; owned. */
};

struct sim_net *sim_net_new(struct sim *sim);
void sim_net_free(struct sim_net *net);

struct sim_wire *sim_net_dial(struct sim *sim, enum wire_kind kind,
                              uint32_t from, uint32_t to);
/* Sends 'bytes' from the end 'side' after 'after_ns'. */
void sim_net_send(struct sim *sim, struct sim_wire *wire, int side,
                  struct bytes bytes, uint64_t after_ns);
/* When all that was sent to the end 'side' will have arrived there, if nothing
 * blocks it. */
uint64_t sim_net_arrives_ns(const struct sim_wire *wire, int side);
/* The process of this end closes the socket; what it has sent arrives. */
void sim_net_close(struct sim *sim, struct sim_wire *wire, int side,
                   uint64_t after_ns);
/* A connection breaks in the network. */
void sim_net_cut(struct sim *sim, struct sim_wire *wire);
/* A random open connection, or NULL. */
struct sim_wire *sim_net_any(struct sim *sim);
/* The process of 'host' has died: the kernel closes its connections, or, if the
 * machine went down, they fall silent. */
void sim_net_host_died(struct sim *sim, uint32_t host, bool is_os_down);

/* Blocks or opens one direction. */
void sim_net_block(struct sim *sim, uint32_t from, uint32_t to,
                   bool is_blocked);
bool sim_net_is_blocked(const struct sim *sim, uint32_t from, uint32_t to);
void sim_net_open_all(struct sim *sim);
/* Base delay of one direction; jitter is added. */
void sim_net_set_delay(struct sim *sim, uint32_t from, uint32_t to,
                       uint64_t delay_ns);

void sim_news_free(struct sim_news *news);
/* Empties an inbox. */
void sim_inbox_clear(struct list *inbox);

#endif /* HASP_TESTS_SIM_SIM_NET_H */
