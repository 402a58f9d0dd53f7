/* SPDX-License-Identifier: MIT */

/* HTTP at a core, without sockets.
 *
 * tests/transcripts/http/<name>.txt: requests and the exact answers, with
 * status and headers. REWRITE=1 replaces the answers.
 *
 *     # A block is requests, then "----" and the answers.
 *     ann POST /v1/session/open {"ttl_ms":10000}
 *     bob GET /v1/locks/a +Origin:http://x
 *     wait 500
 *     ----
 *     ann: 200 {"id":3,...}
 *
 * The first word names a client, which has one request at a time. "$ann" in a
 * target or a body is the session that ann opened last, "$ann.token" the
 * token of its last answer. A client with a session presents it. A word with a
 * '+' is a header, the rest of the line the body. "close NAME" ends a request,
 * "resp WORDS" is a command at the node's own socket, "wait MS" lets time pass.
 *
 * The bounds of all fields of all routes are tested by the table of routes. */

#include <glob.h>
#include <inttypes.h>

#include "base/base64.h"
#include "base/units.h"
#include "http/exchange.h"
#include "http/fleetlock.h"
#include "net/json.h"
#include "tests/unit/core_fixture.h"
#include "tests/unit/core_world.h"
#include "tests/unit/gateway_world.h"
#include "tests/unit/vectors.h"

#define CLIENT_MAX 8
#define HEADER_MAX 6
#define TEXT_SIZE 8192

/* --- In place of net/http.c ----------------------------------------------- */

struct http_exchange {
    char method[8];
    char target[TEXT_SIZE];
    char body[TEXT_SIZE];
    struct http_header header[HEADER_MAX];
    void *owner;
    bool is_used;
    bool is_stream;
    bool has_ended;  /* A stream that the gateway has ended. */
    unsigned status; /* 0: not answered. */
    struct buffer answer;
    struct buffer stream;
};

const char *http_method(const struct http_exchange *exchange)
{
    return exchange->method;
}

const char *http_target(const struct http_exchange *exchange)
{
    return exchange->target;
}

struct bytes http_body(const struct http_exchange *exchange)
{
    return bytes_of_text(exchange->body);
}

const char *http_address(const struct http_exchange *exchange)
{
    const char *address = http_header(exchange, "Test-Address");
    return address != NULL ? address : "127.0.0.1:1";
}

const struct tls_identity *http_identity(const struct http_exchange *exchange)
{
    (void)exchange;
    return NULL;
}

const char *http_header(const struct http_exchange *exchange, const char *name)
{
    for (int i = 0; i < HEADER_MAX && exchange->header[i].name != NULL; i++) {
        if (strcasecmp(exchange->header[i].name, name) == 0) {
            return exchange->header[i].value;
        }
    }
    if (strcmp(name, "Content-Type") == 0) {
        return "application/json";
    }
    return strcmp(name, "Host") == 0 ? "127.0.0.1:1" : NULL;
}

void http_set_owner(struct http_exchange *exchange, void *owner)
{
    exchange->owner = owner;
}

void *http_owner(const struct http_exchange *exchange)
{
    return exchange->owner;
}

static void put_headers(const struct http_reply *reply, struct buffer *out)
{
    for (int i = 0; reply->header[i].name != NULL; i++) {
        buffer_printf(out, "[%s: %s] ", reply->header[i].name,
                      reply->header[i].value);
    }
}

void http_answer(struct http_exchange *exchange, struct http_reply *reply)
{
    CHECK(exchange->status == 0);
    exchange->status = reply->status;
    put_headers(reply, &exchange->answer);
    buffer_put_bytes(&exchange->answer, buffer_bytes(&reply->body));
    if (reply->constant.size > 0) {
        buffer_printf(&exchange->answer, "(%s)", reply->content_type);
    }
    buffer_done(&reply->body);
}

void http_stream(struct http_exchange *exchange, struct http_reply *reply)
{
    CHECK(exchange->status == 0);
    exchange->is_stream = true;
    exchange->status = reply->status;
    put_headers(reply, &exchange->answer);
    buffer_printf(&exchange->answer, "(%s)", reply->content_type);
}

struct buffer *http_stream_output(struct http_exchange *exchange)
{
    return &exchange->stream;
}

void http_stream_more(struct http_exchange *exchange)
{
    (void)exchange;
}

size_t http_stream_unsent(const struct http_exchange *exchange)
{
    return exchange->stream.size;
}

void http_stream_end(struct http_exchange *exchange)
{
    exchange->has_ended = true;
}

/* --- A node with the gateway ---------------------------------------------- */

static void port_monitor(void *data, const char *path, struct http_reply *reply)
{
    (void)data;
    buffer_printf(&reply->body, "(the node's %s)", path);
}

static void open_gateway(void)
{
    static const struct identity local = {.way = IDENTITY_LOCAL,
                                          .is_private = true};
    struct gateway_port port = gateway_world_new();
    client_open_as(world, 1, 1, &local);
    port.monitor = port_monitor;
    gateway_open(&gateway, &port, "locks.example", true);
    gateway.fleetlock = "default:2 db:1";
}

static void run_ms(uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        gateway_world_run_ms(1);
        gateway_tick(&gateway, node_now(&world->node[1]));
    }
}

static void forget(struct http_exchange *exchange)
{
    if (exchange->owner != NULL) {
        gateway_end(&gateway, exchange);
    }
    for (int i = 0; i < HEADER_MAX; i++) {
        free((void *)(uintptr_t)exchange->header[i].name);
    }
    buffer_done(&exchange->answer);
    buffer_done(&exchange->stream);
    *exchange = (struct http_exchange){0};
}

/* --- Transcripts ---------------------------------------------------------- */

struct person {
    char name[16];
    char session[24];
    char secret[40];
    char token[24];
    struct http_exchange exchange;
};

static struct person person[CLIENT_MAX];
static struct buffer told; /* Since the last "----". */

static struct person *person_named(const char *name)
{
    for (uint32_t i = 0; i < CLIENT_MAX; i++) {
        if (person[i].name[0] == '\0') {
            snprintf(person[i].name, sizeof person[i].name, "%s", name);
        }
        if (strcmp(person[i].name, name) == 0) {
            return &person[i];
        }
    }
    fail_msg("more than %d clients", CLIENT_MAX);
    return NULL;
}

/* Copies the word after 'mark', up to a comma, a brace or a quote. */
static void keep(const char *text, const char *mark, char *out, size_t size)
{
    const char *at = strstr(text, mark);
    if (at != NULL) {
        at += strlen(mark);
        snprintf(out, size, "%.*s", (int)strcspn(at, ",}\""), at);
    }
}

/* Keeps what later requests can name, and hides the secret. */
static void learn(struct person *who, char *text)
{
    keep(text, "\"token\":", who->token, sizeof who->token);
    char *secret = strstr(text, "\"secret\":\"");
    if (secret != NULL) {
        keep(text, "\"id\":", who->session, sizeof who->session);
        keep(text, "\"secret\":\"", who->secret, sizeof who->secret);
        memset(secret + strlen("\"secret\":\""), '-', strlen(who->secret));
    }
}

static void tell_person(struct person *who)
{
    struct http_exchange *exchange = &who->exchange;
    if (exchange->status != 0 && exchange->is_used) {
        exchange->is_used = false;
        buffer_put_u8(&exchange->answer, '\0');
        char *text = (char *)exchange->answer.data;
        learn(who, text);
        text[strcspn(text, "\n")] = '\0';
        buffer_printf(&told, "%s: %u %s\n", who->name, exchange->status, text);
    }
    buffer_put_u8(&exchange->stream, '\0');
    char *rest = (char *)exchange->stream.data;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (line[0] != '\0') {
            buffer_printf(&told, "%s> %s\n", who->name, line);
        }
    }
    buffer_clear(&exchange->stream);
    if (exchange->has_ended) {
        buffer_printf(&told, "%s> (ended)\n", who->name);
        exchange->has_ended = false;
    }
}

static void tell_all(void)
{
    for (uint32_t i = 0; i < CLIENT_MAX && person[i].name[0] != '\0'; i++) {
        tell_person(&person[i]);
    }
}

/* Replaces "$ann" and "$ann.token". */
static void put_meaning(const char *text, char out[TEXT_SIZE])
{
    size_t size = 0;
    while (*text != '\0') {
        char name[16] = "";
        size_t letters = strspn(text + 1, "abcdefghijklmnopqrstuvwxyz");
        const char *value = NULL;
        if (*text == '$' && letters > 0 && letters < sizeof name) {
            memcpy(name, text + 1, letters);
            name[letters] = '\0';
            text += 1 + letters;
            bool is_token = strncmp(text, ".token", 6) == 0;
            value = is_token ? person_named(name)->token
                             : person_named(name)->session;
            text += is_token ? 6 : 0;
        }
        size += value != NULL ? (size_t)snprintf(out + size, TEXT_SIZE - size,
                                                 "%s", value)
                              : 1;
        assert_true(size < TEXT_SIZE);
        if (value == NULL) {
            out[size - 1] = *text++;
        }
    }
    out[size] = '\0';
}

static void add_header(struct http_exchange *exchange, const char *word)
{
    int at = 0;
    while (exchange->header[at].name != NULL) {
        at++;
        assert_true(at < HEADER_MAX - 1);
    }
    char *name = memory_text(word);
    char *value = strchr(name, ':');
    assert_non_null(value);
    *value++ = '\0';
    for (char *blank; (blank = strchr(value, '~')) != NULL;) {
        *blank = ' ';
    }
    exchange->header[at] = (struct http_header){name, value};
}

static void start_request(struct person *who, char *line)
{
    struct http_exchange *exchange = &who->exchange;
    char text[128];
    forget(exchange);
    exchange->is_used = true;
    snprintf(exchange->method, sizeof exchange->method, "%s",
             strsep(&line, " "));
    put_meaning(strsep(&line, " "), exchange->target);
    while (line != NULL && line[0] == '+') {
        add_header(exchange, strsep(&line, " ") + 1);
    }
    put_meaning(line != NULL ? line : "", exchange->body);
    if (who->session[0] != '\0' &&
        http_header(exchange, "Hasp-Session") == NULL) {
        snprintf(text, sizeof text, "Hasp-Session:%s:%s", who->session,
                 who->secret);
        add_header(exchange, text);
    }
    /* As net/http.c does before it receives a large body. */
    if (strcmp(exchange->method, "HEAD") != 0 && exchange->body[0] != '\0' &&
        http_header(exchange, "Expect") != NULL &&
        gateway_head(&gateway, exchange) < strlen(exchange->body)) {
        if (exchange->status == 0) {
            buffer_printf(&told, "%s: the body is too large\n", who->name);
        }
        return;
    }
    gateway_request(&gateway, exchange);
}

static void run_line(void *data, char *line)
{
    (void)data;
    char *rest = line;
    const char *first = strsep(&rest, " ");
    if (strcmp(first, "wait") == 0) {
        run_ms(strtoull(rest, NULL, 10));
    } else if (strcmp(first, "close") == 0) {
        forget(&person_named(rest)->exchange);
        run_ms(10);
    } else if (strcmp(first, "resp") == 0) {
        buffer_printf(&told, "resp: %s", client_ask(world, 1, 1, "%s", rest));
        told.size -= told.data[told.size - 2] == '\r' ? 2 : 0;
        buffer_put_u8(&told, '\n');
    } else {
        start_request(person_named(first), rest);
        run_ms(20);
    }
    tell_all();
}

static void answers_are_those_of_the_transcript(void **state)
{
    AUTO(buffer_done) struct buffer text = {0};
    AUTO(buffer_done) struct buffer out = {0};
    const char *path = *state;
    open_gateway();
    vectors_read(path, &text);
    buffer_put_u8(&text, '\0');
    vectors_replay((char *)text.data, run_line, NULL, &told, &out);
    for (uint32_t i = 0; i < CLIENT_MAX; i++) {
        forget(&person[i].exchange);
        person[i] = (struct person){0};
    }
    gateway_done(&gateway);
    world_free(world);
    buffer_done(&told);
    vectors_compare(path, buffer_bytes(&out));
}

/* --- The bounds of all fields --------------------------------------------- */

/* One value of one field; each other required field has a valid one. */
struct trial {
    const struct route *route;
    const struct field *field; /* NULL: none is special. */
    const char *json;          /* Its value in a body ... */
    const char *plain;         /* ... in a query or a path. */
    const char *suffix;        /* Appended to the field's name. */
    bool is_left_out;
    bool is_twice;
    bool is_unknown; /* A field that no route has is given, too. */
};

/* A text of 'count' x. */
static const char *xs(size_t count)
{
    static char text[TEXT_SIZE];
    if (text[0] == '\0') {
        memset(text, 'x', sizeof text - 1);
    }
    assert_true(count < sizeof text);
    return text + sizeof text - 1 - count;
}

static bool is_parameter(const struct route *route, const struct field *field)
{
    size_t size = 0;
    const char *name = route_parameter(route, &size);
    return name != NULL && strlen(field->name) == size &&
           memcmp(name, field->name, size) == 0;
}

static void put_valid(const struct field *field, bool is_json,
                      struct buffer *out)
{
    uint64_t min = 0, max;
    const char *mark = is_json ? "\"" : "";
    if (field->kind == FIELD_NUMBER || field->kind == FIELD_TEXT) {
        field_range(field, &min, &max);
    }
    switch (field->kind) {
    case FIELD_NUMBER:
        buffer_printf(out, "%" PRIu64, min);
        return;
    case FIELD_FLAG:
        buffer_put_text(out, "true");
        return;
    case FIELD_CHOICE:
        buffer_put_text(out, "\"shared\"");
        return;
    case FIELD_TEXTS:
        buffer_put_text(out, "[\"x\"]");
        return;
    case FIELD_NUMBERS:
        buffer_put_text(out, "[1]");
        return;
    case FIELD_PAIRS:
        buffer_put_text(out, "{\"1\":\"x\"}");
        return;
    case FIELD_ACKED:
        buffer_put_text(out, "1");
        return;
    default:
        buffer_printf(out, "%s%s%s", mark, xs(min > 0 ? min : 1), mark);
    }
}

static void put_field(const struct trial *trial, const struct field *field,
                      bool is_json, const char *between, struct buffer *out)
{
    bool is_special = field == trial->field;
    const char *value = is_json ? trial->json : trial->plain;
    const char *suffix = is_special && trial->suffix != NULL ? trial->suffix
                                                             : "";
    buffer_printf(out, is_json ? "%s\"%s%s\":" : "%s%s%s=", between,
                  field->name, suffix);
    if (is_special && value != NULL) {
        buffer_put_text(out, value);
    } else {
        put_valid(field, is_json, out);
    }
}

/* Puts the fields that the trial needs as a query or as a body. */
static void put_fields(const struct trial *trial, bool is_json,
                       struct buffer *out)
{
    uint32_t count = 0;
    const char *mark = is_json ? "," : "&";
    buffer_put_text(out, is_json ? "{" : "");
    for (const struct field *f = trial->route->fields; f->kind != FIELD_END;
         f++) {
        bool is_special = f == trial->field;
        /* The one option that needs another. */
        bool is_needed = (f->flags & FIELD_REQUIRED) != 0 ||
                         (strcmp(f->name, "req") == 0 && trial->field != NULL &&
                          strcmp(trial->field->name, "wait_ms") == 0);
        if ((is_special ? trial->is_left_out : !is_needed) ||
            (is_parameter(trial->route, f) &&
             !(is_special && trial->is_twice))) {
            continue;
        }
        put_field(trial, f, is_json, count++ > 0 ? mark : "", out);
        if (is_special && trial->is_twice && !is_parameter(trial->route, f)) {
            put_field(trial, f, is_json, mark, out);
        }
    }
    if (trial->is_unknown) {
        buffer_printf(out, is_json ? "%s\"nothing\":1" : "%snothing=1",
                      count > 0 ? mark : "");
    }
    buffer_put_text(out, is_json ? "}" : "");
}

/* Reads the fields: true if they are accepted. */
static bool is_accepted(const struct trial *trial, struct problem *ret_problem)
{
    AUTO(buffer_done) struct buffer path = {0};
    AUTO(buffer_done) struct buffer text = {0};
    struct fields fields = {0};
    struct match match;
    bool is_json = !route_has_query(trial->route);
    size_t fixed = strcspn(trial->route->path, "{");
    buffer_put(&path, trial->route->path, fixed);
    for (const struct field *f = trial->route->fields; f->kind != FIELD_END;
         f++) {
        if (is_parameter(trial->route, f) && f == trial->field &&
            trial->plain != NULL && !trial->is_twice) {
            buffer_put_text(&path, trial->plain);
        } else if (is_parameter(trial->route, f)) {
            put_valid(f, false, &path);
        }
    }
    routes_find(trial->route->method, buffer_bytes(&path), &match);
    assert_ptr_equal(match.route, trial->route);
    put_fields(trial, is_json, &text);
    struct bytes none = bytes_of("", 0);
    int error = fields_read(&fields, &match,
                            is_json ? none : buffer_bytes(&text),
                            is_json ? buffer_bytes(&text) : none, ret_problem);
    fields_done(&fields);
    return error == 0;
}

static void assert_outcome(const struct trial *trial, bool is_expected,
                           const char *what)
{
    struct problem problem = {0};
    if (is_accepted(trial, &problem) != is_expected) {
        fail_msg("%s %s: %s %s: %s (%s)", trial->route->method,
                 trial->route->path,
                 trial->field != NULL ? trial->field->name : "(no field)", what,
                 is_expected ? "refused" : "accepted", problem.detail);
    }
    if (!is_expected) {
        assert_int_equal(problem.status, 400);
        assert_string_equal(problem.code, "BADARG");
    }
}

/* A value that is the same in JSON, a query and a path. */
static void assert_value(struct trial trial, const char *value,
                         bool is_expected)
{
    trial.json = trial.plain = value;
    assert_outcome(&trial, is_expected, value);
}

static void assert_number(struct trial trial, uint64_t number, bool is_expected)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    assert_value(trial, text, is_expected);
}

static void numbers_have_bounds(const struct trial *trial)
{
    uint64_t min, max;
    field_range(trial->field, &min, &max);
    assert_true(min <= max);
    assert_number(*trial, min, true);
    assert_number(*trial, max, true);
    if (min > 0) {
        assert_number(*trial, min - 1, false);
    }
    if (max < INT64_MAX) {
        assert_number(*trial, max + 1, false);
    }
    static const char *const wrong[] = {
        "-1",   "1.5", "1e1",    "true", "[1]",
        "\"\"", "{}",  "\"1x\"", "null", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_value(*trial, wrong[i], false);
    }
}

/* A text of 'size' bytes, and the same in base64. */
static void assert_text(struct trial trial, size_t size, bool is_expected)
{
    AUTO(buffer_done) struct buffer digits = {0};
    AUTO(buffer_done) struct buffer quoted = {0};
    AUTO(buffer_done) struct buffer coded = {0};
    char what[48];
    snprintf(what, sizeof what, "a text of %zu bytes", size);
    buffer_printf(&quoted, "\"%s\"%c", xs(size), 0);
    trial.json = (const char *)quoted.data;
    trial.plain = xs(size);
    if (size > 0 || !is_parameter(trial.route, trial.field)) {
        assert_outcome(&trial, is_expected, what);
    }
    if (is_parameter(trial.route, trial.field)) {
        return;
    }
    base64_put(&digits, bytes_of_text(xs(size)));
    buffer_put_u8(&digits, '\0');
    buffer_printf(&coded, "\"%s\"%c", (const char *)digits.data, 0);
    trial.json = (const char *)coded.data;
    /* '+' would be a blank there; x's have none. */
    trial.plain = (const char *)digits.data;
    trial.suffix = "_b64";
    assert_outcome(&trial, is_expected, what);
}

static void texts_have_bounds(const struct trial *trial)
{
    uint64_t min, max;
    field_range(trial->field, &min, &max);
    assert_true(min <= max);
    assert_text(*trial, min, true);
    if (min > 0) {
        assert_text(*trial, min - 1, false);
    }
    if (max < 5000) {
        assert_text(*trial, max, true);
        assert_text(*trial, max + 1, false);
    }
    struct trial odd = *trial;
    if (!route_has_query(trial->route) &&
        !is_parameter(trial->route, trial->field)) {
        assert_value(odd, "1", false);
        assert_value(odd, "null", false);
        odd.suffix = "_b64";
        assert_value(odd, "\"%%%%\"", false);
    }
}

static void lists_have_bounds(const struct trial *trial)
{
    AUTO(buffer_done) struct buffer list = {0};
    const struct field *field = trial->field;
    buffer_put_u8(&list, '[');
    for (uint64_t i = 0; i < field->max; i++) {
        buffer_put_text(&list, i > 0 ? ",\"x\"" : "\"x\"");
    }
    buffer_put_text(&list, "]");
    buffer_put_u8(&list, '\0');
    assert_value(*trial, (const char *)list.data, true);
    list.size -= 2;
    buffer_put_text(&list, ",\"x\"]");
    buffer_put_u8(&list, '\0');
    assert_value(*trial, (const char *)list.data, false);
    assert_value(*trial, "[]", field->min == 0);
    assert_value(*trial, "[1]", false);
    assert_value(*trial, "\"x\"", false);
}

static void other_kinds_are_checked(const struct trial *trial)
{
    static const char *const wrong[] = {"\"0x\"", "\"no such\"", "\"\"",
                                        "{\"a\":1}", "[\"x\"]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_value(*trial, wrong[i], false);
    }
}

static void check_field(const struct route *route, const struct field *field)
{
    struct trial trial = {.route = route, .field = field};
    switch (field->kind) {
    case FIELD_NUMBER:
        numbers_have_bounds(&trial);
        break;
    case FIELD_TEXT:
        texts_have_bounds(&trial);
        break;
    case FIELD_TEXTS:
        lists_have_bounds(&trial);
        break;
    default:
        other_kinds_are_checked(&trial);
    }
    trial.is_left_out = true;
    bool is_optional = (field->flags & FIELD_REQUIRED) == 0;
    if (!is_parameter(route, field)) {
        assert_outcome(&trial, is_optional, "left out");
    }
    trial.is_left_out = false;
    trial.is_twice = true;
    assert_outcome(&trial, false, "given twice");
}

static void each_field_of_each_route_has_its_bounds(void **state)
{
    uint32_t count = 0;
    (void)state;
    for (uint32_t i = 0; i < route_count; i++) {
        const struct route *route = &routes[i];
        struct trial trial = {.route = route};
        if (strcmp(route->path, "/") == 0) {
            continue;
        }
        assert_outcome(&trial, true, "with what it needs");
        trial.is_unknown = true;
        assert_outcome(&trial, false, "with an unknown field");
        for (const struct field *f = route->fields; f->kind != FIELD_END; f++) {
            check_field(route, f);
            count++;
        }
    }
    assert_true(count > 100);
}

int main(void)
{
    glob_t paths;
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(each_field_of_each_route_has_its_bounds)};
    if (glob("tests/transcripts/http/*.txt", 0, NULL, &paths) != 0) {
        fprintf(stderr, "no transcripts: run from the top of the tree\n");
        return 1;
    }
    struct CMUnitTest *tests = memory_new(paths.gl_pathc * sizeof *tests);
    for (size_t i = 0; i < paths.gl_pathc; i++) {
        tests[i] = (struct CMUnitTest){
            .name = paths.gl_pathv[i],
            .test_func = answers_are_those_of_the_transcript,
            .initial_state = paths.gl_pathv[i]};
    }
    int failed = _cmocka_run_group_tests("transcripts", tests, paths.gl_pathc,
                                         NULL, NULL);
    failed += cmocka_run_group_tests(fixed, NULL, NULL);
    free(tests);
    globfree(&paths);
    return failed;
}
