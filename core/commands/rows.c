/* SPDX-License-Identifier: MIT */

#include "core/commands/rows.h"

#include <string.h>

#include "base/check.h"
#include "core/read_index.h"
#include "core/request.h"

/* How many bytes are written for the cost of one step of a scan. */
#define BYTES_PER_STEP 32
/* JSON has these bytes around a text, at most: quotes, a comma or colon, and
 * "_b64" or "b64:"; and around a value with short RESP, such as null. */
#define AROUND_TEXT 8
#define AROUND_VALUE 3

void rows_begin(struct rows *rows, const struct request *request,
                uint32_t count_max, size_t size_max)
{
    *rows = (struct rows){.count_max = count_max, .size_max = size_max};
    rows->writer = (struct resp_writer){&rows->out, request->version};
}

bool rows_have_room(const struct rows *rows)
{
    return !rows->is_full && rows->count < rows->count_max;
}

/* The size of a text in JSON, at most. */
static size_t rows_text_size(struct bytes text)
{
    size_t size = text.size;
    bool is_ascii = true;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        size += byte < 0x20 ? 5 : byte == '"' || byte == '\\' ? 1 : 0;
        is_ascii &= byte < 0x80;
    }
    size_t base64_size = is_ascii ? 0 : (text.size + 2) / 3 * 4;
    return AROUND_TEXT + (size > base64_size ? size : base64_size);
}

/* The size in JSON, at most, of values that resp_...() has written. */
static size_t rows_size(struct bytes values)
{
    size_t size = 0;
    for (size_t at = 0; at < values.size;) {
        const uint8_t *head = values.data + at;
        const uint8_t *line_end = memchr(head, '\n', values.size - at);
        CHECK(line_end != NULL); /* resp_...() ends each line. */
        size_t head_size = (size_t)(line_end + 1 - head);
        uint64_t text_size;
        at += head_size;
        /* "$-1" is RESP2's null. */
        if (head[0] == '$' &&
            bytes_to_u64(bytes_of(head + 1, head_size - 3), &text_size)) {
            CHECK(text_size + 2 <= values.size - at);
            size += rows_text_size(bytes_of(values.data + at, text_size));
            at += text_size + 2;
        } else {
            size += head_size + AROUND_VALUE;
        }
    }
    return size;
}

bool rows_keep(struct rows *rows)
{
    CHECK(rows_have_room(rows) && rows->out.size > rows->kept);
    size_t size = rows_size(
        bytes_of(rows->out.data + rows->kept, rows->out.size - rows->kept));
    /* The first row always fits: otherwise a list could end here. */
    if (rows->count > 0 && rows->size + size > rows->size_max) {
        rows->is_full = true;
        rows->out.size = rows->kept;
        return false;
    }
    rows->kept = rows->out.size;
    rows->size += size;
    rows->count++;
    return true;
}

void rows_put(struct core *core, struct rows *rows, struct resp_writer *writer)
{
    CHECK(rows->out.size == rows->kept); /* The last row has been ended. */
    resp_array(writer, rows->count);
    buffer_put_bytes(writer->out, buffer_bytes(&rows->out));
    rows_done(core, rows);
}

void rows_done(struct core *core, struct rows *rows)
{
    read_index_spend(core, rows->kept / BYTES_PER_STEP);
    buffer_done(&rows->out);
}
