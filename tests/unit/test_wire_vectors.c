/* SPDX-License-Identifier: MIT */

/* tests/vectors/wire.json, with which the clients in other languages check that
 * they send and understand the same bytes as libhasp.
 *
 * The file is made here, from client/query and net/resp themselves; the test
 * compares it with the stored one, and REWRITE=1 replaces it:
 *
 *     {"requests": [{"words": ["PING"], "bytes": HEX}, ...],
 *      "replies": [{"says": "a token", "bytes": HEX, "value": VALUE}, ...],
 *      "broken": [{"says": "a page of HTTP", "bytes": HEX}, ...]}
 *
 * A VALUE is null, true, false, a number, a text, a list, or an object with one
 * member: {"map": [KEY, VALUE, ...]}, {"push": [VALUE, ...]}, {"error": TEXT}.
 * Less than all the bytes of a reply is not a reply yet, wherever they are cut.
 * A broken reply ends the connection. The file has only replies that hasp
 * sends: a client need not understand more. */

#include "net/resp.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/query.h"
#include "tests/unit/vectors.h"

#define PATH "tests/vectors/wire.json"
#define VALUE_MAX (16u << 20)
#define WORD_MAX 8

/* --- JSON ----------------------------------------------------------------- */

static void put_json_text(struct buffer *out, struct bytes text)
{
    buffer_put_text(out, "\"");
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (c < ' ' || c == '"' || c == '\\') {
            buffer_printf(out, "\\u%04x", c);
        } else {
            buffer_put_u8(out, c);
        }
    }
    buffer_put_text(out, "\"");
}

static void put_hex(struct buffer *out, struct bytes bytes)
{
    buffer_put_text(out, "\"bytes\": \"");
    for (size_t i = 0; i < bytes.size; i++) {
        buffer_printf(out, "%02x", bytes.data[i]);
    }
    buffer_put_text(out, "\"");
}

static void put_value(struct buffer *out, const struct resp_value *value)
{
    static const char *const opening[] = {[RESP_ARRAY] = "[",
                                          [RESP_MAP] = "{\"map\": [",
                                          [RESP_PUSH] = "{\"push\": ["};
    switch (value->type) {
    case RESP_NULL:
        buffer_put_text(out, "null");
        return;
    case RESP_BOOL:
        buffer_put_text(out, value->integer ? "true" : "false");
        return;
    case RESP_INTEGER:
        buffer_printf(out, "%" PRId64, value->integer);
        return;
    case RESP_SIMPLE:
    case RESP_BULK:
        put_json_text(out, value->bytes);
        return;
    case RESP_ERROR:
        buffer_put_text(out, "{\"error\": ");
        put_json_text(out, value->bytes);
        buffer_put_text(out, "}");
        return;
    case RESP_DOUBLE:
        fail_msg("hasp sends no doubles");
        return;
    case RESP_ARRAY:
    case RESP_MAP:
    case RESP_PUSH:
        break;
    }
    buffer_put_text(out, opening[value->type]);
    for (uint32_t i = 1; i < value->span; i += value[i].span) {
        buffer_put_text(out, i > 1 ? ", " : "");
        put_value(out, &value[i]);
    }
    buffer_put_text(out, value->type == RESP_ARRAY ? "]" : "]}");
}

/* --- Cases ---------------------------------------------------------------- */

static void put_requests(struct buffer *out)
{
    static const char *const requests[][WORD_MAX] = {
        {"PING"},
        {"HELLO", "3"},
        {"LOCK.ACQUIRE", "orders", "WAIT", "1500", "OWNER", "me", "REQ", "7"},
        {"LOCK.SHOW", ""},
        {"LOCK.SHOW", "two words"},
        {"LOCK.SHOW", "a line\r\nand another"},
        {"LOCK.SHOW", "B\xc3\xbc"
                      "cher \xe2\x82\xac \xf0\x9f\x94\x92"},
        {"LOCK.CHECK", "a", "9007199254740991"},
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct query query = {0};
        struct buffer encoded = {0};
        query_begin(&query, requests[i][0]);
        buffer_put_text(out, i > 0 ? "},\n{\"words\": [" : "\n{\"words\": [");
        for (size_t j = 0; j < WORD_MAX && requests[i][j] != NULL; j++) {
            if (j > 0) {
                query_text(&query, requests[i][j]);
                buffer_put_text(out, ", ");
            }
            put_json_text(out, bytes_of_text(requests[i][j]));
        }
        query_encode(&query, &encoded);
        buffer_put_text(out, "],\n ");
        put_hex(out, buffer_bytes(&encoded));
        buffer_done(&encoded);
        query_done(&query);
    }
    buffer_put_text(out, "}");
}

struct reply_case {
    const char *says, *bytes;
};

static const struct reply_case replies[] = {
    {"OK", "+OK\r\n"},
    {"an empty simple text", "+\r\n"},
    {"a wait that is queued", "+QUEUED 8\r\n"},
    {"the largest token", ":9007199254740991\r\n"},
    {"a number below zero", ":-7\r\n"},
    {"nil in RESP3", "_\r\n"},
    {"nil in RESP2, where a text was asked for", "$-1\r\n"},
    {"nil in RESP2, where a list was asked for", "*-1\r\n"},
    {"true", "#t\r\n"},
    {"false", "#f\r\n"},
    {"an empty text", "$0\r\n\r\n"},
    {"a text with ends of lines in it", "$8\r\na\r\n$1\r\nb\r\n"},
    {"a text beyond ASCII is counted in bytes", "$3\r\n\xe2\x82\xac\r\n"},
    {"an empty list", "*0\r\n"},
    {"the tokens of several locks", "*2\r\n:5\r\n:6\r\n"},
    {"an empty map", "%0\r\n"},
    {"the answer to a heartbeat, one hold having ended",
     "%4\r\n$6\r\nttl_ms\r\n:10000\r\n$9\r\nlinger_ms\r\n:0\r\n"
     "$8\r\ntrust_ms\r\n:8000\r\n$5\r\nended\r\n*1\r\n%4\r\n"
     "$4\r\nlock\r\n$1\r\na\r\n$5\r\nowner\r\n$0\r\n\r\n"
     "$5\r\ntoken\r\n:99\r\n$6\r\nreason\r\n$8\r\nmax hold\r\n"},
    {"a list in a list in a list", "*1\r\n*1\r\n*1\r\n_\r\n"},
    {"somebody asks for a lock",
     ">3\r\n$4\r\nlock\r\n$6\r\nplease\r\n%3\r\n$4\r\nlock\r\n$1\r\na\r\n"
     "$5\r\ntoken\r\n:99\r\n$7\r\nmessage\r\n$4\r\nsoon\r\n"},
    {"a refusal", "-LIMIT locks\r\n"},
    {"a refusal of one word", "-EXPIRED\r\n"},
    {"a refusal whose text has everything", "-BADARG it's \"a\": b\r\n"},
};

static const struct reply_case broken[] = {
    {"a page of HTTP", "HTTP/1.1 400 Bad Request\r\n"},
    {"an empty line", "\r\n"},
    {"a number that is none", ":one\r\n"},
    {"a number without digits", ":\r\n"},
    {"a number with a blank", ": 7\r\n"},
    {"a number with a fraction", ":7.5\r\n"},
    {"a number in another base", ":0x10\r\n"},
    {"a number that does not fit into 64 bits", ":99999999999999999999\r\n"},
    {"a text whose length is none", "$x\r\n"},
    {"a text whose length is missing", "$\r\n"},
    {"a text of -2 bytes", "$-2\r\n"},
    {"a text of 99 GB", "$99999999999\r\n"},
    {"a text that does not end where it said", "$3\r\nabcde\r\n"},
    {"a list whose length is none", "*x\r\n"},
    {"a list of -2", "*-2\r\n"},
    {"a list of 99 thousand million", "*99999999999\r\n"},
    {"a map of -1", "%-1\r\n"},
    {"a push of -1", ">-1\r\n"},
    {"neither true nor false", "#x\r\n"},
    {"nil with something in it", "_x\r\n"},
    {"a list with something broken in it", "*2\r\n:1\r\n:x\r\n"},
    {"forty lists in each other",
     "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
     "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
     "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
     "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
     ":1\r\n"},
};

static void begin(struct buffer *out, size_t i, const struct reply_case *one)
{
    buffer_put_text(out, i > 0 ? "},\n{\"says\": " : "\n{\"says\": ");
    put_json_text(out, bytes_of_text(one->says));
    buffer_put_text(out, ",\n ");
    put_hex(out, bytes_of_text(one->bytes));
}

static void put_replies(struct buffer *out)
{
    struct resp_reply reply = {0};
    size_t used;
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        struct bytes bytes = bytes_of_text(replies[i].bytes);
        for (size_t cut = 0; cut < bytes.size; cut++) {
            assert_int_equal(resp_parse_reply(bytes_of(bytes.data, cut),
                                              VALUE_MAX, &reply, &used),
                             HASP_EMORE);
        }
        assert_int_equal(resp_parse_reply(bytes, VALUE_MAX, &reply, &used), 0);
        assert_int_equal(used, bytes.size);
        begin(out, i, &replies[i]);
        buffer_put_text(out, ",\n \"value\": ");
        put_value(out, reply.value);
    }
    buffer_put_text(out, "}");
    resp_reply_done(&reply);
}

static void put_broken(struct buffer *out)
{
    struct resp_reply reply = {0};
    size_t used;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        int error = resp_parse_reply(bytes_of_text(broken[i].bytes), VALUE_MAX,
                                     &reply, &used);
        if (error != HASP_EPROTO && error != HASP_ETOOBIG) {
            fail_msg("%s: %d", broken[i].says, error);
        }
        begin(out, i, &broken[i]);
    }
    buffer_put_text(out, "}");
    resp_reply_done(&reply);
}

static void the_vectors_are_what_libhasp_sends_and_understands(void **state)
{
    (void)state;
    struct buffer out = {0};
    buffer_put_text(&out, "{\"requests\": [");
    put_requests(&out);
    buffer_put_text(&out, "],\n\"replies\": [");
    put_replies(&out);
    buffer_put_text(&out, "],\n\"broken\": [");
    put_broken(&out);
    buffer_put_text(&out, "]}\n");
    vectors_compare(PATH, buffer_bytes(&out));
    buffer_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_are_what_libhasp_sends_and_understands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
