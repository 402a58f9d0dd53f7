/* SPDX-License-Identifier: MIT */

/* The page at "/": http/index.html, unchanged, in the program. It is the same
 * for everybody; it requests what it shows by the paths of routes.h, with the
 * rights of the user who views it. */

#ifndef HASP_HTTP_PAGE_H
#define HASP_HTTP_PAGE_H

#include "net/http.h"

/* Answers with the page and its policy for browsers: only this script and this
 * style, by their digests; requests only to this node. 'policy' is empty at
 * first, and keeps what is made once. */
void page_answer(struct http_exchange *raw_exchange, struct buffer *policy);

#endif /* HASP_HTTP_PAGE_H */
