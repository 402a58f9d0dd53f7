/* SPDX-License-Identifier: MIT */

#include "tests/unit/vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static bool is_there(const char *path, struct bytes text)
{
    struct buffer there = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    buffer_reserve(&there, text.size + 1);
    there.size = fread(there.data, 1, text.size + 1, file);
    fclose(file);
    bool is_same = bytes_equal(buffer_bytes(&there), text);
    buffer_done(&there);
    return is_same;
}

void vectors_compare(const char *path, struct bytes text)
{
    if (getenv("REWRITE") != NULL) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
        assert_int_equal(fclose(file), 0);
    }
    if (!is_there(path, text)) {
        fail_msg("%s is not what the library says (REWRITE=1 writes it anew)",
                 path);
    }
}
