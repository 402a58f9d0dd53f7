/* SPDX-License-Identifier: MIT */

/* Checks that every reader parses the head of a request in the same way. Only
 * for net/http.c.
 *
 * libmicrohttpd silently joins folded lines, cuts a value at NUL, keeps CR in
 * it, and ends a line at a bare LF. But it leaves the lines where it received
 * them, with NUL in place of each separator:
 *
 *     GET /path HTTP/1.1  Host: a     ... becomes, byte for byte,
 *     GET0/path0HTTP/1.100Host0 a00   ... (0 is NUL)
 *
 * So a head is unambiguous if each part begins exactly after the previous one,
 * and the last one ends where the head ends. A folded line, a NUL or a bare LF
 * leaves a gap of another size. If a later version of the library copied the
 * parts elsewhere, every request would be refused. */

#ifndef HASP_NET_HTTP_HEAD_H
#define HASP_NET_HTTP_HEAD_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http.h"

struct http_head {
    uint64_t body_size; /* As announced; 0 for a chunked body. */
    bool has_body;
};

/* Reads the head. Returns NULL, or why readers could parse the request
 * differently. 'target' is the library's pointer to it, with its size. Used
 * only on the loop: the next call overwrites the text. */
const char *http_head_read(struct MHD_Connection *connection,
                           const char *target, size_t target_size,
                           const char *method, const char *version,
                           struct http_head *ret_head);

/* Fills the answer to a request whose head is refused: a problem document, or
 * plain text with status 400 (struct http_limits). */
void http_head_refuse(bool is_plain, unsigned status, const char *title,
                      const char *detail, struct http_reply *ret_reply);

#endif /* HASP_NET_HTTP_HEAD_H */
