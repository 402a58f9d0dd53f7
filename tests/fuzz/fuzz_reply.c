/* SPDX-License-Identifier: MIT */

/* A hostile server's bytes through the reply parser: values must nest exactly,
 * lie inside the input, and stay within the limits; a good reply that is cut
 * short needs more bytes and is never mistaken for another. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "net/resp.h"

#define VALUE_MAX 1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_reply(const struct resp_reply *reply, struct bytes input)
{
    CHECK(reply->count >= 1 && reply->count <= VALUE_MAX);
    CHECK(reply->value[0].span == reply->count);
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct resp_value *value = &reply->value[i];
        uint64_t elements = value->type == RESP_MAP ? 2ull * value->count
                                                    : value->count;
        uint32_t inside = i + 1;
        for (uint64_t element = 0; element < elements; element++) {
            CHECK(inside < reply->count);
            inside += reply->value[inside].span;
        }
        CHECK(value->span == inside - i);
        if (value->bytes.size > 0) {
            CHECK(value->bytes.data >= input.data);
            CHECK(value->bytes.data + value->bytes.size <=
                  input.data + input.size);
        }
        (void)resp_find(reply, i, "id");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct resp_reply reply = {0};
    size_t used = 0;
    uint8_t *copy = memory_copy(data, size);
    struct bytes input = bytes_of(copy, size);
    if (resp_parse_reply(input, VALUE_MAX, &reply, &used) == 0) {
        CHECK(used > 0 && used <= size);
        check_reply(&reply, input);
        size_t cut = used / 2;
        uint8_t *part = memory_copy(data, cut);
        size_t unused;
        CHECK(resp_parse_reply(bytes_of(part, cut), VALUE_MAX, &reply,
                               &unused) == HASP_EMORE);
        free(part);
    }
    free(copy);
    resp_reply_done(&reply);
    return 0;
}
