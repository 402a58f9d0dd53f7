/* SPDX-License-Identifier: MIT */

/* tests/transcripts/<name>.txt: requests of a node's clients and the answers,
 * on a clock of its own, so that each answer is the same in every run.
 * REWRITE=1 replaces the answers.
 *
 *     # A block is commands, then "----" and the output.
 *     ann SESSION.OPEN TTL 10000
 *     wait 500
 *     bob LOCK.SHOW "a name"
 *     ----
 *     ann: {session: 4, ...}
 *     bob: -NOLOCK ...
 *
 * The first word names a connection, which is opened when it is first named and
 * speaks RESP3; "admin" uses the node's own socket. "wait MS" lets time
 * pass, "close NAME" closes a connection.
 * In a file with the line "# redis.no_ttl = durable" values need no time to
 * live.
 * The node's log lines about administration precede the answers.
 * "*511" is a word of 511 x, and "@65" stands for the words n1 to n65; more
 * than 32 x in an answer are printed as (x*511).
 * "$ann" is the session that ann opened last, "$ann.secret" its secret,
 * "$ann.token" the last number answered to ann. After each command everything
 * that the connections have received is printed: answers, and pushes with '>'.
 */

#include "tests/unit/core_world.h"

#include <ctype.h>
#include <glob.h>
#include <inttypes.h>

#include "base/log.h"
#include "lockfsm/feature.h"
#include "net/resp.h"
#include "tests/unit/vectors.h"

#define PERSON_MAX 16
#define WORD_MAX 128
#define LONG_WORD_MAX 8192
#define RUN_TOLD_MAX 32 /* Letters x printed in full. */

struct person {
    char name[16];
    char session[24];
    char secret[40];
    char token[24];
    bool is_open;
};

struct transcript {
    const char *path;
    struct world *world;
    struct person person[PERSON_MAX]; /* On connection i + 1. */
    uint64_t person_count;
    struct resp_reply reply;
    struct buffer told; /* Since the last "----". */
};

/* --- What is received ----------------------------------------------------- */

static void tell_text(struct buffer *out, struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        size_t run = 0;
        while (i + run < text.size && text.data[i + run] == 'x') {
            run++;
        }
        if (run > RUN_TOLD_MAX) {
            buffer_printf(out, "(x*%zu)", run);
            i += run - 1;
        } else if (text.data[i] < ' ' || text.data[i] >= 0x7f) {
            buffer_printf(out, "\\x%02x", text.data[i]);
        } else {
            buffer_put_u8(out, text.data[i]);
        }
    }
}

static void keep(char *to, size_t size, const struct resp_value *value)
{
    if (value->type == RESP_INTEGER) {
        snprintf(to, size, "%" PRId64, value->integer);
    } else {
        snprintf(to, size, "%.*s", (int)value->bytes.size,
                 (const char *)value->bytes.data);
    }
}

static void tell_value(struct transcript *t, struct person *person,
                       uint32_t at);

static void tell_items(struct transcript *t, struct person *person, uint32_t at,
                       bool is_map)
{
    const struct resp_value *all = t->reply.value;
    uint32_t count = all[at].count * (is_map ? 2 : 1);
    const struct resp_value *key = NULL;
    at++;
    for (uint32_t i = 0; i < count; i++, at += all[at].span) {
        bool is_value = is_map && i % 2 == 1;
        buffer_put_text(&t->told, i == 0 ? "" : is_value ? ": " : ", ");
        if (is_value && bytes_equal(key->bytes, BYTES_LITERAL("secret"))) {
            keep(person->secret, sizeof person->secret, &all[at]);
            keep(person->session, sizeof person->session, key - 1);
            buffer_put_text(&t->told, "(secret)");
        } else {
            tell_value(t, person, at);
        }
        key = &all[at];
    }
}

static void tell_value(struct transcript *t, struct person *person, uint32_t at)
{
    const struct resp_value *value = &t->reply.value[at];
    struct buffer *out = &t->told;
    bool is_text = value->type == RESP_BULK;
    switch (value->type) {
    case RESP_NULL:
        buffer_put_text(out, "nil");
        break;
    case RESP_INTEGER:
        buffer_printf(out, "%" PRId64, value->integer);
        break;
    case RESP_BOOL:
        buffer_put_text(out, value->integer != 0 ? "true" : "false");
        break;
    case RESP_MAP:
    case RESP_ARRAY:
    case RESP_PUSH:
        buffer_put_u8(out, value->type == RESP_MAP ? '{' : '[');
        tell_items(t, person, at, value->type == RESP_MAP);
        buffer_put_u8(out, value->type == RESP_MAP ? '}' : ']');
        break;
    default:
        buffer_put_text(out, is_text                     ? "\""
                             : value->type == RESP_ERROR ? "-"
                                                         : "+");
        tell_text(out, value->bytes);
        buffer_put_text(out, is_text ? "\"" : "");
    }
}

/* Everything received by all connections. */
static void tell_received(struct transcript *t)
{
    for (uint64_t conn = 1; conn <= t->person_count; conn++) {
        struct person *person = &t->person[conn - 1];
        struct world_client *client = &t->world->node[1].client[conn];
        size_t at = 0, used;
        while (at < client->output.size) {
            struct bytes rest = bytes_of(client->output.data + at,
                                         client->output.size - at);
            assert_int_equal(resp_parse_reply(rest, 1 << 20, &t->reply, &used),
                             0);
            bool is_push = t->reply.value[0].type == RESP_PUSH;
            buffer_printf(&t->told, "%s%s ", person->name, is_push ? ">" : ":");
            if (t->reply.value[0].type == RESP_INTEGER) {
                keep(person->token, sizeof person->token, t->reply.value);
            }
            tell_value(t, person, 0);
            buffer_put_u8(&t->told, '\n');
            at += used;
        }
        client_clear(t->world, 1, conn);
        if (person->is_open && client->was_closed) {
            buffer_printf(&t->told, "%s is disconnected\n", person->name);
            client_close(t->world, 1, conn);
            person->is_open = false;
        }
    }
}

/* --- Input ---------------------------------------------------------------- */

static struct person *person_named(struct transcript *t, const char *name)
{
    for (uint64_t i = 0; i < t->person_count; i++) {
        if (strcmp(t->person[i].name, name) == 0) {
            return &t->person[i];
        }
    }
    assert_true(t->person_count < PERSON_MAX);
    struct person *person = &t->person[t->person_count++];
    snprintf(person->name, sizeof person->name, "%s", name);
    return person;
}

static uint64_t conn_of(struct transcript *t, const char *name)
{
    struct person *person = person_named(t, name);
    uint64_t conn = (uint64_t)(person - t->person) + 1;
    if (!person->is_open) {
        person->is_open = true;
        if (strcmp(name, "admin") == 0) {
            static const struct identity local = {.way = IDENTITY_LOCAL,
                                                  .is_private = true};
            client_open_as(t->world, 1, conn, &local);
        } else {
            client_open(t->world, 1, conn);
        }
        client_ask(t->world, 1, conn, "HELLO 3");
        client_clear(t->world, 1, conn);
    }
    return conn;
}

/* "$ann", "$ann.secret", "$ann.token", or the word itself. */
static const char *meaning_of(struct transcript *t, const char *word)
{
    char name[64];
    if (word[0] != '$') {
        return word;
    }
    snprintf(name, sizeof name, "%s", word + 1);
    char *part = strchr(name, '.');
    if (part != NULL) {
        *part++ = '\0';
    }
    struct person *person = person_named(t, name);
    return part == NULL                  ? person->session
           : strcmp(part, "secret") == 0 ? person->secret
                                         : person->token;
}

/* "@3" as n1 n2 n3. */
static uint32_t put_names(const char *line, const char **words)
{
    static char names[WORD_MAX][16];
    uint32_t count = (uint32_t)strtoul(line + 1, NULL, 10);
    assert_true(count < WORD_MAX);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "n%u", (unsigned)i + 1);
        words[i] = names[i];
    }
    return count;
}

/* Words are separated by blanks; one in quotes may contain them. */
static uint32_t split(char *line, const char **words)
{
    uint32_t count = 0;
    while (*line != '\0') {
        char end = *line == '"' ? '"' : ' ';
        line += *line == '"';
        assert_true(count < WORD_MAX);
        if (line[0] == '@' && isdigit((unsigned char)line[1])) {
            count += put_names(line, words + count);
        } else {
            words[count++] = line;
        }
        line += strcspn(line, end == '"' ? "\"" : " ");
        if (*line != '\0') {
            *line++ = '\0';
        }
        line += strspn(line, " ");
    }
    return count;
}

static void say(struct transcript *t, uint64_t conn, const char *const *words,
                uint32_t count)
{
    static char long_word[LONG_WORD_MAX];
    struct world_client *client = &t->world->node[1].client[conn];
    memset(long_word, 'x', sizeof long_word);
    resp_request_begin(&client->waiting, count);
    for (uint32_t i = 0; i < count; i++) {
        struct bytes word = bytes_of_text(meaning_of(t, words[i]));
        if (words[i][0] == '*' && isdigit((unsigned char)words[i][1])) {
            word = bytes_of(long_word, strtoul(words[i] + 1, NULL, 10));
            assert_true(word.size <= sizeof long_word);
        }
        resp_request_argument(&client->waiting, word);
    }
    client_feed(&t->world->node[1], conn);
}

static void run_line(void *data, char *line)
{
    struct transcript *t = data;
    const char *words[WORD_MAX];
    uint32_t count = split(line, words);
    if (strcmp(words[0], "wait") == 0) {
        world_run(t->world, strtoull(words[1], NULL, 10));
    } else if (strcmp(words[0], "close") == 0) {
        uint64_t conn = conn_of(t, words[1]);
        client_close(t->world, 1, conn);
        t->person[conn - 1].is_open = false;
        world_run(t->world, 10);
    } else {
        assert_true(count > 1);
        say(t, conn_of(t, words[0]), words + 1, count - 1);
        world_run(t->world, 10);
    }
    tell_received(t);
}

static void note_log(void *data, enum log_level level, const char *event,
                     const char *fields)
{
    struct transcript *t = data;
    if (level == LOG_INFO_LEVEL && strncmp(event, "administration", 14) == 0) {
        buffer_printf(&t->told, "log: %s: ", event);
        tell_text(&t->told, bytes_of_text(fields));
        buffer_put_u8(&t->told, '\n');
    }
}

/* Builds for tests have a command that a user's build does not have
 * (lockfsm/feature.h). */
static void without_trial(struct buffer *out)
{
    static const char *const shown[] = {
        "[\"raft.trial\", -2, [+write], 1, 1, 1, [], [], [], []], ",
        "\"raft.trial\", "};
    static const char counted[] = "----\nann: "; /* By COMMAND COUNT, first. */
    uint8_t *count = memmem(out->data, out->size, counted, strlen(counted));
    if (count != NULL &&
        memmem(out->data, out->size, shown[1], strlen(shown[1])) != NULL) {
        char *digits = (char *)count + strlen(counted);
        for (char *one = digits + strspn(digits, "0123456789") - 1;
             one >= digits && --*one < '0'; one--) {
            *one = '9';
        }
    }
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        size_t size = strlen(shown[i]);
        uint8_t *found = memmem(out->data, out->size, shown[i], size);
        while (found != NULL) {
            size_t after = out->size - (size_t)(found - out->data) - size;
            memmove(found, found + size, after);
            out->size -= size;
            found = memmem(found, after, shown[i], size);
        }
    }
}

static void transcript_is_true(void **state)
{
    struct transcript t = {.path = *state, .world = world_new(1)};
    struct buffer text = {0};
    struct buffer out = {0};
    vectors_read(t.path, &text);
    buffer_put_u8(&text, 0);
    t.world->allows_no_ttl = strstr((char *)text.data,
                                    "# redis.no_ttl = durable\n") != NULL;
    t.world->node[1].feature_level = FEATURE_LEVEL_FIRST;
    world_found(t.world);
    world_elect(t.world);
    log_set_sink(note_log, &t);
    vectors_replay((char *)text.data, run_line, &t, &t.told, &out);
    log_set_sink(NULL, NULL);
    without_trial(&out);
    vectors_compare(t.path, buffer_bytes(&out));
    buffer_done(&text);
    buffer_done(&out);
    buffer_done(&t.told);
    resp_reply_done(&t.reply);
    world_free(t.world);
}

int main(void)
{
    glob_t paths;
    if (glob("tests/transcripts/*.txt", 0, NULL, &paths) != 0) {
        fprintf(stderr, "no transcripts: run from the top of the tree\n");
        return 1;
    }
    struct CMUnitTest *tests = memory_new(paths.gl_pathc * sizeof *tests);
    for (size_t i = 0; i < paths.gl_pathc; i++) {
        tests[i] = (struct CMUnitTest){.name = paths.gl_pathv[i],
                                       .test_func = transcript_is_true,
                                       .initial_state = paths.gl_pathv[i]};
    }
    int failed = _cmocka_run_group_tests("transcripts", tests, paths.gl_pathc,
                                         NULL, NULL);
    free(tests);
    globfree(&paths);
    return failed;
}
