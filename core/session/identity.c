/* SPDX-License-Identifier: MIT */

/* The identity of a connection: AUTH, certificates, and the effect of changed
 * users on open connections. */

#include "core/session/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/sha.h"
#include "core/command.h"
#include "core/state.h"

#define SECRET_PREFIX "hasp1."
/* 32 random bytes in base64url, without padding. */
#define SECRET_RANDOM_SIZE 43

#define WRONG_PAIR "invalid username-password pair or user is disabled."

/* Extracts the name from "hasp1.NAME.<43 characters>"; false if the bytes are
 * not such a secret. */
static bool name_in_secret(struct bytes secret, struct bytes *ret_name)
{
    struct bytes prefix = BYTES_LITERAL(SECRET_PREFIX);
    size_t around = prefix.size + 1 + SECRET_RANDOM_SIZE;
    if (secret.size <= around || !bytes_has_prefix(secret, prefix) ||
        secret.data[secret.size - SECRET_RANDOM_SIZE - 1] != '.') {
        return false;
    }
    *ret_name = bytes_of(secret.data + prefix.size, secret.size - around);
    return user_name_is_valid(*ret_name);
}

static bool is_given(struct bytes user)
{
    return user.size > 0 && !bytes_equal(user, BYTES_LITERAL("default"));
}

/* Searches by the hash only, so that the time taken reveals nothing about
 * names. */
static const struct secret *find_secret(const struct core *core,
                                        const struct authentication *given)
{
    const struct secret *secret = lockfsm_secret(core->fsm, given->hash);
    if (pending_access_takes(core)) {
        return NULL; /* It may have been removed meanwhile. */
    }
    return secret != NULL && !secret->user->is_disabled &&
                   bytes_equal(secret->user->name, bytes_of_text(given->user))
               ? secret
               : NULL;
}

/* The id of this node's cluster, "" before it has started, and the ids from
 * before each restore: a client that knows another id tries another node. */
static void put_lives(struct core *core, struct resp_writer *writer)
{
    uint8_t id[CLUSTER_ID_SIZE];
    char text[CLUSTER_ID_TEXT_SIZE];
    uint32_t count = 0;
    lockfsm_cluster_id(core->fsm, id);
    cluster_id_format(id, text);
    resp_key_text(writer, "cluster", text);
    while (lockfsm_former_id(core->fsm, count, id)) {
        count++;
    }
    resp_key_array(writer, "former", count);
    for (uint32_t i = 0; i < count && lockfsm_former_id(core->fsm, i, id);
         i++) {
        cluster_id_format(id, text);
        resp_text(writer, text);
    }
}

void identity_say_hello(struct core *core, struct request *request, int version)
{
    struct conn *conn = request->conn;
    CHECK(version == 2 || version == 3);
    conn->version = version;
    request->version = (uint8_t)version;
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, 9);
    resp_key_text(writer, "server", "hasp");
    resp_key_text(writer, "version", core->options.version);
    resp_key_integer(writer, "proto", version);
    /* Integers of RESP are signed, and the top bit is CORE_CONN_BRIEF. */
    resp_key_number(writer, "id", conn->id & INT64_MAX);
    resp_key_text(writer, "mode",
                  core->options.redirect == REDIRECT_MOVED ? "cluster"
                                                           : "standalone");
    resp_key_text(writer, "role", takes_writes(core) ? "master" : "replica");
    resp_key_array(writer, "modules", 0);
    put_lives(core, writer);
    request_done(core, request);
}

static void identity_succeed(struct core *core, struct request *request,
                             int hello_version)
{
    if (hello_version != 0) {
        identity_say_hello(core, request, hello_version);
    } else {
        request_answer_ok(core, request);
    }
}

/* While access is open, a password that is not a secret of hasp is accepted as
 * Redis accepts it when none is configured: the default user, who is anyone,
 * has none. */
static bool is_redis_default(const struct core *core, const struct conn *conn,
                             struct bytes user, struct bytes secret)
{
    return conn->user == USER_ANYONE && !is_given(user) &&
           !lockfsm_access_is_required(core->fsm) &&
           !pending_access_requires(core) &&
           !bytes_has_prefix(secret, BYTES_LITERAL(SECRET_PREFIX));
}

static void succeed_as_default(struct core *core, struct request *request,
                               struct bytes user, int hello_version)
{
    if (user.size > 0) {
        identity_succeed(core, request, hello_version);
        return;
    }
    request_refuse(core, request, WORD_ERR,
                   "AUTH <password> called without any password configured "
                   "for the default user. Are you sure your configuration "
                   "is correct?");
}

static void identity_fail(struct core *core, struct request *request,
                          enum core_word word, const char *why)
{
    struct conn *conn = request->conn;
    uint64_t slot = request->slot;
    LOG_DEBUG("a secret was not accepted", "address=%s", conn->address);
    request_refuse(core, request, word, why);
    if (++conn->auth_failures >= AUTH_FAILURE_MAX) {
        conn_quit(core, conn, slot);
    }
}

/* True, with the reason, if the user may have no further connection to this
 * node. */
static bool is_one_too_many(const struct core *core, const struct user *user,
                            struct buffer *why)
{
    return quota_refuses(user, QUOTA_CONNECTIONS,
                         conn_count_of(core, user->number), 1, why);
}

/* Sets the connection's user. What it started before as another user ends. */
static void identity_become(struct core *core, struct conn *conn, uint64_t user,
                            uint64_t secret)
{
    /* A connection identified by a certificate or the local socket never
     * changes its user. */
    CHECK(conn->way == IDENTITY_NONE);
    if (conn->user != user) {
        watches_remove(core, conn);
        attach_remove_conn(core, conn);
        conn->may_back_up = false;
    }
    conn_set_user(core, conn, user);
    conn->secret = secret;
    conn->auth_failures = 0;
}

static void accept_secret(struct core *core, struct request *request,
                          const struct secret *secret)
{
    struct conn *conn = request->conn;
    struct bytes name = identity_name(core, conn->user);
    char why[USER_NAME_SIZE_MAX + 64];
    CHECK(!secret->user->is_disabled);
    /* A connection's user never changes to another one: its sessions and
     * watches were authorized for the first. */
    if (conn->user != USER_ANYONE && conn->user != secret->user->number) {
        snprintf(why, sizeof why,
                 "this connection is authenticated as '%.*s'; open another one",
                 (int)name.size, (const char *)name.data);
        request_refuse(core, request, WORD_ERR, why);
        return;
    }
    AUTO(buffer_done) struct buffer too_many = {0};
    if (conn->user == USER_ANYONE &&
        is_one_too_many(core, secret->user, &too_many)) {
        buffer_put_u8(&too_many, 0);
        /* The secret is right, so the denial is this user's. */
        request->user = secret->user->number;
        identity_fail(core, request, WORD_QUOTA, (const char *)too_many.data);
        return;
    }
    if (conn->way == IDENTITY_NONE) {
        identity_become(core, conn, secret->user->number, secret->number);
    }
    identity_succeed(core, request, request->authentication->hello_version);
}

/* Checks the secret again; true if the request has been answered. */
static bool look_again(struct core *core, struct request *request)
{
    const struct authentication *given = request->authentication;
    CHECK(given != NULL && request->conn != NULL);
    const struct secret *secret = find_secret(core, given);
    if (secret != NULL) {
        accept_secret(core, request, secret);
        return true;
    }
    /* A serving leader has applied everything committed, so an unknown secret
     * is a wrong one. A follower may only be late. */
    if (is_serving(core)) {
        identity_fail(core, request, WORD_WRONGPASS, WRONG_PAIR);
        return true;
    }
    if (core->now_ns < given->deadline_ns) {
        return false;
    }
    if (pending_access_takes(core)) {
        identity_fail(core, request, WORD_NOLEADER, PENDING_ACCESS_WHY);
    } else if (core->leader.id == 0) {
        identity_fail(core, request, WORD_NOLEADER,
                      "this node cannot check the secret now");
    } else {
        identity_fail(core, request, WORD_WRONGPASS, WRONG_PAIR);
    }
    return true;
}

void identity_authenticate(struct core *core, struct request *request,
                           struct bytes user, struct bytes secret,
                           int hello_version)
{
    struct conn *conn = request->conn;
    struct bytes name;
    if (is_redis_default(core, conn, user, secret)) {
        succeed_as_default(core, request, user, hello_version);
        return;
    }
    if (!conn->is_private && !core->options.takes_secrets_in_clear) {
        identity_fail(
            core, request, WORD_NOTLS,
            "this secret was sent over the network in clear: replace it, and "
            "use TLS");
        return;
    }
    if (!name_in_secret(secret, &name) ||
        (is_given(user) && !bytes_equal(user, name))) {
        identity_fail(core, request, WORD_WRONGPASS, WRONG_PAIR);
        return;
    }
    struct authentication *given = memory_new(sizeof *given);
    memcpy(given->user, name.data, name.size);
    int error = sha256(secret, given->hash);
    CHECK(error == 0);
    given->hello_version = hello_version;
    given->deadline_ns = core->now_ns + IDENTITY_WAIT_NS;
    CHECK(request->authentication == NULL);
    request->authentication = given;
    if (!look_again(core, request)) {
        /* The call's bytes are borrowed from the input, which is read
         * further. */
        request_release_call(core, request);
        request_move(core, request, REQUEST_AUTHENTICATING);
        conn_block(core, conn, request->slot);
    }
}

enum core_users core_users(const struct core *core)
{
    return !lockfsm_access_is_required(core->fsm) ? CORE_USERS_OPEN
           : core->options.believes_plain_peers   ? CORE_USERS_UNENFORCED
                                                  : CORE_USERS_ENFORCED;
}

bool core_client_is_nobody(struct core *core, uint64_t conn)
{
    const struct conn *found = conn_find(core, conn);
    return found != NULL && found->user == USER_ANYONE &&
           (lockfsm_access_is_required(core->fsm) ||
            pending_access_requires(core));
}

bool core_secret_is_somebody(struct core *core, struct bytes secret)
{
    struct authentication given = {0};
    struct bytes name;
    if (!lockfsm_access_is_required(core->fsm) &&
        !pending_access_requires(core)) {
        return true;
    }
    if (!name_in_secret(secret, &name)) {
        return false;
    }
    memcpy(given.user, name.data, name.size);
    int error = sha256(secret, given.hash);
    CHECK(error == 0);
    return find_secret(core, &given) != NULL;
}

bool core_certificate_is_revoked(const struct core *core,
                                 const uint8_t fingerprint[FINGERPRINT_SIZE])
{
    return lockfsm_revocation(core->fsm, fingerprint) != NULL ||
           pending_access_revokes(core, fingerprint);
}

/* True if the user named by the certificate is known now. */
static bool find_certified(struct core *core, struct conn *conn)
{
    if (core_certificate_is_revoked(core, conn->fingerprint)) {
        return false;
    }
    if (pending_access_takes(core)) {
        return false; /* Its user may have been removed meanwhile. */
    }
    AUTO(buffer_done) struct buffer too_many = {0};
    const struct user *user = lockfsm_user_named(
        core->fsm, bytes_of_text(conn->certified));
    if (user == NULL || user->number == 0 || user->is_disabled) {
        return false;
    }
    conn->is_surplus = is_one_too_many(core, user, &too_many);
    if (!conn->is_surplus) {
        conn_set_user(core, conn, user->number);
    }
    return true;
}

void identity_opened(struct core *core, struct conn *conn)
{
    CHECK((conn->way == IDENTITY_CERTIFICATE) == (conn->certified != NULL));
    if (conn->way == IDENTITY_CERTIFICATE && !find_certified(core, conn) &&
        !core_certificate_is_revoked(core, conn->fingerprint) &&
        !is_serving(core)) {
        conn->settling_ns = core->now_ns + IDENTITY_WAIT_NS;
        list_push_back(&core->conns.settling, &conn->in_settling);
        conn_block_update(core, conn);
    }
}

static void say_surplus(const struct core *core, const struct conn *conn,
                        char ret_why[HASP_WHY_SIZE])
{
    AUTO(buffer_done) struct buffer why = {0};
    const struct user *user = lockfsm_user_named(
        core->fsm, bytes_of_text(conn->certified));
    if (user == NULL || !is_one_too_many(core, user, &why)) {
        buffer_put_text(&why,
                        "the user had too many connections to this node when "
                        "this one was opened: open it again");
    }
    snprintf(ret_why, HASP_WHY_SIZE, "%.*s", (int)why.size,
             (const char *)why.data);
}

void identity_find_again(struct core *core, struct conn *conn)
{
    if (conn->user == USER_ANYONE && conn->certified != NULL &&
        !conn->is_surplus) {
        (void)find_certified(core, conn);
    }
}

bool identity_is_pending(const struct core *core, const struct conn *conn)
{
    bool is_certified = conn->certified != NULL;
    return conn->user == USER_ANYONE &&
           (pending_access_requires(core) ||
            (is_certified && pending_access_takes(core)));
}

bool identity_is_void(const struct core *core, const struct conn *conn,
                      char ret_why[HASP_WHY_SIZE])
{
    if (core_certificate_is_revoked(core, conn->fingerprint)) {
        snprintf(ret_why, HASP_WHY_SIZE, CORE_REVOKED);
        return true;
    }
    if (conn->is_surplus) {
        say_surplus(core, conn, ret_why);
        return true;
    }
    /* A certificate whose user is unknown does not fall back to the rights of
     * anyone. A node with an empty state does not know any user yet. */
    if (conn->user == USER_ANYONE && conn->certified != NULL &&
        lockfsm_applied_index(core->fsm) == 0) {
        snprintf(ret_why, HASP_WHY_SIZE,
                 "this node knows no users yet: add it to its cluster from "
                 "another node with: hasp member add");
        return true;
    }
    if (conn->user == USER_ANYONE && conn->certified != NULL) {
        snprintf(ret_why, HASP_WHY_SIZE,
                 "user '%s' is unknown on this node, or disabled: hasp user "
                 "add %s",
                 conn->certified, conn->certified);
        return true;
    }
    return false;
}

static void identity_settle(struct core *core, struct conn *conn)
{
    CHECK(conn->settling_ns != 0);
    list_remove(&conn->in_settling);
    conn->settling_ns = 0;
    conn_block_update(core, conn);
}

void identity_reset(struct core *core, struct conn *conn)
{
    if (conn->way == IDENTITY_NONE) {
        identity_become(core, conn, USER_ANYONE, 0);
    }
}

bool identity_is_good(const struct core *core, uint64_t user, uint64_t secret,
                      const char **ret_why)
{
    const struct user *found = lockfsm_user(core->fsm, user);
    *ret_why = NULL;
    if (found == NULL) {
        *ret_why = "the user was removed";
    } else if (user == USER_ANYONE && found->is_disabled) {
        *ret_why = "not authenticated: present a client certificate or use "
                   "AUTH";
    } else if (found->is_disabled) {
        *ret_why = "the user is disabled";
    } else if (secret != 0 && user_secret(found, secret) == NULL) {
        *ret_why = "the secret was removed";
    }
    return *ret_why == NULL;
}

static bool may_watch_all(const struct core *core, const struct conn *conn)
{
    const struct user *user = lockfsm_user(core->fsm, conn->user);
    LIST_FOR (const struct watch, watch, &conn->watches, in_conn) {
        struct bytes name;
        enum extent extent;
        if (watch_tells(watch->of.pattern->kind, watch_text(watch), &extent,
                        &name) &&
            !lockfsm_may(core->fsm, user, VERB_READ, name, extent, NULL)) {
            return false;
        }
    }
    return true;
}

/* A connection that has started nothing may still authenticate. */
static bool may_stay(const struct core *core, const struct conn *conn)
{
    const char *why;
    if (core_certificate_is_revoked(core, conn->fingerprint)) {
        return false;
    }
    if (!identity_is_good(core, conn->user, conn->secret, &why)) {
        return conn->user == USER_ANYONE && conn->session_count == 0 &&
               conn->watch_count == 0;
    }
    return !conn->has_lost_push && may_watch_all(core, conn);
}

void identity_changed(struct core *core)
{
    core->conns.changes++;
    core->port.access_changed(core->port.data);
}

static bool is_due(const struct core *core, const struct conn *conn)
{
    CHECK(conn->looked_at <= core->conns.changes);
    return conn->looked_at < core->conns.changes;
}

/* The next connection to be checked; NULL: all have been. */
static struct conn *next_due(const struct core *core)
{
    struct conn *conn = LIST_FIRST(&core->conns.due, struct conn, in_due);
    return conn != NULL && is_due(core, conn) ? conn : NULL;
}

static void note_look(struct core *core, struct conn *conn)
{
    conn->looked_at = core->conns.changes;
    list_remove(&conn->in_due);
    list_push_back(&core->conns.due, &conn->in_due);
}

bool identity_may_see_events(struct core *core, struct conn *conn)
{
    if (is_due(core, conn)) {
        if (!may_stay(core, conn)) {
            /* It will be closed even if its right comes back before: a watcher
             * that stays must not miss an event. */
            conn->has_lost_push = true;
            return false;
        }
        note_look(core, conn);
    }
    return true;
}

static void look_at_due(struct core *core, uint32_t *closes)
{
    uint64_t looks = 0;
    struct conn *conn;
    while (*closes > 0 && looks < IDENTITY_LOOKS &&
           (conn = next_due(core)) != NULL) {
        looks += 1 + (uint64_t)conn->watch_count;
        if (!conn->is_closing && !may_stay(core, conn)) {
            conn_close_quietly(core, conn, "its rights were withdrawn");
            *closes -= 1;
        }
        note_look(core, conn);
    }
    core->turn.has_left_over |= next_due(core) != NULL;
}

bool identity_is_blind(const struct core *core)
{
    uint64_t leader = core->leader.id;
    if (!lockfsm_access_is_required(core->fsm) || leader == core->options.id) {
        return false;
    }
    /* A standby continues to follow a leader that it no longer hears. */
    return leader == 0
               ? core->now_ns - core->leader.heard_ns >= IDENTITY_BLIND_NS
               : core->port.peer_silence_ms(core->port.data, leader) >=
                     IDENTITY_BLIND_NS / NS_PER_MS;
}

static void close_watchers(struct core *core, uint32_t *closes)
{
    LIST_FOR (struct conn, conn, &core->conns.by_age, in_core) {
        if (conn->is_closing || conn->watch_count == 0 ||
            conn->user == USER_LOCAL) {
            continue;
        }
        if (*closes == 0) {
            core->turn.has_left_over = true;
            return;
        }
        conn_close_quietly(core, conn, "no leader confirms its rights");
        *closes -= 1;
    }
}

void identity_turn(struct core *core)
{
    uint32_t closes = IDENTITY_CLOSES;
    look_at_due(core, &closes);
    if (core->watches.by_owner != NULL && identity_is_blind(core)) {
        close_watchers(core, &closes);
    }
    LIST_EACH_SAFE (node, &core->requests.at[REQUEST_AUTHENTICATING]) {
        (void)look_again(core, LIST_ENTRY(node, struct request, in_list));
    }
    LIST_EACH_SAFE (node, &core->conns.settling) {
        struct conn *conn = LIST_ENTRY(node, struct conn, in_settling);
        if (find_certified(core, conn) || is_serving(core) ||
            core->now_ns >= conn->settling_ns) {
            identity_settle(core, conn);
        }
    }
}

uint64_t identity_next(const struct core *core)
{
    const struct request *request = LIST_FIRST(
        &core->requests.at[REQUEST_AUTHENTICATING], struct request, in_list);
    const struct conn *conn = LIST_FIRST(&core->conns.settling, struct conn,
                                         in_settling);
    CHECK(request == NULL || request->authentication != NULL);
    uint64_t next = request != NULL ? request->authentication->deadline_ns
                                    : UINT64_MAX;
    uint64_t blind_ns = core->leader.heard_ns + IDENTITY_BLIND_NS;
    if (next_due(core) != NULL) {
        return core->now_ns;
    }
    next = conn != NULL ? u64_min(next, conn->settling_ns) : next;
    return core->watches.by_owner != NULL && core->leader.id == 0 &&
                   blind_ns > core->now_ns
               ? u64_min(next, blind_ns)
               : next;
}

struct bytes identity_name(const struct core *core, uint64_t number)
{
    const struct user *user = lockfsm_user(core->fsm, number);
    return user != NULL ? user->name : BYTES_LITERAL("?");
}
