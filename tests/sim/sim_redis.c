/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_promise.h"
#include "tests/sim/sim_worker.h"

#define KEY_COUNT 2

static const char *const keys[KEY_COUNT] = {"r0", "r1"};

/* As redis-py has them. */
static const char
    release_script[] = "\n"
                       "        local token = redis.call('get', KEYS[1])\n"
                       "        if not token or token ~= ARGV[1] then\n"
                       "            return 0\n"
                       "        end\n"
                       "        redis.call('del', KEYS[1])\n"
                       "        return 1\n"
                       "    ";
static const char
    extend_script[] = "if redis.call(\"get\", KEYS[1]) == ARGV[1] then\n"
                      "    return redis.call(\"pexpire\", KEYS[1], ARGV[2])\n"
                      "else\n"
                      "    return 0\n"
                      "end\n";

void sim_redis_init(struct sim_redis *redis, struct sim_client *client)
{
    *redis = (struct sim_redis){.client = client};
    sim_channel_init(&redis->channel, client->sim, &client->host);
    sim_redis_reset(redis);
}

void sim_redis_done(struct sim_redis *redis)
{
    sim_channel_done(&redis->channel);
}

void sim_redis_reset(struct sim_redis *redis)
{
    struct sim *sim = redis->client->sim;
    redis->asked = ASKED_NONE;
    redis->value = 0;
    redis->is_held = false;
    redis->is_asking = false;
    redis->think_until_ns = sim->now_ns + sim_between(sim, 0, 2000) * SIM_MS;
}

static bool believes(const struct sim_redis *redis)
{
    struct lease_clock now = sim_client_clock(redis->client);
    return redis->client->host.is_running && redis->is_held &&
           now.boottime_ns - redis->since.boottime_ns < redis->px_ms * SIM_MS;
}

static void belief_begins(struct sim_redis *redis)
{
    struct sim *sim = redis->client->sim;
    for (uint32_t i = 0; i < sim->client_count && believes(redis); i++) {
        struct sim_redis *other = &sim->client[i]->redis;
        if (other != redis && other->key == redis->key && believes(other)) {
            sim_fail(sim, ORACLE_BELIEVERS,
                     "one believer per Redis lock: %s and %s believe in '%s'",
                     redis->client->host.name, other->client->host.name,
                     keys[redis->key]);
        }
    }
}

static void choose(struct sim_redis *redis)
{
    struct sim *sim = redis->client->sim;
    if (redis->value != 0) {
        bool extends = believes(redis) && !redis->client->is_draining &&
                       sim_chance(sim, 0.4);
        redis->asked = extends ? ASKED_EXTEND : ASKED_DELETE;
        redis->is_uncertain = false;
        return;
    }
    if (redis->client->is_draining) {
        return;
    }
    redis->asked = ASKED_SET;
    redis->is_uncertain = false;
    redis->key = (uint32_t)prng_below(&sim->prng, KEY_COUNT);
    redis->value = prng_next(&sim->prng) | 1;
    redis->px_ms = sim_between(sim, 50, 3000);
}

static void put_script(struct sim_redis *redis, const char *script,
                       const char *value, bool has_time)
{
    struct sim_channel *channel = &redis->channel;
    sim_channel_begin(channel, has_time ? 6 : 5);
    sim_channel_word(channel, "EVAL");
    sim_channel_word(channel, script);
    sim_channel_word(channel, "1");
    sim_channel_word(channel, keys[redis->key]);
    sim_channel_word(channel, value);
    if (has_time) {
        sim_channel_number(channel, redis->px_ms);
    }
}

static void ask(struct sim_redis *redis)
{
    struct sim_channel *channel = &redis->channel;
    char value[32];
    snprintf(value, sizeof value, "%016" PRIx64, redis->value);
    if (redis->asked == ASKED_SET) {
        sim_channel_begin(channel, 7);
        sim_channel_word(channel, "SET");
        sim_channel_word(channel, keys[redis->key]);
        sim_channel_word(channel, value);
        sim_channel_word(channel, "NX");
        sim_channel_word(channel, "AGAIN"); /* Each value is drawn. */
        sim_channel_word(channel, "PX");
        sim_channel_number(channel, redis->px_ms);
    } else if (redis->asked == ASKED_EXTEND) {
        put_script(redis, extend_script, value, true);
    } else {
        redis->is_held = false; /* Belief ends when it is sent. */
        put_script(redis, release_script, value, false);
    }
    redis->is_uncertain |= redis->is_asking; /* An earlier, unanswered one. */
    redis->is_asking = true;
    sim_note(redis->client->sim, &redis->client->host, "redis", redis->asked,
             redis->key, redis->px_ms);
    sim_channel_send(channel, sim_client_clock(redis->client), 4 * SIM_S);
}

/* Waits for a while before the next request. */
static void think(struct sim_redis *redis)
{
    struct sim *sim = redis->client->sim;
    sim->stats.operations++;
    redis->asked = ASKED_NONE;
    redis->is_asking = false;
    redis->think_until_ns = sim->now_ns + sim_between(sim, 5, 1500) * SIM_MS;
}

static void take_good(struct sim_redis *redis)
{
    const struct resp_value *value = &redis->channel.reply.value[0];
    bool is_yes = redis->asked == ASKED_SET ? value->type == RESP_SIMPLE
                                            : value->integer == 1;
    if (redis->asked == ASKED_DELETE) {
        redis->value = 0;
    } else if (is_yes) {
        redis->is_held = true;
        redis->since = redis->channel.sent;
        redis->since_place = redis->channel.sent_newest;
        belief_begins(redis);
    } else if (redis->asked == ASKED_SET) {
        redis->value = 0;
    } else if (believes(redis) &&
               !sim_check_lives_between(redis->client->sim, redis->since_place,
                                        sim_check_newest(redis->client->sim))) {
        sim_fail(redis->client->sim, ORACLE_HOLDS,
                 "a client that believes in a Redis lock has it: %s extends "
                 "'%s' and gets 0",
                 redis->client->host.name, keys[redis->key]);
    }
    think(redis);
}

/* The answer says that nothing was done. True if the request ends here. */
static bool is_left_undone(struct sim_redis *redis, const char *word)
{
    struct sim *sim = redis->client->sim;
    char value[32];
    struct sim_request request = {.value = value};
    snprintf(value, sizeof value, "%016" PRIx64, redis->value);
    if (redis->asked == ASKED_SET) {
        request.kind = 'v';
    } else if (redis->asked == ASKED_DELETE) {
        request.kind = 'd';
    }
    /* BLACKLISTED is the result of its entry; NOAUTH and NOPERM can be. */
    return !redis->is_uncertain && strcmp(word, "BLACKLISTED") != 0 &&
           !sim_users_is_refusal(word) &&
           sim_promises_told(sim_history_promises(sim_check_history(sim)),
                             redis->client->host.name, word, &request,
                             redis->asked == ASKED_SET && sim_chance(sim, 0.3));
}

static bool is_disk_full(const struct sim_redis *redis)
{
    return bytes_has_prefix(redis->channel.reply.value[0].bytes,
                            BYTES_LITERAL("LIMIT disk"));
}

/* A value stays until it is deleted, which needs no right while it exists. If
 * it does not exist, the client learns nothing. */
static void take_denied(struct sim_redis *redis)
{
    struct sim *sim = redis->client->sim;
    if (redis->asked == ASKED_DELETE && believes(redis)) {
        sim_fail(sim, ORACLE_REFUSALS,
                 "a release needs no right: %s deletes '%s' and gets NOPERM",
                 redis->client->host.name, keys[redis->key]);
    }
    if (redis->asked == ASKED_DELETE ||
        (redis->asked == ASKED_SET && !redis->is_uncertain)) {
        redis->value = 0;
    }
    think(redis);
}

static void take(struct sim_redis *redis)
{
    struct sim *sim = redis->client->sim;
    char word[32];
    sim_channel_error(&redis->channel, word);
    redis->is_asking = false;
    if (word[0] == '\0') {
        take_good(redis);
        return;
    }
    static const char *const known[] = {
        "NOLEADER", "BUSY",  "UNKNOWN", "CLUSTERDOWN", "TRYAGAIN",
        "MOVED",    "LIMIT", "OOM",     "BLACKLISTED"};
    bool is_known = sim_users_is_refusal(word);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        is_known |= strcmp(word, known[i]) == 0;
    }
    if (!is_known) {
        const struct resp_value *value = &redis->channel.reply.value[0];
        sim_fail(sim, ORACLE_REFUSALS,
                 "errors are those of the contract: %s (Redis) got '%.*s'",
                 redis->client->host.name, (int)value->bytes.size,
                 (const char *)value->bytes.data);
    }
    if (strcmp(word, "UNKNOWN") == 0) {
        redis->is_uncertain = true;
    } else if (strcmp(word, "NOPERM") == 0) {
        take_denied(redis);
    } else if (sim_users_is_refusal(word)) {
        redis->is_uncertain = true; /* It may be the result of its entry. */
    } else if (strcmp(word, "LIMIT") == 0 && !is_disk_full(redis)) {
        if (!redis->is_uncertain) {
            redis->value = 0; /* Its entry was refused. */
            think(redis);
        }
    } else if (is_left_undone(redis, word)) {
        redis->value = 0;
        think(redis);
    }
    if (strcmp(word, "BUSY") != 0) {
        sim_channel_close(&redis->channel);
    }
    sim_channel_later(&redis->channel, sim_between(sim, 10, 300) * SIM_MS);
}

void sim_redis_work(struct sim_redis *redis)
{
    struct sim *sim = redis->client->sim;
    struct sim_channel *channel = &redis->channel;
    if (channel->is_waiting && sim_channel_take(channel)) {
        take(redis);
    }
    sim_channel_watch(channel);
    if (redis->asked == ASKED_NONE && sim->now_ns >= redis->think_until_ns) {
        choose(redis);
    }
    if (redis->asked == ASKED_EXTEND && !redis->is_asking && !believes(redis)) {
        redis->asked = ASKED_DELETE; /* Too late to extend. */
        redis->is_uncertain = false;
    }
    if (redis->asked != ASKED_NONE && sim_channel_is_ready(channel)) {
        ask(redis);
    }
}

uint64_t sim_redis_next(const struct sim_redis *redis)
{
    uint64_t at_ns = sim_channel_next(&redis->channel);
    return redis->asked == ASKED_NONE && redis->think_until_ns > at_ns
               ? redis->think_until_ns
               : at_ns;
}

bool sim_redis_is_idle(const struct sim_redis *redis)
{
    return redis->asked == ASKED_NONE && redis->value == 0;
}
