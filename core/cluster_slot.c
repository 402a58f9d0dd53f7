/* SPDX-License-Identifier: MIT */

#include "core/cluster_slot.h"

#include <string.h>

#include "core/command.h"

/* The slot of a key: CRC16 (XMODEM) of it, or of its {tag}. */
uint32_t cluster_key_slot(struct bytes key)
{
    const uint8_t *open = key.size > 0 ? memchr(key.data, '{', key.size) : NULL;
    if (open != NULL) {
        size_t rest = key.size - (size_t)(open + 1 - key.data);
        const uint8_t *close = rest > 0 ? memchr(open + 1, '}', rest) : NULL;
        /* As in Redis Cluster, an empty {} is not a tag: the whole key is
         * hashed. */
        if (close != NULL && close > open + 1) {
            key = bytes_of(open + 1, (size_t)(close - open - 1));
        }
    }
    uint32_t crc = 0;
    for (size_t i = 0; i < key.size; i++) {
        crc ^= (uint32_t)key.data[i] << 8;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
        }
        crc &= 0xffff;
    }
    return crc % CLUSTER_SLOT_COUNT;
}

uint32_t cluster_slot(const struct call *call)
{
    return call->count > 1 ? cluster_key_slot(call->argument[1]) : 0;
}
