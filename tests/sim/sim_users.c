/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_users.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_rights.h"
#include "tests/sim/sim_worker.h"

const struct sim_identity sim_identity_local = {.way = WHO_LOCAL,
                                                .user = "local"};

/* Not by the generator of the run, so that the runs without users do not
 * change. */
void sim_users_init(struct sim *sim)
{
    struct sim_users *users = &sim->users;
    struct prng prng = {sim->options.seed ^ UINT64_C(0x7573657273)};
    *users = (struct sim_users){.are_there = prng_chance(&prng, 0.35)};
    if (users->are_there) {
        users->has_strangers = prng_chance(&prng, 0.4);
        users->starts_required = prng_chance(&prng, 0.5);
        users->plain_node = prng_chance(&prng, 0.3) ? 1 + prng_below(&prng, 3)
                                                    : 0;
        users->are_restless = prng_chance(&prng, 0.6);
    }
}

bool sim_users_are_there(const struct sim *sim)
{
    return sim->users.are_there;
}

const char *sim_user_name(uint32_t client)
{
    static const char *const names[SIM_USER_COUNT] = {"ann", "bob", "cid",
                                                      "dan"};
    return names[client % SIM_USER_COUNT];
}

static void digest(struct sim_identity *who, const char *text)
{
    int error = sha256(bytes_of_text(text), who->digest);
    CHECK(error == 0);
}

/* Nobody guesses here: 43 characters that differ from all others. */
void sim_user_secret(uint32_t user, uint32_t serial, struct sim_identity *who)
{
    who->way = WHO_SECRET;
    snprintf(who->user, sizeof who->user, "%s", sim_user_name(user));
    snprintf(who->secret, sizeof who->secret, "hasp1.%s.%043" PRIu32, who->user,
             serial);
    digest(who, who->secret);
}

static void show_certificate(struct sim_identity *who, uint32_t serial)
{
    char text[64];
    who->way = WHO_CERTIFICATE;
    snprintf(text, sizeof text, "certificate %u of %s at %u", (unsigned)serial,
             who->user, (unsigned)who->holder);
    digest(who, text);
}

static const struct rights *rights_now(const struct sim *sim)
{
    return sim_rights_now(sim_history_rights(sim_check_history(sim)));
}

void sim_identity_renew(struct sim *sim, struct sim_identity *who)
{
    for (uint32_t serial = 1; rights_are_revoked(rights_now(sim), who->digest);
         serial++) {
        show_certificate(who, serial);
    }
}

/* The first certificate that nobody knows to be revoked. */
static void choose_certificate(struct sim *sim, struct sim_identity *who,
                               const char *name, uint32_t holder)
{
    who->holder = holder;
    snprintf(who->user, sizeof who->user, "%s", name);
    show_certificate(who, 0);
    sim_identity_renew(sim, who);
}

void sim_identity_admin(struct sim *sim, struct sim_identity *who)
{
    *who = (struct sim_identity){.way = WHO_ANYONE};
    choose_certificate(sim, who, "admin", 0);
}

/* The newest existing secret; else the newest of all, which may be set
 * later. */
static void choose_secret(struct sim *sim, struct sim_identity *who,
                          uint32_t user)
{
    const struct right_user *found = rights_user(rights_now(sim),
                                                 sim_user_name(user));
    for (uint32_t serial = sim->users.serial[user]; serial > 0; serial--) {
        sim_user_secret(user, serial, who);
        for (uint32_t i = 0; found != NULL && i < found->secret_count; i++) {
            if (memcmp(found->secret[i].hash, who->digest, PROOF_SIZE) == 0) {
                return;
            }
        }
    }
    sim_user_secret(user, sim->users.serial[user], who);
}

void sim_identity_choose(struct sim *sim, uint32_t client,
                         struct sim_identity *who)
{
    uint32_t user = client % SIM_USER_COUNT;
    *who = (struct sim_identity){.way = WHO_ANYONE, .user = "anyone"};
    if (!sim_users_are_there(sim)) {
        *who = sim_identity_local; /* Any of them may be an operator, too. */
        return;
    }
    if (sim->users.has_strangers && client % 3 == 2) {
        return;
    }
    if (sim_chance(sim, 0.5)) {
        choose_certificate(sim, who, sim_user_name(user), client + 1);
    } else {
        choose_secret(sim, who, user);
    }
}

bool sim_users_is_refusal(const char *word)
{
    return strcmp(word, "NOAUTH") == 0 || strcmp(word, "WRONGPASS") == 0 ||
           strcmp(word, "NOPERM") == 0 || strcmp(word, "NOTLS") == 0;
}

/* --- By the versions between two entries ---------------------------------- */

/* After one of them the user of that name had the right, or lacked it. */
static bool is_some(const struct sim_rights *rights, const char *user,
                    enum verb verb, struct bytes name, enum extent extent,
                    uint64_t from, uint64_t to, bool is_allowed)
{
    uint32_t count;
    const struct rights *version = sim_rights_between(rights, from, to, &count);
    for (uint32_t i = 0; i < count; i++, version++) {
        enum verdict verdict = rights_allow(
            version, rights_number(version, user), verb, name, extent);
        if ((verdict == MAY) == is_allowed) {
            return true;
        }
    }
    return false;
}

static bool is_somebody(const struct rights *rights,
                        const struct sim_identity *who)
{
    static const struct bytes none = {NULL, 0};
    return rights_allow(rights, rights_number(rights, who->user), VERB_COUNT,
                        none, EXTENT_NAME) == MAY;
}

/* The client's credentials are valid. */
static bool is_shown(const struct rights *rights,
                     const struct sim_identity *who)
{
    return (who->way != WHO_SECRET ||
            right_has_secret(rights_user(rights, who->user), who->digest)) &&
           (who->way != WHO_CERTIFICATE ||
            !rights_are_revoked(rights, who->digest));
}

/* A client with these credentials was not a user, or one without rights. */
static bool was_void(const struct sim_rights *rights,
                     const struct sim_identity *who, uint64_t from, uint64_t to)
{
    uint64_t number = 0;
    uint32_t count;
    const struct rights *version = sim_rights_between(rights, from, to, &count);
    for (uint32_t i = 0; i < count; i++, version++) {
        uint64_t now = rights_number(version, who->user);
        /* A recreated user is another one: the connection still belongs to the
         * first. */
        bool is_another = number != 0 && now != number;
        number = now;
        if (is_another || !is_somebody(version, who) ||
            !is_shown(version, who)) {
            return true;
        }
    }
    return false;
}

/* The user had a right after some entry between 'from' and 'to', by the
 * leader's rights; and the credentials were valid between 'applied' and 'to',
 * by the rights of the node that got the request. */
static bool was_heard(const struct sim_rights *rights,
                      const struct sim_identity *who, uint64_t from,
                      uint64_t applied, uint64_t to)
{
    bool was_somebody = false, was_shown = false;
    uint64_t first = from < applied ? from : applied;
    uint32_t count;
    const struct rights *version = sim_rights_between(rights, first, to,
                                                      &count);
    for (uint32_t i = 0; i < count; i++, version++) {
        uint64_t until = i + 1 < count ? version[1].from : UINT64_MAX;
        was_somebody |= until > from && is_somebody(version, who);
        was_shown |= until > applied && is_shown(version, who);
    }
    return was_somebody && was_shown;
}

/* For a refusal in the words of the state machine, NOPERM: the right that it
 * names was lacking. */
static bool was_refused(const struct sim_rights *rights,
                        const struct sim_identity *who, struct bytes text,
                        uint64_t from, uint64_t to)
{
    char line[256] = "", user[16], word[16], name[64] = "";
    enum verb verb = VERB_ACCESS;
    memcpy(line, text.data, text.size < 255 ? text.size : 255);
    const char *at = strstr(line, "user '");
    if (strstr(line, "is disabled") != NULL ||
        strstr(line, "not authenticated") != NULL) {
        return was_void(rights, who, from, to); /* For a wait. */
    }
    if (who->way == WHO_ANYONE) {
        snprintf(user, sizeof user, "anyone");
        if (strstr(line, "only a user with the role 'admin' may") == NULL) {
            return false;
        }
    } else if (at == NULL ||
               (sscanf(at, "user '%15[^']' may not %15s '%63[^']'", user, word,
                       name) < 2 &&
                sscanf(at, "user '%15[^']' has no right '%15[^']'", user,
                       word) != 2) ||
               strcmp(user, who->user) != 0 ||
               !verb_find(bytes_of_text(word), &verb)) {
        return false;
    }
    return is_some(rights, user, verb, bytes_of_text(name),
                   verb == VERB_READ ? EXTENT_PREFIX : EXTENT_NAME, from, to,
                   false);
}

/* --- Answers ---------------------------------------------------------------
 */

static bool lacks_right(struct bytes text)
{
    return bytes_has_prefix(text, BYTES_LITERAL("NOPERM"));
}

bool sim_users_are_told(struct sim *sim, const struct sim_identity *who,
                        struct bytes text, uint64_t asked, uint64_t accepted)
{
    const struct sim_rights *rights = sim_history_rights(
        sim_check_history(sim));
    uint64_t newest = sim_check_newest(sim);
    if (bytes_has_prefix(text, BYTES_LITERAL("NOTLS"))) {
        return sim->users.plain_node != 0;
    }
    return lacks_right(text) ? was_refused(rights, who, text, asked, newest)
                             : was_void(rights, who, accepted, newest);
}

void sim_users_told(struct sim *sim, const char *name,
                    const struct sim_identity *who, struct bytes text,
                    uint64_t asked, uint64_t accepted)
{
    sim->stats.denials++;
    if (!sim_users_are_told(sim, who, text, asked, accepted)) {
        sim_fail(sim, ORACLE_SECRECY,
                 "a refusal for lack of a right is true: %s, as '%s', got "
                 "'%.*s' between entries %" PRIu64 " and "
                 "%" PRIu64,
                 name, who->user, (int)text.size, (const char *)text.data,
                 lacks_right(text) ? asked : accepted, sim_check_newest(sim));
    }
}

void sim_users_read(struct sim *sim, const char *name,
                    const struct sim_identity *who, struct bytes what,
                    enum sim_reading reading, uint64_t from, uint64_t to)
{
    if (sim_users_are_there(sim) &&
        !is_some(sim_history_rights(sim_check_history(sim)), who->user,
                 VERB_READ, what,
                 reading == READS_LOCK ? EXTENT_NAME : EXTENT_PREFIX, from, to,
                 true)) {
        sim_fail(sim, ORACLE_SECRECY,
                 "a client sees only what it can read: %s, as '%s', is shown "
                 "'%.*s'%s between entries %" PRIu64 " and %" PRIu64,
                 name, who->user, (int)what.size, (const char *)what.data,
                 reading == READS_LOCK ? "" : " and all after it", from, to);
    }
}

void sim_users_shown(struct sim *sim, const char *name,
                     const struct sim_identity *who, struct bytes user,
                     struct bytes address, uint64_t from, uint64_t to)
{
    bool is_told = address.size > 0;
    bool is_own = right_name_is(who->user, user);
    static const struct bytes none = {NULL, 0};
    if (!sim_users_are_there(sim) || (is_own && is_told)) {
        return;
    }
    if (is_own ||
        !is_some(sim_history_rights(sim_check_history(sim)), who->user,
                 VERB_SESSIONS, none, EXTENT_NAME, from, to, is_told)) {
        sim_fail(sim, ORACLE_SECRECY,
                 "a client sees only what it can read: %s, as '%s', is shown "
                 "for a session of '%.*s' the address '%.*s'",
                 name, who->user, (int)user.size, (const char *)user.data,
                 (int)address.size, (const char *)address.data);
    }
}

void sim_users_kept(struct sim *sim, const char *name,
                    const struct sim_identity *who, uint64_t from,
                    uint64_t applied)
{
    if (sim_users_are_there(sim) &&
        !was_heard(sim_history_rights(sim_check_history(sim)), who, from,
                   applied, sim_check_newest(sim))) {
        sim_fail(sim, ORACLE_RIGHTS,
                 "a client without rights is not heard: a heartbeat of %s, as "
                 "'%s', was answered OK after entry %" PRIu64,
                 name, who->user, from);
    }
}

/* A node that has applied nothing knows no users, in any life. Neither does a
 * node that has yet to apply what its log had when it started
 * (core/session/pending_access.h). */
uint64_t sim_users_has_applied(const struct sim *sim, uint32_t number)
{
    const struct sim_node *node = sim->node[number];
    struct core *core = sim_node_core(sim->node[number]);
    uint64_t applied = core != NULL ? lockfsm_applied_index(core_state(core))
                                    : 0;
    return applied > 0 && !sim_node_is_behind(node)
               ? sim_check_place(sim, node, applied)
               : 0;
}

struct identity sim_identity_shown(const struct sim_identity *who)
{
    bool is_certified = who->way == WHO_CERTIFICATE;
    return (struct identity){.way = who->way == WHO_LOCAL ? IDENTITY_LOCAL
                                    : is_certified        ? IDENTITY_CERTIFICATE
                                                          : IDENTITY_NONE,
                             .user = is_certified ? who->user : NULL,
                             .fingerprint = is_certified ? who->digest : NULL,
                             .is_private = true};
}

bool sim_users_is_proven(const struct sim *sim, uint64_t id, uint64_t other)
{
    uint64_t plain = sim->phase == SIM_CHAOS ? sim->users.plain_node : 0;
    return plain == 0 || (id != plain && other != plain);
}
