/* SPDX-License-Identifier: MIT */

/* Requests of four clients to a node: any commands with any words, in any
 * order, while time passes and the node dies and comes back. No CHECK fails,
 * from the parsing of arguments to the applying of entries; the state and the
 * core stay sound (core_world.c checks after each turn); and each client is
 * sent whole replies and nothing else.
 *
 * The input is a row of steps. Words are mostly taken from a list, so that a
 * few bytes go far. The clients are anonymous, a user by certificate, and the
 * operator at the node's own door. */

#include "core/commands/commands.h"
#include "tests/unit/core_world.h"

#define STEP_COUNT_MAX 100
#define WORD_COUNT_MAX 12
#define CLIENT_COUNT 4
#define WORD_SIZE_MAX 9000
#define VALUE_COUNT_MAX 200000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const words[] = {
    /* Names and values. */
    "a",
    "b",
    "a/b",
    "",
    "k",
    "v",
    "lock:a",
    "lock:*",
    "*",
    "a*",
    "u",
    "r",
    "admin",
    "a=b",
    "x\r\n%=",
    "\x01hash",
    "host:1",
    "host:1,host:2",
    "unix:/a",
    "00000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    /* Numbers at their bounds. */
    "0",
    "1",
    "2",
    "3",
    "-1",
    "64",
    "65",
    "99",
    "100",
    "1000",
    "1024",
    "30000",
    "60000",
    "3600000",
    "4294967295",
    "4294967296",
    "2147483647",
    "9007199254740991",
    "9007199254740992",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "1e400",
    "nan",
    "-inf",
    "(1",
    "0x10",
    "1-3",
    "1,2,4-9",
    /* Options. */
    "TTL",
    "NONE",
    "NAME",
    "LINGER",
    "LABEL",
    "SHARED",
    "EXCLUSIVE",
    "SLOTS",
    "WAIT",
    "FOREVER",
    "OWNER",
    "VALUE",
    "BARGE",
    "DELAY",
    "HOLD",
    "REQ",
    "ACKED",
    "TOKEN",
    "SESSION",
    "PREFIX",
    "COUNT",
    "CURSOR",
    "MESSAGE",
    "REASON",
    "BY",
    "FOR",
    "CLIENT",
    "STANDBY",
    "FULL",
    "FORCE",
    "PROOF",
    "WILL",
    "PUSH",
    "AFTER",
    "PX",
    "EX",
    "NX",
    "XX",
    "IFEQ",
    "GET",
    "KEEPTTL",
    "AGAIN",
    "FRESH",
    "DURABLE",
    "PXAT",
    "EXAT",
    "WITHSCORES",
    "BYSCORE",
    "REV",
    "LIMIT",
    "LEFT",
    "RIGHT",
    "CH",
    "INCR",
    "GT",
    "LT",
    /* Requests that others send. */
    "sessions",
    "ttl_max",
    "locks",
    "read",
    "share",
    "lock",
    "fence",
    "kick",
    "cluster",
    "backup",
    "audit",
    "access",
    "blacklist",
    "SLOTS",
    "SHARDS",
    "NODES",
    "INFO",
    "LIST",
    "ID",
    "SETNAME",
    "GETNAME",
    "LOAD",
    "EXISTS",
    "FLUSH",
    "DOCS",
    "GETKEYS",
    "AUTH",
    "KILL",
    "EXEC",
    "MULTI",
    "commandstats",
    /* Scripts: the first lets the other words be any command on keys. */
    "return redis.call(unpack(ARGV))",
    "local t = {} for i = 1, 9 do t[i] = redis.pcall(unpack(ARGV)) end return "
    "t",
    "redis.call(unpack(ARGV)) redis.call('pexpire', KEYS[1], 1000) return 1",
    "redis.call('hset', KEYS[1], unpack(ARGV)) redis.call('pexpire', KEYS[1], "
    "500)",
    "redis.call('zadd', KEYS[1], 1, 'a', 2, 'b') redis.call('pexpire', "
    "KEYS[1], 900) "
    "return redis.call(unpack(ARGV))",
    "redis.call('rpush', KEYS[1], 'a', '', 'a') redis.call('pexpire', KEYS[1], "
    "900) "
    "return redis.call(unpack(ARGV))",
    "redis.call('del', KEYS[1]) redis.call('set', KEYS[1], ARGV[1], 'px', "
    "1000)",
    "redis.call('publish', KEYS[1], ARGV[1]) redis.call('incr', KEYS[1]) "
    "redis.call('pexpire', KEYS[1], ARGV[2]) return {ok = ARGV[1]}",
    "return {err = ARGV[1]}",
    "local t = redis.call('time') return redis.call('set', KEYS[1], t[1], "
    "'px', 1000)",
    "SET",
    "HSET",
    "HDEL",
    "HINCRBY",
    "HGETALL",
    "DEL",
    "RENAME",
    "PEXPIRE",
    "PERSIST",
    "LPUSH",
    "LPOP",
    "LTRIM",
    "LREM",
    "LMOVE",
    "LSET",
    "SADD",
    "SREM",
    "ZADD",
    "ZINCRBY",
    "ZINTERSTORE",
    "ZRANGE",
    "ZREMRANGEBYSCORE",
    "SETBIT",
    "GETRANGE",
    "DECRBY",
    "MSETNX",
    "GETSET",
    "TYPE",
    "PTTL",
};

#define WORD_COUNT (sizeof words / sizeof *words)
#define WORD_FREE 240 /* From here on the input has the word itself. */

_Static_assert(WORD_COUNT <= WORD_FREE, "a byte says which word");

static struct bytes take_word(struct reader *reader, uint8_t *room)
{
    uint8_t which = reader_u8(reader);
    size_t size = 0;
    if (which < WORD_COUNT) {
        return bytes_of_text(words[which]);
    }
    if (which < 248) { /* A few bytes. */
        size = which < WORD_FREE ? 1 : which - WORD_FREE + 1u;
        size = size < reader_left(reader) ? size : reader_left(reader);
        memcpy(room, reader_bytes(reader, size).data, size);
    } else { /* A long word. */
        size = (size_t)reader_u8(reader) * 35;
        memset(room, reader_u8(reader), size);
    }
    return bytes_of(room, size);
}

static void open_client(struct world *world, uint64_t conn)
{
    static const uint8_t fingerprint[FINGERPRINT_SIZE] = {1};
    struct identity identity = {.way = IDENTITY_NONE, .is_private = true};
    if (conn == 2) {
        identity.way = IDENTITY_CERTIFICATE;
        identity.user = "u";
        identity.fingerprint = fingerprint;
    } else if (conn == 3) {
        identity.way = IDENTITY_LOCAL;
    }
    client_open_as(world, 1, conn, &identity);
}

/* The output is whole replies and pushes. */
static void check_output(struct world *world, uint64_t conn)
{
    struct bytes output = buffer_bytes(&world->node[1].client[conn].output);
    struct resp_reply reply = {0};
    while (output.size > 0) {
        size_t used;
        CHECK(resp_parse_reply(output, VALUE_COUNT_MAX, &reply, &used) == 0);
        CHECK(used > 0 && used <= output.size);
        output = bytes_of(output.data + used, output.size - used);
    }
    resp_reply_done(&reply);
    client_clear(world, 1, conn);
}

static void say(struct world *world, uint64_t conn, struct reader *reader)
{
    struct world_client *client = &world->node[1].client[conn];
    uint32_t count = reader_u8(reader) % WORD_COUNT_MAX;
    uint8_t *room = memory_new(WORD_SIZE_MAX);
    const struct command *command = command_at(reader_u8(reader) %
                                               commands_count());
    resp_request_begin(&client->waiting, count + 1);
    resp_request_argument(&client->waiting, bytes_of_text(command->name));
    for (uint32_t i = 0; i < count; i++) {
        resp_request_argument(&client->waiting, take_word(reader, room));
    }
    free(room);
    client_feed(&world->node[1], conn);
}

static void restart(struct world *world)
{
    for (uint64_t conn = 0; conn < CLIENT_COUNT; conn++) {
        check_output(world, conn);
    }
    node_kill(world, 1);
    node_start(world, 1);
    /* A member that was added by force may be missing: then there is no
     * leader. */
    for (int i = 0; i < 1000 && world_leader(world) == 0; i++) {
        world_run(world, 1);
    }
    for (uint64_t conn = 0; conn < CLIENT_COUNT; conn++) {
        open_client(world, conn);
    }
}

static void take_step(struct world *world, struct reader *reader)
{
    uint8_t step = reader_u8(reader);
    uint64_t conn = step % CLIENT_COUNT;
    struct world_client *client = &world->node[1].client[conn];
    if (step < 200) {
        say(world, conn, reader);
        if (step >= 100) {
            world_run(world, 3);
        }
    } else if (step < 230) {
        world_run(world, step < 215 ? step - 199 : 20 * (step - 214));
    } else if (step < 250) {
        check_output(world, conn);
        client_close(world, 1, conn); /* Whether the core has done so or not. */
        open_client(world, conn);
    } else {
        restart(world);
    }
    if (client->was_closed) { /* As the loop does in this case. */
        client->was_closed = false;
        client_close(world, 1, conn);
        open_client(world, conn);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader reader = reader_of(bytes_of(data, size));
    struct world *world = world_new(1);
    world->allows_no_ttl = size > 0 && data[0] % 2 == 0;
    world_found(world);
    (void)world_elect(world);
    world->node[1].may_fail = true; /* It stops when asked to leave. */
    for (uint64_t conn = 0; conn < CLIENT_COUNT; conn++) {
        open_client(world, conn);
    }
    for (int i = 0; i < STEP_COUNT_MAX && reader_left(&reader) > 0 &&
                    world->node[1].fatal_code == 0;
         i++) {
        take_step(world, &reader);
    }
    world_run(world, 5);
    for (uint64_t conn = 0; conn < CLIENT_COUNT; conn++) {
        check_output(world, conn);
    }
    world_free(world);
    return 0;
}
