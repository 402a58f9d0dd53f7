/* SPDX-License-Identifier: MIT */

#include "net/peer_link.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/minmax.h"

#define OUTPUT_MAX (64u << 20)
#define IDLE_MAX (256u << 10)
#define UP_FOR_A_WHILE_MS 1000

static void peer_link_bytes_cb(struct stream *stream);
static void peer_link_connected_cb(struct stream *stream);
static void peer_link_closed_cb(struct stream *stream, const char *reason);

const struct stream_events peer_link_events = {
    .on_bytes = peer_link_bytes_cb,
    .on_connected = peer_link_connected_cb,
    .on_closed = peer_link_closed_cb};
const struct stream_limits peer_link_early_limits = {
    .input_max = FRAME_HEADER_SIZE + FRAME_HELLO_SIZE_MAX,
    .output_max = 64u << 10,
    .idle_max = 4096,
    .connect_ms = PEER_CONNECT_MS};

/* --- Life ----------------------------------------------------------------- */

struct peer_link *peer_link_new(struct peers *peers)
{
    struct peer_link *link = memory_new(sizeof *link);
    link->peers = peers;
    link->deadline_ms = UINT64_MAX;
    list_push_back(&peers->links, &link->node);
    peers->part_count++;
    return link;
}

/* With TLS_ALLOW a node that does not support TLS yet can still be reached. A
 * node that once used TLS is never dialled without it: otherwise an attacker in
 * between could downgrade the connection. */
static bool was_secure(const struct peers *peers, uint64_t id)
{
    for (uint32_t i = 0; i < peers->secure_count; i++) {
        if (peers->stream_tls[i] == id) {
            return true;
        }
    }
    return peers->secure_count == PEERS_SECURE_MAX;
}

static void note_secure(struct peers *peers, uint64_t id)
{
    if (!was_secure(peers, id)) {
        peers->stream_tls[peers->secure_count++] = id;
    }
}

static bool dials_tls(const struct peers *peers, const struct net_peer *peer)
{
    return peers->tls == TLS_REQUIRE ||
           (peers->tls == TLS_ALLOW &&
            (!peer->dials_plain || was_secure(peers, peer->id)));
}

void peer_link_dial(struct peers *peers, struct net_peer *peer)
{
    CHECK(peer->link == NULL && peer->host[0] != '\0');
    struct peer_link *link = peer_link_new(peers);
    link->is_dialled = true;
    link->peer = peer;
    link->id = peer->id;
    peer->link = link;
    /* peers_add() has checked host and port. */
    const char *host = peer->dials_last ? peer->last_host : peer->host;
    CHECK(stream_connect(&link->stream, peers->loop, host, peer->port,
                         &peer_link_events, &peer_link_early_limits,
                         link) == 0);
    peer->dials_last = false;
    if (dials_tls(peers, peer)) {
        stream_use_tls(&link->stream, peers->context, peer->id);
    }
}

static struct frame_hello own_hello(const struct peers *peers, uint64_t to)
{
    struct frame_hello hello = {.versions = peers->versions,
                                .feature_level = peers->feature_level,
                                .from = peers->id,
                                .to = to,
                                .incarnation = peers->incarnation};
    if (peers->events.fill_hello != NULL) {
        peers->events.fill_hello(peers->events.data, &hello);
    }
    memcpy(hello.cluster_id, peers->cluster_id, sizeof hello.cluster_id);
    return hello;
}

static void put_hello(struct peer_link *link, uint64_t to)
{
    struct frame_hello hello = own_hello(link->peers, to);
    frame_put_hello(stream_output(&link->stream), &hello);
}

/* Sends a HELLO with only the levels to a node that is refused. */
static void put_levels(struct peer_link *link, const struct frame_hello *own)
{
    struct frame_hello hello = {.versions = own->versions,
                                .feature_level = own->feature_level,
                                .cluster_level = own->cluster_level,
                                .from = own->from,
                                .to = own->to};
    frame_put_hello(stream_output(&link->stream), &hello);
    stream_flush(&link->stream);
}

static void peer_link_connected_cb(struct stream *stream)
{
    struct peer_link *link = stream->owner;
    link->deadline_ms = peers_now_ms() + PEER_HELLO_MS;
    peers_wake_by(link->peers, link->deadline_ms);
    put_hello(link, link->id); /* The stream is flushed when this returns. */
}

static void leave_unidentified(struct peer_link *link)
{
    if (link->is_unidentified) {
        link->is_unidentified = false;
        link->peers->unidentified_count--;
    }
}

void peer_link_close(struct peer_link *link, const char *reason)
{
    leave_unidentified(link);
    stream_close(&link->stream, reason);
}

/* Reports to the owner that the member is down; its peer can be dialled
 * again. */
static void peer_link_go_down(struct peer_link *link, const char *reason,
                              bool was_closed_by_peer)
{
    struct peers *peers = link->peers;
    struct net_peer *peer = link->peer;
    bool was_up = link->is_up;
    bool was_up_for_a_while = was_up &&
                              peers_now_ms() - link->up_ms >= UP_FOR_A_WHILE_MS;
    link->is_up = false;
    link->peer = NULL;
    if (peer != NULL) {
        CHECK(peer->link == link);
        peer->link = NULL;
        peer->dials_plain = link->stream.has_failed_tls;
        peer->is_unknown |= link->stream.has_failed_lookup;
        /* If names cannot be resolved, the member is most likely still at its
         * last address. The node there has to greet as this member in any
         * case. */
        peer->dials_last = link->stream.has_failed_lookup &&
                           peer->last_host[0] != '\0';
        if (was_up || (peer->attempts == 0 && !link->stream.has_failed_tls)) {
            LOG_INFO(was_up ? "peer down" : "peer unreachable",
                     "peer=%" PRIu64 " address=%s reason=%s", link->id,
                     link->stream.address, log_quote(reason));
        }
        if (peer->is_guest) {
            peers_let_out(peers, peer);
        } else {
            peers_redial_later(peers, peer, was_up_for_a_while);
        }
    }
    if (was_up && !peers->is_closing) {
        peers->events.on_down(peers->events.data, link->id, was_closed_by_peer);
    }
}

/* Logs a refusal, at a limited rate, so that unknown hosts cannot fill the
 * log. */
static void peer_link_log_refusal(struct peers *peers, const char *address,
                                  const char *why)
{
    uint32_t left_out;
    if (log_limit_pass(&peers->refusals, peers_now_ms(), &left_out)) {
        LOG_WARN("peer refused", "address=%s reason=%s suppressed=%" PRIu32,
                 address, log_quote(why), left_out);
    }
}

static void peer_link_closed_cb(struct stream *stream, const char *reason)
{
    struct peer_link *link = stream->owner;
    struct peers *peers = link->peers;
    leave_unidentified(link);
    if (stream->has_failed_tls) {
        peers->tls_failed_count++;
        peer_link_log_refusal(peers, stream->address, reason);
    }
    peer_link_go_down(link, reason, stream->was_closed_by_peer);
    list_remove(&link->node);
    free(link);
    peers_part_closed(peers);
}

/* --- Refusing ------------------------------------------------------------- */

static void peer_link_refuse(struct peer_link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void peer_link_refuse(struct peer_link *link, const char *format, ...)
{
    char why[HASP_WHY_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    peer_link_log_refusal(link->peers, link->stream.address, why);
    peer_link_close(link, "refused");
}

/* Refuses a greeting, and sends the reason to the other node. */
static void refuse_hello(struct peer_link *link,
                         const struct frame_hello *hello, int error,
                         char why[HASP_WHY_SIZE])
{
    const struct peers_events *events = &link->peers->events;
    enum frame_refusal refusal = REFUSAL_OTHER;
    if (error == HASP_ENOENT || error == HASP_ECERT) {
        bool was_member = events->was_removed != NULL &&
                          events->was_removed(events->data, hello, why);
        refusal = was_member             ? REFUSAL_REMOVED
                  : error == HASP_ENOENT ? REFUSAL_STRANGER
                                         : REFUSAL_OTHER;
    } else if (error == HASP_EEXIST) {
        refusal = REFUSAL_CROSSED;
    }
    /* If the other side is too old, check_levels() has sent it the levels
     * instead. */
    if (error != HASP_ETOOOLD) {
        frame_put_refused(stream_output(&link->stream), refusal,
                          bytes_of_text(why));
        stream_flush(&link->stream);
    }
    if (refusal == REFUSAL_CROSSED) {
        /* It happens whenever two nodes start at once. */
        LOG_INFO("connection not needed", "address=%s reason=%s",
                 link->stream.address, log_quote(why));
        peer_link_close(link, "not needed");
        return;
    }
    peer_link_refuse(link, "%s", why);
}

/* Handles the other node's refusal of this node's greeting. */
static void take_refusal(struct peer_link *link, struct bytes body)
{
    const struct peers_events *events = &link->peers->events;
    enum frame_refusal refusal;
    struct bytes text;
    char why[FRAME_REFUSED_SIZE_MAX + 1];
    if (frame_get_refused(body, &refusal, &text) != 0) {
        peer_link_refuse(link, "it sent a malformed refusal");
        return;
    }
    CHECK(text.size <=
          FRAME_REFUSED_SIZE_MAX); /* The decoder has checked that. */
    memcpy(why, text.data, text.size);
    why[text.size] = '\0';
    if (refusal == REFUSAL_REMOVED && !link->is_dialled && link->peer != NULL) {
        link->peer->is_doubted = true;
    }
    peer_link_close(link, "refused by it");
    if (events->on_refused != NULL) {
        events->on_refused(events->data, link->id, refusal, why,
                           link->is_dialled);
    }
}

/* --- HELLO ---------------------------------------------------------------- */

static bool peer_link_may_be_guest(const struct peer_link *link,
                                   const struct frame_hello *hello)
{
    const struct peers *peers = link->peers;
    return !link->is_dialled && peers->guest_count < PEERS_GUEST_MAX &&
           cluster_id_is_known(hello->cluster_id);
}

/* Checks the two ids: 0, or HASP_EREFUSED or HASP_ENOENT with the reason. */
static int check_ids(const struct peer_link *link,
                     const struct frame_hello *hello, char why[HASP_WHY_SIZE])
{
    const struct peers *peers = link->peers;
    const struct net_peer *peer = peers_find(peers, hello->from);
    const struct tls_identity *who = stream_identity(&link->stream);
    if (who != NULL && who->name.node != hello->from) {
        snprintf(why, HASP_WHY_SIZE,
                 "it claims to be node %" PRIu64
                 ", but its certificate is of node %" PRIu64,
                 hello->from, who->name.node);
    } else if (hello->from == 0 || hello->from == UINT64_MAX) {
        snprintf(why, HASP_WHY_SIZE,
                 "it claims to be node %" PRIu64 ", which is not a valid id",
                 hello->from);
    } else if (hello->to != peers->id) {
        snprintf(why, HASP_WHY_SIZE,
                 "it is looking for node %" PRIu64 ", this is node %" PRIu64
                 "; check the addresses of the members",
                 hello->to, peers->id);
    } else if (hello->from == peers->id) {
        snprintf(why, HASP_WHY_SIZE,
                 "it claims to be node %" PRIu64 ", which is this node",
                 hello->from);
    } else if (link->is_dialled && hello->from != link->id) {
        /* A wrong address must not make one node count as another. */
        snprintf(why, HASP_WHY_SIZE,
                 "node %" PRIu64 " answers at the address of node %" PRIu64,
                 hello->from, link->id);
    } else if (peer == NULL && !peer_link_may_be_guest(link, hello)) {
        snprintf(why, HASP_WHY_SIZE, "node %" PRIu64 " is not a member",
                 hello->from);
        return HASP_ENOENT;
    } else {
        return 0;
    }
    return HASP_EREFUSED;
}

/* HASP_ETOOOLD with the reason if one of them is too old for the other's
 * cluster. */
static int check_levels(struct peer_link *link, const struct frame_hello *hello,
                        char why[HASP_WHY_SIZE])
{
    struct peers *peers = link->peers;
    struct frame_hello own = own_hello(peers, hello->from);
    struct net_peer *peer = peers_find(peers, hello->from);
    enum frame_age age = frame_compare_levels(&own, hello);
    bool is_other = age == FRAME_OTHER_TOO_OLD;
    if (age == FRAME_FITS) {
        return 0;
    }
    snprintf(why, HASP_WHY_SIZE,
             "%s is too old: it supports feature level %" PRIu32
             ", and the cluster has level %" PRIu32
             "; upgrade it to the version of the other nodes",
             is_other ? "that node" : "this node",
             is_other ? hello->feature_level : own.feature_level,
             is_other ? own.cluster_level : hello->cluster_level);
    /* The side that dialled learns by this answer that it is the one to be
     * upgraded. */
    if (is_other && !link->is_dialled) {
        put_levels(link, &own);
    } else if (!is_other && link->is_dialled) {
        peers->events.on_too_old(peers->events.data, hello);
    } else if (!is_other && peer != NULL && peer->link == NULL) {
        peers_dial_now(peers, peer);
    }
    return HASP_ETOOOLD;
}

/* Chooses a common version. The reason names both nodes, since both get it. */
static bool agree_on_version(struct peer_link *link,
                             const struct frame_hello *hello,
                             char why[HASP_WHY_SIZE])
{
    const struct peers *peers = link->peers;
    const struct frame_versions *own = &peers->versions;
    const struct frame_versions *other = &hello->versions;
    link->version = frame_common_version(own, other);
    if (link->version != 0) {
        return true;
    }
    snprintf(why, HASP_WHY_SIZE,
             "no common version of the peer protocol: node %" PRIu64
             " supports %" PRIu32 " to %" PRIu32 ", node %" PRIu64
             " supports %" PRIu32 " to %" PRIu32 "; upgrade node %" PRIu64,
             peers->id, own->oldest, own->newest, hello->from, other->oldest,
             other->newest,
             own->newest < other->oldest ? peers->id : hello->from);
    return false;
}

bool peer_link_is_revoked(const struct peer_link *link)
{
    const struct peers_events *events = &link->peers->events;
    const struct tls_identity *who = stream_identity(&link->stream);
    return who != NULL && events->is_revoked != NULL &&
           events->is_revoked(events->data, who->fingerprint);
}

static bool peer_link_goes_before(const struct peers *peers,
                                  const struct frame_hello *hello)
{
    return peers->events.goes_before != NULL &&
           peers->events.goes_before(peers->events.data, hello);
}

/* True if this node has the greater id and should dial instead, which reaches
 * the greeting directory if that is at the member's address. It is not if the
 * log here names another directory, which is elsewhere, or while another one is
 * connected, or if this node could not look up the member's name. */
static bool is_to_be_dialled(const struct peers *peers,
                             const struct net_peer *peer,
                             const struct frame_hello *hello)
{
    const struct peers_events *events = &peers->events;
    bool is_replaced = events->names_other != NULL &&
                       events->names_other(events->data, hello->from,
                                           hello->incarnation);
    bool has_other = peer->link != NULL && peer->link->is_up &&
                     peer->link->incarnation != hello->incarnation;
    return hello->from < peers->id && !peer->is_unknown && !is_replaced &&
           !has_other;
}

static int check_hello(struct peer_link *link, const struct frame_hello *hello,
                       char why[HASP_WHY_SIZE])
{
    struct peers *peers = link->peers;
    if (!agree_on_version(link, hello, why)) {
        return HASP_EREFUSED;
    }
    if (cluster_id_is_known(hello->cluster_id) &&
        cluster_id_is_known(peers->cluster_id) &&
        !cluster_id_equal(hello->cluster_id, peers->cluster_id)) {
        const struct tls_identity *who = stream_identity(&link->stream);
        if (peers->events.on_another_cluster != NULL) {
            peers->events.on_another_cluster(
                peers->events.data, hello, link->stream.address,
                who != NULL && who->name.role == TLS_NODE &&
                    who->name.node == hello->from &&
                    !peer_link_is_revoked(link));
        }
        snprintf(why, HASP_WHY_SIZE, "it belongs to another cluster");
        return HASP_EREFUSED;
    }
    if (peer_link_is_revoked(link)) {
        snprintf(why, HASP_WHY_SIZE, PEER_REVOKED);
        return HASP_ECERT;
    }
    int error = check_ids(link, hello, why);
    error = error ?: check_levels(link, hello, why);
    if (error != 0) {
        return error;
    }
    const struct net_peer *peer = peers_find(peers, hello->from);
    bool is_wanted = peer != NULL && !peer->is_guest;
    /* The owner decides first: a replaced directory must be told so, and be
     * noticed, whichever side has dialled and whichever directory is up. */
    error = peers->events.check(peers->events.data, hello, is_wanted, why);
    if (error != 0) {
        return error;
    }
    if (is_wanted && !link->is_dialled &&
        is_to_be_dialled(peers, peer, hello)) {
        snprintf(why, HASP_WHY_SIZE,
                 "this node dials node %" PRIu64 ", not the other way round",
                 hello->from);
        return HASP_EEXIST;
    }
    if (peer != NULL && peer->link != NULL && peer->link->is_up &&
        peer->link != link && peer->link->incarnation != hello->incarnation &&
        !peer_link_goes_before(peers, hello)) {
        snprintf(why, HASP_WHY_SIZE,
                 "node %" PRIu64
                 " is already connected, with another data directory",
                 hello->from);
        return HASP_EREFUSED;
    }
    return 0;
}

/* Finds another link of member 'id' that is still up for the owner. */
static struct peer_link *find_earlier(const struct peer_link *link, uint64_t id)
{
    LIST_FOR (struct peer_link, other, &link->peers->links, node) {
        if (other != link && other->is_up && other->id == id) {
            return other;
        }
    }
    return NULL;
}

/* Stores the current address of a member whose host is a name. */
static void peer_link_note_host(struct peer_link *link)
{
    struct net_peer *peer = link->peer;
    uint16_t port;
    if (peer->host[0] == '\0' || address_is_number(peer->host) ||
        address_split(link->stream.address, peer->last_host,
                      sizeof peer->last_host, &port) != 0) {
        peer->last_host[0] = '\0';
    }
}

static void peer_link_go_up(struct peer_link *link,
                            const struct frame_hello *hello)
{
    struct peers *peers = link->peers;
    struct net_peer *peer = peers_find(peers, hello->from);
    bool is_guest = peer == NULL || peer->is_guest;
    uint64_t now_ms = peers_now_ms();
    struct peer_link *old;
    while ((old = find_earlier(link, hello->from)) != NULL) {
        peer_link_go_down(old, "replaced by a new connection", false);
        peer_link_close(old, "replaced by a new connection");
    }
    peer = peers_find(peers, hello->from);
    if (peer == NULL && is_guest && !link->stream.is_closing &&
        peers->guest_count < PEERS_GUEST_MAX) {
        peer = peers_let_in(peers, hello->from);
    }
    if (link->stream.is_closing || peer == NULL) {
        peer_link_close(link, "no longer wanted");
        return;
    }
    if (peer->link != NULL && peer->link != link) {
        /* This node was dialling the peer at the same time. */
        old = peer->link;
        old->peer = NULL;
        peer_link_close(old, "the peer has dialled this node");
    }
    leave_unidentified(link);
    peer->link = link;
    link->peer = peer;
    link->id = hello->from;
    link->incarnation = hello->incarnation;
    memcpy(link->cluster_id, hello->cluster_id, sizeof link->cluster_id);
    link->stream.limits.input_max = FRAME_HEADER_SIZE + FRAME_SIZE_MAX;
    link->stream.limits.output_max = OUTPUT_MAX;
    link->stream.limits.idle_max = IDLE_MAX;
    if (!link->is_dialled) {
        put_hello(link, link->id);
        stream_flush(&link->stream);
        if (link->stream.is_closing) {
            return;
        }
    }
    link->is_up = true;
    peer->is_unknown = false;
    peer_link_note_host(link);
    if (stream_identity(&link->stream) != NULL) {
        note_secure(peers, link->id);
    }
    link->up_ms = now_ms;
    link->deadline_ms = UINT64_MAX;
    link->ping_ms = now_ms + PEER_PING_EVERY_MS;
    peer->heard_ms = now_ms;
    peers_wake_by(peers, link->ping_ms);
    LOG_INFO("peer up", "peer=%" PRIu64 " address=%s frames=%" PRIu32 " tls=%s",
             link->id, link->stream.address, link->version,
             stream_identity(&link->stream) != NULL ? "yes" : "no");
    peers->events.on_up(peers->events.data, link->id, hello);
}

static void take_hello(struct peer_link *link, struct bytes body)
{
    struct frame_hello hello;
    char why[HASP_WHY_SIZE] = "";
    if (frame_get_hello(body, &hello) != 0) {
        peer_link_refuse(link, "its HELLO is truncated");
        return;
    }
    int error = check_hello(link, &hello, why);
    if (error == 0) {
        peer_link_go_up(link, &hello);
    } else if (!link->stream.is_closing) {
        refuse_hello(link, &hello, error, why);
    }
}

/* --- Frames --------------------------------------------------------------- */

static void note_trip(struct peer_link *link, uint64_t took_ns)
{
    struct round_trip *trip = &link->trip;
    if (!round_trip_note(trip, took_ns)) {
        return;
    }
    if (trip->is_slow) {
        LOG_WARN("link is slow",
                 "peer=%" PRIu64 " round_trip_ms=%" PRIu32
                 " hint=\"this is the median of recent PINGs; if that peer or "
                 "this node leads, changes can wait for it: check the network "
                 "between them\"",
                 link->id, trip->median_us / 1000);
    } else {
        LOG_INFO("link is no longer slow",
                 "peer=%" PRIu64 " round_trip_ms=%" PRIu32, link->id,
                 trip->median_us / 1000);
    }
}

/* Only the answer to the newest PING counts. */
static void take_pong(struct peer_link *link, uint64_t stamp)
{
    if (link->pinged_ns != 0 && stamp == link->pinged_ns) {
        link->pinged_ns = 0;
        note_trip(link, uv_hrtime() - stamp);
    }
}

static void peer_link_take_frame(struct peer_link *link, enum frame_type type,
                                 struct bytes body)
{
    struct peers *peers = link->peers;
    uint64_t stamp;
    if (!link->is_up) {
        if (type == FRAME_HELLO) {
            take_hello(link, body);
        } else if (type == FRAME_REFUSED && link->is_dialled) {
            take_refusal(link, body);
        } else {
            peer_link_refuse(link, "its first frame is not HELLO");
        }
        return;
    }
    /* A newer frame on a link of an older version would be read differently by
     * the two sides. */
    if (frame_since(type) > link->version) {
        peer_link_refuse(
            link,
            "a frame of type %d, which does not exist in version %" PRIu32,
            (int)type, link->version);
    } else if (type == FRAME_HELLO) {
        peer_link_refuse(link, "it sent HELLO twice");
    } else if (type == FRAME_REFUSED) {
        take_refusal(link, body);
    } else if (type == FRAME_PING || type == FRAME_PONG) {
        if (frame_get_u64(body, &stamp) != 0) {
            peer_link_refuse(link, "its PING is malformed");
        } else if (type == FRAME_PING) {
            frame_put_u64(stream_output(&link->stream), FRAME_PONG, stamp);
        } else {
            take_pong(link, stamp);
        }
    } else {
        char why[HASP_WHY_SIZE] = "";
        int error = peers->events.on_frame(peers->events.data, link->id, type,
                                           body, why);
        if (error != 0 && !link->stream.is_closing) {
            peer_link_refuse(
                link, "node %" PRIu64 ", a frame of type %d: %.400s", link->id,
                (int)type, why[0] != '\0' ? why : hasp_strerror(error));
        }
    }
}

static void peer_link_bytes_cb(struct stream *stream)
{
    struct peer_link *link = stream->owner;
    bool must_answer = false;
    link->heard_ms = peers_now_ms();
    if (link->is_up && link->peer != NULL) {
        link->peer->heard_ms = link->heard_ms;
    }
    while (!stream->is_closing) {
        enum frame_type type;
        struct bytes body;
        size_t used;
        int error = frame_parse(stream_input(stream),
                                link->is_up ? FRAME_SIZE_MAX
                                            : FRAME_HELLO_SIZE_MAX,
                                &type, &body, &used);
        if (error == HASP_EMORE) {
            break;
        }
        if (error != 0) {
            peer_link_refuse(link,
                             link->is_up
                                 ? "a malformed frame: %s"
                                 : "it does not use hasp's peer protocol: %s",
                             hasp_strerror(error));
            return;
        }
        must_answer = must_answer || type == FRAME_PING;
        peer_link_take_frame(link, type, body);
        stream_consume(stream, used);
    }
    if (must_answer) {
        /* A PONG that waited for the next turn would be counted as time of the
         * network. */
        stream_flush(stream);
    }
}

uint64_t peer_link_tick(struct peer_link *link, uint64_t now_ms)
{
    const struct peers *peers = link->peers;
    struct stream *stream = &link->stream;
    if (stream->is_closing) {
        return UINT64_MAX;
    }
    if (!link->is_up) {
        if (now_ms < link->deadline_ms || now_ms < peers->grace_ms) {
            return u64_max(link->deadline_ms, peers->grace_ms);
        }
        peer_link_refuse(link, "it did not send HELLO within %d ms",
                         PEER_HELLO_MS);
        return UINT64_MAX;
    }
    uint64_t silent_ms = u64_max(link->heard_ms + PEER_SILENCE_MS,
                                 peers->grace_ms);
    if (now_ms >= silent_ms) {
        peer_link_close(link, "silent");
        return UINT64_MAX;
    }
    if (now_ms >= link->ping_ms) {
        /* An unanswered PING counts with its time so far. */
        if (link->pinged_ns != 0) {
            note_trip(link, uv_hrtime() - link->pinged_ns);
        }
        link->pinged_ns = uv_hrtime();
        frame_put_u64(stream_output(stream), FRAME_PING, link->pinged_ns);
        stream_flush(stream);
        link->ping_ms = now_ms + PEER_PING_EVERY_MS;
    }
    return u64_min(link->ping_ms, silent_ms);
}
