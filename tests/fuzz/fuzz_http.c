/* SPDX-License-Identifier: MIT */

/* The gateway's parsers. The first byte says what follows: a request ("METHOD
 * target", a line's end, a body), which must become a command of whole words or
 * a problem; or a reply of the core, which must become JSON. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "http/fields.h"
#include "http/origin_check.h"
#include "http/uri.h"
#include "net/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(struct bytes text)
{
    json_error_t error;
    json_t *json = json_loadb(
        (const char *)text.data, text.size,
        JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    CHECK(json != NULL);
    json_decref(json);
}

static void check_problem(const struct problem *problem)
{
    struct http_reply reply = {0};
    problem_reply(problem, NULL, &reply);
    CHECK(reply.status >= 400 && reply.status < 600);
    check_json(buffer_bytes(&reply.body));
    buffer_done(&reply.body);
}

static void check_fields(const struct match *match, struct bytes query,
                         struct bytes body)
{
    struct words credentials = {0}, command = {0};
    struct fields fields = {0};
    struct problem problem;
    words_put_text(&credentials, "1");
    words_put_text(&credentials, "00");
    if (fields_read(&fields, match, query, body, &problem) != 0) {
        check_problem(&problem);
    } else if (match->route->kind == ROUTE_COMMAND) {
        fields_command(&fields, &credentials, &command);
        CHECK(command.count >= 1);
        CHECK(bytes_equal(words_at(&command, 0),
                          bytes_of_text(match->route->command)));
    }
    fields_done(&fields);
    words_done(&command);
    words_done(&credentials);
}

static void try_request(char *text, struct bytes body)
{
    char *target = strchr(text, ' ');
    struct bytes path, query;
    struct match match;
    struct problem problem;
    if (target == NULL) {
        return;
    }
    *target++ = '\0';
    struct origin_check_request request = {.method = text,
                                           .host = target,
                                           .origin = target,
                                           .content_type = target};
    (void)origin_check_admits(&request, target, &problem);
    (void)origin_check_takes_body(&request, &problem);
    uri_split(target, &path, &query);
    routes_find(text, path, &match);
    if (match.route != NULL) {
        check_fields(&match, query, body);
    }
}

static void try_reply(struct bytes input)
{
    struct resp_reply reply = {0};
    struct buffer text = {0};
    struct problem problem;
    size_t used;
    if (resp_parse_reply(input, 10000, &reply, &used) == 0) {
        /* The core's maps have unique, short keys. */
        bool is_map = false;
        for (uint32_t i = 0; i < reply.count; i++) {
            is_map |= reply.value[i].type == RESP_MAP;
        }
        if (!is_map) {
            json_t *document = json_object();
            json_put(document, "reply", json_of_reply(&reply, 0, NULL));
            json_write(document, &text);
            check_json(buffer_bytes(&text));
        }
        if (reply.value[0].type == RESP_ERROR) {
            problem_of_error(&problem, reply.value[0].bytes);
            check_problem(&problem);
        }
    }
    buffer_done(&text);
    resp_reply_done(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    struct bytes input = bytes_of(data + 1, size - 1);
    if (data[0] % 2 != 0) {
        try_reply(input);
        return 0;
    }
    const uint8_t *end = input.size > 0 ? memchr(input.data, '\n', input.size)
                                        : NULL;
    size_t line = end != NULL ? (size_t)(end - input.data) : input.size;
    char *text = memory_new(line + 1);
    memcpy(text, input.data, line);
    size_t rest = end != NULL ? line + 1 : line;
    uint8_t *body = memory_copy(input.data + rest, input.size - rest);
    try_request(text, bytes_of(body, input.size - rest));
    free(body);
    free(text);
    return 0;
}
