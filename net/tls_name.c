/* SPDX-License-Identifier: MIT */

/* The URI in a certificate that identifies its owner. */

#include <string.h>

#include "net/tls.h"

#define SCHEME "hasp:"

bool tls_word_is_fine(struct bytes word)
{
    for (size_t i = 0; i < word.size; i++) {
        uint8_t c = word.data[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
            !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    return word.size > 0 && word.size < TLS_CLUSTER_SIZE;
}

/* Removes 'prefix' from the front; false if it is not there. */
static bool tls_name_skip(struct bytes *at, const char *prefix)
{
    struct bytes start = bytes_of_text(prefix);
    if (!bytes_has_prefix(*at, start)) {
        return false;
    }
    *at = bytes_of(at->data + start.size, at->size - start.size);
    return true;
}

static bool take_word(struct bytes word, char ret_word[TLS_USER_SIZE])
{
    if (!tls_word_is_fine(word)) {
        return false;
    }
    memcpy(ret_word, word.data, word.size);
    ret_word[word.size] = '\0';
    return true;
}

int tls_name_parse(struct bytes uri, struct tls_name *ret_name)
{
    struct tls_name name = {0};
    struct bytes at = uri;
    if (!tls_name_skip(&at, SCHEME)) {
        return HASP_ENOENT;
    }
    if (!tls_name_skip(&at, "//")) {
        return HASP_EINVALID;
    }
    const uint8_t *slash = at.size > 0 ? memchr(at.data, '/', at.size) : NULL;
    size_t size = slash != NULL ? (size_t)(slash - at.data) : at.size;
    if (!take_word(bytes_of(at.data, size), name.cluster)) {
        return HASP_EINVALID;
    }
    at = bytes_of(at.data + size, at.size - size);
    bool is_fine = true;
    if (at.size == 0) {
        name.role = TLS_CA;
    } else if (tls_name_skip(&at, "/user/")) {
        name.role = TLS_USER;
        is_fine = take_word(at, name.user);
    } else if (tls_name_skip(&at, "/node/")) {
        name.role = TLS_NODE;
        /* One node has one spelling: 007 is not node 7. */
        is_fine = at.size > 0 && at.data[0] != '0' &&
                  bytes_to_u64(at, &name.node);
    } else {
        is_fine = false;
    }
    if (!is_fine) {
        return HASP_EINVALID;
    }
    *ret_name = name;
    return 0;
}
