/* SPDX-License-Identifier: MIT */

#include "node/origin.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct origin *origin_find(struct origin **origins, const char *address)
{
    struct origin *origin = NULL;
    char host[sizeof origin->host];
    address_origin(address, host);
    HASH_FIND(by_host, *origins, host, sizeof host, origin);
    if (origin == NULL) {
        origin = memory_new(sizeof *origin);
        memcpy(origin->host, host, sizeof host);
        HASH_ADD(by_host, *origins, host, sizeof origin->host, origin);
    }
    return origin;
}

void origin_forget(struct origin **origins, struct origin *origin)
{
    if (origin->count == 0) {
        HASH_DELETE(by_host, *origins, origin);
        free(origin);
    }
}
