/* SPDX-License-Identifier: MIT */

#include "tests/unit/vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

void vectors_read(const char *path, struct buffer *ret_text)
{
    uint8_t piece[4096];
    size_t size;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("%s cannot be read: run from the top of the tree", path);
        return;
    }
    while ((size = fread(piece, 1, sizeof piece, file)) > 0) {
        buffer_put(ret_text, piece, size);
    }
    fclose(file);
}

void vectors_compare(const char *path, struct bytes text)
{
    if (getenv("REWRITE") != NULL) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
        assert_int_equal(fclose(file), 0);
    }
    struct buffer there = {0};
    vectors_read(path, &there);
    bool is_same = bytes_equal(buffer_bytes(&there), text);
    buffer_done(&there);
    if (!is_same) {
        fail_msg("%s is not what the library says (REWRITE=1 writes it anew)",
                 path);
    }
}
