/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_net.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "tests/sim/sim_move.h"
#include "tests/sim/sim_node.h"

/* A connection without a round trip for this long is closed. */
#define NET_TIMEOUT_NS (5 * SIM_S)
#define NET_WATCH_NS (500 * SIM_MS)

enum chunk_kind {
    CHUNK_SYN,
    CHUNK_SYNACK,
    CHUNK_DATA,
    CHUNK_FIN,
    CHUNK_RST,
    CHUNK_TIMEOUT /* The receiver's own kernel gives up. */
};

struct chunk {
    struct list in_queue;
    enum chunk_kind kind;
    uint64_t sent_ns;
    uint64_t at_ns;
    size_t size;
    uint8_t data[];
};

struct sim_net {
    struct list wires; /* All wires of the run, the newest last. */
    uint64_t wire_count;
    uint64_t delay_ns[SIM_HOST_MAX][SIM_HOST_MAX];
    uint64_t blocked_ns[SIM_HOST_MAX][SIM_HOST_MAX]; /* Since when; 0: open. */
    struct sim_event watch;
};

static uint64_t one_way(struct sim *sim, uint32_t from, uint32_t to)
{
    uint64_t base_ns = sim->net->delay_ns[from][to];
    uint64_t jitter_ns = prng_below(&sim->prng, base_ns / 2 + 1);
    /* An occasional retransmission. */
    if (sim_chance(sim, 0.002)) {
        jitter_ns += sim_between(sim, 1, 200) * SIM_MS;
    }
    return base_ns + jitter_ns;
}

static void arm(struct sim *sim, struct sim_wire *wire, int side)
{
    struct wire_side *end = &wire->side[side];
    struct chunk *first = LIST_FIRST(&end->arriving, struct chunk, in_queue);
    if (first == NULL) {
        sim_cancel(sim, &end->delivery);
    } else {
        sim_at(sim, &end->delivery, first->at_ns);
    }
}

static void push(struct sim *sim, struct sim_wire *wire, int side,
                 enum chunk_kind kind, struct bytes bytes, uint64_t after_ns)
{
    struct wire_side *end = &wire->side[side];
    struct chunk *chunk = memory_new(sizeof *chunk + bytes.size);
    chunk->kind = kind;
    chunk->sent_ns = sim->now_ns + after_ns;
    chunk->size = bytes.size;
    if (bytes.size > 0) {
        memcpy(chunk->data, bytes.data, bytes.size);
    }
    uint64_t at_ns = sim->now_ns + after_ns +
                     one_way(sim, wire->host[1 - side], wire->host[side]);
    chunk->at_ns = at_ns > end->last_ns ? at_ns : end->last_ns;
    end->last_ns = chunk->at_ns;
    list_push_back(&end->arriving, &chunk->in_queue);
    arm(sim, wire, side);
}

static void drop_arriving(struct sim *sim, struct sim_wire *wire, int side,
                          bool keeps_some)
{
    uint64_t count = 0;
    LIST_EACH (node, &wire->side[side].arriving) {
        count++;
    }
    uint64_t keep = keeps_some ? sim_between(sim, 0, count) : 0;
    LIST_EACH_SAFE (node, &wire->side[side].arriving) {
        struct chunk *chunk = LIST_ENTRY(node, struct chunk, in_queue);
        if (keep > 0) {
            keep--;
            continue;
        }
        list_remove(node);
        free(chunk);
    }
    arm(sim, wire, side);
}

static struct sim_news *tell(struct sim *sim, struct sim_wire *wire, int side,
                             enum news_kind kind)
{
    struct sim_host *host = sim->host[wire->host[side]];
    struct sim_news *news = memory_new(sizeof *news);
    news->kind = kind;
    news->wire = wire;
    news->side = side;
    list_push_back(&host->inbox, &news->in_inbox);
    sim_host_poke(sim, host);
    return news;
}

static void end_side(struct sim *sim, struct sim_wire *wire, int side,
                     bool is_by_peer)
{
    if (wire->side[side].is_open) {
        wire->side[side].is_open = false;
        tell(sim, wire, side, NEWS_CLOSED)->is_by_peer = is_by_peer;
    }
}

static void accept_wire(struct sim *sim, struct sim_wire *wire)
{
    struct sim_host *host = sim->host[wire->host[1]];
    bool is_elsewhere = wire->kind == WIRE_PEER &&
                        !sim_move_listens(sim, sim->node[wire->host[1]],
                                          wire->port);
    if (!host->is_running || is_elsewhere) {
        push(sim, wire, 0, CHUNK_RST, (struct bytes){NULL, 0}, 0);
        return;
    }
    wire->side[1].is_open = true;
    wire->side[1].is_established = true;
    push(sim, wire, 0, CHUNK_SYNACK, (struct bytes){NULL, 0}, 0);
    tell(sim, wire, 1, NEWS_ACCEPTED);
}

static void deliver_chunk(struct sim *sim, struct sim_wire *wire, int side,
                          const struct chunk *chunk)
{
    struct wire_side *end = &wire->side[side];
    switch (chunk->kind) {
    case CHUNK_SYN:
        accept_wire(sim, wire);
        break;
    case CHUNK_SYNACK:
        if (end->is_open) {
            end->is_established = true;
            tell(sim, wire, side, NEWS_CONNECTED);
        }
        break;
    case CHUNK_DATA:
        if (!end->is_open) {
            push(sim, wire, 1 - side, CHUNK_RST, (struct bytes){NULL, 0}, 0);
        } else {
            tell(sim, wire, side, NEWS_DATA)->bytes = bytes_of(
                memory_copy(chunk->data, chunk->size), chunk->size);
        }
        break;
    case CHUNK_FIN:
    case CHUNK_RST:
        end_side(sim, wire, side, true);
        break;
    case CHUNK_TIMEOUT:
        end_side(sim, wire, side, false);
        break;
    }
}

/* The type of a frame, the command of a request, the first line of an answer.
 */
static void put_word(const struct sim_wire *wire, const struct chunk *chunk,
                     char word[24])
{
    static const char *const frames[] = {
        "",         "HELLO",        "RAFT",    "FORWARD", "ANSWER", "CLOSED",
        "SNAPSHOT", "SNAPSHOT_ACK", "PING",    "PONG",    "LOST",   "DIGEST",
        "DIVERGED", "MEMBERS",      "ACCUSED", "CLEARED", "CLOCK",  "REFUSED"};
    struct bytes text = bytes_of(chunk->data, chunk->size);
    size_t size = 0;
    word[0] = '\0';
    if (wire->kind == WIRE_PEER) {
        uint8_t type = text.size > 4 ? text.data[4] : 0;
        snprintf(word, 24, "%s", type < 18 ? frames[type] : "");
        return;
    }
    if (text.size > 0 && text.data[0] == '*') {
        /* "*2\r\n$9\r\nLOCK.SHOW\r\n": after the second line. */
        for (int lines = 0; lines < 2 && text.size > 0;) {
            lines += text.data[0] == '\n';
            text = bytes_of(text.data + 1, text.size - 1);
        }
    }
    while (size < 23 && size < text.size && text.data[size] > ' ' &&
           text.data[size] < 0x7f) {
        word[size] = (char)text.data[size];
        word[++size] = '\0';
    }
}

static void say_message(struct sim *sim, const struct sim_wire *wire, int side,
                        const struct chunk *chunk)
{
    char word[24];
    if (sim->options.is_verbose && chunk->kind == CHUNK_DATA) {
        put_word(wire, chunk, word);
        sim_say(sim, sim->host[wire->host[side]],
                "message from %s sent %.6f: %s",
                sim->host[wire->host[1 - side]]->name,
                (double)chunk->sent_ns / 1e9, word);
    }
}

static void deliver(struct sim *sim, struct sim_wire *wire, int side)
{
    struct wire_side *end = &wire->side[side];
    struct chunk *chunk = LIST_FIRST(&end->arriving, struct chunk, in_queue);
    CHECK(chunk != NULL);
    uint32_t from = wire->host[1 - side];
    uint32_t to = wire->host[side];
    if (chunk->kind != CHUNK_TIMEOUT && sim_net_is_blocked(sim, from, to)) {
        return; /* It stays; sim_net_block() starts it again. */
    }
    list_remove(&chunk->in_queue);
    if (sim->host[to]->is_os_up) {
        sim_note(sim, sim->host[to], "arrives", wire->id, chunk->kind,
                 chunk->size);
        say_message(sim, wire, side, chunk);
        deliver_chunk(sim, wire, side, chunk);
    }
    free(chunk);
    arm(sim, wire, side);
}

static void deliver_0(struct sim *sim, struct sim_event *event)
{
    deliver(sim, LIST_ENTRY(event, struct sim_wire, side[0].delivery), 0);
}

static void deliver_1(struct sim *sim, struct sim_event *event)
{
    deliver(sim, LIST_ENTRY(event, struct sim_wire, side[1].delivery), 1);
}

static bool has_timed_out(const struct sim *sim, uint32_t a, uint32_t b)
{
    uint64_t since_ns = sim->net->blocked_ns[a][b];
    return since_ns != 0 && sim->now_ns - since_ns > NET_TIMEOUT_NS;
}

/* Closes connections that have had no round trip for long, and frees those that
 * are closed on both ends. */
static void watch(struct sim *sim, struct sim_event *event)
{
    LIST_EACH_SAFE (node, &sim->net->wires) {
        struct sim_wire *wire = LIST_ENTRY(node, struct sim_wire, in_net);
        bool is_open = wire->side[0].is_open || wire->side[1].is_open;
        bool is_quiet = list_is_empty(&wire->side[0].arriving) &&
                        list_is_empty(&wire->side[1].arriving);
        if (wire->is_over || (!is_open && is_quiet)) {
            wire->is_over = true;
            continue;
        }
        if (has_timed_out(sim, wire->host[0], wire->host[1]) ||
            has_timed_out(sim, wire->host[1], wire->host[0])) {
            drop_arriving(sim, wire, 0, false);
            drop_arriving(sim, wire, 1, false);
            end_side(sim, wire, 0, false);
            end_side(sim, wire, 1, false);
        }
    }
    sim_at(sim, event, sim->now_ns + NET_WATCH_NS);
}

struct sim_net *sim_net_new(struct sim *sim)
{
    struct sim_net *net = memory_new(sizeof *net);
    list_init(&net->wires);
    for (uint32_t from = 0; from < SIM_HOST_MAX; from++) {
        for (uint32_t to = 0; to < SIM_HOST_MAX; to++) {
            net->delay_ns[from][to] = sim_between(sim, 50, 1000) * SIM_US;
        }
    }
    net->watch.run = watch;
    sim_at(sim, &net->watch, NET_WATCH_NS);
    return net;
}

void sim_net_free(struct sim_net *net)
{
    LIST_EACH_SAFE (node, &net->wires) {
        struct sim_wire *wire = LIST_ENTRY(node, struct sim_wire, in_net);
        for (int side = 0; side < 2; side++) {
            LIST_EACH_SAFE (item, &wire->side[side].arriving) {
                free(LIST_ENTRY(item, struct chunk, in_queue));
            }
        }
        free(wire);
    }
    free(net);
}

struct sim_wire *sim_net_dial(struct sim *sim, enum wire_kind kind,
                              uint32_t from, uint32_t to)
{
    struct sim_wire *wire = memory_new(sizeof *wire);
    wire->id = ++sim->net->wire_count;
    wire->kind = kind;
    wire->host[0] = from;
    wire->host[1] = to;
    wire->side[0].delivery.run = deliver_0;
    wire->side[1].delivery.run = deliver_1;
    list_init(&wire->side[0].arriving);
    list_init(&wire->side[1].arriving);
    wire->side[0].is_open = true;
    list_push_back(&sim->net->wires, &wire->in_net);
    push(sim, wire, 1, CHUNK_SYN, (struct bytes){NULL, 0}, 0);
    return wire;
}

void sim_net_send(struct sim *sim, struct sim_wire *wire, int side,
                  struct bytes bytes, uint64_t after_ns)
{
    if (wire->side[side].is_open && bytes.size > 0) {
        push(sim, wire, 1 - side, CHUNK_DATA, bytes, after_ns);
    }
}

uint64_t sim_net_arrives_ns(const struct sim_wire *wire, int side)
{
    return wire->side[side].last_ns;
}

void sim_net_close(struct sim *sim, struct sim_wire *wire, int side,
                   uint64_t after_ns)
{
    if (wire->side[side].is_open) {
        wire->side[side].is_open = false;
        push(sim, wire, 1 - side, CHUNK_FIN, (struct bytes){NULL, 0}, after_ns);
    }
}

void sim_net_cut(struct sim *sim, struct sim_wire *wire)
{
    for (int side = 0; side < 2; side++) {
        drop_arriving(sim, wire, side, true);
        push(sim, wire, side, CHUNK_RST, (struct bytes){NULL, 0},
             sim_between(sim, 0, 50) * SIM_MS);
    }
}

struct sim_wire *sim_net_any(struct sim *sim)
{
    struct sim_wire *any = NULL;
    uint64_t count = 0;
    LIST_EACH (node, &sim->net->wires) {
        struct sim_wire *wire = LIST_ENTRY(node, struct sim_wire, in_net);
        if (!wire->is_over && wire->side[0].is_established &&
            prng_below(&sim->prng, ++count) == 0) {
            any = wire;
        }
    }
    return any;
}

void sim_net_host_died(struct sim *sim, uint32_t host, bool is_os_down)
{
    LIST_EACH (node, &sim->net->wires) {
        struct sim_wire *wire = LIST_ENTRY(node, struct sim_wire, in_net);
        for (int side = 0; side < 2; side++) {
            if (wire->host[side] != host || !wire->side[side].is_open) {
                continue;
            }
            wire->side[side].is_open = false;
            if (is_os_down) {
                drop_arriving(sim, wire, 1 - side, true);
                push(sim, wire, 1 - side, CHUNK_TIMEOUT,
                     (struct bytes){NULL, 0},
                     sim_between(sim, 4000, 6000) * SIM_MS);
                continue;
            }
            if (sim_chance(sim, 0.5)) {
                drop_arriving(sim, wire, 1 - side, true);
            }
            push(sim, wire, 1 - side, CHUNK_FIN, (struct bytes){NULL, 0}, 0);
        }
    }
}

void sim_net_block(struct sim *sim, uint32_t from, uint32_t to, bool is_blocked)
{
    uint64_t *blocked_ns = &sim->net->blocked_ns[from][to];
    if (is_blocked == (*blocked_ns != 0)) {
        return;
    }
    *blocked_ns = is_blocked ? sim->now_ns + 1 : 0;
    if (is_blocked) {
        return;
    }
    /* Held-back bytes are sent again after a while. */
    LIST_EACH (node, &sim->net->wires) {
        struct sim_wire *wire = LIST_ENTRY(node, struct sim_wire, in_net);
        for (int side = 0; side < 2; side++) {
            struct wire_side *end = &wire->side[side];
            if (wire->host[side] == to && wire->host[1 - side] == from &&
                !list_is_empty(&end->arriving) &&
                end->delivery.node.slot == 0) {
                sim_at(sim, &end->delivery,
                       sim->now_ns + sim_between(sim, 0, 300) * SIM_MS);
            }
        }
    }
}

bool sim_net_is_blocked(const struct sim *sim, uint32_t from, uint32_t to)
{
    return sim->net->blocked_ns[from][to] != 0;
}

void sim_net_open_all(struct sim *sim)
{
    for (uint32_t from = 0; from < sim->host_count; from++) {
        for (uint32_t to = 0; to < sim->host_count; to++) {
            sim_net_block(sim, from, to, false);
        }
    }
}

void sim_net_set_delay(struct sim *sim, uint32_t from, uint32_t to,
                       uint64_t delay_ns)
{
    sim->net->delay_ns[from][to] = delay_ns;
}

void sim_news_free(struct sim_news *news)
{
    free((void *)(uintptr_t)news->bytes.data);
    free(news);
}

void sim_inbox_clear(struct list *inbox)
{
    LIST_EACH_SAFE (node, inbox) {
        struct sim_news *news = LIST_ENTRY(node, struct sim_news, in_inbox);
        list_remove(node);
        sim_news_free(news);
    }
}
