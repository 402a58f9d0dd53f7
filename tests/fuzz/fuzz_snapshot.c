/* SPDX-License-Identifier: MIT */

/* Any bytes as a snapshot stream: refused, or the one encoding of its state.
 *
 * If the first byte is odd the rest gets a right checksum; otherwise no input
 * would ever pass it. */

#include "storage/snapshot.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int append_piece(void *data, struct bytes piece)
{
    buffer_put_bytes(data, piece);
    return 0;
}

static void assert_canonical(struct bytes stream,
                             const struct snapshot_header *header)
{
    struct table *table = table_new_memory();
    struct table_txn *txn;
    struct buffer again = {0};
    CHECK(table_begin_write(table, &txn) == 0);
    CHECK(snapshot_decode(stream, txn) == 0);
    CHECK(snapshot_encode(header, txn, append_piece, &again) == 0);
    CHECK(table_commit(txn) == 0);
    CHECK(bytes_equal(stream, buffer_bytes(&again)));
    buffer_done(&again);
    table_close(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snapshot_header header;
    char why[HASP_WHY_SIZE] = "";
    if (size < 1) {
        return 0;
    }
    size_t stream_size = size - 1;
    uint8_t *stream = memory_copy(data + 1, stream_size);
    if (data[0] % 2 == 1 && stream_size > DIGEST_SIZE) {
        digest_of(bytes_of(stream, stream_size - DIGEST_SIZE),
                  stream + stream_size - DIGEST_SIZE);
    }
    int error = snapshot_check(bytes_of(stream, stream_size), &header, why);
    CHECK(error == 0 || error == HASP_ECORRUPT);
    CHECK((error != 0) == (why[0] != '\0'));
    if (error == 0) {
        assert_canonical(bytes_of(stream, stream_size), &header);
    }
    free(stream);
    return 0;
}
