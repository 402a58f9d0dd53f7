/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_crowd.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_worker.h"

#define TTL_MS 8000
#define KEEP_NS (TTL_MS * SIM_MS / 4)
#define ANSWER_NS (4 * SIM_S)
/* Above all numbers of acquisitions. */
#define FIRST_RELEASE (2 * CROWD_MAX + 1)
/* The number of gaps that are remembered, plus or minus one for how they are
 * counted. */
#define GAP_MAX 64
/* One in this many runs has a crowd. */
#define RUNS 32

static struct sim *sim_of(const struct sim_crowd *crowd)
{
    return crowd->client->sim;
}

static const char *name_of(const struct sim_crowd *crowd)
{
    return crowd->client->host.name;
}

static void begin_stage(struct sim_crowd *crowd, int stage, uint32_t steps)
{
    crowd->stage = stage;
    crowd->steps = steps;
    crowd->next = 0;
    crowd->req = 0;
}

static void rest(struct sim_crowd *crowd)
{
    struct sim *sim = sim_of(crowd);
    sim_channel_close(&crowd->channel);
    crowd->session = 0;
    crowd->rest_until_ns = sim->now_ns + sim_between(sim, 1000, 8000) * SIM_MS;
    begin_stage(crowd, CROWD_REST, 0);
}

static void gather(struct sim_crowd *crowd)
{
    struct sim *sim = sim_of(crowd);
    crowd->count = (uint32_t)sim_between(sim, 80, CROWD_MAX);
    crowd->release_req = FIRST_RELEASE;
    crowd->is_full = sim_chance(sim, 0.4);
    memset(crowd->is_given, 0, sizeof crowd->is_given);
    memset(crowd->token, 0, sizeof crowd->token);
    uint64_t low = prng_next(&sim->prng);
    uint64_t high = prng_next(&sim->prng);
    snprintf(crowd->secret, sizeof crowd->secret, "%016" PRIx64 "%016" PRIx64,
             high, low);
    begin_stage(crowd, CROWD_OPEN, 1);
}

/* Initial values of a stage; the drain shortens it. */
static void next_stage(struct sim_crowd *crowd)
{
    struct sim *sim = sim_of(crowd);
    if (crowd->client->is_draining && crowd->stage < CROWD_GIVE) {
        begin_stage(crowd, CROWD_GIVE, 1);
        return;
    }
    switch (crowd->stage) {
    case CROWD_OPEN:
        begin_stage(crowd, CROWD_LIMIT, crowd->is_full ? 2 : 1);
        break;
    case CROWD_LIMIT:
        begin_stage(crowd, CROWD_FILL, crowd->count);
        break;
    case CROWD_FILL:
        begin_stage(crowd, CROWD_AGAIN, (uint32_t)sim_between(sim, 0, 40));
        break;
    case CROWD_AGAIN:
        begin_stage(crowd, CROWD_LEFT_OUT, (uint32_t)sim_between(sim, 0, 40));
        break;
    case CROWD_LEFT_OUT:
        begin_stage(crowd, CROWD_GIVE, sim_chance(sim, 0.5) ? crowd->count : 0);
        break;
    case CROWD_GIVE:
        begin_stage(crowd, CROWD_UNLIMIT, crowd->is_full);
        break;
    case CROWD_UNLIMIT:
        begin_stage(crowd, CROWD_CLOSE, 1);
        break;
    default:
        rest(crowd);
        break;
    }
}

/* --- Asking --------------------------------------------------------------- */

static void put_limit(struct sim_crowd *crowd, enum limit_key key,
                      uint64_t value)
{
    sim_channel_begin(&crowd->channel, 3);
    sim_channel_word(&crowd->channel, "LIMITS.SET");
    sim_channel_word(&crowd->channel, limit_rules[key].name);
    sim_channel_number(&crowd->channel, value);
}

static void put_lock(struct sim_crowd *crowd, const char *word, char kind,
                     uint64_t number)
{
    char name[32], owner[16];
    snprintf(name, sizeof name, "crowd/%c%03" PRIu64, kind, number);
    snprintf(owner, sizeof owner, "%c%" PRIu64, kind, number);
    sim_channel_begin(&crowd->channel, 6);
    sim_channel_word(&crowd->channel, word);
    sim_channel_word(&crowd->channel, name);
    sim_channel_word(&crowd->channel, "OWNER");
    sim_channel_word(&crowd->channel, owner);
    sim_channel_word(&crowd->channel, "REQ");
    sim_channel_number(&crowd->channel, crowd->req);
}

static void put_open(struct sim_crowd *crowd)
{
    struct sim_channel *channel = &crowd->channel;
    sim_channel_begin(channel, 7);
    sim_channel_word(channel, "SESSION.OPEN");
    sim_channel_word(channel, "TTL");
    sim_channel_number(channel, TTL_MS);
    sim_channel_word(channel, "NAME");
    sim_channel_word(channel, "crowd");
    sim_rogue_put_proof(channel, crowd->secret);
}

/* Finds an owner that has its lock, from 'next' on; false: none. */
static bool find_holder(struct sim_crowd *crowd)
{
    while (crowd->next < crowd->count && crowd->token[crowd->next] == 0) {
        crowd->next++;
    }
    return crowd->next < crowd->count;
}

/* False: this step has nothing to send. */
static bool put_step(struct sim_crowd *crowd)
{
    struct sim *sim = sim_of(crowd);
    switch (crowd->stage) {
    case CROWD_OPEN:
        put_open(crowd);
        return true;
    case CROWD_LIMIT:
        if (crowd->next == 0) {
            put_limit(crowd, LIMIT_HOLDS_PER_SESSION,
                      lockfsm_default_limits.of[LIMIT_HOLDS_PER_SESSION]);
        } else {
            put_limit(crowd, LIMIT_LOCKS, crowd->count / 2 + 20);
        }
        return true;
    case CROWD_UNLIMIT:
        put_limit(crowd, LIMIT_LOCKS, lockfsm_default_limits.of[LIMIT_LOCKS]);
        return true;
    case CROWD_FILL:
        crowd->req = 2 * crowd->next + 1;
        put_lock(crowd, "LOCK.ACQUIRE", 'o', crowd->next);
        return true;
    case CROWD_AGAIN:
        if (crowd->req == 0) {
            crowd->next = (uint32_t)prng_below(&sim->prng, crowd->count);
            crowd->req = 2 * crowd->next + 1;
        }
        put_lock(crowd, "LOCK.ACQUIRE", 'o', crowd->next);
        return crowd->token[crowd->next] != 0;
    case CROWD_LEFT_OUT:
        if (crowd->req == 0) {
            crowd->req = 2 * sim_between(sim, 1, crowd->count - 1);
        }
        put_lock(crowd, "LOCK.ACQUIRE", 'x', crowd->req);
        return true;
    case CROWD_GIVE:
        crowd->req = crowd->release_req;
        if (!find_holder(crowd)) {
            return false;
        }
        put_lock(crowd, "LOCK.RELEASE", 'o', crowd->next);
        return true;
    default:
        sim_channel_begin(&crowd->channel, 1);
        sim_channel_word(&crowd->channel, "SESSION.CLOSE");
        return true;
    }
}

static void attach(struct sim_crowd *crowd)
{
    sim_channel_begin(&crowd->channel, 3);
    sim_channel_word(&crowd->channel, "SESSION.ATTACH");
    sim_channel_number(&crowd->channel, crowd->session);
    sim_channel_word(&crowd->channel, crowd->secret);
    crowd->asked = CROWD_ATTACHES;
}

static void keep(struct sim_crowd *crowd)
{
    sim_channel_begin(&crowd->channel, 1);
    sim_channel_word(&crowd->channel, "SESSION.KEEP");
    crowd->asked = CROWD_KEEPS;
    crowd->keep_ns = sim_of(crowd)->now_ns + KEEP_NS;
}

static void ask(struct sim_crowd *crowd)
{
    struct sim_channel *channel = &crowd->channel;
    if (crowd->session != 0 && channel->attached != crowd->session) {
        attach(crowd);
    } else if (crowd->session != 0 && sim_of(crowd)->now_ns >= crowd->keep_ns) {
        keep(crowd);
    } else if (crowd->steps > 0 && put_step(crowd)) {
        crowd->asked = CROWD_ASKS;
    } else {
        next_stage(crowd);
        return;
    }
    sim_channel_send(channel, sim_client_clock(crowd->client), ANSWER_NS);
}

/* --- Answers -------------------------------------------------------------- */

static void step_is_over(struct sim_crowd *crowd)
{
    sim_of(crowd)->stats.operations++;
    crowd->req = 0;
    crowd->next++;
    crowd->steps--;
    if (crowd->steps == 0) {
        next_stage(crowd);
    }
}

/* Of the numbers above 'req' that were left out, those that are still
 * unused. */
static uint32_t gaps_above(const struct sim_crowd *crowd, uint64_t req)
{
    uint32_t gaps = 0;
    for (uint64_t half = req / 2 + 1; half < crowd->count; half++) {
        gaps += !crowd->is_given[half];
    }
    return gaps;
}

static void check_left_out(struct sim_crowd *crowd, bool is_forgotten)
{
    /* It may have been forgotten when none of them had been used yet. */
    uint32_t gaps = is_forgotten ? crowd->count - 1 - (uint32_t)crowd->req / 2
                                 : gaps_above(crowd, crowd->req);
    if (is_forgotten ? gaps + 1 < GAP_MAX : gaps > GAP_MAX) {
        sim_fail(sim_of(crowd), ORACLE_LIMITS,
                 "a number is forgotten when %d gaps have overtaken it: REQ "
                 "%" PRIu64 " of %s was %s, with %u gaps above it",
                 GAP_MAX, crowd->req, name_of(crowd),
                 is_forgotten ? "FORGOTTEN" : "done", gaps);
    }
    crowd->is_given[crowd->req / 2] = true;
}

static void check_result(struct sim_crowd *crowd,
                         const struct resp_value *value)
{
    struct sim *sim = sim_of(crowd);
    struct past_result past = {.token = 0};
    uint64_t token = value->type == RESP_INTEGER ? (uint64_t)value->integer : 0;
    bool is_there = sim_history_result(sim_check_history(sim), crowd->session,
                                       crowd->req, &past);
    bool is_same = crowd->stage == CROWD_GIVE ? past.count == token
                                              : past.token == token;
    if (!is_there || !is_same) {
        sim_fail(sim, ORACLE_RESULTS,
                 "an answer reflects committed state: %s of %s got %" PRIu64
                 " for REQ %" PRIu64 ", the log has %s %" PRIu64,
                 "the crowd", name_of(crowd), token, crowd->req,
                 is_there ? "token" : "nothing", past.token);
    }
    if (crowd->stage == CROWD_AGAIN && crowd->token[crowd->next] != token) {
        sim_fail(sim, ORACLE_RESULTS,
                 "a repeated request gets its first answer: REQ %" PRIu64
                 " of %s got %" PRIu64 ", now %" PRIu64,
                 crowd->req, name_of(crowd), crowd->token[crowd->next], token);
    }
    if (crowd->stage == CROWD_FILL) {
        crowd->token[crowd->next] = token;
    } else if (crowd->stage == CROWD_LEFT_OUT &&
               !crowd->is_given[crowd->req / 2]) {
        check_left_out(crowd, false);
    }
}

static void take_opened(struct sim_crowd *crowd)
{
    const struct resp_value *id = resp_find(&crowd->channel.reply, 0, "id");
    if (id == NULL || id->type != RESP_INTEGER) {
        sim_fail(sim_of(crowd), ORACLE_REFUSALS, "OPEN answers a map with id");
        return;
    }
    crowd->session = (uint64_t)id->integer;
    crowd->channel.attached = crowd->session;
    crowd->keep_ns = sim_of(crowd)->now_ns + KEEP_NS;
    sim_of(crowd)->stats.crowds++;
}

static void take_good(struct sim_crowd *crowd)
{
    const struct resp_value *value = &crowd->channel.reply.value[0];
    switch (crowd->stage) {
    case CROWD_OPEN:
        take_opened(crowd);
        break;
    case CROWD_FILL:
    case CROWD_AGAIN:
    case CROWD_LEFT_OUT:
        check_result(crowd, value);
        break;
    case CROWD_GIVE:
        check_result(crowd, value);
        crowd->token[crowd->next] = 0;
        crowd->release_req++;
        break;
    default:
        break;
    }
    step_is_over(crowd);
}

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(word, *words) != 0) {
        words++;
    }
    return *words != NULL;
}

/* The session has ended, and the log has it. */
static void take_end(struct sim_crowd *crowd, const char *word)
{
    struct sim *sim = sim_of(crowd);
    if (sim_history_ended(sim_check_history(sim), crowd->session) != 0) {
        rest(crowd);
    } else if (strcmp(word, "EXPIRED") == 0) {
        sim_fail(sim, ORACLE_REFUSALS,
                 "a refusal reflects committed state: the crowd of %s got "
                 "EXPIRED, and session %" PRIu64 " lives",
                 name_of(crowd), crowd->session);
    } else {
        sim_channel_close(&crowd->channel);
    }
}

static void take_error(struct sim_crowd *crowd, const char *word)
{
    /* NOTLS was checked when it arrived (sim_users_told()). */
    static const char *const later[] = {"NOLEADER", "BUSY",  "MOVED",
                                        "UNKNOWN",  "NOTLS", NULL};
    static const char *const ends[] = {"EXPIRED", "NOSESSION", NULL};
    static const char *const refused[] = {"LIMIT", "BLACKLISTED", NULL};
    const struct resp_value *value = &crowd->channel.reply.value[0];
    struct sim *sim = sim_of(crowd);
    bool gives = crowd->stage >= CROWD_GIVE;
    if (is_one_of(word, later) ||
        bytes_has_prefix(value->bytes, BYTES_LITERAL("LIMIT disk"))) {
        sim_channel_close(&crowd->channel);
        sim_channel_later(&crowd->channel, sim_between(sim, 10, 300) * SIM_MS);
    } else if (is_one_of(word, ends) && crowd->session != 0) {
        take_end(crowd, word);
    } else if (strcmp(word, "FORGOTTEN") == 0 &&
               crowd->stage == CROWD_LEFT_OUT) {
        if (!crowd->is_given[crowd->req / 2]) {
            check_left_out(crowd, true);
        }
        step_is_over(crowd);
    } else if (is_one_of(word, refused) && !gives) {
        if (crowd->stage == CROWD_OPEN) {
            rest(crowd);
            return;
        }
        if (crowd->stage == CROWD_LEFT_OUT) {
            crowd->is_given[crowd->req / 2] = true;
        }
        step_is_over(crowd);
    } else if (strcmp(word, "NOTHELD") == 0 && crowd->stage == CROWD_GIVE) {
        crowd->token[crowd->next] = 0; /* RELEASEIF. */
        crowd->release_req++;
        step_is_over(crowd);
    } else {
        sim_fail(sim, ORACLE_REFUSALS,
                 "errors are those of the contract, and a release is never "
                 "refused: the crowd of %s got '%.*s'",
                 name_of(crowd), (int)value->bytes.size,
                 (const char *)value->bytes.data);
    }
}

static void take(struct sim_crowd *crowd)
{
    char word[32];
    sim_channel_error(&crowd->channel, word);
    int asked = crowd->asked;
    crowd->asked = CROWD_ASKS_NOTHING;
    if (word[0] != '\0') {
        if (asked == CROWD_ASKS || strcmp(word, "EXPIRED") == 0 ||
            strcmp(word, "NOSESSION") == 0) {
            take_error(crowd, word);
        } else {
            sim_channel_close(&crowd->channel);
        }
    } else if (asked == CROWD_ATTACHES) {
        crowd->channel.attached = crowd->session;
    } else if (asked == CROWD_ASKS) {
        take_good(crowd);
    }
}

/* --- Life ----------------------------------------------------------------- */

void sim_crowd_init(struct sim_crowd *crowd, struct sim_client *client)
{
    struct sim *sim = client->sim;
    *crowd = (struct sim_crowd){.client = client};
    sim_channel_init(&crowd->channel, sim, &client->host);
    /* It sets limits, too. */
    crowd->channel.who = sim_users_are_there(sim) ? &sim_identity_local : NULL;
    crowd->is_there = client->host.number == sim->node_count &&
                      sim->options.seed % RUNS == RUNS / 2;
    crowd->rest_until_ns = sim->now_ns + sim_between(sim, 500, 8000) * SIM_MS;
}

void sim_crowd_done(struct sim_crowd *crowd)
{
    sim_channel_done(&crowd->channel);
}

void sim_crowd_work(struct sim_crowd *crowd)
{
    struct sim_channel *channel = &crowd->channel;
    if (!crowd->is_there) {
        return;
    }
    if (channel->is_waiting && sim_channel_take(channel)) {
        take(crowd);
    }
    sim_channel_watch(channel);
    if (crowd->stage == CROWD_REST && !crowd->client->is_draining &&
        sim_of(crowd)->now_ns >= crowd->rest_until_ns) {
        gather(crowd);
    }
    if (crowd->stage != CROWD_REST && sim_channel_is_ready(channel)) {
        ask(crowd);
    }
}

uint64_t sim_crowd_next(const struct sim_crowd *crowd)
{
    if (!crowd->is_there) {
        return UINT64_MAX;
    }
    if (crowd->stage == CROWD_REST) {
        return crowd->client->is_draining ? UINT64_MAX : crowd->rest_until_ns;
    }
    return sim_channel_next(&crowd->channel);
}

bool sim_crowd_is_idle(const struct sim_crowd *crowd)
{
    return !crowd->is_there || crowd->stage == CROWD_REST;
}
