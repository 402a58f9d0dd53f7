/* SPDX-License-Identifier: MIT */

#include "tests/unit/vectors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void vectors_replay(char *text, vectors_run_fn *run, void *data,
                    struct buffer *output, struct buffer *ret_text)
{
    bool is_answer = false;
    char *rest = text;
    while (rest != NULL && *rest != '\0') {
        char *line = strsep(&rest, "\n");
        if (strcmp(line, "----") == 0) {
            buffer_put_text(ret_text, "----\n");
            buffer_put_bytes(ret_text, buffer_bytes(output));
            buffer_clear(output);
            is_answer = true;
        } else if (line[0] == '\0') {
            is_answer = false;
            buffer_put_text(ret_text, "\n");
        } else if (!is_answer) {
            buffer_printf(ret_text, "%s\n", line);
            if (line[0] != '#') {
                run(data, line);
            }
        }
    }
    assert_int_equal(output->size, 0); /* Each block has its "----". */
}
