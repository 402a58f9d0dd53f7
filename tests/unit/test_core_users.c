/* SPDX-License-Identifier: MIT */

/* The user of a connection, and its rights: AUTH, certificates, the local door,
 * authorization before reads, and the effect of a withdrawal on connections.
 * The effects of entries are in the transcripts (tests/fsm/users*.txt). */

#include <inttypes.h>

#include "core/commands/commands.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_users.h"
#include "tests/unit/core_world.h"

static const struct identity from_afar = {.is_private = false};

static bool is_refused(const char *answer)
{
    return strncmp(answer, "-NOPERM ", 8) == 0;
}

/* --- Tests ---------------------------------------------------------------- */

static void every_command_says_what_it_needs(void **state)
{
    (void)state;
    for (uint32_t place = 0; place < commands_count(); place++) {
        const struct command *c = command_at(place);
        if (c->needs == NEEDS_MISSING) {
            fail_msg("%s does not say who may ask", c->name);
        }
        /* A request decided by its entry has one; a read has no entry. */
        if (c->needs == NEEDS_ENTRY && (c->flags & COMMAND_CHANGE) == 0) {
            fail_msg("%s is no change, so nothing decides", c->name);
        }
    }
}

/* Before AUTH only the commands that AUTH itself needs. */
static void who_is_not_known_gets_nowhere(void **state)
{
    (void)state;
    make_user("app", "lock:*");
    admin("ACCESS.SET REQUIRED");
    world_run(world, 100);
    for (uint64_t node = 1; node <= 3; node++) {
        open_again(node, APP);
        for (uint32_t place = 0; place < commands_count(); place++) {
            const struct command *c = command_at(place);
            const char *answer = client_ask(world, node, APP, "%s 1 2 3",
                                            c->name);
            bool is_no_auth = strncmp(answer, "-NOAUTH not authenti", 20) == 0;
            if (is_no_auth == (c->needs == NEEDS_NOTHING)) {
                fail_msg("%s answered %s", c->name, answer);
            }
            if (was_cut(node, APP)) {
                open_again(node, APP);
            }
        }
        open_again(node, APP);
        assert_answer(world, node, APP, "+OK\r\n", "AUTH %s",
                      secret_of("app", 'x'));
        assert_int_equal(client_ask(world, node, APP, "SESSION.OPEN")[0], '*');
        assert_int_equal(client_ask(world, node, APP, "LOCK.ACQUIRE n%d WAIT 1",
                                    (int)node)[0],
                         ':');
    }
}

/* Each with one grant alone: what it allows, and the same for a name that is
 * one byte shorter than the prefix. */
static void a_grant_allows_what_it_says(void **state)
{
    (void)state;
    static const struct {
        const char *grant, *allowed, *refused;
    } rows[] = {
        {"read:p/*", "LOCK.SHOW p/1", "LOCK.SHOW p"},
        {"read:p/*", "LOCK.CHECK p/1 7", "LOCK.CHECK p 7"},
        {"read:p/*", "LOCK.LIST PREFIX p/", "LOCK.LIST PREFIX p"},
        {"read:p", "LOCK.SHOW p", "LOCK.LIST PREFIX p"},
        {"read:p/*", "LOCK.WHY p/1", "LOCK.WHY p"},
        {"read:p/*", "LOCK.TOP PREFIX p/", "LOCK.TOP"},
        {"read:p/*", "LOCK.GRAPH PREFIX p/", "LOCK.GRAPH PREFIX p"},
        {"read:p/*", "FENCE.LIST PREFIX p/x", "FENCE.LIST"},
        {"read:p/*", "FENCE.SHOW p/1", "FENCE.SHOW p"},
        {"read:p/*", "GET p/1", "GET p"},
        {"read:p/*", "EXISTS p/1 p/2", "EXISTS p/1 p"},
        {"read:p/*", "PTTL p/1", "PTTL p"},
        {"read:p/*", "TTL p/1", "TTL p"},
        {"read:p/*", "DEL p/1", "DEL p"},
        {"read:p/*", "SUBSCRIBE lock:p/1", "SUBSCRIBE lock:p"},
        {"read:p/*", "SUBSCRIBE other", "SUBSCRIBE lock:"},
        {"read:p/*", "PSUBSCRIBE lock:p/*", "PSUBSCRIBE lock:p*"},
        {"read:p/*", "PSUBSCRIBE other*", "PSUBSCRIBE *"},
        {"share:p/*", "LOCK.ACQUIRE p/1 SHARED", "LOCK.ACQUIRE p SHARED"},
        {"share:p/*", "LOCK.ACQUIRE p/1 SHARED", "LOCK.ACQUIRE p/1"},
        {"share:p/*", "LOCK.PLEASE p/1", "LOCK.PLEASE p"},
        {"share:p/*", "LOCK.NOTE p/1 1 text", "LOCK.NOTE p 1 text"},
        {"lock:p/*", "LOCK.ACQUIRE p/1", "LOCK.ACQUIRE p"},
        {"lock:p/*", "LOCK.ACQUIRE p/1 SHARED", "LOCK.SHOW p/1"},
        {"lock:p/*", "LOCK.MACQUIRE 2 p/1 p/2", "LOCK.MACQUIRE 2 p/1 p"},
        {"lock:p/*", "LOCK.CONVERT p/1 EXCLUSIVE", "LOCK.CONVERT p EXCLUSIVE"},
        {"lock:p/*", "SET p/3 v NX PX 1000", "SET p v NX PX 1000"},
        {"lock:p/*", "PEXPIRE p/3 1000", "PEXPIRE p 1000"},
        {"fence:p/*", "FENCE.ADMIT p/1 7", "FENCE.ADMIT p 7"},
        {"kick:p/*", "FENCE.REMOVE p/1", "FENCE.REMOVE p"},
        {"kick:p/*", "LOCK.BREAK p/1 AFTER 9", "LOCK.BREAK p AFTER 9"},
        {"sessions", "BLACKLIST.LIST", "BLACKLIST.ADD CLIENT x"},
        {"blacklist", "BLACKLIST.ADD CLIENT x", "BLACKLIST.LIST"},
        {"cluster", "RAFT.SNAPSHOT", "RAFT.ADD 9 127.0.0.1:1"},
        {"cluster", "RAFT.PROMOTE 1", "LIMITS.SET locks 5"},
        {"backup", "RAFT.BACKUP", "RAFT.SNAPSHOT"},
        {"audit", "LIMITS.LIST", "USER.LIST"},
        {"audit", "RAFT.STATUS", "ROLE.SHOW admin"},
        {"audit", "INFO", "USER.SET app IF 0"},
        {"audit", "CLUSTER MYID", "ACCESS.SET OPEN"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[16];
        snprintf(name, sizeof name, "u%zu", i);
        make_user(name, rows[i].grant);
        for (uint64_t node = leader; node != 0;
             node = node == leader ? follower : 0) {
            come_as(node, APP, name);
            client_ask(world, node, APP, "SESSION.OPEN");
            const char *answer = client_ask(world, node, APP, "%s",
                                            rows[i].refused);
            if (!is_refused(answer)) {
                fail_msg("%s lets do %s: %s", rows[i].grant, rows[i].refused,
                         answer);
            }
            answer = client_ask(world, node, APP, "%s", rows[i].allowed);
            if (is_refused(answer)) {
                fail_msg("%s does not let do %s: %s", rows[i].grant,
                         rows[i].allowed, answer);
            }
            client_close(world, node, APP);
        }
    }
}

/* A user that may create roles cannot make administrators. */
static void a_role_has_no_verb_of_the_administrator(void **state)
{
    (void)state;
    const char *const grants[] = {"admin", "access", "lock,admin:a*"};
    for (size_t i = 0; i < sizeof grants / sizeof *grants; i++) {
        const char *answer = client_ask(
            world, leader, ADMIN, "ROLE.SET boss IF 0 GRANTS %s", grants[i]);
        assert_non_null(strstr(answer, "-BADARG "));
    }
}

/* The rights of anyone while access is open. */
static void anyone_does_not_administer_users(void **state)
{
    (void)state;
    open_again(follower, APP);
    assert_true(is_refused(
        client_ask(world, follower, APP, "USER.SET me IF 0 ROLES admin")));
    assert_true(is_refused(client_ask(world, follower, APP, "USER.LIST")));
    assert_true(
        is_refused(client_ask(world, follower, APP, "ACCESS.SET REQUIRED")));
    assert_true(is_refused(client_ask(world, follower, APP, "RAFT.BACKUP")));
    assert_true(
        is_refused(client_ask(world, follower, APP, "LIMITS.SET locks 50")));
    assert_answer(world, follower, APP, "+OK\r\n", "BLACKLIST.ADD CLIENT x");
    assert_answer(world, follower, APP, "+OK\r\n", "RAFT.SNAPSHOT");
}

static void a_secret_is_taken_or_not(void **state)
{
    (void)state;
    static const char wrong[] = "-WRONGPASS invalid username-password pair or "
                                "user is disabled.\r\n";
    make_user("app", "lock:*");
    open_again(leader, APP);
    assert_answer(world, leader, APP, wrong, "AUTH %s", secret_of("app", 'y'));
    assert_answer(world, leader, APP, wrong, "AUTH other %s",
                  secret_of("app", 'x'));
    assert_answer(world, leader, APP, "+OK\r\n", "AUTH app %s",
                  secret_of("app", 'x'));
    assert_non_null(
        strstr(client_ask(world, leader, APP, "WHOAMI"), "app\r\n"));
    assert_answer(world, leader, APP, "+RESET\r\n", "RESET");
    assert_string_equal(client_ask(world, leader, APP, "HELLO 3 AUTH web %s",
                                   secret_of("app", 'x')),
                        wrong);
    assert_int_equal(client_ask(world, leader, APP, "HELLO 3 AUTH app %s",
                                secret_of("app", 'x'))[0],
                     '%');
    /* Once authenticated it stays so. */
    make_user("web", "lock:*");
    assert_answer(world, leader, APP,
                  "-ERR this connection is authenticated as 'app'; open "
                  "another one\r\n",
                  "AUTH %s", secret_of("web", 'x'));
    assert_answer(world, leader, APP, "+RESET\r\n", "RESET");
    assert_answer(world, leader, APP, "+OK\r\n", "AUTH default %s",
                  secret_of("web", 'x'));
    open_as(leader, 3, &local_door);
    assert_answer(world, leader, 3,
                  "-ERR this connection is authenticated as 'local'; open "
                  "another one\r\n",
                  "AUTH %s", secret_of("web", 'x'));
    /* Three in a row are too many. */
    open_again(leader, 4);
    client_ask(world, leader, 4, "AUTH %s", secret_of("app", 'y'));
    client_ask(world, leader, 4, "HELLO 3 AUTH app %s", secret_of("app", 'y'));
    assert_false(was_cut(leader, 4));
    client_ask(world, leader, 4, "AUTH app nonsense");
    assert_true(was_cut(leader, 4));
    /* If others may listen no secret is accepted, even a correct one. */
    open_as(leader, 5, &from_afar);
    assert_string_equal(
        client_ask(world, leader, 5, "AUTH %s", secret_of("app", 'x')),
        "-NOTLS this secret was sent over the network in clear: replace it, "
        "and use TLS\r\n");
}

/* Created just now at the leader, it is known everywhere a moment later. */
static void a_follower_waits_for_what_it_does_not_know_yet(void **state)
{
    (void)state;
    static const struct identity certified = {
        .way = IDENTITY_CERTIFICATE, .user = "app", .is_private = true};
    admin("ROLE.SET all IF 0 GRANTS lock:*");
    open_again(follower, APP);
    open_as(follower, 3, &certified);
    client_send(world, follower, APP, "AUTH %s", secret_of("app", 'x'));
    client_send(world, follower, 3, "WHOAMI");
    world_run(world, 50);
    assert_string_equal(client_text(world, follower, APP), "");
    assert_string_equal(client_text(world, follower, 3), "");
    make_user("app", "lock:*");
    assert_string_equal(client_text(world, follower, APP), "+OK\r\n");
    assert_non_null(strstr(client_text(world, follower, 3), "app\r\n"));
    /* A secret that does not exist is refused, but only after a while. */
    open_again(follower, 4);
    client_send(world, follower, 4, "AUTH %s", secret_of("app", 'z'));
    world_run(world, 300);
    assert_string_equal(client_text(world, follower, 4), "");
    world_run(world, 200);
    assert_non_null(strstr(client_text(world, follower, 4), "-WRONGPASS "));
}

/* Another user's words may name locks, addresses and sessions. */
static void why_names_nothing_that_the_asker_may_not_read(void **state)
{
    (void)state;
    make_user("eye", "read:p/*");
    make_user("app", "lock:*");
    open_again(leader, APP);
    client_ask(world, leader, APP, "AUTH %s", secret_of("app", 'x'));
    client_ask(world, leader, APP, "SESSION.OPEN");
    client_ask(world, leader, APP, "LOCK.ACQUIRE p/1");
    client_session(world, leader, ADMIN, "");
    admin("LOCK.ACQUIRE q/secret");
    client_send(world, leader, APP, "LOCK.ACQUIRE q/secret WAIT 60000");
    world_run(world, 20);
    open_again(leader, 3);
    client_ask(world, leader, 3, "AUTH %s", secret_of("eye", 'x'));
    const char *text = client_ask(world, leader, 3, "LOCK.WHY p/1");
    assert_non_null(strstr(text, "it waits for a lock that you may not read"));
    assert_null(strstr(text, "secret"));
    assert_null(strstr(text, "10.0.0."));
    text = client_ask(world, leader, 3, "LOCK.GRAPH PREFIX p/");
    assert_null(strstr(text, "secret"));
    assert_non_null(
        strstr(client_ask(world, leader, ADMIN, "LOCK.WHY p/1"), "q/secret"));
}

static void a_certificate_of_nobody_is_told_so_and_closed(void **state)
{
    (void)state;
    static const struct identity certified = {
        .way = IDENTITY_CERTIFICATE, .user = "ghost", .is_private = true};
    open_as(leader, APP, &certified);
    assert_answer(world, leader, APP,
                  "-NOAUTH user 'ghost' is unknown on this node, or disabled: "
                  "hasp user add ghost\r\n",
                  "LOCK.SHOW a");
    assert_true(was_cut(leader, APP));
}

/* A client that presents it again is told; the user presents another one. */
static void a_revoked_certificate_is_told_so_and_closed_quietly(void **state)
{
    (void)state;
    static const uint8_t stolen[FINGERPRINT_SIZE] = {7},
                         renewed[] = {[FINGERPRINT_SIZE - 1] = 8};
    const struct identity old = {.way = IDENTITY_CERTIFICATE,
                                 .user = "app",
                                 .fingerprint = stolen,
                                 .is_private = true};
    struct identity new = old;
    char digits[2 * FINGERPRINT_SIZE + 1];
    new.fingerprint = renewed;
    make_user("app", "lock:* read:*");
    open_as(follower, APP, &old);
    open_as(leader, 3, &new);
    client_session(world, follower, APP, "TTL 10000 LINGER 50");
    assert_int_equal(client_ask(world, follower, APP, "LOCK.ACQUIRE a")[0],
                     ':');
    hex_put(digits, bytes_of(stolen, sizeof stolen));
    assert_answer(world, leader, ADMIN, ":1\r\n", "CERT.REVOKE %s NAME app",
                  digits);
    assert_answer(world, leader, ADMIN, ":0\r\n", "CERT.REVOKE %s", digits);
    world_run(world, 100);
    assert_true(was_cut(follower, APP));
    assert_non_null(strstr(client_ask(world, leader, 3, "LOCK.SHOW a"), "app"));
    open_as(follower, 4, &old); /* It does not wait there. */
    assert_answer(world, follower, 4, "-NOAUTH certificate was revoked\r\n",
                  "AUTH %s", secret_of("app", 'x'));
    assert_true(was_cut(follower, 4));
    assert_non_null(strstr(
        client_ask(world, leader, ADMIN, "CERT.REVOKED PREFIX 07 COUNT 1"),
        digits));
    assert_null(strstr(
        client_ask(world, leader, ADMIN, "CERT.REVOKED PREFIX 08"), digits));
    assert_true(
        is_refused(client_ask(world, leader, 3, "CERT.REVOKE %s", digits)));
    assert_true(is_refused(client_ask(world, leader, 3, "CERT.REVOKED")));
}

static void acts_are_told_to_who_may_see_them(void **state)
{
    (void)state;
    make_user("app", "lock:*");
    make_user("eve", "audit");
    come_as(follower, APP, "app");
    come_as(follower, 3, "eve");
    assert_true(is_refused(client_ask(world, follower, APP, "AUDIT.LIST")));
    /* LIFE, and for each user the role, the user, the secret. */
    assert_memory_equal(client_ask(world, follower, 3, "AUDIT.LIST"), "*7\r\n",
                        4);
    assert_memory_equal(client_ask(world, follower, 3, "AUDIT.LIST COUNT 2"),
                        "*2\r\n", 4);
    const char *answer = client_text(world, follower, 3);
    assert_non_null(strstr(answer, "USER.SET"));
    assert_non_null(strstr(answer, "name=eve roles=eve"));
    assert_non_null(strstr(answer, "SECRET.ADD"));
    assert_non_null(strstr(answer, "local"));
    assert_null(strstr(answer, "ROLE.SET"));
    int64_t last = answer_number(world, follower, 3, "index");
    assert_memory_equal(
        client_ask(world, follower, 3, "AUDIT.LIST AFTER %" PRId64, last),
        "*1\r\n", 4); /* 'last' is that of the first of the two. */
    assert_string_equal(
        client_ask(world, follower, 3, "AUDIT.LIST AFTER %" PRId64, last + 1),
        "*0\r\n");
    /* A request refused before it is an entry is not an act. */
    client_ask(world, leader, 4, "USER.REMOVE app");
    assert_string_equal(
        client_ask(world, follower, 3, "AUDIT.LIST AFTER %" PRId64, last + 1),
        "*0\r\n");
}

/* Each node counts for itself; a refused client is not counted. */
static void a_user_has_so_many_connections(void **state)
{
    (void)state;
    static const struct identity certified = {
        .way = IDENTITY_CERTIFICATE, .user = "app", .is_private = true};
    static const char refusal[] =
        "-LIMIT connections of user 'app' at this node: 2 of 2 are in use, and "
        "1 more asked for; end some, or have it raised by an administrator: "
        "hasp user set app --connections N\r\n";
    make_user("app", "lock:*");
    make_user("web", "lock:*");
    admin("USER.SET app IF %" PRId64 " CONNECTIONS 2 ROLES app",
          changed("USER", "app"));
    world_run(world, 100);
    come_as(leader, APP, "app");
    open_as(leader, 3, &certified);
    open_again(leader, 4);
    open_as(leader, 5, &certified);
    assert_answer(world, leader, 4, refusal, "AUTH %s", secret_of("app", 'x'));
    assert_answer(world, leader, 5, refusal, "LOCK.SHOW a");
    assert_true(was_cut(leader, 5));
    /* AUTH again as the same user is not counted again. */
    assert_answer(world, leader, APP, "+OK\r\n", "AUTH %s",
                  secret_of("app", 'x'));
    come_as(follower, APP, "app");
    come_as(leader, 6, "web");
    /* A connection that ends or is reset makes room. */
    assert_answer(world, leader, APP, "+RESET\r\n", "RESET");
    assert_answer(world, leader, 4, "+OK\r\n", "AUTH %s",
                  secret_of("app", 'x'));
    client_close(world, leader, 3);
    open_as(leader, 3, &certified);
    assert_non_null(strstr(client_ask(world, leader, 3, "WHOAMI"), "app\r\n"));
    open_again(leader, 3);
    assert_answer(world, leader, 3,
                  "-BADARG user.set: connections must be "
                  "from 0 to 100000000\r\n",
                  "USER.SET app IF 0 CONNECTIONS many");
}

/* At each node separately, over all connections of the user. */
static void a_user_has_so_many_watches(void **state)
{
    (void)state;
    static const char refusal[] =
        "-LIMIT watches of user 'app' at this node: 2 of 2 are in use, and 1 "
        "more asked for; end some, or have it raised by an administrator: hasp "
        "user set app --watches N\r\n";
    make_user("app", "lock,read:*");
    make_user("web", "lock,read:*");
    admin("USER.SET app IF %" PRId64 " WATCHES 2 ROLES app",
          changed("USER", "app"));
    world_run(world, 100);
    for (uint64_t conn = 3; conn < 5; conn++) {
        come_as(leader, conn, "app");
        client_ask(world, leader, conn, "HELLO 3");
    }
    assert_answer(world, leader, 3, "+OK\r\n", "LOCK.WATCH a");
    assert_answer(world, leader, 4, "+OK\r\n", "LOCK.WATCH b");
    assert_answer(world, leader, 3, refusal, "LOCK.WATCH c");
    assert_answer(world, leader, 4, refusal, "LOCK.WATCH c");
    /* The same again is not counted. */
    assert_answer(world, leader, 3, "+OK\r\n", "LOCK.WATCH a");
    come_as(leader, 6, "web");
    client_ask(world, leader, 6, "HELLO 3");
    assert_answer(world, leader, 6, "+OK\r\n", "LOCK.WATCH c");
    come_as(follower, 3, "app");
    client_ask(world, follower, 3, "HELLO 3");
    assert_answer(world, follower, 3, "+OK\r\n", "LOCK.WATCH c");
    /* One that ends makes room, also with its connection. */
    client_ask(world, leader, 3, "LOCK.UNWATCH a");
    assert_answer(world, leader, 4, "+OK\r\n", "LOCK.WATCH c");
    client_close(world, leader, 4);
    assert_answer(world, leader, 3, "+OK\r\n", "LOCK.WATCH d");
}

/* The one denial by a quota at this node; NULL. */
static const struct core_denial *denied_by_quota(uint64_t node)
{
    const struct core_denial *denial, *found = NULL;
    struct core *core = world->node[node].core;
    for (uint32_t i = 0; (denial = core_denial(core, i)) != NULL; i++) {
        if (denial->count > 0 && strncmp(denial->why, "LIMIT ", 6) == 0) {
            assert_null(found);
            found = denial;
        }
    }
    return found;
}

static void expect_denied(uint64_t node, const char *command, uint64_t count,
                          const char *why)
{
    const struct core_denial *denial = denied_by_quota(node);
    const struct core_counts *counts = core_counts(world->node[node].core);
    assert_non_null(denial);
    assert_string_equal(denial->user, "app");
    assert_string_equal(denial->command, command);
    assert_int_equal(denial->count, count);
    assert_memory_equal(denial->why, why, strlen(why));
    assert_int_equal(counts->over_quota, count);
    assert_int_equal(counts->by_word[WORD_LIMIT], count);
}

/* The node that was asked reports it, as one denial whatever the figures
 * are. */
static void a_refusal_by_a_quota_is_a_denial(void **state)
{
    (void)state;
    make_user("app", "lock,read:*");
    admin("USER.SET app IF %" PRId64 " HOLDS 2 ROLES app",
          changed("USER", "app"));
    world_run(world, 100);
    come_as(follower, APP, "app");
    client_session(world, follower, APP, "");
    client_ask(world, follower, APP, "LOCK.ACQUIRE a");
    for (int i = 0; i < 3; i++) {
        client_ask(world, follower, APP, "LOCK.MACQUIRE 3 b c d");
    }
    expect_denied(follower, "LOCK.MACQUIRE", 3,
                  "LIMIT holds of user 'app': 1 of 2 are in use, and 3 more");
    client_ask(world, follower, APP, "LOCK.ACQUIRE e");
    client_ask(world, follower, APP, "LOCK.MACQUIRE 2 b c");
    expect_denied(follower, "LOCK.MACQUIRE", 4,
                  "LIMIT holds of user 'app': 2 of 2 are in use, and 2 more");
    /* The leader, which has decided, has refused no client of its own. */
    assert_null(denied_by_quota(leader));
    assert_int_equal(core_counts(world->node[leader].core)->over_quota, 0);
}

/* The secret or the certificate proves whose quota it is. */
static void a_connection_beyond_the_quota_is_its_users_denial(void **state)
{
    (void)state;
    static const struct identity certified = {
        .way = IDENTITY_CERTIFICATE, .user = "app", .is_private = true};
    make_user("app", "lock,read:*");
    admin("USER.SET app IF %" PRId64 " CONNECTIONS 1 ROLES app",
          changed("USER", "app"));
    world_run(world, 100);
    come_as(leader, APP, "app");
    open_again(leader, 4);
    client_ask(world, leader, 4, "AUTH %s", secret_of("app", 'x'));
    expect_denied(leader, "AUTH", 1, "LIMIT connections of user 'app' at ");
    come_as(follower, APP, "app");
    open_as(follower, 5, &certified);
    client_ask(world, follower, 5, "LOCK.SHOW a");
    expect_denied(follower, "LOCK.SHOW", 1,
                  "LIMIT connections of user 'app' at ");
}

/* The refusals of a subscription are parts of one answer. A limit for all is
 * not a denial. */
static void a_watch_beyond_the_quota_is_a_denial(void **state)
{
    (void)state;
    make_user("app", "lock,read:*");
    admin("USER.SET app IF %" PRId64 " WATCHES 1 ROLES app",
          changed("USER", "app"));
    admin("LIMITS.SET locks 1");
    world_run(world, 100);
    come_as(leader, APP, "app");
    client_ask(world, leader, APP, "SUBSCRIBE lock:a lock:b lock:c");
    expect_denied(leader, "SUBSCRIBE", 2, "LIMIT watches of user 'app' at ");
    come_as(follower, APP, "app");
    client_session(world, follower, APP, "");
    assert_answer(world, follower, APP, "-LIMIT locks\r\n",
                  "LOCK.MACQUIRE 2 a b");
    assert_null(denied_by_quota(follower));
}

/* Of holders and of waiters, also in the lines for people. */
static void views_name_the_users_of_a_lock(void **state)
{
    (void)state;
    make_user("app", "lock,read:*");
    make_user("web", "lock,read:*");
    world_run(world, 100);
    come_as(leader, 3, "app");
    come_as(leader, 4, "web");
    client_session(world, leader, 3, "");
    client_session(world, leader, 4, "");
    client_ask(world, leader, 3, "LOCK.ACQUIRE a");
    client_send(world, leader, 4, "LOCK.ACQUIRE a WAIT 60000 REQ 1");
    world_run(world, 50);
    const char *text = client_ask(world, leader, 3, "LOCK.WHY a");
    assert_non_null(strstr(text, ", user 'app'"));
    assert_non_null(strstr(text, ", user 'web'"));
    text = client_ask(world, leader, 3, "LOCK.SHOW a");
    assert_non_null(strstr(text, "user\r\n$3\r\nweb\r\n"));
    text = client_ask(world, leader, 3, "LOCK.TOP");
    assert_non_null(strstr(text, "holder_user\r\n$3\r\napp\r\n"));
    assert_non_null(strstr(text, "$4\r\nuser\r\n$3\r\nweb\r\n"));
}

/* A peer without a certificate at the port of nodes could claim to ask for any
 * user. */
static void links_without_a_certificate_speak_for_no_user(void **state)
{
    (void)state;
    bool *leader_sees_plain = &world->node[leader].is_plain;
    bool *follower_sees_plain = &world->node[follower].is_plain;
    make_user("app", "lock:* read:*");
    come_as(follower, APP, "app");
    client_session(world, follower, APP, "TTL 10000 LINGER 50");
    *leader_sees_plain = *follower_sees_plain = true;
    assert_int_equal(client_ask(world, follower, APP, "LOCK.ACQUIRE open")[0],
                     ':');
    admin("ACCESS.SET REQUIRED FORCE");
    world_run(world, 100);
    assert_non_null(strstr(client_ask(world, follower, APP, "LOCK.ACQUIRE a"),
                           "-NOTLS this cluster requires"));
    /* Its frames are ignored ... */
    *follower_sees_plain = false;
    come_as(follower, 3, "app");
    char *told = memory_text(client_text(world, follower, 3));
    client_send(world, follower, 3, "SET b x NX PX 60000");
    world_run(world, 200);
    assert_string_equal(client_text(world, follower, 3), told);
    assert_null(
        lockfsm_lock(core_state(world->node[leader].core), BYTES_LITERAL("b")));
    /* ... and so is the end of its clients, which would shorten a lease. */
    client_close(world, follower, APP);
    world_run(world, 200);
    assert_int_equal(lockfsm_hold_count(core_state(world->node[leader].core)),
                     1);
    /* ... and so is an answer from it. */
    *leader_sees_plain = false;
    come_as(follower, 4, "app");
    client_send(world, follower, 4, "LOCK.SHOW open");
    *follower_sees_plain = true;
    world_run(world, 200);
    assert_string_equal(client_text(world, follower, 4), told);
    *follower_sees_plain = false;
    come_as(follower, 5, "app");
    assert_non_null(
        strstr(client_ask(world, follower, 5, "LOCK.SHOW open"), "app"));
    free(told);
}

/* Also one that knows the secret of the session. */
static void a_session_is_its_users_alone(void **state)
{
    (void)state;
    make_user("app", "lock:* read:*");
    make_user("web", "lock:* read:*");
    come_as(follower, APP, "app");
    struct credentials session = client_session(world, follower, APP,
                                                "TTL 1000");
    assert_int_equal(client_ask(world, follower, APP, "LOCK.ACQUIRE a")[0],
                     ':');
    come_as(leader, 3, "web");
    unsigned long long id = session.id;
    assert_non_null(
        strstr(client_ask(world, leader, 3, "SESSION.ATTACH %llu %s", id,
                          session.secret),
               "-NOSESSION "));
    assert_non_null(strstr(
        client_ask(world, leader, 3, "SESSION.SHOW %llu", id), "-NOSESSION "));
    assert_non_null(
        strstr(client_ask(world, leader, 3, "SESSION.LIST"), "*0\r\n"));
    assert_answer(world, leader, 3, ":0\r\n",
                  "LOCK.RELEASEIF a OWNER '' TOKEN %llu", id + 1);
    /* An unauthenticated heartbeat moves no deadline, nor does a refused
     * renewal. */
    client_ask(world, leader, 3, "LOCK.SHOW a");
    assert_null(strstr(client_text(world, leader, 3), "10.0.0."));
    assert_answer(world, leader, 3, "+OK\r\n", "SET v x NX PX 60000");
    assert_answer(world, follower, APP, "$-1\r\n", "SET v x NX PX 60000");
    assert_answer(world, follower, APP, ":0\r\n", "PEXPIRE v 3600000");
    uint64_t since = world->now_ms;
    while (world->now_ms < since + 1500) {
        assert_non_null(
            strstr(client_ask(world, leader, 3, "SESSION.KEEP %llu %s", id,
                              session.secret),
                   "-NOSESSION "));
        world_run(world, 50);
    }
    assert_null(
        lockfsm_lock(core_state(world->node[leader].core), BYTES_LITERAL("a")));
}

/* Closed by the node itself: the client has not died, so no linger begins. */
static void a_withdrawal_closes_quietly(void **state)
{
    (void)state;
    make_user("app", "lock:* read:*");
    come_as(follower, APP, "app");
    client_session(world, follower, APP, "TTL 10000 LINGER 50");
    assert_int_equal(client_ask(world, follower, APP, "LOCK.ACQUIRE a")[0],
                     ':');
    assert_int_equal(add_secret("app", 'y')[0], ':');
    admin("SECRET.REMOVE app %" PRIu64, first_secret("app"));
    world_run(world, 100);
    assert_true(was_cut(follower, APP));
    world_run(world, 500);
    assert_non_null(
        lockfsm_lock(core_state(world->node[leader].core), BYTES_LITERAL("a")));
    open_again(follower, APP);
    assert_answer(world, follower, APP, "+OK\r\n", "AUTH %s",
                  secret_of("app", 'y'));
    /* A watched name must still be readable. */
    client_ask(world, follower, APP, "HELLO 3");
    assert_answer(world, follower, APP, "+OK\r\n", "LOCK.WATCH a");
    admin("ROLE.SET app IF %llu GRANTS lock:*",
          (unsigned long long)changed("ROLE", "app"));
    world_run(world, 100);
    assert_true(was_cut(follower, APP));
    /* A user who is disabled has no connection, and no deadline moves. */
    open_again(leader, APP);
    assert_answer(world, leader, APP, "+OK\r\n", "AUTH %s",
                  secret_of("app", 'y'));
    admin("USER.SET app IF %llu DISABLED ROLES app",
          (unsigned long long)changed("USER", "app"));
    world_run(world, 100);
    assert_true(was_cut(leader, APP));
    open_again(leader, APP);
    assert_non_null(
        strstr(client_ask(world, leader, APP, "AUTH %s", secret_of("app", 'y')),
               "-WRONGPASS "));
    world_run(world, 11000);
    assert_null(
        lockfsm_lock(core_state(world->node[leader].core), BYTES_LITERAL("a")));
}

/* A user that has lost the right may ask a node that does not know it yet. */
static void a_secret_that_was_removed_is_refused_by_the_leader(void **state)
{
    (void)state;
    make_user("app", "read:*");
    come_as(follower, APP, "app");
    assert_int_equal(add_secret("app", 'y')[0], ':');
    uint64_t number = first_secret("app");
    world_run(world, 100);
    world->node[follower].is_disk_stuck = true;
    admin("SECRET.REMOVE app %" PRIu64, number);
    assert_answer(world, follower, APP, "-NOAUTH the secret was removed\r\n",
                  "LOCK.SHOW a");
    assert_false(was_cut(follower, APP));
    world->node[follower].is_disk_stuck = false;
    world_run(world, 100);
    assert_true(was_cut(follower, APP));
}

/* The node that was asked answers it; the leader has to confirm the right. */
static void a_backup_is_for_whom_the_leader_confirms(void **state)
{
    (void)state;
    make_user("saver", "backup");
    come_as(follower, APP, "saver");
    /* Only the connection that started it can read its parts. */
    assert_answer(world, follower, APP,
                  "-GONE no backup in progress on this connection: start one "
                  "with RAFT.BACKUP\r\n",
                  "RAFT.PART 1 1 0");
    assert_int_equal(client_ask(world, follower, APP, "RAFT.BACKUP")[0], '*');
    int64_t index = answer_number(world, follower, APP, "index");
    int64_t term = answer_number(world, follower, APP, "term");
    assert_true(index > 0);
    assert_int_equal(client_ask(world, follower, APP,
                                "RAFT.PART %" PRId64 " %" PRId64 " 0", index,
                                term)[0],
                     '$');
    /* The node that was asked took it, not the leader. */
    assert_true(world->node[follower].snapshot_index == (uint64_t)index);
    assert_int_equal(world->node[leader].snapshot_index, 0);
    come_as(leader, 3, "saver");
    assert_int_equal(client_ask(world, leader, 3, "RAFT.BACKUP")[0], '*');
    open_again(follower, 4);
    assert_true(is_refused(client_ask(world, follower, 4, "RAFT.BACKUP")));
    assert_true(is_refused(client_ask(world, follower, 4, "RAFT.PART 1 1 0")));
    /* A node that is cut off does not know that the right has gone. */
    world_cut(world, follower, true);
    admin("USER.SET saver IF %" PRId64, changed("USER", "saver"));
    const char *answer = client_ask(world, follower, APP, "RAFT.BACKUP");
    assert_memory_equal(answer, "-NOLEADER ", 10);
    /* By its local door its contents can still be saved. */
    client_open_as(world, follower, 5, &local_door);
    assert_int_equal(client_ask(world, follower, 5, "RAFT.BACKUP")[0], '*');
    assert_int_equal(client_ask(world, follower, 5,
                                "RAFT.PART %" PRId64 " %" PRId64 " 0",
                                answer_number(world, follower, 5, "index"),
                                answer_number(world, follower, 5, "term"))[0],
                     '$');
    world_cut(world, follower, false);
    world_run(world, 2000);
    if (!was_cut(follower, APP)) {
        assert_true(
            is_refused(client_ask(world, follower, APP, "RAFT.BACKUP")));
    }
}

static uint64_t applied_by(uint64_t node)
{
    return lockfsm_applied_index(core_state(world->node[node].core));
}

/* A lagging node would save an outdated state without anyone noticing. */
static void a_backup_has_what_the_leader_has_applied(void **state)
{
    (void)state;
    client_open_as(world, follower, 5, &local_door);
    world->node[follower].is_disk_stuck = true;
    admin("BLACKLIST.ADD CLIENT bad*");
    uint64_t newest = applied_by(leader);
    assert_true(applied_by(follower) < newest);
    client_clear(world, follower, 5);
    client_send(world, follower, 5, "RAFT.BACKUP");
    world_run(world, 200);
    assert_string_equal(client_text(world, follower, 5), "");
    world->node[follower].is_disk_stuck = false;
    world_run(world, 200);
    assert_true(answer_number(world, follower, 5, "index") >= (int64_t)newest);
    assert_int_equal(answer_number(world, follower, 5, "leader"), leader);
    /* If the leader is out of reach, the local state is used. */
    world_cut(world, follower, true);
    assert_int_equal(client_ask(world, follower, 5, "RAFT.BACKUP")[0], '*');
    assert_int_equal(answer_number(world, follower, 5, "leader"), 0);
}

/* After ten seconds watching clients are disconnected, and new ones refused. */
static void watches_end_where_no_leader_is_heard(void **state)
{
    (void)state;
    make_user("app", "read:a/*");
    come_as(follower, APP, "app");
    client_ask(world, follower, APP, "SUBSCRIBE lock:a/1");
    open_again(follower, 4);
    client_ask(world, follower, 4, "SUBSCRIBE lock:a/1");
    client_open_as(world, follower, 5, &local_door);
    client_ask(world, follower, 5, "SUBSCRIBE lock:a/1");
    /* While access is open no user can have lost rights. */
    world_cut(world, follower, true);
    world_run(world, 15000);
    assert_false(was_cut(follower, APP));
    assert_false(was_cut(follower, 4));
    world_cut(world, follower, false);
    world_run(world, 2000);
    client_close(world, follower, 4);
    admin("ACCESS.SET REQUIRED");
    world_run(world, 1000);
    world_cut(world, follower, true);
    world_run(world, 9000);
    assert_false(was_cut(follower, APP));
    world_run(world, 4000);
    assert_true(was_cut(follower, APP));
    assert_false(was_cut(follower, 5));
    come_as(follower, APP, "app");
    assert_memory_equal(client_ask(world, follower, APP, "SUBSCRIBE lock:a/1"),
                        "-NOLEADER this node has heard no leader", 39);
    world_cut(world, follower, false);
    world_run(world, 2000);
    assert_int_equal(client_ask(world, follower, APP, "SUBSCRIBE lock:a/1")[0],
                     '*');
}

/* Events applied in the same turn after the withdrawal are no longer sent. */
static void withdrawal_ends_watches_at_its_index(void **state)
{
    (void)state;
    make_user("app", "read:*");
    for (uint64_t node = 1; node <= 3; node++) {
        come_as(node, APP, "app");
        client_ask(world, node, APP, "HELLO 3");
        assert_answer(world, node, APP, "+OK\r\n", "LOCK.WATCH a");
    }
    client_open(world, leader, 5);
    assert_int_equal(client_ask(world, leader, 5, "SESSION.OPEN")[0], '*');
    unsigned long long role = (unsigned long long)changed("ROLE", "app");
    for (uint64_t node = 1; node <= 3; node++) {
        client_clear(world, node, APP);
    }
    client_send(world, leader, 5, "LOCK.ACQUIRE a1");
    client_send(world, leader, ADMIN, "ROLE.SET app IF %llu", role);
    client_send(world, leader, 5, "LOCK.ACQUIRE a2");
    world_run(world, 100);
    for (uint64_t node = 1; node <= 3; node++) {
        const char *told = client_text(world, node, APP);
        assert_non_null(strstr(told, "a1"));
        assert_null(strstr(told, "a2"));
        assert_true(was_cut(node, APP));
    }
}

static void who_may_not_list_all_is_told_what_to_ask_for(void **state)
{
    (void)state;
    make_user("app", "read:a/*");
    come_as(follower, APP, "app");
    assert_answer(world, follower, APP,
                  "-NOPERM user 'app' may not read all names: ask for a prefix "
                  "that a role has (roles: app)\r\n",
                  "LOCK.LIST");
    assert_int_equal(client_ask(world, follower, APP, "LOCK.LIST PREFIX a/")[0],
                     '*');
}

/* A script over several keys: the rights are checked before its first step. */
static void rights_for_all_keys_come_before_the_first_step(void **state)
{
    (void)state;
    make_user("app", "lock:p/*");
    come_as(leader, APP, "app");
    assert_true(
        is_refused(client_ask(world, leader, APP, "SET other v NX PX 1000")));
    assert_answer(world, leader, APP, "+OK\r\n", "SET p/1 v NX PX 60000");
    /* If withdrawn, it is not renewed; it can still be released. */
    admin("ROLE.SET app IF %llu", (unsigned long long)changed("ROLE", "app"));
    assert_true(is_refused(client_ask(world, leader, APP, "PEXPIRE p/1 1000")));
}

static void a_script_names_no_key_that_its_user_may_not_see(void **state)
{
    (void)state;
    make_user("app", "lock:p/*");
    come_as(leader, APP, "app");
    assert_answer(world, leader, APP, "+OK\r\n",
                  "EVAL return(redis.call('set',KEYS[1]..'2','v','px',9000)) "
                  "1 p/");
    assert_answer(world, leader, ADMIN, "+OK\r\n", "SET q/1 v NX PX 9000");
    static const char *const scripts[] = {
        "return(redis.call('exists','q/1'))",
        "return(redis.call('set','q/2','v','px',9000))",
        "return(redis.call('hset','q/1','f','v'))"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        const char *answer = client_ask(world, leader, APP, "EVAL %s 1 p/2",
                                        scripts[i]);
        assert_non_null(strstr(answer, "may neither lock nor read it"));
    }
    assert_answer(world, leader, ADMIN, ":1\r\n", "EXISTS q/1 q/2");
    assert_answer(world, leader, APP, ":1\r\n", "DELIFEQ p/2 v");
}

/* Whether a script leads to a change reveals what it has found. So a user
 * without the right to read a key is refused before, with the same words and
 * without an entry, whose time could be measured, whatever is there. */
static void a_refusal_tells_nothing_of_a_key(void **state)
{
    (void)state;
    static const struct {
        const char *begin, *end; /* The key is between them. */
    } asked[] = {
        {"SET", "x NX PX 1000"},
        {"SET", "x XX PX 1000"},
        {"PEXPIRE", "9000"},
        {"DELIFEQ", "v"},
        {"EVAL if(redis.call('exists',KEYS[1])==0)then"
         "(redis.call('set',KEYS[1],1,'px',9000))end 1",
         ""},
        {"EVAL "
         "if(redis.call('get',KEYS[2])=='v')then(redis.call('del',KEYS[1]))"
         "end 2 p/1",
         ""},
    };
    make_user("app", "lock:p/*");
    make_user("eye", "read:q/*");
    come_as(leader, APP, "app");
    assert_answer(world, leader, ADMIN, "+OK\r\n", "SET q/1 v NX PX 60000");
    assert_answer(world, leader, APP, "+OK\r\n", "SET p/1 v NX PX 60000");
    const struct replica *log = core_replica(world->node[leader].core);
    uint64_t last = replica_last_index(log);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        for (int key = 1; key <= 2; key++) {
            char expected[100];
            snprintf(expected, sizeof expected,
                     "-NOPERM user 'app' may not lock 'q/%d' (roles: app)\r\n",
                     key);
            assert_answer(world, leader, APP, expected, "%s q/%d %s",
                          asked[i].begin, key, asked[i].end);
        }
    }
    assert_int_equal(replica_last_index(log), last);
    assert_answer(world, leader, APP, ":1\r\n", "DELIFEQ p/1 v");
    come_as(leader, 3, "eye"); /* A user that may read learns the contents. */
    assert_answer(world, leader, 3, "$-1\r\n", "SET q/1 x NX PX 1000");
}

int main(void)
{
#define users(test) \
    cmocka_unit_test_setup_teardown(test, users_set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_says_what_it_needs),
        users(who_is_not_known_gets_nowhere),
        users(a_grant_allows_what_it_says),
        users(a_role_has_no_verb_of_the_administrator),
        users(anyone_does_not_administer_users),
        users(a_secret_is_taken_or_not),
        users(a_follower_waits_for_what_it_does_not_know_yet),
        users(why_names_nothing_that_the_asker_may_not_read),
        users(a_certificate_of_nobody_is_told_so_and_closed),
        users(links_without_a_certificate_speak_for_no_user),
        users(a_revoked_certificate_is_told_so_and_closed_quietly),
        users(acts_are_told_to_who_may_see_them),
        users(a_user_has_so_many_connections),
        users(a_user_has_so_many_watches),
        users(a_refusal_by_a_quota_is_a_denial),
        users(a_connection_beyond_the_quota_is_its_users_denial),
        users(a_watch_beyond_the_quota_is_a_denial),
        users(views_name_the_users_of_a_lock),
        users(a_session_is_its_users_alone),
        users(a_withdrawal_closes_quietly),
        users(a_secret_that_was_removed_is_refused_by_the_leader),
        users(a_backup_is_for_whom_the_leader_confirms),
        users(a_backup_has_what_the_leader_has_applied),
        users(watches_end_where_no_leader_is_heard),
        users(who_may_not_list_all_is_told_what_to_ask_for),
        users(withdrawal_ends_watches_at_its_index),
        users(rights_for_all_keys_come_before_the_first_step),
        users(a_script_names_no_key_that_its_user_may_not_see),
        users(a_refusal_tells_nothing_of_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
