/* SPDX-License-Identifier: MIT */

/* The URI in an untrusted certificate: an accepted URI has only one spelling,
 * so two names that differ are never mistaken for each other. */

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "net/tls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tls_name name;
    char text[256];
    int length = 0;
    int error = tls_name_parse(bytes_of(data, size), &name);
    if (error != 0) {
        CHECK(error == HASP_ENOENT || error == HASP_EINVALID);
        return 0;
    }
    CHECK(tls_word_is_fine(bytes_of_text(name.cluster)));
    switch (name.role) {
    case TLS_CA:
        length = snprintf(text, sizeof text, "hasp://%s", name.cluster);
        break;
    case TLS_NODE:
        CHECK(name.node != 0);
        length = snprintf(text, sizeof text, "hasp://%s/node/%" PRIu64,
                          name.cluster, name.node);
        break;
    case TLS_USER:
        CHECK(tls_word_is_fine(bytes_of_text(name.user)));
        length = snprintf(text, sizeof text, "hasp://%s/user/%s", name.cluster,
                          name.user);
        break;
    case TLS_NOBODY:
        UNREACHABLE();
    }
    CHECK((size_t)length == size && memcmp(text, data, size) == 0);
    return 0;
}
