/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_peers.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "lockfsm/feature.h"
#include "net/frame.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_counted.h"
#include "tests/sim/sim_node.h"

#define PING_NS (500 * SIM_MS)
#define SILENCE_NS (3 * SIM_S)
#define DIAL_NS (2 * SIM_S)
#define PATIENCE_NS (3 * SIM_S)

/* A connection with the node on another machine: at most one with each. */
struct sim_link {
    struct sim_wire *wire; /* NULL: none. */
    int side;
    uint64_t id; /* The peer that was dialled, or that has dialled. */
    bool is_connected;
    bool is_up; /* Its HELLO was accepted. */
    uint64_t incarnation;
    bool is_dropped;  /* Dropped by the core; to be closed. */
    uint32_t version; /* Version of the frames, while it is up. */
    struct buffer input;
    struct buffer output;
    uint64_t heard_ns; /* True time, as everywhere here. */
    uint64_t ping_ns;
};

/* The core's view: a number, which several machines may have. */
struct sim_peer {
    bool is_wanted;        /* By the log, or by the configuration. */
    bool was_named;        /* By the log, which may remove it again. */
    uint32_t host;         /* The host to dial, ... */
    uint32_t port;         /* ... and its port (sim_move.h). */
    struct sim_link *link; /* The link that is up, or is to be; NULL: none. */
    bool is_guest;         /* Up, though not wanted, because of its HELLO: */
    bool is_leaving;       /* The core has dropped the link. */
    uint64_t heard_ns;
    uint64_t dial_ns; /* No dialling before this time. */
};

struct sim_peers {
    struct sim *sim;
    struct sim_node *node;
    struct replica_members configured; /* Until the log names some. */
    bool is_joining; /* Then also those that it has not named yet. */
    struct sim_link link[SIM_NODE_MAX];   /* By machine. */
    struct sim_peer peer[SIM_ID_MAX + 1]; /* By number. */
};

struct sim_peers *sim_peers_new(struct sim *sim, struct sim_node *node)
{
    struct sim_peers *peers = memory_new(sizeof *peers);
    peers->sim = sim;
    peers->node = node;
    return peers;
}

void sim_peers_clear(struct sim_peers *peers)
{
    for (uint32_t host = 0; host < SIM_NODE_MAX; host++) {
        struct sim_link *link = &peers->link[host];
        buffer_done(&link->input);
        buffer_done(&link->output);
        *link = (struct sim_link){.wire = NULL};
    }
    for (uint32_t id = 1; id <= SIM_ID_MAX; id++) {
        peers->peer[id] = (struct sim_peer){.is_wanted = false};
    }
}

void sim_peers_free(struct sim_peers *peers)
{
    sim_peers_clear(peers);
    free(peers);
}

static uint64_t own_id(const struct sim_peers *peers)
{
    return sim_node_id(peers->node);
}

static uint32_t host_of(const struct sim_peers *peers,
                        const struct replica_member *member)
{
    CHECK(member->id <= SIM_ID_MAX);
    return sim_node_host(sim_node_of(peers->sim, member))->number;
}

void sim_peers_start(struct sim_peers *peers, bool is_joining)
{
    peers->is_joining = is_joining;
    for (uint32_t id = 1; id <= SIM_ID_MAX; id++) {
        peers->peer[id].dial_ns = peers->sim->now_ns;
        if (id > own_id(peers)) {
            peers->peer[id].dial_ns += PATIENCE_NS;
        }
    }
    MEMBER_EACH (member, &peers->configured) {
        struct sim_peer *peer = &peers->peer[member->id];
        peer->is_wanted = member->id != own_id(peers);
        peer->host = host_of(peers, member);
        peer->port = sim_node_port_of(member);
    }
}

void sim_peers_configure(struct sim_peers *peers,
                         const struct replica_members *members)
{
    peers->configured = *members;
}

static void dial_at(struct sim_peers *peers, uint64_t id, uint64_t at_ns)
{
    peers->peer[id].dial_ns = id > own_id(peers) ? at_ns + PATIENCE_NS : at_ns;
}

/* Closes it; the core was not informed that it is up. */
static void drop(struct sim_peers *peers, struct sim_link *link)
{
    sim_net_close(peers->sim, link->wire, link->side, 0);
    link->wire = NULL;
    link->is_connected = false;
    link->is_up = false;
    link->is_dropped = false;
    buffer_clear(&link->input);
    buffer_clear(&link->output);
}

/* Likewise; it is the peer's, which is dialled again. */
static void forget(struct sim_peers *peers, uint64_t id)
{
    struct sim *sim = peers->sim;
    struct sim_peer *peer = &peers->peer[id];
    drop(peers, peer->link);
    peer->link = NULL;
    peer->is_guest = false;
    peer->is_leaving = false;
    dial_at(peers, id, sim->now_ns + sim_between(sim, 20, 1000) * SIM_MS);
}

/* As peers_add() does: a new address is dialled at once, unless the connection
 * is up. */
static void want(struct sim_peers *peers, const struct replica_member *member)
{
    struct sim_peer *peer = &peers->peer[member->id];
    uint32_t host = host_of(peers, member);
    uint32_t port = sim_node_port_of(member);
    bool has_moved = peer->is_wanted &&
                     (peer->host != host || peer->port != port);
    peer->host = host;
    peer->port = port;
    peer->is_wanted = true;
    peer->was_named = true;
    peer->is_guest = false;
    if (has_moved && peer->link != NULL && !peer->link->is_up) {
        drop(peers, peer->link);
        peer->link = NULL;
    }
    if (has_moved && peer->link == NULL) {
        dial_at(peers, member->id, peers->sim->now_ns);
    }
}

void sim_peers_want(struct sim_peers *peers,
                    const struct replica_members *members)
{
    if (members->count == 0) {
        return; /* The log is empty: the configuration applies. */
    }
    for (uint32_t id = 1; id <= SIM_ID_MAX; id++) {
        struct sim_peer *peer = &peers->peer[id];
        const struct replica_member *member = replica_members_find(members, id);
        if (member != NULL && id != own_id(peers)) {
            want(peers, member);
        } else if (!peer->is_guest && (peer->was_named || !peers->is_joining)) {
            /* The core knows, since it has removed it. */
            peer->is_wanted = false;
            peer->was_named = false;
            if (peer->link != NULL) {
                forget(peers, id);
            }
        }
    }
}

void sim_peers_drop(struct sim_peers *peers, uint64_t id)
{
    struct sim_peer *peer = &peers->peer[id];
    struct sim_link *link = peer->link;
    if (link != NULL && link->is_up) {
        link->is_up = false; /* The core is not informed: it has dropped it. */
        link->is_dropped = true;
        buffer_clear(&link->output);
        peer->is_leaving = true;
        peer->heard_ns = 0;
    }
}

struct buffer *sim_peers_output(struct sim_peers *peers, uint64_t id,
                                enum frame_type type)
{
    CHECK(id <= SIM_ID_MAX);
    struct sim_link *link = peers->peer[id].link;
    return link != NULL && link->is_up && frame_since(type) <= link->version
               ? &link->output
               : NULL;
}

uint64_t sim_peers_linked(const struct sim_peers *peers, uint64_t id)
{
    const struct sim_link *link = peers->peer[id].link;
    return link != NULL && link->is_up ? link->incarnation : 0;
}

uint64_t sim_peers_silence_ms(const struct sim_peers *peers, uint64_t id)
{
    uint64_t heard_ns = peers->peer[id].heard_ns;
    return heard_ns == 0 ? UINT64_MAX
                         : (peers->sim->now_ns - heard_ns) / SIM_MS;
}

/* Frees the connection; informs the core if it was up. */
static void go_down(struct sim_peers *peers, struct sim_link *link,
                    bool is_by_peer, uint64_t now_ns)
{
    struct sim *sim = peers->sim;
    bool was_up = link->is_up;
    if (peers->peer[link->id].link == link) {
        forget(peers, link->id);
    } else {
        drop(peers, link);
    }
    if (was_up) {
        sim_note(sim, sim_node_host(peers->node), "peer down", link->id,
                 is_by_peer, 0);
        core_peer_down(sim_node_core(peers->node), link->id, is_by_peer,
                       now_ns);
    }
}

/* A message has arrived from there. The member is heard only once its HELLO is
 * accepted, as in net/peer_link.c: a lost directory dials all the time. */
static void hear(struct sim_peers *peers, struct sim_link *link)
{
    link->heard_ns = peers->sim->now_ns;
    if (link->is_up && peers->peer[link->id].link == link) {
        peers->peer[link->id].heard_ns = link->heard_ns;
    }
}

static struct frame_hello own_hello(struct sim_peers *peers, uint64_t id)
{
    struct frame_hello hello = {
        .from = sim_node_id(peers->node),
        .to = id,
        .incarnation = sim_node_incarnation(peers->node),
    };
    hello.versions = frame_versions_spoken;
    if (sim_node_level(peers->node) == FEATURE_LEVEL_FIRST) {
        hello.versions.newest = 1; /* The previous version's. */
    }
    core_fill_hello(sim_node_core(peers->node), &hello);
    memcpy(hello.cluster_id, sim_node_cluster(peers->node), CLUSTER_ID_SIZE);
    return hello;
}

static void put_hello(struct sim_peers *peers, struct sim_link *link)
{
    struct frame_hello hello = own_hello(peers, link->id);
    struct buffer out = {0};
    frame_put_hello(&out, &hello);
    sim_net_send(peers->sim, link->wire, link->side, buffer_bytes(&out), 0);
    buffer_done(&out);
}

/* A node that is too old for the other's cluster is rejected with the reason.
 * Every peer is trusted here, so it can believe that at once (net/peers.h). */
static int check_levels(struct sim_peers *peers, struct sim_link *link,
                        const struct frame_hello *hello)
{
    struct frame_hello own = own_hello(peers, link->id);
    switch (frame_compare_levels(&own, hello)) {
    case FRAME_OTHER_TOO_OLD:
        sim_note(peers->sim, sim_node_host(peers->node), "refuses as too old",
                 link->id, hello->feature_level, own.cluster_level);
        if (link->side == 1) {
            put_hello(peers, link);
        }
        return HASP_ETOOOLD;
    case FRAME_SELF_TOO_OLD:
        sim_node_too_old(peers->node);
        return HASP_ETOOOLD;
    default:
        return 0;
    }
}

/* Only to a removed member; all others get no reason. */
static void put_refusal(struct sim_peers *peers, const struct sim_link *link,
                        const char *why)
{
    struct buffer out = {0};
    frame_put_refused(&out, REFUSAL_REMOVED, bytes_of_text(why));
    sim_net_send(peers->sim, link->wire, link->side, buffer_bytes(&out), 0);
    buffer_done(&out);
}

static int take_refusal(struct sim_peers *peers, const struct sim_link *link,
                        struct bytes body, uint64_t now_ns)
{
    enum frame_refusal refusal;
    struct bytes text;
    char why[FRAME_REFUSED_SIZE_MAX + 1];
    CHECK(frame_get_refused(body, &refusal, &text) == 0);
    memcpy(why, text.data, text.size);
    why[text.size] = '\0';
    if (link->side == 0) {
        core_removed_by(sim_node_core(peers->node), link->id, why, now_ns);
    }
    return HASP_EREFUSED;
}

static struct sim_node *other_end(const struct sim_peers *peers,
                                  const struct sim_link *link)
{
    return peers->sim->node[link - peers->link];
}

/* The checks of the connection itself, as check_hello() of net/peer_link.c. */
static int check_hello(struct sim_peers *peers, struct sim_link *link,
                       const struct frame_hello *hello)
{
    const struct sim_peer *peer = &peers->peer[link->id];
    struct frame_hello own = own_hello(peers, link->id);
    if (hello->incarnation != sim_node_incarnation(other_end(peers, link))) {
        return HASP_EREFUSED; /* Wiping a node takes longer than that. */
    }
    if (hello->from != link->id || hello->to != own_id(peers)) {
        sim_say(peers->sim, sim_node_host(peers->node),
                "finds n%llu at the address of n%llu",
                (unsigned long long)hello->from, (unsigned long long)link->id);
        return HASP_EREFUSED;
    }
    link->version = frame_common_version(&own.versions, &hello->versions);
    CHECK(link->version != 0);
    int error = check_levels(peers, link, hello);
    if (error == 0 && peer->link != link && peer->link != NULL &&
        peer->link->is_up && peer->link->incarnation != hello->incarnation &&
        !core_goes_before(sim_node_core(peers->node), hello)) {
        sim_say(peers->sim, sim_node_host(peers->node),
                "n%llu is connected with another data directory",
                (unsigned long long)link->id);
        return HASP_EREFUSED;
    }
    return error;
}

/* It replaces a link that was dialled meanwhile, or that has yet to greet. */
static void take_place(struct sim_peers *peers, struct sim_link *link,
                       uint64_t now_ns)
{
    struct sim_peer *peer = &peers->peer[link->id];
    struct sim_link *old = peer->link;
    if (old != NULL && old != link && old->is_up) {
        go_down(peers, old, false, now_ns); /* A link of another directory. */
        old = NULL;
    }
    peer->link = link;
    peer->heard_ns = link->heard_ns;
    if (old != NULL && old != link && old->side == 0) {
        drop(peers, old);
    }
}

static int take_hello(struct sim_peers *peers, struct sim_link *link,
                      struct bytes body, uint64_t now_ns)
{
    struct frame_hello hello;
    char why[HASP_WHY_SIZE];
    CHECK(frame_get_hello(body, &hello) == 0);
    struct core *core = sim_node_core(peers->node);
    struct sim_peer *peer = &peers->peer[link->id];
    int error = check_hello(peers, link, &hello);
    if (error != 0) {
        return error;
    }
    error = core_check_peer(core, &hello, why);
    if (error != 0) {
        sim_say(peers->sim, sim_node_host(peers->node), "refuses n%llu: %s",
                (unsigned long long)link->id, why);
        if (core_was_removed(core, &hello, why)) {
            put_refusal(peers, link, why);
        }
        return error;
    }
    take_place(peers, link, now_ns);
    if (link->side == 1) {
        put_hello(peers, link);
    }
    link->is_up = true;
    link->incarnation = hello.incarnation;
    peer->is_guest = !peer->is_wanted;
    sim_note(peers->sim, sim_node_host(peers->node), "peer up", link->id, 0, 0);
    core_peer_up(core, &hello, now_ns);
    return 0;
}

static int take_frame(struct sim_peers *peers, struct sim_link *link,
                      enum frame_type type, struct bytes body, uint64_t now_ns)
{
    uint64_t value = 0;
    char why[HASP_WHY_SIZE];
    switch (type) {
    case FRAME_HELLO:
        return take_hello(peers, link, body, now_ns);
    case FRAME_PING:
        CHECK(frame_get_u64(body, &value) == 0);
        frame_put_u64(&link->output, FRAME_PONG, value);
        return 0;
    case FRAME_PONG:
        return 0;
    case FRAME_REFUSED:
        return take_refusal(peers, link, body, now_ns);
    default:
        CHECK(link->is_up && frame_since(type) <= link->version);
        if (type == FRAME_RAFT) {
            sim_counted_heard(sim_check_counted(peers->sim), peers->node,
                              other_end(peers, link), link->incarnation, body);
        }
        return core_peer_frame(sim_node_core(peers->node), link->id, type, body,
                               now_ns, why);
    }
}

static void take_bytes(struct sim_peers *peers, struct sim_link *link,
                       struct bytes bytes, uint64_t now_ns)
{
    struct sim_wire *wire = link->wire;
    hear(peers, link);
    buffer_put_bytes(&link->input, bytes);
    size_t at = 0;
    while (link->wire == wire && !link->is_dropped) {
        enum frame_type type;
        struct bytes body;
        size_t used = 0;
        struct bytes rest = bytes_of(link->input.data + at,
                                     link->input.size - at);
        int error = frame_parse(rest, FRAME_SIZE_MAX, &type, &body, &used);
        if (error == HASP_EMORE) {
            buffer_consume(&link->input, at);
            return;
        }
        CHECK(error == 0);
        at += used;
        error = take_frame(peers, link, type, body, now_ns);
        if (error != 0 && link->wire == wire) {
            go_down(peers, link, false, now_ns);
            return;
        }
    }
}

/* The side that has dialled greets first. The link is the peer's at once,
 * unless the peer has a link with another machine. */
static void accept_peer(struct sim_peers *peers, struct sim_link *link,
                        const struct sim_news *news, uint64_t now_ns)
{
    uint64_t id = sim_node_id(other_end(peers, link));
    if (id == 0 || id == own_id(peers) ||
        (peers->peer[id].is_wanted && id < own_id(peers))) {
        sim_net_close(peers->sim, news->wire, news->side, 0);
        return; /* This node dials. */
    }
    if (link->wire != NULL) {
        go_down(peers, link, false, now_ns);
    }
    link->wire = news->wire;
    link->side = news->side;
    link->id = id;
    link->is_connected = true;
    if (peers->peer[id].link == NULL) {
        peers->peer[id].link = link;
    }
    hear(peers, link);
}

void sim_peers_feed(struct sim_peers *peers, const struct sim_news *news,
                    uint64_t now_ns)
{
    struct sim_link *link = &peers->link[news->wire->host[1 - news->side]];
    if (news->kind == NEWS_ACCEPTED) {
        accept_peer(peers, link, news, now_ns);
        return;
    }
    if (news->wire != link->wire) {
        return; /* A link that was given up. */
    }
    switch (news->kind) {
    case NEWS_CONNECTED:
        link->is_connected = true;
        hear(peers, link);
        put_hello(peers, link);
        break;
    case NEWS_DATA:
        take_bytes(peers, link, news->bytes, now_ns);
        break;
    default:
        go_down(peers, link, news->is_by_peer, now_ns);
        break;
    }
}

static void dial(struct sim_peers *peers, uint64_t id)
{
    struct sim_peer *peer = &peers->peer[id];
    struct sim_link *link = &peers->link[peer->host];
    if (link->wire != NULL) {
        return; /* A node there has dialled, and has yet to greet. */
    }
    link->wire = sim_net_dial(peers->sim, WIRE_PEER,
                              sim_node_host(peers->node)->number, peer->host);
    link->wire->port = peer->port;
    link->side = 0;
    link->id = id;
    peer->link = link;
    hear(peers, link);
}

static bool is_silent(const struct sim_peers *peers,
                      const struct sim_link *link)
{
    uint64_t silence_ns = peers->sim->now_ns - link->heard_ns;
    return silence_ns >= (link->is_connected ? SILENCE_NS : DIAL_NS);
}

static void work(struct sim_peers *peers, uint64_t id, uint64_t now_ns)
{
    struct sim *sim = peers->sim;
    struct sim_peer *peer = &peers->peer[id];
    struct sim_link *link = peer->link;
    if (link == NULL) {
        if (peer->is_wanted && sim->now_ns >= peer->dial_ns) {
            dial(peers, id);
        }
        return;
    }
    if (peer->is_leaving) {
        sim_note(sim, sim_node_host(peers->node), "link dropped", id, 0, 0);
        go_down(peers, link, false, now_ns);
    } else if (is_silent(peers, link)) {
        go_down(peers, link, false, now_ns);
    } else if (link->is_up && sim->now_ns >= link->ping_ns) {
        frame_put_u64(&link->output, FRAME_PING, sim->now_ns);
        link->ping_ns = sim->now_ns + PING_NS;
    }
}

/* True if it has yet to greet, and its number has another link. */
static bool is_stranger(const struct sim_peers *peers,
                        const struct sim_link *link)
{
    return link->wire != NULL && peers->peer[link->id].link != link;
}

void sim_peers_work(struct sim_peers *peers, uint64_t now_ns)
{
    for (uint64_t id = 1; id <= SIM_ID_MAX; id++) {
        if (id != own_id(peers)) {
            work(peers, id, now_ns);
        }
    }
    for (uint32_t host = 0; host < SIM_NODE_MAX; host++) {
        struct sim_link *link = &peers->link[host];
        if (is_stranger(peers, link) && is_silent(peers, link)) {
            drop(peers, link);
        }
    }
}

uint64_t sim_peers_next(const struct sim_peers *peers)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint64_t id = 1; id <= SIM_ID_MAX; id++) {
        const struct sim_peer *peer = &peers->peer[id];
        const struct sim_link *link = peer->link;
        uint64_t at_ns = UINT64_MAX;
        if (peer->is_leaving) {
            at_ns = peers->sim->now_ns;
        } else if (link != NULL) {
            at_ns = link->is_up ? link->ping_ns : link->heard_ns + DIAL_NS;
        } else if (peer->is_wanted) {
            at_ns = peer->dial_ns;
        }
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    return next_ns;
}

void sim_peers_flush(struct sim_peers *peers, uint64_t after_ns)
{
    for (uint64_t id = 1; id <= SIM_ID_MAX; id++) {
        struct sim_link *link = peers->peer[id].link;
        if (link != NULL && link->output.size > 0) {
            CHECK(link->wire != NULL);
            sim_net_send(peers->sim, link->wire, link->side,
                         buffer_bytes(&link->output), after_ns);
            buffer_clear(&link->output);
        }
    }
}
