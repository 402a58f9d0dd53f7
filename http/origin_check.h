/* SPDX-License-Identifier: MIT */

/* Which requests of browsers are served: see gateway.h. Pure. */

#ifndef HASP_HTTP_ORIGIN_CHECK_H
#define HASP_HTTP_ORIGIN_CHECK_H

#include <stdbool.h>

#include "http/problem.h"

struct origin_check_request {
    const char *method;
    const char *host; /* Headers; NULL: not sent. */
    const char *origin;
    const char *fetch_site;
    const char *content_type;
    bool has_body;
    bool is_secure; /* Over TLS, as a page of its origin is. */
};

/* False: 'ret_problem' says why. 'names' are further names of this node,
 * separated by spaces. */
bool origin_check_admits(const struct origin_check_request *request,
                         const char *names, struct problem *ret_problem);
/* The same for the type of its body. */
bool origin_check_takes_body(const struct origin_check_request *request,
                             struct problem *ret_problem);

#endif /* HASP_HTTP_ORIGIN_CHECK_H */
