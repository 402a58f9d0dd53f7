/* SPDX-License-Identifier: MIT */

/* Checks that the head of a request means the same to every reader. For
 * net/http.c alone.
 *
 * libmicrohttpd joins folded lines, cuts a value at NUL, keeps CR in it, and
 * ends a line at a bare LF, and does not say so. It leaves the lines where it
 * received them, though, with NUL in place of each separator:
 *
 *     GET /path HTTP/1.1  Host: a     ... becomes, byte for byte,
 *     GET0/path0HTTP/1.100Host0 a00   ... (0 is NUL)
 *
 * so a head is what it seems to be if each part begins exactly where the part
 * before it ends, and the last one ends where the head does. A folded line, a
 * NUL or a bare LF leaves a gap of another size. A library that copied the
 * parts elsewhere would have each request refused. */

#ifndef HASP_NET_HTTP_HEAD_H
#define HASP_NET_HTTP_HEAD_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_head {
    uint64_t body_size; /* As announced; 0 for chunks. */
    bool has_body;
};

/* Reads the head. Returns NULL, or why readers could differ on what the request
 * is. 'target' is where the library read it, with its size. Used only on the
 * loop: the text is overwritten by the next call. */
const char *http_head_read(struct MHD_Connection *connection,
                           const char *target, size_t target_size,
                           const char *method, const char *version,
                           struct http_head *ret_head);

#endif /* HASP_NET_HTTP_HEAD_H */
