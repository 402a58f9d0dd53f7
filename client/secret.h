/* SPDX-License-Identifier: MIT */

/* The secret of a user (hasp1.NAME.<43 characters>), from a file. It is never
 * in arguments or in the environment, where others could read it. */

#ifndef HASP_CLIENT_SECRET_H
#define HASP_CLIENT_SECRET_H

#include <stddef.h>

#include "base/err.h"
#include "client/endpoints.h"

/* Reads the first line. HASP_ENOENT, HASP_EINVALID (others can read the file,
 * or there is no whole secret in it) with a text for a person. */
MUST_CHECK int secret_read(const char *path,
                           char ret_secret[CLIENT_USER_SECRET_SIZE],
                           char why[HASP_WHY_SIZE]);

/* How many bytes at the beginning of a secret name its user; 0 of "". */
size_t secret_user_size(const char *secret);

#endif /* HASP_CLIENT_SECRET_H */
