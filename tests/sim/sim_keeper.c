/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_keeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_rights.h"
#include "tests/sim/sim_worker.h"

#define ANSWER_NS (4 * SIM_S)
#define ROLE_COUNT 3
#define GRANT_SIZE 64

/* Everything is well: all verbs on all names, what operators need, and
 * everything that others may have in addition. */
static const struct {
    const char *name;
    const char *grants[2];
} roles[ROLE_COUNT] = {
    {"all", {"read,share,lock,fence,kick:*", NULL}},
    {"operator", {"sessions,blacklist,cluster,backup,audit", NULL}},
    {"some", {"read,lock:l*", "share:s*"}},
};

static struct sim *sim_of(const struct sim_keeper *keeper)
{
    return keeper->client->sim;
}

static const struct rights *rights_of(const struct sim_keeper *keeper)
{
    return sim_rights_now(
        sim_history_rights(sim_check_history(sim_of(keeper))));
}

/* --- Requests ------------------------------------------------------------- */

static void put_role(struct sim_keeper *keeper, const char *name,
                     const char *const *grants, uint32_t count)
{
    struct sim_channel *channel = &keeper->channel;
    const struct right_role *role = rights_role(rights_of(keeper), name);
    uint64_t changed = role != NULL ? role->changed : 0;
    sim_channel_begin(channel, count > 0 ? 5 + count : 4);
    sim_channel_word(channel, "ROLE.SET");
    sim_channel_word(channel, name);
    sim_channel_word(channel, "IF");
    sim_channel_number(channel, sim_chance(sim_of(keeper), 0.05) ? changed / 2
                                                                 : changed);
    if (count > 0) {
        sim_channel_word(channel, "GRANTS");
    }
    for (uint32_t i = 0; i < count; i++) {
        sim_channel_word(channel, grants[i]);
    }
}

/* The planned state of a user. */
struct plan {
    bool is_disabled;
    bool is_small; /* With quotas that are soon used up. */
    const char *role[ROLE_COUNT];
    uint32_t role_count;
};

static const uint64_t small_quotas[QUOTA_CONNECTIONS] = {3, 4, 2, 6000};

static void put_user(struct sim_keeper *keeper, uint32_t user,
                     const struct plan *plan)
{
    struct sim *sim = sim_of(keeper);
    struct sim_channel *channel = &keeper->channel;
    const char *name = sim_user_name(user);
    const struct right_user *now = rights_user(rights_of(keeper), name);
    bool is_there = now != NULL && now->number != 0;
    sim_channel_begin(channel,
                      5u + plan->is_disabled + (plan->is_small ? 8 : 0) +
                          (plan->role_count > 0 ? 1 + plan->role_count : 0));
    sim_channel_word(channel, "USER.SET");
    sim_channel_word(channel, name);
    sim_channel_word(channel, "IF");
    sim_channel_number(channel, is_there ? now->changed : 0);
    sim_channel_word(channel, "REUSE");
    if (plan->is_disabled) {
        sim_channel_word(channel, "DISABLED");
    }
    for (int key = 0; plan->is_small && key < QUOTA_CONNECTIONS; key++) {
        sim_channel_word(channel, quota_rules[key].word);
        sim_channel_number(channel,
                           small_quotas[key] * (1 + prng_below(&sim->prng, 3)));
    }
    if (plan->role_count > 0) {
        sim_channel_word(channel, "ROLES");
    }
    for (uint32_t i = 0; i < plan->role_count; i++) {
        sim_channel_word(channel, plan->role[i]);
    }
}

static void put_digest(struct sim_channel *channel, const uint8_t *digest)
{
    char text[2 * SHA256_SIZE + 1];
    hex_put(text, bytes_of(digest, SHA256_SIZE));
    sim_channel_word(channel, text);
}

static void add_secret(struct sim_keeper *keeper, uint32_t user)
{
    struct sim_identity who;
    sim_user_secret(user, ++sim_of(keeper)->users.serial[user], &who);
    sim_channel_begin(&keeper->channel, 3);
    sim_channel_word(&keeper->channel, "SECRET.ADD");
    sim_channel_word(&keeper->channel, who.user);
    put_digest(&keeper->channel, who.digest);
}

static bool remove_secret(struct sim_keeper *keeper, uint32_t user)
{
    const struct right_user *now = rights_user(rights_of(keeper),
                                               sim_user_name(user));
    if (now == NULL || now->secret_count == 0) {
        return false;
    }
    sim_channel_begin(&keeper->channel, 3);
    sim_channel_word(&keeper->channel, "SECRET.REMOVE");
    sim_channel_word(&keeper->channel, now->name);
    sim_channel_number(
        &keeper->channel,
        now->secret[prng_below(&sim_of(keeper)->prng, now->secret_count)]
            .number);
    return true;
}

/* A certificate of a client that shows one. */
static bool revoke(struct sim_keeper *keeper)
{
    struct sim *sim = sim_of(keeper);
    const struct sim_client
        *client = sim->client[prng_below(&sim->prng, sim->client_count)];
    if (client->who.way != WHO_CERTIFICATE ||
        rights_of(keeper)->revoked_count + 8 > RIGHT_REVOKED_MAX) {
        return false;
    }
    sim_channel_begin(&keeper->channel, 2);
    sim_channel_word(&keeper->channel, "CERT.REVOKE");
    put_digest(&keeper->channel, client->who.digest);
    return true;
}

static void put_access(struct sim_keeper *keeper, bool is_required)
{
    bool is_forced = sim_chance(sim_of(keeper), 0.5);
    sim_channel_begin(&keeper->channel, is_forced ? 3 : 2);
    sim_channel_word(&keeper->channel, "ACCESS.SET");
    sim_channel_word(&keeper->channel, is_required ? "REQUIRED" : "OPEN");
    if (is_forced) {
        sim_channel_word(&keeper->channel, "FORCE");
    }
}

static void put_name(struct sim_keeper *keeper, const char *word,
                     const char *name)
{
    sim_channel_begin(&keeper->channel, 2);
    sim_channel_word(&keeper->channel, word);
    sim_channel_word(&keeper->channel, name);
}

/* --- As it is to be ------------------------------------------------------- */

static uint32_t grant_count(int role)
{
    return roles[role].grants[1] != NULL ? 2 : 1;
}

static bool is_role_well(const struct sim_keeper *keeper, int role)
{
    const struct right_role *now = rights_role(rights_of(keeper),
                                               roles[role].name);
    bool is_well = now != NULL && now->grant_count == grant_count(role);
    for (uint32_t i = 0; is_well && i < now->grant_count; i++) {
        struct grant grant;
        const char *wrong = grant_parse(bytes_of_text(roles[role].grants[i]),
                                        &grant);
        CHECK(wrong == NULL);
        is_well = now->grant[i].verbs == grant.verbs &&
                  now->grant[i].is_prefix == grant.is_prefix &&
                  bytes_equal(bytes_of_text(now->grant[i].name), grant.name);
    }
    return is_well;
}

/* The first user is for operators. */
static struct plan plan_of(uint32_t user)
{
    struct plan plan = {.role = {"all", "operator"}, .role_count = 2};
    plan.role[1] = user == 0 ? "admin" : plan.role[1];
    return plan;
}

static bool is_user_well(const struct sim_keeper *keeper, uint32_t user)
{
    const struct right_user *now = rights_user(rights_of(keeper),
                                               sim_user_name(user));
    struct plan plan = plan_of(user);
    bool is_well = now != NULL && now->number != 0 && !now->is_disabled &&
                   now->role_count == plan.role_count;
    for (uint32_t i = 0; is_well && i < plan.role_count; i++) {
        is_well = strcmp(now->role[i], plan.role[i]) == 0;
    }
    for (int key = 0; is_well && key < QUOTA_COUNT; key++) {
        is_well = now->bound[key] == quota_rules[key].standard;
    }
    return is_well;
}

/* Mends the first thing that differs from the plan; false: nothing differs. */
static bool mend(struct sim_keeper *keeper)
{
    struct sim *sim = sim_of(keeper);
    for (int role = 0; role < ROLE_COUNT; role++) {
        if (!is_role_well(keeper, role)) {
            put_role(keeper, roles[role].name, roles[role].grants,
                     grant_count(role));
            return true;
        }
    }
    for (uint32_t user = 0; user < SIM_USER_COUNT; user++) {
        const struct right_user *now = rights_user(rights_of(keeper),
                                                   sim_user_name(user));
        if (!is_user_well(keeper, user)) {
            struct plan plan = plan_of(user);
            put_user(keeper, user, &plan);
            return true;
        }
        if (now->secret_count == 0) {
            add_secret(keeper, user);
            return true;
        }
    }
    if (sim->users.has_strangers && rights_of(keeper)->is_required) {
        put_access(keeper, false);
        return true;
    }
    return false;
}

/* --- As it comes ---------------------------------------------------------- */

static void change_role(struct sim_keeper *keeper)
{
    static const char *const verbs[] = {"read",       "share",    "lock",
                                        "read,lock",  "fence",    "kick",
                                        "read,share", "read,kick"};
    static const char *const names[] = {"*",  "l*", "l0", "s*",
                                        "s0", "k*", "r*", "l1"};
    struct sim *sim = sim_of(keeper);
    char text[3][GRANT_SIZE];
    const char *grants[3];
    uint32_t count = (uint32_t)prng_below(&sim->prng, 4);
    int role = (int)prng_below(&sim->prng, ROLE_COUNT);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = names[prng_below(&sim->prng, 8)];
        const char *verb = verbs[prng_below(&sim->prng, 8)];
        snprintf(text[i], GRANT_SIZE, "%s:%s", verb, name);
        grants[i] = text[i];
    }
    put_role(keeper, roles[role].name, grants, count);
}

static void change_user(struct sim_keeper *keeper, uint32_t user)
{
    struct sim *sim = sim_of(keeper);
    struct plan plan = {.is_disabled = sim_chance(sim, 0.35)};
    plan.is_small = sim_chance(sim, 0.4);
    for (int role = 0; role < ROLE_COUNT; role++) {
        if (sim_chance(sim, 0.6) &&
            rights_role(rights_of(keeper), roles[role].name) != NULL) {
            plan.role[plan.role_count++] = roles[role].name;
        }
    }
    put_user(keeper, user, &plan);
}

/* False: nothing to do this time. */
static bool disturb(struct sim_keeper *keeper)
{
    struct sim *sim = sim_of(keeper);
    uint32_t user = (uint32_t)prng_below(&sim->prng, SIM_USER_COUNT);
    const struct right_user *now = rights_user(rights_of(keeper),
                                               sim_user_name(user));
    bool is_disabled = now != NULL && now->is_disabled;
    switch (prng_below(&sim->prng, 10)) {
    case 0:
    case 1:
    case 2:
        change_role(keeper);
        return true;
    case 3:
    case 4:
        change_user(keeper, user);
        return true;
    case 5:
        put_access(keeper, !rights_of(keeper)->is_required);
        return true;
    case 6:
        add_secret(keeper, user);
        return true;
    case 7:
        return remove_secret(keeper, user);
    case 8:
        return revoke(keeper);
    default:
        put_name(keeper, is_disabled ? "USER.REMOVE" : "ROLE.REMOVE",
                 is_disabled ? sim_user_name(user) : "some");
        return true;
    }
}

static bool choose(struct sim_keeper *keeper)
{
    struct sim *sim = sim_of(keeper);
    bool is_early = sim->now_ns < 2 * SIM_S;
    if (sim->phase != SIM_CHAOS || is_early || sim_chance(sim, 0.5)) {
        return mend(keeper);
    }
    return disturb(keeper);
}

static void think(struct sim_keeper *keeper)
{
    struct sim *sim = sim_of(keeper);
    bool is_busy = sim->phase != SIM_CHAOS || sim->now_ns < 2 * SIM_S;
    uint64_t most_ms = sim->users.are_restless ? 100 : 900;
    keeper->think_until_ns = sim->now_ns +
                             (is_busy ? 10 * SIM_MS
                                      : sim_between(sim, 10, most_ms) * SIM_MS);
}

/* --- Asking --------------------------------------------------------------- */

static void take(struct sim_keeper *keeper)
{
    static const char *const known[] = {"NOLEADER", "BUSY",   "UNKNOWN",
                                        "MOVED",    "BADARG", "LIMIT"};
    struct sim *sim = sim_of(keeper);
    const struct resp_value *value = &keeper->channel.reply.value[0];
    char word[32];
    bool is_known = false;
    sim_channel_error(&keeper->channel, word);
    think(keeper);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        is_known |= strcmp(word, known[i]) == 0;
    }
    if (word[0] == '\0') {
        sim->stats.administered++;
        return;
    }
    if (!is_known && !sim_users_is_refusal(word)) {
        sim_fail(
            sim, ORACLE_REFUSALS,
            "errors are those of the contract: the administrator got '%.*s'",
            (int)value->bytes.size, (const char *)value->bytes.data);
    }
    sim_channel_later(&keeper->channel, sim_between(sim, 10, 300) * SIM_MS);
    if (strcmp(word, "BUSY") != 0 && strcmp(word, "BADARG") != 0) {
        sim_channel_close(&keeper->channel);
    }
}

void sim_keeper_init(struct sim_keeper *keeper, struct sim_client *client)
{
    struct sim *sim = client->sim;
    *keeper = (struct sim_keeper){.client = client, .who = sim_identity_local};
    sim_channel_init(&keeper->channel, sim, &client->host);
    keeper->channel.who = &keeper->who;
    keeper->is_there = sim_users_are_there(sim) &&
                       client->host.number == sim->node_count;
}

void sim_keeper_done(struct sim_keeper *keeper)
{
    sim_channel_done(&keeper->channel);
}

void sim_keeper_work(struct sim_keeper *keeper)
{
    struct sim_channel *channel = &keeper->channel;
    struct sim *sim = sim_of(keeper);
    if (!keeper->is_there) {
        return;
    }
    if (channel->is_waiting && sim_channel_take(channel)) {
        take(keeper);
    }
    sim_channel_watch(channel);
    if (channel->wire == NULL) {
        struct sim_node *leader = sim_leader(sim);
        if (sim->phase != SIM_CHAOS && leader != NULL) {
            channel->next_node = sim_node_host(leader)->number + 1;
        }
        keeper->who = sim_identity_local;
        if (sim->phase == SIM_CHAOS && sim_chance(sim, 0.3)) {
            sim_identity_admin(sim, &keeper->who);
        }
    }
    if (sim->now_ns < keeper->think_until_ns ||
        !sim_channel_is_ready(channel)) {
        return;
    }
    if (choose(keeper)) {
        sim_channel_send(channel, sim_client_clock(keeper->client), ANSWER_NS);
    } else {
        think(keeper);
        keeper->think_until_ns += (sim->users.are_restless ? 30 : 300) * SIM_MS;
    }
}

uint64_t sim_keeper_next(const struct sim_keeper *keeper)
{
    uint64_t at_ns = sim_channel_next(&keeper->channel);
    if (!keeper->is_there) {
        return UINT64_MAX;
    }
    return !keeper->channel.is_waiting && keeper->think_until_ns > at_ns
               ? keeper->think_until_ns
               : at_ns;
}
