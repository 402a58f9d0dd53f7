/* SPDX-License-Identifier: MIT */

#include "tests/unit/drawn_requests.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/cluster_id.h"
#include "base/digest.h"
#include "base/sha.h"
#include "core/commands/commands.h"
#include "core/core.h"
#include "core/options.h"

#define HEARD_FROM (UINT64_C(1) << 20)
#define SECRET "00000000000000000000000000000000"

struct draw {
    const struct choice *choice;
    const struct drawn_heard *heard;
    struct drawn_request *to;
    uint32_t count_at; /* The word that says how many follow; 0: none. */
};

static uint32_t below(struct draw *draw, uint32_t bound)
{
    return draw->choice->below(draw->choice->data, bound);
}

#define PICK(draw, pool) \
    (pool)[below((draw), (uint32_t)(sizeof(pool) / sizeof *(pool)))]

static char *next_room(struct draw *draw)
{
    CHECK(draw->to->count < DRAWN_WORD_COUNT_MAX);
    return draw->to->room[draw->to->count];
}

static bool is_full(const struct draw *draw)
{
    return draw->to->count >= DRAWN_WORD_COUNT_MAX - 8;
}

/* The word in next_room(). */
static void put_room(struct draw *draw, size_t size)
{
    struct drawn_request *to = draw->to;
    CHECK(size < DRAWN_WORD_SIZE_MAX);
    to->word[to->count] = bytes_of(to->room[to->count], size);
    to->count++;
}

static void put_bytes(struct draw *draw, const char *text, size_t size)
{
    memcpy(next_room(draw), text, size);
    put_room(draw, size);
}

static void put_text(struct draw *draw, const char *text)
{
    put_bytes(draw, text, strlen(text));
}

static void put_number(struct draw *draw, uint64_t number)
{
    int size = snprintf(next_room(draw), DRAWN_WORD_SIZE_MAX, "%" PRIu64,
                        number);
    put_room(draw, (size_t)size);
}

/* --- Kinds of arguments --------------------------------------------------- */

static void put_name(struct draw *draw)
{
    static const char *const names[] = {"k", "k", "k", "a", "b", "a/b", "hold"};
    put_text(draw, PICK(draw, names));
}

static void put_prefix(struct draw *draw)
{
    static const char *const prefixes[] = {"", "a", "a/", "k"};
    put_text(draw, PICK(draw, prefixes));
}

static void put_channel(struct draw *draw)
{
    static const char *const channels[] = {"lock:k", "lock:a*", "*", "x", ""};
    put_text(draw, PICK(draw, channels));
}

static void put_value(struct draw *draw)
{
    static const char *const values[] = {"v", "w", "", "1", "1000", "v\r\n-x"};
    put_text(draw, PICK(draw, values));
}

static void put_trace(struct draw *draw)
{
    static const char *const traces[] = {
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-later",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "", "x"};
    put_text(draw, PICK(draw, traces));
}

static void put_ms(struct draw *draw)
{
    static const uint64_t times[] = {1,    100,  300,   1000,
                                     2000, 5000, 60000, 3600000};
    uint64_t ms = PICK(draw, times);
    uint64_t ms_max = draw->choice->ms_max;
    put_number(draw, ms_max != 0 && ms > ms_max ? ms_max : ms);
}

static void put_s(struct draw *draw)
{
    put_number(draw, below(draw, 4));
}

static void put_n(struct draw *draw)
{
    put_number(draw, 1 + below(draw, 8));
}

static void put_m(struct draw *draw)
{
    put_number(draw, below(draw, 5));
}

/* An id or a token: usually one that was answered before. */
static void put_id(struct draw *draw)
{
    uint64_t heard = draw->heard->number[below(draw, DRAWN_HEARD_COUNT)];
    if (heard != 0 && below(draw, 8) != 0) {
        put_number(draw, heard);
    } else {
        put_number(draw, below(draw, 6));
    }
}

static void put_changed(struct draw *draw)
{
    if (below(draw, 2) != 0) {
        put_text(draw, "0");
    } else {
        put_id(draw);
    }
}

static void put_secret(struct draw *draw)
{
    put_text(draw, SECRET);
}

/* The proof of that secret, or of another. */
static void put_sha256(struct draw *draw)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t proof[PROOF_SIZE];
    char *room = next_room(draw);
    bool is_good = call_secret(BYTES_LITERAL(SECRET), proof);
    CHECK(is_good);
    proof[0] = (uint8_t)(proof[0] + (below(draw, 8) == 0));
    for (size_t i = 0; i < PROOF_SIZE; i++) {
        room[2 * i] = digits[proof[i] >> 4];
        room[2 * i + 1] = digits[proof[i] & 15];
    }
    put_room(draw, (size_t)2 * PROOF_SIZE);
}

/* A member's data directory, another one, or an impossible one. */
static void put_directory(struct draw *draw)
{
    static const char *const directories[] = {
        "0000000000012cc9", "0000000000012CCC", "00000000000000ff",
        "0000000000000000", "000000000000000g",
    };
    put_text(draw, PICK(draw, directories));
}

static void put_user(struct draw *draw)
{
    static const char *const users[] = {"u", "u", "w", "admin", "default"};
    put_text(draw, PICK(draw, users));
}

static void put_role(struct draw *draw)
{
    static const char *const roles[] = {"r", "admin", "writer"};
    put_text(draw, PICK(draw, roles));
}

static void put_verb(struct draw *draw)
{
    static const char *const verbs[] = {
        "read",      "share",   "lock",   "fence", "kick",  "sessions",
        "blacklist", "cluster", "backup", "audit", "admin", "access"};
    put_text(draw, PICK(draw, verbs));
}

static void put_grant(struct draw *draw)
{
    static const char *const grants[] = {"read:*",    "lock:a/*", "lock,read:k",
                                         "sessions",  "kick:*",   "share:k",
                                         "fence:a/b", "audit"};
    put_text(draw, PICK(draw, grants));
}

static void put_limit(struct draw *draw)
{
    put_text(draw, limit_rules[below(draw, LIMIT_COUNT)].name);
}

static void put_address(struct draw *draw)
{
    static const char *const addresses[] = {"127.0.0.1:7104,127.0.0.1:7204",
                                            "127.0.0.1:7104", "[::1]:1"};
    put_text(draw, PICK(draw, addresses));
}

static void put_endpoints(struct draw *draw)
{
    static const char *const endpoints[] = {"h:1", "h:1,h:2", "a b", "k"};
    put_text(draw, PICK(draw, endpoints));
}

static void put_cluster(struct draw *draw)
{
    static const char *const clusters[] = {
        "00000000000000000000000000000007", "00000000000000000000000000000008",
        "00000000000000000000000000000000", "7"};
    put_text(draw, PICK(draw, clusters));
}

/* A receipt of another cell, or a part of one. */
static void put_receipt(struct draw *draw)
{
    static const char prefixes[] = "akb";
    uint8_t bytes[2 * CLUSTER_ID_SIZE + 3 * 8 + 1 + 8] = {7};
    size_t size = sizeof bytes - 8;
    bytes[CLUSTER_ID_SIZE] = (uint8_t)below(draw, 3);
    bytes[2 * CLUSTER_ID_SIZE + 7] = (uint8_t)below(draw, 9);
    bytes[size - 1] = (uint8_t)prefixes[below(draw, 3)];
    store_u64_be(bytes + size, digest_short(0, bytes_of(bytes, size)));
    hex_put(next_room(draw), bytes_of(bytes, sizeof bytes));
    put_room(draw, 2 * (sizeof bytes - (below(draw, 4) == 0)));
}

static void put_cursor(struct draw *draw)
{
    static const char *const cursors[] = {"0", "", "k", "=k", "4=k"};
    put_text(draw, PICK(draw, cursors));
}

static void put_index(struct draw *draw)
{
    put_number(draw, below(draw, 3));
}

static void put_version(struct draw *draw)
{
    put_number(draw, 2 + below(draw, 2));
}

/* Subcommands of CLIENT, SCRIPT; the sections of INFO. */
static void put_subcommand(struct draw *draw)
{
    static const char *const words[] = {
        "ID",   "GETNAME", "SETNAME", "INFO",  "LIST",     "SETINFO",
        "LOAD", "EXISTS",  "FLUSH",   "stats", "NO-EVICT", "commandstats"};
    put_text(draw, PICK(draw, words));
}

/* One of hasp's own words, or a similar one: in an answer it is data. */
static void copy_word(struct draw *draw, char *out, size_t size)
{
    static const char *const odd[] = {"", " ", " x", "x", "OK", "-BUSY"};
    static const char *const rest[] = {"", " ", " x", " nothing was done"};
    uint32_t which = below(draw, CORE_WORD_END + 6);
    const char *word = which < CORE_WORD_END ? core_words[which]
                                             : odd[which - CORE_WORD_END];
    snprintf(out, size, "%s%s", word, PICK(draw, rest));
}

static void put_argument(struct draw *draw)
{
    static const char *const words[] = {"SET", "k", "PX", "HSET", "GET", "DEL"};
    if (below(draw, 2) != 0) {
        put_text(draw, PICK(draw, words));
        return;
    }
    char *room = next_room(draw);
    copy_word(draw, room, DRAWN_WORD_SIZE_MAX);
    put_room(draw, strlen(room));
}

/* A script that changes a key, or not, and then succeeds, or fails with any
 * text. */
static size_t make_script(struct draw *draw, char *out)
{
    static const char *const changes[] = {
        "",
        "redis.call('set', KEYS[1], 'v', 'PX', 5000) ",
        "redis.call('set', KEYS[1], ARGV[1], 'PX', 300) ",
        "redis.call('incr', KEYS[1]) redis.call('pexpire', KEYS[1], 300) ",
        "redis.call('hincrby', KEYS[1], 'f', 1) "
        "redis.call('pexpire', KEYS[1], 1000) ",
        "redis.call('rpush', KEYS[1], 'a') "
        "redis.call('pexpire', KEYS[1], 1000) ",
        "redis.call('del', KEYS[1]) ",
        "redis.call('publish', KEYS[1], 'm') ",
        "redis.pcall(unpack(ARGV)) ",
    };
    static const char *const results[] = {
        "return {err='%s'}",
        "return {err='%s'}",
        "return {ok='%s'}",
        "return {{err='%s'}, 1}",
        "return redis.error_reply('%s')",
        "error('%s')",
        "return '%s'",
    };
    static const char *const others[] = {"return 1", "return {err=ARGV[1]}",
                                         "return redis.call('get', KEYS[1])",
                                         "return nil", "return ARGV"};
    char word[128], result[256];
    copy_word(draw, word, sizeof word);
    const char *change = PICK(draw, changes);
    if (below(draw, 3) == 0) {
        snprintf(result, sizeof result, "%s", PICK(draw, others));
    } else {
        const char *format = PICK(draw, results);
        const char *place = strstr(format, "%s");
        snprintf(result, sizeof result, "%.*s%s%s", (int)(place - format),
                 format, word, place + 2);
    }
    return (size_t)snprintf(out, DRAWN_WORD_SIZE_MAX, "%s%s", change, result);
}

static void put_script(struct draw *draw)
{
    put_room(draw, make_script(draw, next_room(draw)));
}

static void put_sha1(struct draw *draw)
{
    char text[DRAWN_WORD_SIZE_MAX];
    size_t size = make_script(draw, text);
    sha1_text(bytes_of(text, size), next_room(draw));
    put_room(draw, SHA1_TEXT_SIZE - 1);
}

/* The number of the following words: filled in after those are drawn. */
static void put_count(struct draw *draw)
{
    draw->count_at = draw->to->count;
    put_text(draw, "0");
}

static const struct {
    const char *name;
    void (*put)(struct draw *draw);
} kinds[] = {
    {"name", put_name},
    {"key", put_name},
    {"lock", put_name},
    {"resource", put_name},
    {"prefix", put_prefix},
    {"channel", put_channel},
    {"pattern", put_channel},
    {"value", put_value},
    {"member", put_value},
    {"text", put_value},
    {"traceparent", put_trace},
    {"bytes", put_value},
    {"tag", put_value},
    {"field", put_value},
    {"message", put_value},
    {"label", put_value},
    {"ms", put_ms},
    {"s", put_s},
    {"n", put_n},
    {"m", put_m},
    {"id", put_id},
    {"token", put_id},
    {"number", put_id},
    {"changed", put_changed},
    {"secret", put_secret},
    {"password", put_secret},
    {"word", put_secret},
    {"sha256", put_sha256},
    {"hex", put_directory},
    {"user", put_user},
    {"role", put_role},
    {"verb", put_verb},
    {"grant", put_grant},
    {"limit", put_limit},
    {"setting", put_value},
    {"address", put_address},
    {"endpoints", put_endpoints},
    {"cluster", put_cluster},
    {"receipt", put_receipt},
    {"cursor", put_cursor},
    {"index", put_index},
    {"term", put_index},
    {"offset", put_index},
    {"version", put_version},
    {"section", put_subcommand},
    {"subcommand", put_subcommand},
    {"argument", put_argument},
    {"script", put_script},
    {"sha1", put_sha1},
    {"count", put_count},
    {"numkeys", put_count},
};

static bool put_kind(struct draw *draw, const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strlen(kinds[i].name) == size &&
            memcmp(kinds[i].name, name, size) == 0) {
            kinds[i].put(draw);
            return true;
        }
    }
    return false;
}

/* --- Forms ---------------------------------------------------------------- */

/* As COMMAND DOCS shows them: WORD, kind, [optional], this|that, several... */

static void put_sequence(struct draw *draw, const char *at, const char *end);

static bool is_repeated(const char *at, const char *end)
{
    return end - at >= 3 && memcmp(at, "...", 3) == 0;
}

/* The end of the alternative that begins here. */
static const char *alternative_end(const char *at, const char *end)
{
    int depth = 0;
    for (; at < end && (*at != '|' || depth > 0); at++) {
        depth += (*at == '[') - (*at == ']');
    }
    return at;
}

static const char *word_end(const char *at, const char *end)
{
    while (at < end && *at != ' ' && *at != '[') {
        at++;
    }
    return at;
}

static void put_word(struct draw *draw, const char *at, const char *end)
{
    if (is_full(draw) || at == end) {
        return;
    }
    if (isupper((unsigned char)*at)) {
        put_bytes(draw, at, (size_t)(end - at));
    } else if (!put_kind(draw, at, (size_t)(end - at))) {
        draw->to->missing = at;
    }
}

/* One of the alternatives; its end is '*ret_end'. */
static const char *choose(struct draw *draw, const char *at, const char *end,
                          const char **ret_end)
{
    uint32_t count = 1;
    for (const char *e = alternative_end(at, end); e < end;
         e = alternative_end(e + 1, end)) {
        count++;
    }
    for (uint32_t i = below(draw, count); i > 0; i--) {
        at = alternative_end(at, end) + 1;
    }
    *ret_end = alternative_end(at, end);
    return at;
}

static void put_alternatives(struct draw *draw, const char *at, const char *end)
{
    const char *first = at, *to;
    at = choose(draw, at, end, &to);
    const char *option_end = word_end(first, end);
    /* "TTL ms|NONE" is TTL NONE as well. */
    if (at != first && word_end(at, to) == to && isupper((unsigned char)*at) &&
        *option_end == ' ' && below(draw, 2) == 0) {
        put_word(draw, first, option_end);
    }
    put_sequence(draw, at, to);
}

/* A word, or one of several; returns the text after it. */
static const char *put_item(struct draw *draw, const char *at, const char *end)
{
    const char *to = word_end(at, end);
    uint32_t times = 1;
    const char *last = to;
    if (last - at > 3 && is_repeated(last - 3, last)) {
        last -= 3;
        times += below(draw, 3);
    }
    for (uint32_t i = 0; i < times; i++) {
        const char *word_to;
        const char *word = choose(draw, at, last, &word_to);
        put_word(draw, word, word_to);
    }
    return to;
}

static const char *put_optional(struct draw *draw, const char *at,
                                const char *end)
{
    int depth = 0;
    const char *to = at;
    do {
        depth += (*to == '[') - (*to == ']');
        to++;
    } while (to < end && depth > 0);
    bool has_more = is_repeated(to, end);
    uint32_t times = below(draw, has_more ? 4 : 2);
    for (uint32_t i = 0; i < times; i++) {
        put_alternatives(draw, at + 1, to - 1);
    }
    return has_more ? to + 3 : to;
}

static void put_sequence(struct draw *draw, const char *at, const char *end)
{
    while (at < end) {
        if (*at == ' ') {
            at++;
            continue;
        }
        uint32_t counted = draw->count_at, before = draw->to->count;
        at = *at == '[' ? put_optional(draw, at, end) : put_item(draw, at, end);
        if (counted != 0) {
            draw->count_at = 0;
            int size = snprintf(draw->to->room[counted], 12, "%u",
                                draw->to->count - before);
            draw->to->word[counted].size = (size_t)size;
        }
    }
}

/* --- Options -------------------------------------------------------------- */

/* The kinds of their values. */
static const struct {
    const char *word;
    const char *values;
} option_values[] = {
    {"TTL", "ms"},
    {"NAME", "text"},
    {"LINGER", "ms"},
    {"LABEL", "key value"},
    {"SHARED", ""},
    {"EXCLUSIVE", ""},
    {"SLOTS", "n"},
    {"WAIT", "ms"},
    {"OWNER", "tag"},
    {"VALUE", "text"},
    {"BARGE", ""},
    {"DELAY", "ms"},
    {"HOLD", "ms"},
    {"REQ", "n"},
    {"ACKED", "m"},
    {"TOKEN", "token"},
    {"SESSION", "id"},
    {"PREFIX", "prefix"},
    {"COUNT", "n"},
    {"CURSOR", "cursor"},
    {"MESSAGE", "text"},
    {"REASON", "text"},
    {"BY", "text"},
    {"FOR", "ms"},
    {"CLIENT", "pattern"},
    {"STANDBY", ""},
    {"FULL", ""},
    {"FORCE", ""},
    {"PROOF", "sha256"},
    {"PUSH", ""},
    {"AFTER", "ms"},
    {"TOKENS", "token..."},
    {"INCARNATION", "hex"},
    {"WILL", "sha256"},
    {"CANCEL", ""},
    {"UNCLEAN", ""},
    {"TRACE", "traceparent"},
};

static bool has_word(const struct drawn_request *request, const char *word)
{
    for (uint32_t i = 1; i < request->count; i++) {
        if (bytes_is_word(request->word[i], word)) {
            return true;
        }
    }
    return false;
}

static void put_option(struct draw *draw, const char *word)
{
    for (size_t i = 0; i < sizeof option_values / sizeof *option_values; i++) {
        if (strcmp(option_values[i].word, word) == 0) {
            const char *values = option_values[i].values;
            put_text(draw, word);
            put_sequence(draw, values, values + strlen(values));
            return;
        }
    }
    draw->to->missing = word;
}

/* Some of those that the table allows, whether the docs show them or not. */
static void put_options(struct draw *draw, const struct command *command)
{
    for (uint32_t i = 0; i < OPTION_COUNT_ALL; i++) {
        const char *word = option_word(i);
        if ((command->options >> i & 1) != 0 && below(draw, 16) == 0 &&
            !is_full(draw) && !has_word(draw->to, word)) {
            put_option(draw, word);
        }
    }
}

/* --- Requests ------------------------------------------------------------- */

void drawn_request_of(const struct choice *choice,
                      const struct drawn_heard *heard,
                      const struct command *command, struct drawn_request *ret)
{
    struct draw draw = {choice, heard, ret, 0};
    ret->count = 0;
    ret->missing = NULL;
    ret->command = command;
    put_text(&draw, command->name);
    put_sequence(&draw, command->arguments,
                 command->arguments + strlen(command->arguments));
    put_options(&draw, command);
}

/* Replaces one word, or drops the last one. */
static void spoil(struct draw *draw)
{
    static const char *const words[] = {
        "", "-1", "18446744073709551616", "9007199254740992", "NONE", "\r\n"};
    struct drawn_request *to = draw->to;
    uint32_t at = below(draw, to->count);
    if (at == 0) {
        to->count -= to->count > 1;
    } else {
        to->word[at] = bytes_of_text(PICK(draw, words));
    }
}

void drawn_request(const struct choice *choice, const struct drawn_heard *heard,
                   struct drawn_request *ret)
{
    /* A key that several clients race for. */
    static const char *const hot[] = {
        "SET",          "SET",         "EVAL",         "EVAL",
        "PERSIST",      "PEXPIRE",     "DEL",          "MULTI",
        "EXEC",         "WATCH",       "SESSION.OPEN", "SESSION.KEEP",
        "LOCK.ACQUIRE", "LOCK.RELEASE"};
    struct draw draw = {choice, heard, ret, 0};
    const struct command *command = command_at(below(&draw, commands_count()));
    if (below(&draw, 2) == 0) {
        const char *name = PICK(&draw, hot);
        for (uint32_t i = 0; i < commands_count(); i++) {
            command = strcmp(command_at(i)->name, name) == 0 ? command_at(i)
                                                             : command;
        }
    }
    drawn_request_of(choice, heard, command, ret);
    if (strcmp(command->name, "NODE.DRAIN") == 0 && !has_word(ret, "CANCEL")) {
        /* A drained node serves nobody until it is restarted, so soon no node
         * of a run would serve. */
        ret->word[0] = BYTES_LITERAL("NODE.SETTINGS");
    }
    if (below(&draw, 16) == 0) {
        spoil(&draw);
    }
}

bool drawn_is_tame(const struct drawn_request *request)
{
    const struct command *command = request->command;
    static const char *const wild[] = {
        "HELLO",      "AUTH",   "QUIT",  "RESET",      "CLIENT",
        "LOCK.WATCH", "FENCE.", "RAFT.", "LIMITS.SET", "QUARANTINE."};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        if (strncmp(command->name, wild[i], strlen(wild[i])) == 0) {
            return false;
        }
    }
    return (command->flags &
            (COMMAND_ADMIN | COMMAND_ATTACHES | COMMAND_PUBSUB)) == 0;
}

void drawn_hear(struct drawn_heard *heard, struct bytes reply)
{
    for (size_t i = 0; i + 1 < reply.size; i++) {
        uint64_t number = 0;
        if (reply.data[i] != ':') {
            continue;
        }
        for (i++; i < reply.size && isdigit(reply.data[i]); i++) {
            number = number * 10 + (uint64_t)(reply.data[i] - '0');
        }
        if (number >= HEARD_FROM && number <= INT64_MAX) {
            heard->number[heard->next++ % DRAWN_HEARD_COUNT] = number;
        }
    }
}
