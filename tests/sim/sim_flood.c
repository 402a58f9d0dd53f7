/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_flood.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/account.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "core/core.h"
#include "tests/sim/sim_channel.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_node_parts.h"
#include "tests/sim/sim_silence.h"
#include "tests/sim/sim_worker.h"

#define RUNS 4
#define FLOOD_NS (4 * SIM_S)
#define TICK_NS (5 * SIM_MS)
/* Ticks from one sending to the next. */
#define SEND_TICKS 10
#define TTL_MS 1000
#define FLOODER_TTL_MS 4000
/* A lease is renewed this long before its end by the leader's clock: three
 * ticks, as long as a renewal takes to arrive. */
#define EARLY_NS (3 * TICK_NS)
#define OFTEN_NS (250 * SIM_MS)
#define ANSWER_NS (3 * SIM_S)
#define OPEN_NS (10 * SIM_S)
/* (T + T/4 + I)/0.9, rule 10, and 200 ms. */
#define DEAD_NS \
    ((TTL_MS + TTL_MS / 4 + CLOCK_STEP_MS_MAX) * SIM_MS * 10 / 9 + 200 * SIM_MS)
#define FLOODER_MAX 24
/* Connections that send a few requests when the bystander renews its session at
 * the leader, from the same machine: they are new in the queue, as its own is,
 * and come before it. */
#define RIVAL_MAX 10
#define RIVAL_REQUESTS 20
/* Unanswered requests of a flooder. */
#define AHEAD_MAX 200
#define TURN_NS (2 * SIM_MS)
#define SLOW_TURN_NS (60 * SIM_MS)
#define UNIT_NS_MAX (20 * SIM_US)
/* An account of at least this many units has turns of SLOW_TURN_NS. */
#define SLOW_UNITS_MIN 1000

/* One connection of the flood. */
struct flooder {
    struct sim_wire *wire; /* NULL: closed. */
    bool is_open;
    bool is_rival;
    uint32_t kind;
    uint32_t ahead;
    struct buffer input;
};

/* One session of the first client. */
struct bystander {
    struct sim_channel channel;
    uint32_t node; /* The node that it is connected to. */
    uint64_t session;
    uint64_t beat_ns;    /* When it was renewed last. */
    uint64_t arrives_ns; /* When that request arrives at the node. */
    uint64_t heard_ns;   /* When the newest one arrived that succeeded. */
    bool is_silent;      /* It holds a lock, and renews nothing. */
    bool holds;
    bool has_ended; /* As expected. */
};

struct sim_flood {
    struct sim *sim;
    struct sim_event tick;
    struct flooder flooder[FLOODER_MAX + RIVAL_MAX];
    uint32_t flooder_count;
    struct bystander bystander[SIM_NODE_MAX + 1];
    uint32_t bystander_count;
    uint64_t unit_ns;
    bool is_slow;
    bool has_begun; /* The sessions exist: the flood flows. */
    uint64_t term;
    uint64_t answered;
    uint64_t tick_count;
    struct resp_reply reply;
};

/* --- What floods ---------------------------------------------------------- */

static const char *const requests[][5] = {
    {"PING"},
    {"INFO"},
    {"LOCK.HISTORY", "flood/held"},
    {"LOCK.SHOW", "flood/held"},
    {"EVAL", "return 1", "0"},
    {"LOCK.ACQUIRE", "flood/held", "OWNER", "vain"},
};
#define REQUEST_COUNT (sizeof requests / sizeof requests[0])
#define REQUEST_ACQUIRE (REQUEST_COUNT - 1)

static void put_request(struct buffer *out, const char *const *word,
                        uint32_t word_max)
{
    uint32_t count = 0;
    while (count < word_max && word[count] != NULL) {
        count++;
    }
    resp_request_begin(out, count);
    for (uint32_t i = 0; i < count; i++) {
        resp_request_argument(out, bytes_of_text(word[i]));
    }
}

static void flooder_open(struct flooder *flooder, struct buffer *out)
{
    char ttl[16];
    snprintf(ttl, sizeof ttl, "%d", FLOODER_TTL_MS);
    const char *const open[] = {"SESSION.OPEN", "TTL", ttl};
    if (flooder->kind == REQUEST_ACQUIRE) {
        put_request(out, open, 3);
        flooder->ahead++;
    }
}

static void flooder_send(struct sim *sim, struct flooder *flooder)
{
    struct buffer out = {0};
    if (!flooder->is_open || flooder->is_rival ||
        flooder->ahead > AHEAD_MAX / 2) {
        return;
    }
    flooder_open(flooder, &out);
    while (flooder->ahead < AHEAD_MAX) {
        put_request(&out, requests[flooder->kind], 5);
        flooder->ahead++;
    }
    sim_net_send(sim, flooder->wire, 0, buffer_bytes(&out), 0);
    buffer_done(&out);
}

static void rivals_send(struct sim_flood *flood)
{
    static const char *const show[] = {"LOCK.SHOW", "flood/held"};
    for (uint32_t i = 0; i < flood->flooder_count; i++) {
        struct flooder *rival = &flood->flooder[i];
        struct buffer out = {0};
        if (!rival->is_rival || !rival->is_open || rival->ahead > 0) {
            continue;
        }
        while (rival->ahead < RIVAL_REQUESTS) {
            put_request(&out, show, 2);
            rival->ahead++;
        }
        sim_net_send(flood->sim, rival->wire, 0, buffer_bytes(&out), 0);
        buffer_done(&out);
    }
}

static void flooder_read(struct sim_flood *flood, struct flooder *flooder)
{
    size_t used = 0;
    size_t at = 0;
    const struct buffer *input = &flooder->input;
    while (flooder->ahead > 0 && at < input->size &&
           resp_parse_reply(bytes_of(input->data + at, input->size - at), 10000,
                            &flood->reply, &used) == 0) {
        at += used;
        if (flood->reply.value[0].type != RESP_PUSH) {
            flooder->ahead--;
            flood->answered++;
        }
    }
    buffer_consume(&flooder->input, at);
}

static void flooder_feed(struct sim_flood *flood, struct flooder *flooder,
                         const struct sim_news *news)
{
    if (news->kind == NEWS_CONNECTED) {
        flooder->is_open = true;
        flooder_send(flood->sim, flooder);
    } else if (news->kind == NEWS_DATA) {
        buffer_put_bytes(&flooder->input, news->bytes);
        flooder_read(flood, flooder);
    } else {
        sim_net_close(flood->sim, flooder->wire, 0, 0);
        flooder->wire = NULL;
        flooder->is_open = false;
    }
}

static void flooders_dial(struct sim_flood *flood)
{
    struct sim *sim = flood->sim;
    uint32_t place = 0;
    for (uint32_t i = 0; i < FLOODER_MAX; i++) {
        uint32_t client = 1 + flood->flooder_count % (sim->client_count - 1);
        const struct sim_host *host = sim_client_host(sim->client[client]);
        struct flooder *flooder = &flood->flooder[flood->flooder_count++];
        flooder->kind = (uint32_t)((sim->options.seed / RUNS +
                                    flood->flooder_count) %
                                   REQUEST_COUNT);
        if (host->is_running) {
            uint32_t node = flood->bystander[place].node;
            place = (place + 1) % flood->bystander_count;
            flooder->wire = sim_net_dial(sim, WIRE_CLIENT, host->number, node);
            flooder->wire->shown = *sim_client_identity(sim->client[client]);
        }
    }
}

/* At the node of the bystander that shares their machine. */
static void rivals_dial(struct sim_flood *flood, struct sim_host *host,
                        uint32_t node)
{
    uint32_t count = flood->is_slow ? 2 : RIVAL_MAX;
    for (uint32_t i = 0; i < count; i++) {
        struct flooder *rival = &flood->flooder[flood->flooder_count++];
        rival->is_rival = true;
        rival->wire = sim_net_dial(flood->sim, WIRE_CLIENT, host->number, node);
        rival->wire->shown = *sim_client_identity(flood->sim->client[1]);
    }
}

/* --- Whom it must not disturb --------------------------------------------- */

static struct core *leader_core(const struct sim_flood *flood)
{
    struct sim_node *leader = sim_leader(flood->sim);
    return leader != NULL && sim_node_term(leader) == flood->term
               ? sim_node_core(leader)
               : NULL;
}

static void bystander_ask(struct bystander *one)
{
    struct sim_channel *channel = &one->channel;
    struct sim *sim = channel->sim;
    if (one->session == 0) {
        sim_channel_begin(channel, 5);
        sim_channel_word(channel, "SESSION.OPEN");
        sim_channel_word(channel, "TTL");
        sim_channel_number(channel, TTL_MS);
        sim_channel_word(channel, "NAME");
        sim_channel_word(channel, "bystander");
    } else if (one->is_silent) {
        sim_channel_begin(channel, 4);
        sim_channel_word(channel, "LOCK.ACQUIRE");
        sim_channel_word(channel, "flood/held");
        sim_channel_word(channel, "OWNER");
        sim_channel_word(channel, "silent");
    } else {
        sim_channel_begin(channel, 1);
        sim_channel_word(channel, "SESSION.KEEP");
    }
    one->beat_ns = sim->now_ns;
    sim_channel_send(channel,
                     sim_client_clock(sim_client_of(sim, channel->host)),
                     ANSWER_NS);
    one->arrives_ns = sim_net_arrives_ns(channel->wire, 1);
}

/* The session's TTL, in true time, by the clock of its node. */
static uint64_t ttl_of(const struct sim *sim, const struct bystander *one)
{
    return TTL_MS * SIM_MS / sim->node[one->node]->host.clock.permille * 1000;
}

static bool is_at_leader(const struct sim_flood *flood,
                         const struct bystander *one)
{
    const struct core *core = flood->sim->node[one->node]->core;
    return core != NULL && core == leader_core(flood);
}

/* True if the leader got the request after the end of the session: a packet
 * that is sent again takes up to 200 ms. Or if the request was unread for
 * longer than unread input is waited for (base/account.h). */
static bool has_come_late(const struct sim_flood *flood,
                          const struct bystander *one)
{
    return is_at_leader(flood, one) &&
           (one->arrives_ns >= one->heard_ns + ttl_of(flood->sim, one) ||
            flood->sim->now_ns >= one->arrives_ns + ACCOUNT_WAIT_NS * 10 / 11);
}

static void bystander_refused(struct sim_flood *flood, struct bystander *one,
                              const char *word)
{
    struct sim *sim = flood->sim;
    bool is_lost = strcmp(word, "NOSESSION") == 0 ||
                   strcmp(word, "EXPIRED") == 0;
    if (one->session == 0 || one->is_silent) {
        sim_channel_later(&one->channel, 100 * SIM_MS);
        one->session = is_lost ? 0 : one->session;
    } else if (is_lost && has_come_late(flood, one)) {
        one->has_ended = true;
    } else if (is_lost) {
        sim_fail(sim, ORACLE_FLOODS,
                 "a flood ends no bystander's session: %" PRIu64
                 " at n%u was renewed in time, the answer is %s",
                 one->session, (unsigned)one->node + 1, word);
    } else if (strcmp(word, "BUSY") == 0) {
        sim_fail(
            sim, ORACLE_FLOODS,
            "a renewal is never refused for others' requests: KEEP of %" PRIu64
            " is answered BUSY at n%u",
            one->session, (unsigned)one->node + 1);
    }
}

static void bystander_read(struct sim_flood *flood, struct bystander *one)
{
    char word[32];
    sim_channel_error(&one->channel, word);
    if (word[0] != '\0') {
        bystander_refused(flood, one, word);
    } else if (one->session == 0) {
        const struct resp_value *id = resp_find(&one->channel.reply, 0, "id");
        CHECK(id != NULL && id->type == RESP_INTEGER);
        one->session = (uint64_t)id->integer;
        one->heard_ns = one->arrives_ns;
    } else if (one->is_silent) {
        one->holds = true;
    } else {
        one->heard_ns = one->arrives_ns;
    }
}

/* The time from a renewal to the next one. The leader is expected to read a
 * request in time that has arrived at its own port. */
static uint64_t pause_of(struct sim_flood *flood, const struct bystander *one)
{
    return is_at_leader(flood, one) ? ttl_of(flood->sim, one) - EARLY_NS
                                    : OFTEN_NS;
}

/* A lost connection ends the session's attachment to it. */
static void bystander_work(struct sim_flood *flood, struct bystander *one)
{
    struct sim_channel *channel = &one->channel;
    bool had_wire = channel->wire != NULL;
    if (channel->is_waiting && sim_channel_take(channel)) {
        bystander_read(flood, one);
    }
    sim_channel_watch(channel);
    if (channel->wire == NULL) {
        channel->next_node = one->node + 1;
        if (had_wire && one->session != 0) {
            one->has_ended = true;
        }
    }
    bool is_due = one->is_silent ? !one->holds
                                 : one->session == 0 ||
                                       flood->sim->now_ns >=
                                           one->beat_ns + pause_of(flood, one);
    if (is_due && !one->has_ended && sim_channel_is_ready(channel)) {
        if (flood->has_begun && is_at_leader(flood, one) && !one->is_silent) {
            rivals_send(flood);
        }
        bystander_ask(one);
    }
}

static void check_silent(struct sim_flood *flood, struct bystander *one)
{
    struct sim *sim = flood->sim;
    const struct core *core = leader_core(flood);
    if (!one->holds || one->has_ended || core == NULL) {
        return;
    }
    uint64_t heard_ns = sim_silence_heard_ns(sim_check_silence(sim),
                                             one->session);
    if (lockfsm_session(core_state(core), one->session) == NULL) {
        one->has_ended = true;
    } else if (heard_ns != 0 && sim->now_ns > heard_ns + DEAD_NS) {
        sim_fail(sim, ORACLE_FLOODS,
                 "a dead holder ends beside a flood: %" PRIu64
                 " is still there %" PRIu64 " ms after it was heard",
                 one->session, (sim->now_ns - heard_ns) / SIM_MS);
    }
}

/* --- The flood ------------------------------------------------------------ */

static bool all_have_sessions(struct sim *sim)
{
    const struct sim_flood *flood = sim->flood;
    for (uint32_t i = 0; i < flood->bystander_count; i++) {
        const struct bystander *one = &flood->bystander[i];
        if (one->session == 0 || (one->is_silent && !one->holds)) {
            return false;
        }
    }
    return sim_leader(sim) != NULL;
}

static void flood_tick(struct sim *sim, struct sim_event *event)
{
    struct sim_flood *flood = LIST_ENTRY(event, struct sim_flood, tick);
    for (uint32_t i = 0; i < flood->bystander_count; i++) {
        bystander_work(flood, &flood->bystander[i]);
        if (flood->bystander[i].is_silent && flood->has_begun) {
            check_silent(flood, &flood->bystander[i]);
        }
    }
    bool is_due = flood->has_begun && flood->tick_count++ % SEND_TICKS == 0;
    for (uint32_t i = 0; is_due && i < flood->flooder_count; i++) {
        flooder_send(sim, &flood->flooder[i]);
    }
    sim_at(sim, &flood->tick, sim->now_ns + TICK_NS);
}

bool sim_flood_feed(struct sim *sim, const struct sim_news *news)
{
    struct sim_flood *flood = sim->flood;
    if (flood == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < flood->bystander_count; i++) {
        if (sim_channel_feed(&flood->bystander[i].channel, news)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < flood->flooder_count; i++) {
        struct flooder *flooder = &flood->flooder[i];
        if (flooder->wire != NULL && flooder->wire == news->wire) {
            flooder_feed(flood, flooder, news);
            return true;
        }
    }
    return false;
}

uint64_t sim_flood_turn_ns(const struct sim *sim, uint64_t units)
{
    const struct sim_flood *flood = sim->flood;
    return flood != NULL && flood->has_begun ? units * flood->unit_ns : 0;
}

/* True if the cluster is complete, so that only the flood can be to blame. */
static bool may_flood(struct sim *sim)
{
    struct replica_members members;
    if (sim->options.seed % RUNS != 2 || sim_users_are_there(sim) ||
        sim->client_count < 2 || !sim_members(sim, &members) ||
        !sim_client_host(sim->client[0])->is_running) {
        return false;
    }
    return members.count > 0;
}

/* True for a running member. */
static bool is_flooded(struct sim *sim, const struct sim_node *node)
{
    struct replica_members members;
    if (!sim_members(sim, &members)) {
        return false;
    }
    for (uint32_t i = 0; i < members.count; i++) {
        if (sim_node_of(sim, &members.member[i]) == node) {
            return sim_node_core(sim->node[sim_node_number(node)]) != NULL;
        }
    }
    return false;
}

static void bystanders_begin(struct sim_flood *flood)
{
    struct sim *sim = flood->sim;
    struct sim_host *host = sim_client_host(sim->client[0]);
    struct sim_host *flooding = sim_client_host(sim->client[1]);
    const struct sim_node *leader = sim_leader(sim);
    for (uint32_t i = 0; i <= sim->node_count; i++) {
        bool is_silent = i == sim->node_count;
        if (is_silent || is_flooded(sim, sim->node[i])) {
            struct bystander *one = &flood->bystander[flood->bystander_count++];
            one->is_silent = is_silent;
            one->node = is_silent ? sim_node_number(leader) : i;
            bool is_leaders = !is_silent && i == sim_node_number(leader);
            sim_channel_init(&one->channel, sim,
                             is_leaders && flooding->is_running ? flooding
                                                                : host);
        }
    }
}

static void flood_end(struct sim_flood *flood)
{
    struct sim *sim = flood->sim;
    for (uint32_t i = 0; i < flood->flooder_count; i++) {
        struct flooder *flooder = &flood->flooder[i];
        if (flooder->wire != NULL) {
            sim_net_close(sim, flooder->wire, 0, 0);
        }
        buffer_done(&flooder->input);
    }
    for (uint32_t i = 0; i < flood->bystander_count; i++) {
        sim_channel_close(&flood->bystander[i].channel);
        sim_channel_done(&flood->bystander[i].channel);
    }
    sim_cancel(sim, &flood->tick);
    resp_reply_done(&flood->reply);
    sim->flood = NULL;
}

/* Changes when a leader has handed over by itself: the clocks here differ by up
 * to 20 %, and disks are slow. That is not the flood's doing: the oracles 18
 * and 36 check that the clock is off, and the disk slow. */
static uint64_t hand_overs(const struct sim *sim)
{
    uint64_t sum = 0, to;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct core *core = sim_node_core(sim->node[i]);
        if (core != NULL) {
            sum += core_clock_moved_ns(core) + core_disk_moved(core, &to);
        }
    }
    return sum;
}

static void flood_flow(struct sim_flood *flood)
{
    struct sim *sim = flood->sim;
    uint64_t before = hand_overs(sim);
    flood->term = sim_node_term(sim_leader(sim));
    flood->has_begun = true;
    sim_note(sim, NULL, "flood", flood->unit_ns, flood->flooder_count, 0);
    flooders_dial(flood);
    for (uint32_t i = 0; i < flood->bystander_count; i++) {
        struct bystander *one = &flood->bystander[i];
        struct sim_host *flooding = sim_client_host(sim->client[1]);
        if (is_at_leader(flood, one) && !one->is_silent &&
            one->channel.host == flooding) {
            rivals_dial(flood, flooding, one->node);
        }
    }
    sim_run_until(sim, sim->now_ns + FLOOD_NS, NULL);
    if (!flood->is_slow && !sim->has_failed && leader_core(flood) == NULL &&
        hand_overs(sim) == before) {
        sim_fail(sim, ORACLE_FLOODS,
                 "a flood deposes no leader: of term %" PRIu64
                 " none is left, after %" PRIu64 " requests",
                 flood->term, flood->answered);
    }
    sim_note(sim, NULL, "flooded", flood->answered, 0, 0);
}

void sim_flood(struct sim *sim)
{
    if (!may_flood(sim)) {
        return;
    }
    struct sim_flood *flood = memory_new(sizeof *flood);
    uint64_t units = sim_turn_units(sim);
    flood->sim = sim;
    flood->tick.run = flood_tick;
    flood->is_slow = units >= SLOW_UNITS_MIN;
    flood->unit_ns = flood->is_slow ? SLOW_TURN_NS / units
                                    : u64_min(TURN_NS / units, UNIT_NS_MAX);
    sim->flood = flood;
    bystanders_begin(flood);
    sim_at(sim, &flood->tick, sim->now_ns);
    sim_run_until(sim, sim->now_ns + OPEN_NS, all_have_sessions);
    if (!sim->has_failed && all_have_sessions(sim)) {
        flood_flow(flood);
    }
    flood_end(flood);
    free(flood);
}
