/* SPDX-License-Identifier: MIT */

#include "net/peers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/units.h"
#include "net/peer_link.h"
#include "net/stream.h"

#define DIAL_FIRST_MS 20
#define DIAL_LAST_MS 1000
/* A timer that is this late shows that the loop stalled. */
#define STALL_MS 200
#define STALL_GRACE_MS 500

static void peers_forget(struct peers *peers, struct net_peer *peer);
static void peers_timer_cb(uv_timer_t *timer);
static void peers_timer_closed_cb(uv_handle_t *handle);
static void listener_closed_cb(void *data);
static struct stream *peers_accept_cb(void *data, const char *address,
                                      const struct stream_events **ret_events,
                                      const struct stream_limits **ret_limits,
                                      void **ret_owner,
                                      const char **ret_refusal);

uint64_t peers_now_ms(void)
{
    return uv_hrtime() / NS_PER_MS;
}

int peers_open(uv_loop_t *loop, const struct peers_options *options,
               const struct peers_events *events, struct peers **ret_peers,
               char why[HASP_WHY_SIZE])
{
    CHECK(options->id != 0);
    struct peers *peers = memory_new(sizeof *peers);
    peers->loop = loop;
    peers->id = options->id;
    peers->incarnation = options->incarnation;
    peers->feature_level = options->feature_level;
    peers->versions = options->versions.newest != 0 ? options->versions
                                                    : frame_versions_spoken;
    memcpy(peers->cluster_id, options->cluster_id, sizeof peers->cluster_id);
    peers->events = *events;
    list_init(&peers->members);
    list_init(&peers->links);
    peers->wake_ms = UINT64_MAX;
    if (uv_random(NULL, NULL, &peers->prng, sizeof peers->prng, 0, NULL) != 0) {
        peers->prng.state = uv_hrtime() ^ options->id;
    }
    int error = listener_open(loop, options->host, options->port,
                              peers_accept_cb, NULL, peers, &peers->listener,
                              why);
    if (error != 0) {
        free(peers);
        return error;
    }
    peers_use_tls(peers, options->tls, options->context);
    CHECK(uv_timer_init(loop, &peers->timer) == 0);
    peers->timer.data = peers;
    peers->part_count = 2; /* The listener and the timer. */
    *ret_peers = peers;
    return 0;
}

void peers_use_tls(struct peers *peers, enum tls_mode mode,
                   struct tls_context *context)
{
    struct tls_context *old = peers->context;
    peers->tls = mode;
    peers->context = mode == TLS_OFF ? NULL : tls_context_ref(context);
    listener_use_tls(peers->listener, mode, context, NULL);
    tls_context_unref(old);
}

void peers_drop_revoked(struct peers *peers)
{
    LIST_FOR (struct peer_link, link, &peers->links, node) {
        if (peer_link_is_revoked(link)) {
            peer_link_close(link, PEER_REVOKED);
        }
    }
}

uint64_t peers_tls_failed(const struct peers *peers)
{
    return peers->tls_failed_count;
}

bool peers_is_loopback(const struct peers *peers)
{
    return listener_is_loopback(peers->listener);
}

uint16_t peers_port(const struct peers *peers)
{
    return listener_port(peers->listener);
}

void peers_close(struct peers *peers, void (*closed)(void *data), void *data)
{
    CHECK(!peers->is_closing);
    peers->is_closing = true;
    peers->closed = closed;
    peers->closed_data = data;
    LIST_EACH (node, &peers->links) {
        peer_link_close(LIST_ENTRY(node, struct peer_link, node),
                        "this node closes");
    }
    listener_close_then(peers->listener, listener_closed_cb, peers);
    peers->listener = NULL;
    uv_close((uv_handle_t *)&peers->timer, peers_timer_closed_cb);
}

static void listener_closed_cb(void *data)
{
    peers_part_closed(data);
}

static void peers_timer_closed_cb(uv_handle_t *handle)
{
    peers_part_closed(handle->data);
}

void peers_part_closed(struct peers *peers)
{
    CHECK(peers->part_count > 0);
    peers->part_count--;
    if (peers->part_count > 0) {
        return;
    }
    CHECK(peers->is_closing);
    void (*closed)(void *data) = peers->closed;
    void *data = peers->closed_data;
    LIST_FOR_SAFE (struct net_peer, peer, &peers->members, node) {
        free(peer);
    }
    tls_context_unref(peers->context);
    free(peers);
    if (closed != NULL) {
        closed(data);
    }
}

/* --- Members -------------------------------------------------------------- */

struct net_peer *peers_find(const struct peers *peers, uint64_t id)
{
    LIST_FOR (struct net_peer, peer, &peers->members, node) {
        if (peer->id == id) {
            return peer;
        }
    }
    return NULL;
}

static struct peer_link *find_up(const struct peers *peers, uint64_t id)
{
    const struct net_peer *peer = peers_find(peers, id);
    if (peer == NULL || peer->link == NULL || !peer->link->is_up ||
        peer->link->stream.is_closing) {
        return NULL;
    }
    return peer->link;
}

static bool can_be_dialled(const struct net_peer *peer)
{
    return peer->host[0] != '\0';
}

/* Schedules a dial. The node with the greater id dials first; the other waits,
 * unless it has something to ask. */
static void dial_at(struct peers *peers, struct net_peer *peer, uint64_t at_ms)
{
    peer->dial_at_ms = at_ms;
    if (peer->id > peers->id && !peer->is_doubted) {
        peer->dial_at_ms += PEER_PATIENCE_MS;
    }
    if (can_be_dialled(peer)) {
        peers_wake_by(peers, peer->dial_at_ms);
    }
}

void peers_dial_now(struct peers *peers, struct net_peer *peer)
{
    if (can_be_dialled(peer)) {
        peer->dial_at_ms = peers_now_ms();
        peers_wake_by(peers, peer->dial_at_ms);
    }
}

/* The delay doubles from DIAL_FIRST_MS to DIAL_LAST_MS, less a random part of
 * up to a half, so that nodes that lost each other at the same time do not
 * redial in step. */
void peers_redial_later(struct peers *peers, struct net_peer *peer,
                        bool was_up_for_a_while)
{
    if (was_up_for_a_while) {
        peer->attempts = 0;
        peer->is_doubted = false;
    }
    uint64_t base_ms = DIAL_LAST_MS;
    if (peer->attempts < 6) {
        base_ms = (uint64_t)DIAL_FIRST_MS * 2 << peer->attempts;
        base_ms = u64_min(base_ms, DIAL_LAST_MS);
    }
    if (peer->attempts < UINT32_MAX) {
        peer->attempts++;
    }
    uint64_t wait_ms = base_ms / 2 + prng_below(&peers->prng, base_ms / 2 + 1);
    dial_at(peers, peer, peers_now_ms() + wait_ms);
}

void peers_add(struct peers *peers, uint64_t id, const char *address)
{
    char host[PEER_HOST_SIZE] = "";
    uint16_t port = 0;
    if (id == peers->id || id == 0 || peers->is_closing) {
        return;
    }
    if (address_split(address, host, sizeof host, &port) != 0 || port == 0) {
        LOG_ERROR("peer cannot be dialled",
                  "peer=%" PRIu64
                  " address=%s hint=\"expected host:port; change it with "
                  "'hasp member update'\"",
                  id, log_quote(address));
        host[0] = '\0';
        port = 0;
    }
    struct net_peer *peer = peers_find(peers, id);
    if (peer == NULL) {
        peer = memory_new(sizeof *peer);
        peer->id = id;
        list_push_back(&peers->members, &peer->node);
    } else if (peer->is_guest) {
        peer->is_guest = false;
        peers->guest_count--;
    } else if (peer->port == port && strcmp(peer->host, host) == 0) {
        return;
    }
    memcpy(peer->host, host, sizeof peer->host);
    peer->port = port;
    peer->last_host[0] = '\0';
    peer->dials_last = false;
    peer->attempts = 0;
    if (peer->link != NULL && !peer->link->is_up) {
        /* The link is dialling the old address. */
        struct peer_link *link = peer->link;
        link->peer = NULL;
        peer->link = NULL;
        peer_link_close(link, "its address has changed");
    }
    if (peer->link == NULL) {
        dial_at(peers, peer, peers_now_ms());
    }
}

void peers_remove(struct peers *peers, uint64_t id)
{
    struct net_peer *peer = peers_find(peers, id);
    if (peer == NULL) {
        return;
    }
    if (peer->link != NULL) {
        struct peer_link *link = peer->link;
        link->peer = NULL; /* on_down is called when the link has closed. */
        peer->link = NULL;
        peer_link_close(link, "no longer a member");
    }
    peers_forget(peers, peer);
}

void peers_drop(struct peers *peers, uint64_t id)
{
    struct net_peer *peer = peers_find(peers, id);
    if (peer != NULL && peer->link != NULL) {
        peer_link_close(peer->link, "another data directory than the member's");
    }
    if (peer != NULL) {
        peer->heard_ms = 0;
    }
}

struct net_peer *peers_let_in(struct peers *peers, uint64_t id)
{
    CHECK(peers->guest_count < PEERS_GUEST_MAX);
    struct net_peer *peer = memory_new(sizeof *peer);
    peer->id = id;
    peer->is_guest = true;
    peers->guest_count++;
    list_push_back(&peers->members, &peer->node);
    return peer;
}

void peers_let_out(struct peers *peers, struct net_peer *peer)
{
    CHECK(peer->is_guest && peer->link == NULL);
    peers_forget(peers, peer);
}

static void peers_forget(struct peers *peers, struct net_peer *peer)
{
    peers->guest_count -= peer->is_guest ? 1 : 0;
    list_remove(&peer->node);
    free(peer);
}

void peers_set_cluster(struct peers *peers,
                       const uint8_t cluster_id[CLUSTER_ID_SIZE])
{
    memcpy(peers->cluster_id, cluster_id, sizeof peers->cluster_id);
    LIST_FOR (struct peer_link, link, &peers->links, node) {
        if (link->is_up && cluster_id_is_known(link->cluster_id) &&
            !cluster_id_equal(link->cluster_id, cluster_id)) {
            peer_link_close(link, "it belongs to another cluster");
        }
    }
}

bool peers_is_up(const struct peers *peers, uint64_t id)
{
    return find_up(peers, id) != NULL;
}

bool peers_is_secure(const struct peers *peers, uint64_t id)
{
    const struct peer_link *link = find_up(peers, id);
    return link != NULL && stream_identity(&link->stream) != NULL;
}

uint64_t peers_silence_ms(const struct peers *peers, uint64_t id)
{
    const struct net_peer *peer = peers_find(peers, id);
    if (peer == NULL || peer->heard_ms == 0) {
        return UINT64_MAX;
    }
    return peers_now_ms() - peer->heard_ms;
}

int64_t peers_round_trip_us(const struct peers *peers, uint64_t id)
{
    const struct peer_link *link = find_up(peers, id);
    return link != NULL && link->trip.count > 0 ? (int64_t)link->trip.median_us
                                                : -1;
}

struct buffer *peers_output(struct peers *peers, uint64_t id,
                            enum frame_type type)
{
    struct peer_link *link = find_up(peers, id);
    return link != NULL && frame_since(type) <= link->version
               ? stream_output(&link->stream)
               : NULL;
}

void peers_flush(struct peers *peers)
{
    LIST_FOR (struct net_peer, peer, &peers->members, node) {
        if (peer->link != NULL && peer->link->is_up) {
            stream_flush(&peer->link->stream);
        }
    }
}

/* --- Strangers ------------------------------------------------------------ */

/* Closes the oldest connection without a HELLO. Such connections must not keep
 * members out, which send a HELLO at once. */
static void drop_oldest_unidentified(struct peers *peers)
{
    LIST_FOR (struct peer_link, link, &peers->links, node) {
        if (link->is_unidentified) {
            peer_link_close(link, "too many connections without a HELLO");
            return;
        }
    }
    UNREACHABLE();
}

static struct stream *peers_accept_cb(void *data, const char *address,
                                      const struct stream_events **ret_events,
                                      const struct stream_limits **ret_limits,
                                      void **ret_owner,
                                      const char **ret_refusal)
{
    struct peers *peers = data;
    (void)address;
    (void)ret_refusal;
    /* Connections that do not greet have a bound of their own, and the oldest
     * goes first: they cannot exclude a member. */
    if (peers->unidentified_count == PEER_UNIDENTIFIED_MAX) {
        drop_oldest_unidentified(peers);
    }
    struct peer_link *link = peer_link_new(peers);
    link->is_unidentified = true;
    link->deadline_ms = peers_now_ms() + PEER_HELLO_MS;
    peers->unidentified_count++;
    peers_wake_by(peers, link->deadline_ms);
    *ret_events = &peer_link_events;
    *ret_limits = &peer_link_early_limits;
    *ret_owner = link;
    return &link->stream;
}

/* --- Time ----------------------------------------------------------------- */

void peers_wake_by(struct peers *peers, uint64_t at_ms)
{
    if (at_ms >= peers->wake_ms || peers->is_closing) {
        return;
    }
    uint64_t now_ms = peers_now_ms();
    peers->wake_ms = at_ms;
    CHECK(uv_timer_start(&peers->timer, peers_timer_cb,
                         at_ms > now_ms ? at_ms - now_ms : 0, 0) == 0);
}

static void peers_timer_cb(uv_timer_t *timer)
{
    struct peers *peers = timer->data;
    uint64_t now_ms = peers_now_ms();
    uint64_t next_ms = UINT64_MAX;
    if (peers->is_closing) {
        return;
    }
    /* After a stall of this process the silence of others is its own: they get
     * time to be heard. */
    if (now_ms > peers->wake_ms + STALL_MS) {
        peers->grace_ms = now_ms + STALL_GRACE_MS;
    }
    peers->wake_ms = UINT64_MAX;
    LIST_FOR_SAFE (struct peer_link, link, &peers->links, node) {
        uint64_t at_ms = peer_link_tick(link, now_ms);
        next_ms = u64_min(at_ms, next_ms);
    }
    LIST_FOR (struct net_peer, peer, &peers->members, node) {
        if (peer->link != NULL || !can_be_dialled(peer)) {
            continue;
        }
        if (peer->dial_at_ms <= now_ms) {
            peer_link_dial(peers, peer);
        } else {
            next_ms = u64_min(next_ms, peer->dial_at_ms);
        }
    }
    if (next_ms != UINT64_MAX) {
        peers_wake_by(peers, next_ms);
    }
}
