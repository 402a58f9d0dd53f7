/* SPDX-License-Identifier: MIT */

/* The page at "/": http/index.html, as it stands there, in the program. It is
 * the same for everybody; what it shows it asks for by the paths of routes.h,
 * with the rights of who looks. */

#ifndef HASP_HTTP_PAGE_H
#define HASP_HTTP_PAGE_H

#include "net/http.h"

/* Answers with the page, and with what a browser may do with it: this script
 * and this style, by their digests, and no others; requests to this node
 * alone. 'policy' is empty at first, and keeps what is made once. */
void page_answer(struct http_exchange *raw_exchange, struct buffer *policy);

#endif /* HASP_HTTP_PAGE_H */
