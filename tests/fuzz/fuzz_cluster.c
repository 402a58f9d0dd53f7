/* SPDX-License-Identifier: MIT */

/* Three cores and eight clients (tests/unit/drawn_cluster.h): the input decides
 * which requests are drawn from the tables of commands, and what fails when.
 * Its first byte decides whether each choice is a byte of the input, or comes
 * from a generator that the rest seeds, so that a short input has a long
 * history. */

#include "base/prng.h"
#include "tests/unit/drawn_cluster.h"
#include "tests/unit/drawn_requests.h"

#define STEP_COUNT 300
#define STEP_COUNT_LONG 300

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct source {
    struct reader reader;
    struct prng prng;
    bool is_seeded;
};

static uint32_t below(void *data, uint32_t bound)
{
    struct source *source = data;
    if (source->is_seeded) {
        return (uint32_t)prng_below(&source->prng, bound);
    }
    uint32_t byte = reader_left(&source->reader) > 0
                        ? reader_u8(&source->reader)
                        : 0;
    return byte % bound;
}

static bool has_more(void *data)
{
    const struct source *source = data;
    return source->is_seeded || reader_left(&source->reader) > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct source source = {.reader = reader_of(bytes_of(data, size))};
    struct choice choice = {below, &source, 0};
    struct drawn_count count = {0};
    source.is_seeded = size > 0 && reader_u8(&source.reader) % 4 != 0;
    for (size_t i = 1; i < size; i++) {
        source.prng.state = source.prng.state * 257 + data[i] + 1;
    }
    drawn_cluster(&choice, source.is_seeded ? STEP_COUNT_LONG : STEP_COUNT,
                  has_more, &count);
    return 0;
}
