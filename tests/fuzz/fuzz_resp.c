/* SPDX-License-Identifier: MIT */

/* Untrusted bytes through the request parser: the first byte says in which
 * pieces they come. Whole and in pieces they must mean the same, and arguments
 * must lie inside the input. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "net/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int parse_all(struct bytes input, size_t piece, struct buffer *out)
{
    struct resp_parser parser = {0};
    size_t start = 0;
    size_t end = 0;
    int error = HASP_EMORE;
    while (end < input.size || error == 0) {
        struct resp_request request;
        size_t used = 0;
        const char *why = NULL;
        if (error == HASP_EMORE) {
            end = input.size - end < piece ? input.size : end + piece;
        }
        uint8_t *copy = memory_copy(input.data + start, end - start);
        error = resp_parse(&parser, bytes_of(copy, end - start), &request,
                           &used, &why);
        if (error == 0) {
            CHECK(used > 0 && used <= end - start);
            CHECK(request.count <= 1024);
            buffer_put_u32(out, request.count);
            for (uint32_t i = 0; i < request.count; i++) {
                buffer_put_run(out, request.argument[i]);
            }
            start += used;
        }
        free(copy);
        if (error != 0 && error != HASP_EMORE) {
            CHECK(why != NULL);
            break;
        }
    }
    resp_parser_done(&parser);
    return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    struct bytes input = bytes_of(data + 1, size - 1);
    struct buffer whole = {0};
    struct buffer pieces = {0};
    int error = parse_all(input, SIZE_MAX / 2, &whole);
    CHECK(parse_all(input, (size_t)data[0] + 1, &pieces) == error);
    CHECK(bytes_equal(buffer_bytes(&whole), buffer_bytes(&pieces)));
    buffer_done(&whole);
    buffer_done(&pieces);
    return 0;
}
