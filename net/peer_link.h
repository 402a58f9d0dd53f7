/* SPDX-License-Identifier: MIT */

/* One connection of net/peers: dialling or accepting, exchange of HELLOs, end.
 * Used by net/peers.c only.
 *
 *     accepted: STRANGER --good HELLO, ours sent--> UP --> closed
 *     dialled:  connecting -> HELLO sent --good HELLO--> UP --> closed
 *
 * A link belongs to its peer ('peer'; peer->link points back) from dialling, or
 * from its HELLO, until it is closed or replaced, or its peer is removed. */

#ifndef HASP_NET_PEER_LINK_H
#define HASP_NET_PEER_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/log_limit.h"
#include "base/prng.h"
#include "net/peers.h"
#include "net/round_trip.h"
#include "net/stream.h"

#define PEER_PING_EVERY_MS 500
#define PEER_SILENCE_MS 3000
#define PEER_HELLO_MS 2000
#define PEER_UNIDENTIFIED_MAX 64
/* How long the node with the smaller id waits before it dials. */
#define PEER_PATIENCE_MS 3000
/* Short, since a host name whose address has changed must be resolved again. */
#define PEER_CONNECT_MS 1000
#define PEER_HOST_SIZE 256
#define PEERS_SECURE_MAX 64

struct net_peer {
    struct list node;
    uint64_t id;
    char host[PEER_HOST_SIZE]; /* Empty: it cannot be dialled. */
    uint16_t port;
    /* The address at which a host with a name was last up; or empty. */
    char last_host[ADDRESS_SIZE];
    struct peer_link *link; /* Dialling, or up. */
    uint64_t dial_at_ms;
    uint32_t attempts; /* Failed dials since it was last up for a while. */
    uint64_t heard_ms; /* 0: never. */
    bool is_guest;     /* Unlisted: not wanted, only admitted. */
    bool dials_plain;  /* With TLS_ALLOW: the next dial is plain. */
    bool dials_last;   /* The next dial goes to last_host. */
    /* It has said on a link of its own that this node was removed: that counts
     * only on a link that this node has dialled, so it dials without waiting.
     */
    bool is_doubted;
    bool is_unknown; /* Its name had no address when it was last dialled. */
};

struct peer_link {
    struct stream stream;
    struct peers *peers;
    struct net_peer *peer; /* NULL: no HELLO yet, or detached. */
    struct list node;      /* In peers->links, oldest first. */
    uint64_t id;           /* From the HELLO. */
    uint32_t version;      /* Of the frames, once it is up. */
    uint64_t incarnation;
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    uint64_t up_ms;
    uint64_t deadline_ms; /* Until it is up; UINT64_MAX while connecting. */
    uint64_t heard_ms;
    uint64_t ping_ms;   /* Time of the next PING. */
    uint64_t pinged_ns; /* When the newest PING was sent; 0: answered. */
    struct round_trip trip;
    bool is_dialled;
    bool is_unidentified;
    bool is_up; /* on_up was called, on_down was not. */
};

struct peers {
    uv_loop_t *loop;
    uint64_t id;
    uint64_t incarnation;
    uint32_t feature_level;
    struct frame_versions versions;
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    struct peers_events events;
    struct listener *listener;
    uv_timer_t timer;
    struct list members;
    struct list links;
    uint32_t unidentified_count;
    uint32_t guest_count;
    uint32_t part_count; /* Parts that must close before the memory is freed. */
    uint64_t wake_ms;    /* When the timer is due. */
    uint64_t grace_ms;   /* After a stall: no peer counts as silent before. */
    struct prng prng;
    void (*closed)(void *data);
    void *closed_data;
    struct log_limit refusals;
    enum tls_mode tls;
    struct tls_context *context; /* NULL in TLS_OFF. */
    uint64_t tls_failed_count;
    /* Ids that were once up with TLS, also of removed members: they are no
     * longer dialled without it. When it is full, no node is. */
    uint64_t stream_tls[PEERS_SECURE_MAX];
    uint32_t secure_count;
    bool is_closing;
};

uint64_t peers_now_ms(void);
struct net_peer *peers_find(const struct peers *peers, uint64_t id);
/* Adds an unlisted peer; there must be room, and no peer with that id. */
struct net_peer *peers_let_in(struct peers *peers, uint64_t id);
/* Removes an unlisted peer whose connection is closed. */
void peers_let_out(struct peers *peers, struct net_peer *peer);
/* The timer must fire at 'at_ms' or before. */
void peers_wake_by(struct peers *peers, uint64_t at_ms);
/* Dials at once. */
void peers_dial_now(struct peers *peers, struct net_peer *peer);
/* Schedules the next dial of 'peer', which has no link. */
void peers_redial_later(struct peers *peers, struct net_peer *peer,
                        bool was_up_for_a_while);
/* Counts a closed part of 'part_count'. Can free 'peers'. */
void peers_part_closed(struct peers *peers);

extern const struct stream_limits peer_link_early_limits;
extern const struct stream_events peer_link_events;

struct peer_link *peer_link_new(struct peers *peers);
/* Dials 'peer', which has no link. */
void peer_link_dial(struct peers *peers, struct net_peer *peer);
/* True if the peer's certificate is revoked. */
bool peer_link_is_revoked(const struct peer_link *link);
#define PEER_REVOKED "certificate was revoked"
void peer_link_close(struct peer_link *link, const char *reason);
/* Sends a PING if it is time, or closes the link if it is overdue. Returns the
 * time of the next call. */
uint64_t peer_link_tick(struct peer_link *link, uint64_t now_ms);

#endif /* HASP_NET_PEER_LINK_H */
