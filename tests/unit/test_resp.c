/* SPDX-License-Identifier: MIT */

/* RESP: requests at every split point, limits, hostile input, each writer in
 * both versions, replies there and back. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/prng.h"
#include "net/resp.h"

/* --- Requests ------------------------------------------------------------- */

/* Appends "<a><b|c>" for a request, so that texts can be compared. */
static void describe(struct buffer *out, const struct resp_request *request)
{
    buffer_put_text(out, "<");
    for (uint32_t i = 0; i < request->count; i++) {
        buffer_put_text(out, i > 0 ? "|" : "");
        buffer_put_bytes(out, request->argument[i]);
    }
    buffer_put_text(out, ">");
}

/* Parses all of 'input', handing over pieces that end at the given distances,
 * each time from a fresh copy, as a buffer that moves would. */
static int parse_all(struct resp_parser *parser, struct bytes input,
                     size_t piece, struct buffer *out, const char **ret_why)
{
    size_t start = 0;
    size_t end = 0;
    int error = HASP_EMORE;
    while (end < input.size || error == 0) {
        if (error == HASP_EMORE) {
            end = end + piece < input.size ? end + piece : input.size;
        }
        struct resp_request request;
        size_t used = 0;
        uint8_t *copy = memory_copy(input.data + start, end - start);
        error = resp_parse(parser, bytes_of(copy, end - start), &request, &used,
                           ret_why);
        if (error == 0) {
            assert_in_range(used, 1, end - start);
            describe(out, &request);
            start += used;
        }
        free(copy);
        if (error != 0 && error != HASP_EMORE) {
            return error;
        }
    }
    return start == input.size ? 0 : HASP_EMORE;
}

static const char requests[] =
    "*1\r\n$4\r\nPING\r\n"
    "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$10\r\na\r\n$1\r\nb\r\n\r\n"
    "PING\r\n"
    "\r\n"
    "\n"
    "  set \t a  'b c' \"d\\x41\\n\\\"\" \r\n"
    "*0\r\n"
    "*-1\r\n"
    "*2\r\n$12\r\nLOCK.ACQUIRE\r\n$10\r\n0123456789\r\n"
    "get name\n"
    "*18\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n"
    "$1\r\n6\r\n$1\r\n7\r\n$1\r\n8\r\n$1\r\n9\r\n$1\r\na\r\n$1\r\nb\r\n"
    "$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n$1\r\nh\r\n";
static const char
    requests_described[] = "<PING>"
                           "<SET||a\r\n$1\r\nb\r\n>"
                           "<PING>"
                           "<>"
                           "<>"
                           "<set|a|b c|dA\n\">"
                           "<>"
                           "<>"
                           "<LOCK.ACQUIRE|0123456789>"
                           "<get|name>"
                           "<0|1|2|3|4|5|6|7|8|9|a|b|c|d|e|f|g|h>";

static void assert_parsed_in_pieces(size_t piece)
{
    struct resp_parser parser = {0};
    struct buffer out = {0};
    const char *why = NULL;
    assert_int_equal(
        parse_all(&parser, BYTES_LITERAL(requests), piece, &out, &why), 0);
    assert_true(
        bytes_equal(buffer_bytes(&out), BYTES_LITERAL(requests_described)));
    buffer_done(&out);
    resp_parser_done(&parser);
}

static void requests_are_parsed_whatever_the_size_of_the_pieces(void **state)
{
    (void)state;
    for (size_t piece = 1; piece <= sizeof requests; piece++) {
        assert_parsed_in_pieces(piece);
    }
}

static void requests_are_parsed_at_every_single_split(void **state)
{
    (void)state;
    struct bytes whole = BYTES_LITERAL(requests);
    for (size_t split = 0; split <= whole.size; split++) {
        struct resp_parser parser = {0};
        struct buffer out = {0};
        size_t start = 0;
        size_t ends[2] = {split, whole.size};
        for (int part = 0; part < 2; part++) {
            for (;;) {
                struct resp_request request;
                size_t used;
                const char *why;
                int error = resp_parse(
                    &parser, bytes_of(whole.data + start, ends[part] - start),
                    &request, &used, &why);
                if (error != 0) {
                    assert_int_equal(error, HASP_EMORE);
                    break;
                }
                describe(&out, &request);
                start += used;
            }
        }
        assert_int_equal(start, whole.size);
        assert_true(
            bytes_equal(buffer_bytes(&out), BYTES_LITERAL(requests_described)));
        buffer_done(&out);
        resp_parser_done(&parser);
    }
}

static void
a_burst_is_parsed_without_allocating_in_the_steady_state(void **state)
{
    (void)state;
    struct buffer burst = {0};
    for (int i = 0; i < 1000; i++) {
        resp_request_begin(&burst, 2);
        resp_request_argument(&burst, BYTES_LITERAL("GET"));
        resp_request_argument(&burst, BYTES_LITERAL("name"));
    }
    struct resp_parser parser = {0};
    const struct bytes *array = NULL;
    size_t at = 0;
    for (int i = 0; i < 1000; i++) {
        struct resp_request request;
        size_t used;
        const char *why;
        assert_int_equal(resp_parse(&parser,
                                    bytes_of(burst.data + at, burst.size - at),
                                    &request, &used, &why),
                         0);
        assert_true(array == NULL || array == request.argument);
        array = request.argument;
        assert_int_equal(request.count, 2);
        /* Borrowed from the input, not copied. */
        assert_true(request.argument[1].data > burst.data + at &&
                    request.argument[1].data < burst.data + at + used);
        at += used;
    }
    assert_int_equal(at, burst.size);
    resp_parser_done(&parser);
    buffer_done(&burst);
}

static void bytes_that_were_looked_at_are_not_looked_at_again(void **state)
{
    (void)state;
    struct resp_parser parser = {0};
    struct resp_request request;
    size_t used;
    const char *why;
    uint8_t line[3000];
    memset(line, 'a', sizeof line);
    assert_int_equal(
        resp_parse(&parser, bytes_of(line, sizeof line), &request, &used, &why),
        HASP_EMORE);
    assert_int_equal(parser.parsed, sizeof line);
    resp_parser_done(&parser);
    /* An argument begins, its size is known, and its bytes do not matter. */
    struct bytes start = BYTES_LITERAL("*2\r\n$4\r\nPING\r\n$3000\r\nabc");
    assert_int_equal(resp_parse(&parser, start, &request, &used, &why),
                     HASP_EMORE);
    assert_int_equal(parser.parsed, start.size - 3);
    resp_parser_done(&parser);
}

static void an_announced_size_allocates_nothing(void **state)
{
    (void)state;
    struct resp_parser parser = {0};
    struct resp_request request;
    size_t used;
    const char *why;
    assert_int_equal(
        resp_parse(&parser, BYTES_LITERAL("*1024\r\n"), &request, &used, &why),
        HASP_EMORE);
    assert_null(parser.arguments);
    assert_int_equal(resp_parse(&parser, BYTES_LITERAL("*1024\r\n$65536\r\n"),
                                &request, &used, &why),
                     HASP_EMORE);
    assert_int_equal(parser.capacity, 16);
    resp_parser_done(&parser);
}

static void a_trimmed_parser_keeps_its_place(void **state)
{
    (void)state;
    struct resp_parser parser = {0};
    struct resp_request request;
    size_t used;
    const char *why;
    struct bytes whole = BYTES_LITERAL("*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    assert_int_equal(
        resp_parse(&parser, bytes_of(whole.data, 13), &request, &used, &why),
        HASP_EMORE);
    resp_parser_trim(&parser);
    assert_int_equal(resp_parse(&parser, whole, &request, &used, &why), 0);
    assert_true(bytes_equal(request.argument[0], BYTES_LITERAL("a")));
    assert_true(bytes_equal(request.argument[1], BYTES_LITERAL("b")));

    struct buffer large = {0};
    resp_request_begin(&large, 100);
    for (int i = 0; i < 100; i++) {
        resp_request_argument(&large, BYTES_LITERAL("x"));
    }
    assert_int_equal(
        resp_parse(&parser, buffer_bytes(&large), &request, &used, &why), 0);
    assert_true(parser.capacity >= 100);
    resp_parser_trim(&parser);
    assert_int_equal(parser.capacity, 0);
    assert_int_equal(resp_parse(&parser, whole, &request, &used, &why), 0);
    buffer_done(&large);
    resp_parser_done(&parser);
}

/* --- Hostile input -------------------------------------------------------- */

struct refusal {
    const char *input;
    int error;
    const char *why;
};

static const struct refusal refusals[] = {
    {"*1048577\r\n", HASP_ETOOBIG, "too many arguments"},
    {"*1025\r\n", HASP_ETOOBIG, "too many arguments"},
    {"*-2\r\n", HASP_EPROTO, "invalid multibulk length"},
    {"*-\r\n", HASP_EPROTO, "invalid multibulk length"},
    {"*\r\n", HASP_EPROTO, "invalid multibulk length"},
    {"*01\r\n", HASP_EPROTO, "invalid multibulk length"},
    {"*11111111111", HASP_ETOOBIG, "invalid multibulk length"},
    {"* 1\r\n", HASP_EPROTO, "invalid multibulk length"},
    {"*+1\r\n", HASP_EPROTO, "invalid multibulk length"},
    {"*1\n", HASP_EPROTO, "invalid multibulk length"},
    {"*1\rx", HASP_EPROTO, "invalid multibulk length"},
    {"*1a\r\n", HASP_EPROTO, "invalid multibulk length"},
    {"*9223372036854775808\r\n", HASP_ETOOBIG, "invalid multibulk length"},
    {"*18446744073709551617\r\n", HASP_ETOOBIG, "invalid multibulk length"},
    {"*00000000000000000000000000", HASP_EPROTO, "invalid multibulk length"},
    {"*1\r\nPING\r\n", HASP_EPROTO, "expected '$'"},
    {"*1\r\n*1\r\n", HASP_EPROTO, "expected '$'"},
    {"*1\r\n:1\r\n", HASP_EPROTO, "expected '$'"},
    {"*1\r\n$-1\r\n", HASP_EPROTO, "invalid bulk length"},
    {"*1\r\n$-2147483648\r\n", HASP_EPROTO, "invalid bulk length"},
    {"*1\r\n$99999999999\r\n", HASP_ETOOBIG, "invalid bulk length"},
    {"*1\r\n$9223372036854775807\r\n", HASP_ETOOBIG, "invalid bulk length"},
    {"*1\r\n$4294967297\r\n", HASP_ETOOBIG, "argument too big"},
    {"*1\r\n$65537\r\n", HASP_ETOOBIG, "argument too big"},
    {"*1\r\n$1\r\nabc\r\n", HASP_EPROTO, "expected CRLF after an argument"},
    {"*1\r\n$1\r\na\n\n", HASP_EPROTO, "expected CRLF after an argument"},
    {"GET / HTTP/1.1\r\n", HASP_EPROTO, "this port does not speak HTTP"},
    {"POST / HTTP/1.1\r\n", HASP_EPROTO, "this port does not speak HTTP"},
    {"post /\r\n", HASP_EPROTO, "this port does not speak HTTP"},
    {"Host: a:7420\r\n", HASP_EPROTO, "this port does not speak HTTP"},
    {"host:a\r\n", HASP_EPROTO, "this port does not speak HTTP"},
    {"OPTIONS * HTTP/1.1\r\n", HASP_EPROTO, "this port does not speak HTTP"},
    {"PRI * HTTP/2.0\r\n", HASP_EPROTO, "this port does not speak HTTP"},
    {"\x16\x03\x01", HASP_EPROTO, "binary bytes in an inline request"},
    {"PING \x01\r\n", HASP_EPROTO, "binary bytes in an inline request"},
    {"PI\rNG\r\n", HASP_EPROTO, "binary bytes in an inline request"},
    {"a \"b\r\n", HASP_EPROTO, "unbalanced quotes in request"},
    {"a 'b\r\n", HASP_EPROTO, "unbalanced quotes in request"},
    {"a \"b\"c\r\n", HASP_EPROTO, "unbalanced quotes in request"},
    {"a \"b\\\"\r\n", HASP_EPROTO, "unbalanced quotes in request"},
};

static void what_is_no_request_is_refused_with_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *refusal = &refusals[i];
        size_t size = strlen(refusal->input);
        for (size_t piece = 1; piece <= size; piece++) {
            struct resp_parser parser = {0};
            struct buffer out = {0};
            const char *why = NULL;
            int error = parse_all(&parser, bytes_of(refusal->input, size),
                                  piece, &out, &why);
            if (error != refusal->error || strcmp(why, refusal->why) != 0) {
                fail_msg("'%s' in pieces of %zu: %d %s", refusal->input, piece,
                         error, why != NULL ? why : "-");
            }
            buffer_done(&out);
            resp_parser_done(&parser);
        }
    }
}

static void nul_bytes_do_not_end_an_argument(void **state)
{
    (void)state;
    struct resp_parser parser = {0};
    struct resp_request request;
    size_t used;
    const char *why;
    struct bytes input = BYTES_LITERAL("*1\r\n$3\r\na\0b\r\n");
    assert_int_equal(resp_parse(&parser, input, &request, &used, &why), 0);
    assert_true(bytes_equal(request.argument[0], BYTES_LITERAL("a\0b")));
    input = BYTES_LITERAL("a\0b\r\n");
    assert_int_equal(resp_parse(&parser, input, &request, &used, &why),
                     HASP_EPROTO);
    input = BYTES_LITERAL("\"a\\x00b\"\r\n");
    assert_int_equal(resp_parse(&parser, input, &request, &used, &why), 0);
    assert_true(bytes_equal(request.argument[0], BYTES_LITERAL("a\0b")));
    resp_parser_done(&parser);
}

static int parse_with_limits(struct resp_limits limits, const char *text)
{
    struct resp_parser parser = {.limits = limits};
    struct resp_request request;
    size_t used;
    const char *why = NULL;
    int error = resp_parse(&parser, bytes_of_text(text), &request, &used, &why);
    resp_parser_done(&parser);
    return error;
}

static void each_limit_allows_its_value_and_refuses_one_more(void **state)
{
    (void)state;
    struct resp_limits limits = {.argument_count_max = 2,
                                 .argument_size_max = 3,
                                 .request_size_max = 22,
                                 .inline_size_max = 8};
    assert_int_equal(parse_with_limits(limits, "*3\r\n"), HASP_ETOOBIG);
    assert_int_equal(parse_with_limits(limits, "a b\r\n"), 0);
    assert_int_equal(parse_with_limits(limits, "a b c\r\n"), HASP_ETOOBIG);
    assert_int_equal(parse_with_limits(limits, "abc\r\n"), 0);
    assert_int_equal(parse_with_limits(limits, "abcd\r\n"), HASP_ETOOBIG);
    assert_int_equal(parse_with_limits(limits, "*1\r\n$3\r\nabc\r\n"), 0);
    assert_int_equal(parse_with_limits(limits, "*1\r\n$4\r\n"), HASP_ETOOBIG);
    /* 4 + 9 + 9 bytes. */
    assert_int_equal(
        parse_with_limits(limits, "*2\r\n$3\r\nabc\r\n$3\r\nabc\r\n"), 0);
    limits.request_size_max = 21;
    assert_int_equal(
        parse_with_limits(limits, "*2\r\n$3\r\nabc\r\n$3\r\nabc\r\n"),
        HASP_ETOOBIG);
    assert_int_equal(parse_with_limits(limits, "ab abc \r\n"), 0);
    assert_int_equal(parse_with_limits(limits, "ab abc   \r\n"), HASP_ETOOBIG);
    /* An endless line is refused before its end arrives. */
    assert_int_equal(parse_with_limits(limits, "aaaaaaaa"), HASP_EMORE);
    assert_int_equal(parse_with_limits(limits, "aaaaaaaaa"), HASP_ETOOBIG);
}

static void mutated_requests_never_read_outside_of_the_input(void **state)
{
    (void)state;
    struct prng prng = {20260807};
    for (int round = 0; round < 20000; round++) {
        uint8_t input[sizeof requests];
        memcpy(input, requests, sizeof requests);
        uint64_t changes = 1 + prng_below(&prng, 8);
        for (uint64_t i = 0; i < changes; i++) {
            size_t at = prng_below(&prng, sizeof requests);
            static const char likely[] = "*$-0123456789\r\n\"'\\x \0";
            input[at] = prng_chance(&prng, 0.5)
                            ? (uint8_t)prng_next(&prng)
                            : (uint8_t)likely[prng_below(&prng, sizeof likely)];
        }
        /* Whole and in pieces it must mean the same. */
        size_t pieces[2] = {sizeof requests,
                            1 + prng_below(&prng, sizeof requests)};
        struct buffer out[2] = {{0}, {0}};
        int error[2];
        for (int i = 0; i < 2; i++) {
            struct resp_parser parser = {0};
            const char *why = NULL;
            error[i] = parse_all(&parser, bytes_of(input, sizeof input),
                                 pieces[i], &out[i], &why);
            resp_parser_done(&parser);
        }
        assert_int_equal(error[0], error[1]);
        assert_true(bytes_equal(buffer_bytes(&out[0]), buffer_bytes(&out[1])));
        buffer_done(&out[0]);
        buffer_done(&out[1]);
    }
}

/* --- Writing -------------------------------------------------------------- */

typedef void write_fn(struct resp_writer *writer);

static void write_simple(struct resp_writer *w)
{
    resp_simple(w, "OK");
}
static void write_error(struct resp_writer *w)
{
    resp_error(w, "ERR", "no '%s'\r\n+OK\x1b[0m", "x");
}
static void write_bare_error(struct resp_writer *w)
{
    resp_error(w, "NOSESSION", "%s", "");
}
static void write_integers(struct resp_writer *w)
{
    resp_integer(w, 0);
    resp_integer(w, -1);
    resp_integer(w, 9);
    resp_integer(w, 10);
    resp_integer(w, 99);
    resp_integer(w, 100);
    resp_integer(w, 9007199254740993);
    resp_integer(w, INT64_MAX);
    resp_integer(w, INT64_MIN);
}
static void write_bulks(struct resp_writer *w)
{
    resp_bulk(w, bytes_of(NULL, 0));
    resp_bulk(w, BYTES_LITERAL("a\r\nb"));
    resp_text(w, "text");
}
static void write_nulls(struct resp_writer *w)
{
    resp_null(w);
    resp_null_array(w);
}
static void write_bools(struct resp_writer *w)
{
    resp_bool(w, true);
    resp_bool(w, false);
}
static void write_aggregates(struct resp_writer *w)
{
    resp_array(w, 0);
    resp_array(w, 12);
    resp_map(w, 3);
    resp_push(w, 3);
}

static const struct {
    write_fn *write;
    const char *version_2;
    const char *version_3;
} forms[] = {
    {write_simple, "+OK\r\n", "+OK\r\n"},
    {write_error, "-ERR no 'x'  +OK [0m\r\n", "-ERR no 'x'  +OK [0m\r\n"},
    {write_bare_error, "-NOSESSION\r\n", "-NOSESSION\r\n"},
    {write_integers,
     ":0\r\n:-1\r\n:9\r\n:10\r\n:99\r\n:100\r\n:9007199254740993\r\n"
     ":9223372036854775807\r\n:-9223372036854775808\r\n",
     ":0\r\n:-1\r\n:9\r\n:10\r\n:99\r\n:100\r\n:9007199254740993\r\n"
     ":9223372036854775807\r\n:-9223372036854775808\r\n"},
    {write_bulks, "$0\r\n\r\n$4\r\na\r\nb\r\n$4\r\ntext\r\n",
     "$0\r\n\r\n$4\r\na\r\nb\r\n$4\r\ntext\r\n"},
    {write_nulls, "$-1\r\n*-1\r\n", "_\r\n_\r\n"},
    {write_bools, ":1\r\n:0\r\n", "#t\r\n#f\r\n"},
    {write_aggregates, "*0\r\n*12\r\n*6\r\n*3\r\n",
     "*0\r\n*12\r\n%3\r\n>3\r\n"},
};

static void each_writer_has_its_form_in_both_versions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (int version = 2; version <= 3; version++) {
            struct buffer out = {0};
            struct resp_writer writer = {&out, version};
            const char *wanted = version == 2 ? forms[i].version_2
                                              : forms[i].version_3;
            forms[i].write(&writer);
            buffer_put_u8(&out, 0);
            assert_string_equal((char *)out.data, wanted);
            buffer_done(&out);
        }
    }
}

static void a_long_error_text_is_whole(void **state)
{
    (void)state;
    for (int size = 100; size < 160; size++) {
        struct buffer out = {0};
        struct resp_writer writer = {&out, 2};
        resp_error(&writer, "LIMIT", "%0*d", size, 7);
        assert_int_equal(out.size, 7 + size + 2);
        assert_memory_equal(out.data + out.size - 4, "07\r\n", 4);
        buffer_done(&out);
    }
}

static void written_requests_are_parsed_back(void **state)
{
    (void)state;
    struct prng prng = {7};
    struct resp_parser parser = {0};
    for (int round = 0; round < 500; round++) {
        struct buffer out = {0};
        uint8_t bytes[300];
        size_t sizes[40];
        size_t count = 1 + prng_below(&prng, 40);
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = (uint8_t)prng_next(&prng);
        }
        resp_request_begin(&out, count);
        for (size_t i = 0; i < count; i++) {
            sizes[i] = prng_below(&prng, sizeof bytes);
            resp_request_argument(&out, bytes_of(bytes, sizes[i]));
        }
        struct resp_request request;
        size_t used;
        const char *why;
        assert_int_equal(
            resp_parse(&parser, buffer_bytes(&out), &request, &used, &why), 0);
        assert_int_equal(used, out.size);
        assert_int_equal(request.count, count);
        for (size_t i = 0; i < count; i++) {
            assert_true(
                bytes_equal(request.argument[i], bytes_of(bytes, sizes[i])));
        }
        buffer_done(&out);
    }
    resp_parser_done(&parser);
}

/* --- Replies -------------------------------------------------------------- */

/* A reply with one of everything, nested. */
static void write_everything(struct resp_writer *w)
{
    resp_map(w, 6);
    resp_text(w, "id");
    resp_integer(w, -42);
    resp_text(w, "name");
    resp_bulk(w, BYTES_LITERAL("a\r\nb"));
    resp_text(w, "none");
    resp_null(w);
    resp_text(w, "holders");
    resp_array(w, 2);
    resp_map(w, 1);
    resp_text(w, "owner");
    resp_simple(w, "x");
    resp_array(w, 0);
    resp_text(w, "is_on");
    resp_bool(w, true);
    resp_text(w, "last");
    resp_error(w, "ERR", "%s", "bad");
}

static void assert_everything(const struct resp_reply *reply)
{
    assert_int_equal(reply->value[0].span, reply->count);
    assert_int_equal(resp_find(reply, 0, "id")->integer, -42);
    assert_true(bytes_equal(resp_find(reply, 0, "name")->bytes,
                            BYTES_LITERAL("a\r\nb")));
    assert_int_equal(resp_find(reply, 0, "none")->type, RESP_NULL);
    const struct resp_value *holders = resp_find(reply, 0, "holders");
    assert_int_equal(holders->type, RESP_ARRAY);
    assert_int_equal(holders->count, 2);
    assert_int_equal(holders->span, 5);
    uint32_t at = (uint32_t)(holders - reply->value) + 1;
    assert_true(
        bytes_equal(resp_find(reply, at, "owner")->bytes, BYTES_LITERAL("x")));
    assert_int_equal(resp_find(reply, 0, "is_on")->integer, 1);
    assert_int_equal(resp_find(reply, 0, "last")->type, RESP_ERROR);
    assert_true(bytes_equal(resp_find(reply, 0, "last")->bytes,
                            BYTES_LITERAL("ERR bad")));
    assert_null(resp_find(reply, 0, "absent"));
    assert_null(resp_find(reply, 0, "owner"));
    assert_null(resp_find(reply, 1, "id"));
    assert_null(resp_find(reply, reply->count, "id"));
}

static void replies_are_read_back_at_every_length(void **state)
{
    (void)state;
    for (int version = 2; version <= 3; version++) {
        struct buffer out = {0};
        struct resp_writer writer = {&out, version};
        struct resp_reply reply = {0};
        write_everything(&writer);
        size_t used = 0;
        for (size_t size = 0; size < out.size; size++) {
            uint8_t *copy = memory_copy(out.data, size);
            assert_int_equal(
                resp_parse_reply(bytes_of(copy, size), 100, &reply, &used),
                HASP_EMORE);
            free(copy);
        }
        assert_int_equal(used, 0);
        size_t whole = out.size;
        buffer_put_text(&out, "+next\r\n");
        assert_int_equal(
            resp_parse_reply(buffer_bytes(&out), 100, &reply, &used), 0);
        assert_int_equal(used, whole);
        assert_everything(&reply);
        assert_int_equal(reply.value[0].type,
                         version == 2 ? RESP_ARRAY : RESP_MAP);
        resp_reply_done(&reply);
        buffer_done(&out);
    }
}

static void every_type_of_resp3_is_told(void **state)
{
    (void)state;
    struct resp_reply reply = {0};
    size_t used;
    struct bytes input = BYTES_LITERAL(
        ">9\r\n,1.5\r\n=7\r\ntxt:abc\r\n!5\r\nERR x\r\n"
        "~1\r\n:1\r\n(123456789012345678901234567890\r\n"
        "#f\r\n_\r\n%1\r\n+k\r\n+v\r\n*-1\r\n");
    assert_int_equal(resp_parse_reply(input, 100, &reply, &used), 0);
    assert_int_equal(used, input.size);
    static const enum resp_type types[] = {
        RESP_PUSH,    RESP_DOUBLE, RESP_BULK, RESP_ERROR, RESP_ARRAY,
        RESP_INTEGER, RESP_SIMPLE, RESP_BOOL, RESP_NULL,  RESP_MAP,
        RESP_SIMPLE,  RESP_SIMPLE, RESP_NULL};
    assert_int_equal(reply.count, sizeof types / sizeof *types);
    for (uint32_t i = 0; i < reply.count; i++) {
        assert_int_equal(reply.value[i].type, types[i]);
    }
    assert_true(bytes_equal(reply.value[2].bytes, BYTES_LITERAL("abc")));
    assert_true(bytes_equal(reply.value[1].bytes, BYTES_LITERAL("1.5")));
    resp_reply_done(&reply);
}

static void bad_replies_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *input;
        int error;
    } cases[] = {
        {"x", HASP_EPROTO},
        {"|1\r\n+a\r\n+b\r\n", HASP_EPROTO},
        {"*?\r\n", HASP_EPROTO},
        {"$?\r\n", HASP_EPROTO},
        {"$-2\r\n", HASP_EPROTO},
        {"*-2\r\n", HASP_EPROTO},
        {"%-1\r\n", HASP_EPROTO},
        {"=-1\r\n", HASP_EPROTO},
        {"=3\r\ntxt\r\n", HASP_EPROTO},
        {"$1\r\nabc", HASP_EPROTO},
        {":\r\n", HASP_EPROTO},
        {":1x\r\n", HASP_EPROTO},
        {":9223372036854775808\r\n", HASP_EPROTO},
        {":-9223372036854775809\r\n", HASP_EPROTO},
        {"#x\r\n", HASP_EPROTO},
        {"_x\r\n", HASP_EPROTO},
        {"+a\rb", HASP_EPROTO},
        {"$9223372036854775807\r\n", HASP_ETOOBIG},
        {"*9223372036854775807\r\n", HASP_ETOOBIG},
        {"%51\r\n", HASP_ETOOBIG},
        {"*101\r\n", HASP_ETOOBIG},
        {"%50\r\n", HASP_EMORE},
    };
    struct resp_reply reply = {0};
    size_t used = 77;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int error = resp_parse_reply(bytes_of_text(cases[i].input), 100, &reply,
                                     &used);
        if (error != cases[i].error) {
            fail_msg("'%s': %d", cases[i].input, error);
        }
        assert_int_equal(reply.count, 0);
    }
    assert_int_equal(used, 77);
    resp_reply_done(&reply);
}

static void depth_and_number_of_values_are_bounded(void **state)
{
    (void)state;
    struct resp_reply reply = {0};
    struct buffer out = {0};
    size_t used;
    for (int i = 0; i < RESP_REPLY_DEPTH_MAX; i++) {
        buffer_put_text(&out, "*1\r\n");
    }
    size_t nested = out.size;
    buffer_put_text(&out, ":1\r\n");
    assert_int_equal(resp_parse_reply(buffer_bytes(&out), 100, &reply, &used),
                     0);
    assert_int_equal(reply.count, RESP_REPLY_DEPTH_MAX + 1);
    assert_int_equal(resp_parse_reply(buffer_bytes(&out), RESP_REPLY_DEPTH_MAX,
                                      &reply, &used),
                     HASP_ETOOBIG);
    out.size = nested;
    buffer_put_text(&out, "*1\r\n:1\r\n");
    assert_int_equal(resp_parse_reply(buffer_bytes(&out), 100, &reply, &used),
                     HASP_ETOOBIG);
    buffer_clear(&out);
    buffer_put_u8(&out, '+');
    while (out.size <= RESP_REPLY_LINE_MAX) {
        buffer_put_u8(&out, 'a');
    }
    assert_int_equal(resp_parse_reply(buffer_bytes(&out), 100, &reply, &used),
                     HASP_ETOOBIG);
    buffer_done(&out);
    resp_reply_done(&reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_parsed_whatever_the_size_of_the_pieces),
        cmocka_unit_test(requests_are_parsed_at_every_single_split),
        cmocka_unit_test(
            a_burst_is_parsed_without_allocating_in_the_steady_state),
        cmocka_unit_test(bytes_that_were_looked_at_are_not_looked_at_again),
        cmocka_unit_test(an_announced_size_allocates_nothing),
        cmocka_unit_test(a_trimmed_parser_keeps_its_place),
        cmocka_unit_test(what_is_no_request_is_refused_with_its_reason),
        cmocka_unit_test(nul_bytes_do_not_end_an_argument),
        cmocka_unit_test(each_limit_allows_its_value_and_refuses_one_more),
        cmocka_unit_test(mutated_requests_never_read_outside_of_the_input),
        cmocka_unit_test(each_writer_has_its_form_in_both_versions),
        cmocka_unit_test(a_long_error_text_is_whole),
        cmocka_unit_test(written_requests_are_parsed_back),
        cmocka_unit_test(replies_are_read_back_at_every_length),
        cmocka_unit_test(every_type_of_resp3_is_told),
        cmocka_unit_test(bad_replies_are_refused),
        cmocka_unit_test(depth_and_number_of_values_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
