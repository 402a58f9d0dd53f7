/* SPDX-License-Identifier: MIT */

/* Problem documents (RFC 9457): what was refused, why, and what is allowed. */

#ifndef HASP_HTTP_PROBLEM_H
#define HASP_HTTP_PROBLEM_H

#include <jansson.h>

#include "base/bytes.h"
#include "net/http.h"

#define PROBLEM_DETAIL_SIZE 512

struct problem {
    unsigned status;
    const char *code;  /* The protocol's word; static. */
    const char *field; /* The request's field; static, or NULL. */
    char detail[PROBLEM_DETAIL_SIZE];
};

/* Sets a refusal of the gateway itself. */
void problem_set(struct problem *problem, unsigned status, const char *code,
                 const char *field, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Translates an error of the protocol, "WORD text", to HTTP. */
void problem_of_error(struct problem *problem, struct bytes error);

/* Writes the document into a reply with its status and headers. 'more' (may be
 * NULL) has further members; ownership is taken. */
void problem_reply(const struct problem *problem, json_t *more,
                   struct http_reply *reply);

#endif /* HASP_HTTP_PROBLEM_H */
