/* SPDX-License-Identifier: MIT */

/* Identifies a session and proves the right to act for it: "ID:SECRET". */

#ifndef HASP_CLIENT_CREDENTIALS_H
#define HASP_CLIENT_CREDENTIALS_H

#include <stdint.h>

#include "base/err.h"

#define CLIENT_SECRET_SIZE 33 /* 32 hex digits and a zero. */

struct credentials {
    uint64_t session;
    char secret[CLIENT_SECRET_SIZE];
};

/* HASP_EINVALID: 'text' is malformed. */
MUST_CHECK int credentials_parse(const char *text,
                                 struct credentials *ret_credentials);

#endif /* HASP_CLIENT_CREDENTIALS_H */
