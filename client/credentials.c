/* SPDX-License-Identifier: MIT */

#include "client/credentials.h"

#include <string.h>

#include "base/bytes.h"

int credentials_parse(const char *text, struct credentials *ret_credentials)
{
    struct credentials credentials = {0};
    uint8_t secret[(CLIENT_SECRET_SIZE - 1) / 2];
    const char *colon = strchr(text, ':');
    if (colon == NULL ||
        !bytes_to_u64(bytes_of(text, (size_t)(colon - text)),
                      &credentials.session) ||
        credentials.session == 0 ||
        !hex_get(bytes_of_text(colon + 1), secret, sizeof secret)) {
        return HASP_EINVALID;
    }
    hex_put(credentials.secret, bytes_of(secret, sizeof secret));
    *ret_credentials = credentials;
    return 0;
}
