/* SPDX-License-Identifier: MIT */

#include "client/reply.h"

uint64_t reply_number(const struct resp_reply *reply, uint32_t at,
                      const char *key)
{
    const struct resp_value *value = resp_find(reply, at, key);
    return value != NULL && value->type == RESP_INTEGER && value->integer > 0
               ? (uint64_t)value->integer
               : 0;
}

struct bytes reply_text(const struct resp_reply *reply, uint32_t at,
                        const char *key)
{
    const struct resp_value *value = resp_find(reply, at, key);
    return value != NULL &&
                   (value->type == RESP_BULK || value->type == RESP_SIMPLE)
               ? value->bytes
               : bytes_of(NULL, 0);
}

uint32_t reply_array(const struct resp_reply *reply, uint32_t at,
                     const char *key, uint32_t *ret_first)
{
    const struct resp_value *list = resp_find(reply, at, key);
    if (list == NULL || list->type != RESP_ARRAY) {
        return 0;
    }
    *ret_first = (uint32_t)(list - reply->value) + 1;
    return list->count;
}
