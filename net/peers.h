/* SPDX-License-Identifier: MIT */

/* Connections between nodes.
 *
 * Each pair of nodes has one connection, which the node with the greater id
 * dials. It dials again, 20 ms to 1 s apart and with jitter, for as long as the
 * member is wanted; names are resolved each time. If no connection comes within
 * three seconds, the other node may not know this one: then the node with the
 * smaller id dials as well. The one with the greater id lets it, if it dials at
 * all, only where it cannot be reached itself: the owner knows another data
 * directory for that member (events.names_other), or one is connected. A
 * connection is up when both HELLOs have been
 * exchanged and checked: protocol version, cluster id (one side may not know it
 * yet), node ids, the incarnation that this node has learnt for the member, the
 * feature levels. The dialler sends its HELLO first; the other side answers
 * only a good one. A bad HELLO is answered with the reason and logged (at most
 * a few lines in ten seconds), and the connection is closed. A second
 * connection from a member replaces the first only if it has the same
 * incarnation, or if the owner says that its data directory goes before
 * (events.goes_before).
 *
 * A node that is too old for the other's cluster learns it from a HELLO that
 * says nothing but the levels. It believes this only if it has dialled; a node
 * that was dialled dials the member at once, to ask.
 *
 * Guests: a node that is not wanted here (peers_add) may dial if it has a
 * cluster id, and no other than ours, and if the owner agrees (events.check);
 * at most PEERS_GUEST_MAX at a time. It is a guest until its connection closes
 * or until it is wanted. Guests are not dialled.
 *
 * A PING is sent every 500 ms; if nothing is received for 3 s, the connection
 * is closed. After a stall of our own loop, what waits in the sockets is read
 * first. What is queued for a connection that closes is lost, and Raft sends it
 * again. Frames to one peer leave in order, with one write per turn
 * (peers_flush). More than 64 MiB of output close the connection.
 *
 * TLS: both ends show a certificate of a node. Its number must be the one that
 * was dialled, or the one in the HELLO. Where plain connections are allowed
 * beside TLS (TLS_ALLOW), plain is dialled after TLS has failed, and then TLS
 * again; a member that was up with TLS is not dialled in plain any more.
 *
 * Strangers: at most 64 connections that have not sent a HELLO yet, each for at
 * most 2 s and FRAME_HELLO_SIZE_MAX bytes. A new one takes the place of the
 * oldest, so that a flood does not keep members out.
 *
 * Events come from the loop, never from inside a call of the owner's, and every
 * call may be made from inside every event. For each on_up there is one on_down
 * (also after peers_remove), except after peers_close, which ends all events.
 * Threads: the loop's. */

#ifndef HASP_NET_PEERS_H
#define HASP_NET_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/err.h"
#include "net/frame.h"
#include "net/stream.h"
#include "net/tls.h"

#define PEERS_GUEST_MAX 8

struct peers;

struct peers_events {
    void *data;
    void (*on_up)(void *data, uint64_t id, const struct frame_hello *hello);
    /* 'was_closed_by_peer': the other end closed or reset it (its process has
     * died), as opposed to a time-out or a decision of ours. */
    void (*on_down)(void *data, uint64_t id, bool was_closed_by_peer);
    /* A frame other than HELLO, PING, PONG. Returning an error closes the
     * connection; 'why' is the reason, where it was set. */
    int (*on_frame)(void *data, uint64_t id, enum frame_type type,
                    struct bytes body, char why[HASP_WHY_SIZE]);
    /* Whether the sender of this HELLO may connect: 0, or an error with a
     * reason. If it is not wanted, it would be a guest. */
    int (*check)(void *data, const struct frame_hello *hello, bool is_wanted,
                 char why[HASP_WHY_SIZE]);
    /* True if the directory that greets goes before the other one that is
     * connected under its number. May be NULL. */
    bool (*goes_before)(void *data, const struct frame_hello *hello);
    /* True if another data directory than this one is the member's. May be
     * NULL. */
    bool (*names_other)(void *data, uint64_t id, uint64_t incarnation);
    /* True if a certificate with this SHA-256 is refused. May be NULL. */
    bool (*is_revoked)(void *data,
                       const uint8_t fingerprint[TLS_FINGERPRINT_SIZE]);
    /* check() has found the sender to be no member (HASP_ENOENT). True if it
     * was one; 'why' then says by whom and when it was removed. May be NULL. */
    bool (*was_removed)(void *data, const struct frame_hello *hello,
                        char why[HASP_WHY_SIZE]);
    /* Node 'id' refuses this one. It is certain that it was that node only if
     * it 'was_dialled', at its address. May be NULL. */
    void (*on_refused)(void *data, uint64_t id, enum frame_refusal refusal,
                       const char *why, bool was_dialled);
    /* A node of another cluster greets from 'address'; 'is_proven': it has
     * shown a certificate of a node with that number, and with this cluster's
     * name. It is refused. May be NULL. */
    void (*on_another_cluster)(void *data, const struct frame_hello *hello,
                               const char *address, bool is_proven);
    /* A member that was dialled at its address says that the cluster was raised
     * to a level above this node's. */
    void (*on_too_old)(void *data, const struct frame_hello *hello);
    /* What only the owner knows, for our HELLO. May be NULL. */
    void (*fill_hello)(void *data, struct frame_hello *hello);
};

struct peers_options {
    uint64_t id;
    uint64_t incarnation;
    uint32_t feature_level;         /* For HELLO. */
    struct frame_versions versions; /* Zero: frame_versions_spoken. */
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    const char *host; /* To listen on. */
    uint16_t port;
    enum tls_mode tls;           /* What is accepted, and dialled. */
    struct tls_context *context; /* TLS_FOR_PEERS; or NULL in TLS_OFF. */
};

MUST_CHECK int peers_open(uv_loop_t *loop, const struct peers_options *options,
                          const struct peers_events *events,
                          struct peers **ret_peers, char why[HASP_WHY_SIZE]);
/* For connections to come. Keeps a reference of the context. */
void peers_use_tls(struct peers *peers, enum tls_mode mode,
                   struct tls_context *context);
/* Closes the connections whose other end has shown a certificate that is
 * refused by now. */
void peers_drop_revoked(struct peers *peers);
/* Connections on which TLS has failed, since it was opened. */
uint64_t peers_tls_failed(const struct peers *peers);
/* Closes everything; 'closed' is called when the memory has gone. */
void peers_close(struct peers *peers, void (*closed)(void *data), void *data);

/* Where it listens: options.port, or the one chosen if that was 0. */
uint16_t peers_port(const struct peers *peers);
/* True if no other machine reaches that. */
bool peers_is_loopback(const struct peers *peers);

/* The cluster's id is known now. Connections with nodes of other clusters are
 * closed. */
void peers_set_cluster(struct peers *peers,
                       const uint8_t cluster_id[CLUSTER_ID_SIZE]);
/* From now on a connection with member 'id' at "host:port" is wanted. If the
 * member is known its address changes, from the next dial on. An address that
 * cannot be dialled is logged; the member may still dial this node. */
void peers_add(struct peers *peers, uint64_t id, const char *address);
void peers_remove(struct peers *peers, uint64_t id);
/* Closes the connection with 'id': another data directory than that member's is
 * at the other end. A wanted member is dialled again, and counts as never
 * heard. */
void peers_drop(struct peers *peers, uint64_t id);
bool peers_is_up(const struct peers *peers, uint64_t id);
/* It is, and has shown by a certificate that it is that node. */
bool peers_is_secure(const struct peers *peers, uint64_t id);
/* Milliseconds since something was last received from 'id'; UINT64_MAX:
 * never. */
uint64_t peers_silence_ms(const struct peers *peers, uint64_t id);
/* How long a PING takes to be answered by 'id', the median of the newest nine;
 * -1: not known. */
int64_t peers_round_trip_us(const struct peers *peers, uint64_t id);

/* Where to append a frame of this type for 'id' (with frame_put_...()). NULL:
 * the connection is not up, or its version has no such frame. */
struct buffer *peers_output(struct peers *peers, uint64_t id,
                            enum frame_type type);
/* Sends what was appended to all of them: at the end of a turn. */
void peers_flush(struct peers *peers);

#endif /* HASP_NET_PEERS_H */
