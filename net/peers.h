/* SPDX-License-Identifier: MIT */

/* Connections between nodes.
 *
 * Each pair of nodes has one connection, which the node with the greater id
 * dials. It redials every 20 ms to 1 s, with jitter, as long as the member is
 * wanted; names are resolved each time. If there is no connection within three
 * seconds, the other node might not know this one; then the node with the
 * smaller id dials as well. The node with the greater id accepts that only if
 * it cannot reach the sender by dialling: because the owner knows another data
 * directory for that member (events.names_other), or because another directory
 * is connected.
 *
 * A connection is up when both HELLOs have been exchanged and checked: protocol
 * version, cluster id (one side might not know it yet), node ids, the
 * incarnation that this node knows for the member, the feature levels. The
 * dialler sends its HELLO first; the other side answers with a HELLO only if
 * that is valid. Otherwise it answers with the reason, logs it (a few lines in
 * ten seconds) and closes the connection. A second connection from a member
 * replaces the first only if it has the same incarnation, or if the owner
 * prefers its data directory (events.goes_before).
 *
 * A node that is too old for the other's cluster gets a HELLO with only the
 * levels. It believes this only if it has dialled, since then the address is
 * the member's; a node that was dialled dials the member at once to check.
 *
 * Unlisted peers: a node that is not wanted here (peers_add) can connect if it
 * has this cluster's id and the owner agrees (events.check); at most
 * PEERS_GUEST_MAX at a time. It stays unlisted until its connection closes or
 * until it is wanted. Unlisted peers are not dialled.
 *
 * A PING is sent every 500 ms; if nothing is received for 3 s, the connection
 * is closed. After a stall of this node's loop, waiting input is read first.
 * Output that is queued when a connection closes is lost; Raft sends it again.
 * Frames to one peer are sent in order, with one write per turn (peers_flush).
 * A connection with more than 64 MiB of output is closed.
 *
 * TLS: both ends present a certificate of a node. Its id must be the one that
 * was dialled, or the one in the HELLO. With TLS_ALLOW a plain connection is
 * tried after TLS has failed, and then TLS again; a member that was once up
 * with TLS is no longer dialled without it.
 *
 * Connections without a HELLO so far: at most 64, each for at most 2 s and
 * FRAME_HELLO_SIZE_MAX bytes. A new one replaces the oldest, so that a flood
 * does not keep members out.
 *
 * Events are called by the loop, never from inside a call of the owner, and
 * every function can be called from inside every event. Each on_up has one
 * on_down (also after peers_remove), except after peers_close, which ends all
 * events. Threads: the loop's. */

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
    /* 'was_closed_by_peer': the peer closed or reset it (its process has died);
     * otherwise it timed out, or this node closed it. */
    void (*on_down)(void *data, uint64_t id, bool was_closed_by_peer);
    /* A frame other than HELLO, PING, PONG. Returning an error closes the
     * connection; 'why' is the reason if set. */
    int (*on_frame)(void *data, uint64_t id, enum frame_type type,
                    struct bytes body, char why[HASP_WHY_SIZE]);
    /* Whether the sender of this HELLO may connect: 0, or an error with a
     * reason. If not 'is_wanted', it would be an unlisted peer. */
    int (*check)(void *data, const struct frame_hello *hello, bool is_wanted,
                 char why[HASP_WHY_SIZE]);
    /* True if the greeting directory is preferred to the other one that is
     * connected with its id. May be NULL. */
    bool (*goes_before)(void *data, const struct frame_hello *hello);
    /* True if the member has another data directory than this one. May be
     * NULL. */
    bool (*names_other)(void *data, uint64_t id, uint64_t incarnation);
    /* True if the certificate with this SHA-256 is revoked. May be NULL. */
    bool (*is_revoked)(void *data,
                       const uint8_t fingerprint[TLS_FINGERPRINT_SIZE]);
    /* Called if check() says that the sender is not a member (HASP_ENOENT).
     * True if it was one; 'why' then says by whom and when it was removed. May
     * be NULL. */
    bool (*was_removed)(void *data, const struct frame_hello *hello,
                        char why[HASP_WHY_SIZE]);
    /* Node 'id' refuses this one. Only if it 'was_dialled', at its address, is
     * it certain to be that node. May be NULL. */
    void (*on_refused)(void *data, uint64_t id, enum frame_refusal refusal,
                       const char *why, bool was_dialled);
    /* A node of another cluster greets from 'address', and is refused.
     * 'is_proven': its certificate has that node id and this cluster's name.
     * May be NULL. */
    void (*on_another_cluster)(void *data, const struct frame_hello *hello,
                               const char *address, bool is_proven);
    /* A member that was dialled at its address reports a cluster level above
     * this node's. */
    void (*on_too_old)(void *data, const struct frame_hello *hello);
    /* Fills in the fields of our HELLO that only the owner knows. May be
     * NULL. */
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
    enum tls_mode tls;           /* Accepted and dialled. */
    struct tls_context *context; /* TLS_FOR_PEERS; NULL in TLS_OFF. */
};

MUST_CHECK int peers_open(uv_loop_t *loop, const struct peers_options *options,
                          const struct peers_events *events,
                          struct peers **ret_peers, char why[HASP_WHY_SIZE]);
/* For future connections. Keeps a reference to the context. */
void peers_use_tls(struct peers *peers, enum tls_mode mode,
                   struct tls_context *context);
/* Closes the connections whose peer presented a certificate that is revoked
 * now. */
void peers_drop_revoked(struct peers *peers);
/* Number of connections on which TLS has failed. */
uint64_t peers_tls_failed(const struct peers *peers);
/* Closes everything; 'closed' is called when the memory is freed. */
void peers_close(struct peers *peers, void (*closed)(void *data), void *data);

/* The port at which it listens: options.port, or the chosen one if that was
 * 0. */
uint16_t peers_port(const struct peers *peers);
/* True if no other machine can reach that. */
bool peers_is_loopback(const struct peers *peers);

/* Sets the cluster's id. Connections to nodes of other clusters are closed. */
void peers_set_cluster(struct peers *peers,
                       const uint8_t cluster_id[CLUSTER_ID_SIZE]);
/* From now on a connection to member 'id' at "host:port" is wanted. If the
 * member is known, its address changes for the next dial. An address that
 * cannot be dialled is logged; the member can still dial this node. */
void peers_add(struct peers *peers, uint64_t id, const char *address);
void peers_remove(struct peers *peers, uint64_t id);
/* Closes the connection to 'id', because the peer does not have the member's
 * data directory. A wanted member is dialled again, and counts as never
 * heard. */
void peers_drop(struct peers *peers, uint64_t id);
bool peers_is_up(const struct peers *peers, uint64_t id);
/* True if it is up and has presented a certificate of that node. */
bool peers_is_secure(const struct peers *peers, uint64_t id);
/* Milliseconds since something was last received from 'id'; UINT64_MAX:
 * never. */
uint64_t peers_silence_ms(const struct peers *peers, uint64_t id);
/* Median round-trip time of the newest nine PINGs to 'id'; -1: unknown. */
int64_t peers_round_trip_us(const struct peers *peers, uint64_t id);

/* The buffer to which a frame of this type for 'id' is appended (with
 * frame_put_...()). NULL: the connection is not up, or its version has no such
 * frame. */
struct buffer *peers_output(struct peers *peers, uint64_t id,
                            enum frame_type type);
/* Sends the appended frames to all peers, at the end of a turn. */
void peers_flush(struct peers *peers);

#endif /* HASP_NET_PEERS_H */
