/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_peers.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "lockfsm/feature.h"
#include "net/frame.h"
#include "tests/sim/sim_node.h"

#define PING_NS (500 * SIM_MS)
#define SILENCE_NS (3 * SIM_S)
#define DIAL_NS (2 * SIM_S)
#define PATIENCE_NS (3 * SIM_S)

struct sim_peer {
    bool is_wanted;        /* By the log, or by the configuration. */
    bool was_named;        /* By the log, which may take it away again. */
    struct sim_wire *wire; /* NULL: none. */
    int side;
    bool is_connected;
    bool is_up;      /* Its HELLO was fine. */
    bool is_guest;   /* Up, though not wanted, for what its HELLO said: */
    bool is_leaving; /* A guest no longer. */
    uint64_t members_index;
    uint32_t version; /* Of the frames, while it is up. */
    struct buffer input;
    struct buffer output;
    uint64_t heard_ns; /* True time, as all here. */
    uint64_t ping_ns;
    uint64_t dial_ns; /* Not before. */
};

struct sim_peers {
    struct sim *sim;
    struct sim_node *node;
    struct replica_members configured; /* Until the log names some. */
    bool is_joining; /* Then also those that it has not named yet. */
    struct sim_peer peer[SIM_NODE_MAX + 1]; /* By id. */
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
    for (uint32_t id = 1; id <= SIM_NODE_MAX; id++) {
        struct sim_peer *peer = &peers->peer[id];
        buffer_done(&peer->input);
        buffer_done(&peer->output);
        *peer = (struct sim_peer){.is_wanted = false};
    }
}

void sim_peers_free(struct sim_peers *peers)
{
    sim_peers_clear(peers);
    free(peers);
}

void sim_peers_start(struct sim_peers *peers, bool is_joining)
{
    peers->is_joining = is_joining;
    for (uint32_t id = 1; id <= SIM_NODE_MAX; id++) {
        peers->peer[id].dial_ns = peers->sim->now_ns;
        if (id > sim_node_id(peers->node)) {
            peers->peer[id].dial_ns += PATIENCE_NS;
        }
    }
    for (uint32_t i = 0; i < peers->configured.count; i++) {
        uint64_t id = peers->configured.member[i].id;
        peers->peer[id].is_wanted = id != sim_node_id(peers->node);
    }
}

void sim_peers_configure(struct sim_peers *peers,
                         const struct replica_members *members)
{
    peers->configured = *members;
}

static void forget(struct sim_peers *peers, uint64_t id)
{
    struct sim *sim = peers->sim;
    struct sim_peer *peer = &peers->peer[id];
    sim_net_close(sim, peer->wire, peer->side, 0);
    peer->wire = NULL;
    peer->is_connected = false;
    peer->is_up = false;
    peer->is_guest = false;
    peer->is_leaving = false;
    buffer_clear(&peer->input);
    buffer_clear(&peer->output);
    peer->dial_ns = sim->now_ns + sim_between(sim, 20, 1000) * SIM_MS;
    if (id > sim_node_id(peers->node)) {
        peer->dial_ns += PATIENCE_NS;
    }
}

void sim_peers_want(struct sim_peers *peers,
                    const struct replica_members *members)
{
    bool is_named[SIM_NODE_MAX + 1] = {false};
    if (members->count == 0) {
        return; /* Nothing is in the log yet: the configuration holds. */
    }
    for (uint32_t i = 0; i < members->count; i++) {
        CHECK(members->member[i].id <= SIM_NODE_MAX);
        is_named[members->member[i].id] = members->member[i].id !=
                                          sim_node_id(peers->node);
    }
    for (uint32_t id = 1; id <= SIM_NODE_MAX; id++) {
        struct sim_peer *peer = &peers->peer[id];
        if (is_named[id]) {
            peer->is_wanted = true;
            peer->was_named = true;
            peer->is_guest = false;
            peer->is_leaving = false;
        } else if (peer->is_guest) {
            peer->is_leaving = !core_keeps_guest(sim_node_core(peers->node), id,
                                                 peer->members_index);
        } else if (peer->was_named || !peers->is_joining) {
            /* The core knows: it is what has removed it. */
            peer->is_wanted = false;
            peer->was_named = false;
            if (peer->wire != NULL) {
                forget(peers, id);
            }
        }
    }
}

struct buffer *sim_peers_output(struct sim_peers *peers, uint64_t id,
                                enum frame_type type)
{
    CHECK(id <= SIM_NODE_MAX);
    struct sim_peer *peer = &peers->peer[id];
    return peer->is_up && frame_since(type) <= peer->version ? &peer->output
                                                             : NULL;
}

uint64_t sim_peers_silence_ms(const struct sim_peers *peers, uint64_t id)
{
    uint64_t heard_ns = peers->peer[id].heard_ns;
    return heard_ns == 0 ? UINT64_MAX
                         : (peers->sim->now_ns - heard_ns) / SIM_MS;
}

/* Forgets the connection; tells the core if it was up. */
static void go_down(struct sim_peers *peers, uint64_t id, bool is_by_peer,
                    uint64_t now_ns)
{
    struct sim *sim = peers->sim;
    bool was_up = peers->peer[id].is_up;
    forget(peers, id);
    if (was_up) {
        sim_note(sim, sim_node_host(peers->node), "peer down", id, is_by_peer,
                 0);
        core_peer_down(sim_node_core(peers->node), id, is_by_peer, now_ns);
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
        hello.versions.newest = 1; /* That of the version before. */
    }
    core_fill_hello(sim_node_core(peers->node), &hello);
    memcpy(hello.cluster_id, sim_node_cluster(peers->node), CLUSTER_ID_SIZE);
    return hello;
}

static void put_hello(struct sim_peers *peers, uint64_t id)
{
    struct frame_hello hello = own_hello(peers, id);
    struct buffer out = {0};
    frame_put_hello(&out, &hello);
    sim_net_send(peers->sim, peers->peer[id].wire, peers->peer[id].side,
                 buffer_bytes(&out), 0);
    buffer_done(&out);
}

/* Who is too old for the other's cluster is not let in, and hears why. There
 * are no strangers here: it may believe it at once (net/peers.h). */
static int check_levels(struct sim_peers *peers, uint64_t id,
                        const struct frame_hello *hello)
{
    struct frame_hello own = own_hello(peers, id);
    switch (frame_compare_levels(&own, hello)) {
    case FRAME_OTHER_TOO_OLD:
        sim_note(peers->sim, sim_node_host(peers->node), "refuses as too old",
                 id, hello->feature_level, own.cluster_level);
        if (peers->peer[id].side == 1) {
            put_hello(peers, id);
        }
        return HASP_ETOOOLD;
    case FRAME_SELF_TOO_OLD:
        sim_node_too_old(peers->node);
        return HASP_ETOOOLD;
    default:
        return 0;
    }
}

/* Of whom was removed alone: else nothing comes of it. */
static void put_refusal(struct sim_peers *peers, uint64_t id, const char *why)
{
    struct buffer out = {0};
    frame_put_refused(&out, REFUSAL_REMOVED, bytes_of_text(why));
    sim_net_send(peers->sim, peers->peer[id].wire, peers->peer[id].side,
                 buffer_bytes(&out), 0);
    buffer_done(&out);
}

static int take_refusal(struct sim_peers *peers, uint64_t id, struct bytes body,
                        uint64_t now_ns)
{
    enum frame_refusal refusal;
    struct bytes text;
    char why[FRAME_REFUSED_SIZE_MAX + 1];
    CHECK(frame_get_refused(body, &refusal, &text) == 0);
    memcpy(why, text.data, text.size);
    why[text.size] = '\0';
    if (peers->peer[id].side == 0) {
        core_removed_by(sim_node_core(peers->node), id, why, now_ns);
    }
    return HASP_EREFUSED;
}

static int take_hello(struct sim_peers *peers, uint64_t id, struct bytes body,
                      uint64_t now_ns)
{
    struct frame_hello hello;
    char why[HASP_WHY_SIZE];
    CHECK(frame_get_hello(body, &hello) == 0);
    CHECK(hello.from == id);
    if (hello.incarnation != sim_node_incarnation(peers->sim->node[id - 1])) {
        return HASP_EREFUSED; /* Who wipes a node takes longer than that. */
    }
    struct core *core = sim_node_core(peers->node);
    struct sim_peer *peer = &peers->peer[id];
    struct frame_hello own = own_hello(peers, id);
    peer->version = frame_common_version(&own.versions, &hello.versions);
    CHECK(peer->version != 0);
    int error = check_levels(peers, id, &hello);
    if (error != 0) {
        return error;
    }
    error = core_check_peer(core, &hello, peer->is_wanted, why);
    if (error != 0) {
        sim_say(peers->sim, sim_node_host(peers->node), "refuses n%llu: %s",
                (unsigned long long)id, why);
        if (core_was_removed(core, &hello, why)) {
            put_refusal(peers, id, why);
        }
        return error;
    }
    if (peer->side == 1) {
        put_hello(peers, id);
    }
    peer->is_up = true;
    peer->is_guest = !peer->is_wanted;
    peer->members_index = hello.members_index;
    sim_note(peers->sim, sim_node_host(peers->node), "peer up", id, 0, 0);
    core_peer_up(core, &hello, now_ns);
    return 0;
}

static int take_frame(struct sim_peers *peers, uint64_t id,
                      enum frame_type type, struct bytes body, uint64_t now_ns)
{
    struct sim_peer *peer = &peers->peer[id];
    uint64_t value = 0;
    char why[HASP_WHY_SIZE];
    switch (type) {
    case FRAME_HELLO:
        return take_hello(peers, id, body, now_ns);
    case FRAME_PING:
        CHECK(frame_get_u64(body, &value) == 0);
        frame_put_u64(&peer->output, FRAME_PONG, value);
        return 0;
    case FRAME_PONG:
        return 0;
    case FRAME_REFUSED:
        return take_refusal(peers, id, body, now_ns);
    default:
        CHECK(peer->is_up && frame_since(type) <= peer->version);
        return core_peer_frame(sim_node_core(peers->node), id, type, body,
                               now_ns, why);
    }
}

static void take_bytes(struct sim_peers *peers, uint64_t id, struct bytes bytes,
                       uint64_t now_ns)
{
    struct sim_peer *peer = &peers->peer[id];
    struct sim_wire *wire = peer->wire;
    peer->heard_ns = peers->sim->now_ns;
    buffer_put_bytes(&peer->input, bytes);
    size_t at = 0;
    while (peer->wire == wire) {
        enum frame_type type;
        struct bytes body;
        size_t used = 0;
        struct bytes rest = bytes_of(peer->input.data + at,
                                     peer->input.size - at);
        int error = frame_parse(rest, FRAME_SIZE_MAX, &type, &body, &used);
        if (error == HASP_EMORE) {
            buffer_consume(&peer->input, at);
            return;
        }
        CHECK(error == 0);
        at += used;
        error = take_frame(peers, id, type, body, now_ns);
        if (error != 0 && peer->wire == wire) {
            go_down(peers, id, false, now_ns);
            return;
        }
    }
}

static uint64_t other_end(const struct sim_wire *wire, int side)
{
    return wire->host[1 - side] + 1;
}

void sim_peers_feed(struct sim_peers *peers, const struct sim_news *news,
                    uint64_t now_ns)
{
    uint64_t id = other_end(news->wire, news->side);
    struct sim_peer *peer = &peers->peer[id];
    if (news->kind == NEWS_ACCEPTED) {
        if (peer->is_wanted && id < sim_node_id(peers->node)) {
            sim_net_close(peers->sim, news->wire, news->side, 0);
            return; /* This node dials. */
        }
        if (peer->wire != NULL) {
            go_down(peers, id, false, now_ns);
        }
        peer->wire = news->wire;
        peer->side = news->side;
        peer->heard_ns = peers->sim->now_ns;
        peer->is_connected = true;
        return; /* The other one greets first. */
    }
    if (news->wire != peer->wire) {
        return; /* Of one that was given up. */
    }
    switch (news->kind) {
    case NEWS_CONNECTED:
        peer->is_connected = true;
        peer->heard_ns = peers->sim->now_ns;
        put_hello(peers, id);
        break;
    case NEWS_DATA:
        take_bytes(peers, id, news->bytes, now_ns);
        break;
    default:
        go_down(peers, id, news->is_by_peer, now_ns);
        break;
    }
}

static void work(struct sim_peers *peers, uint64_t id, uint64_t now_ns)
{
    struct sim *sim = peers->sim;
    struct sim_peer *peer = &peers->peer[id];
    if (peer->wire == NULL) {
        if (peer->is_wanted && sim->now_ns >= peer->dial_ns) {
            peer->wire = sim_net_dial(sim, WIRE_PEER,
                                      sim_node_host(peers->node)->number,
                                      (uint32_t)id - 1);
            peer->side = 0;
            peer->heard_ns = sim->now_ns;
        }
        return;
    }
    uint64_t silence_ns = sim->now_ns - peer->heard_ns;
    if (peer->is_leaving) {
        sim_note(sim, sim_node_host(peers->node), "guest leaves", id, 0, 0);
        go_down(peers, id, false, now_ns);
    } else if (silence_ns >= (peer->is_connected ? SILENCE_NS : DIAL_NS)) {
        go_down(peers, id, false, now_ns);
    } else if (peer->is_up && sim->now_ns >= peer->ping_ns) {
        frame_put_u64(&peer->output, FRAME_PING, sim->now_ns);
        peer->ping_ns = sim->now_ns + PING_NS;
    }
}

void sim_peers_work(struct sim_peers *peers, uint64_t now_ns)
{
    for (uint64_t id = 1; id <= peers->sim->node_count; id++) {
        if (id != sim_node_id(peers->node)) {
            work(peers, id, now_ns);
        }
    }
}

uint64_t sim_peers_next(const struct sim_peers *peers)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint64_t id = 1; id <= peers->sim->node_count; id++) {
        const struct sim_peer *peer = &peers->peer[id];
        uint64_t at_ns = UINT64_MAX;
        if (peer->is_leaving) {
            at_ns = peers->sim->now_ns;
        } else if (peer->wire != NULL) {
            at_ns = peer->is_up ? peer->ping_ns : peer->heard_ns + DIAL_NS;
        } else if (peer->is_wanted) {
            at_ns = peer->dial_ns;
        }
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    return next_ns;
}

void sim_peers_flush(struct sim_peers *peers, uint64_t after_ns)
{
    for (uint64_t id = 1; id <= peers->sim->node_count; id++) {
        struct sim_peer *peer = &peers->peer[id];
        if (peer->output.size > 0) {
            CHECK(peer->wire != NULL);
            sim_net_send(peers->sim, peer->wire, peer->side,
                         buffer_bytes(&peer->output), after_ns);
            buffer_clear(&peer->output);
        }
    }
}
