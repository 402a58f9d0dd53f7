/* SPDX-License-Identifier: MIT */

/* The file of a fence (hasp_fence_* in include/hasp/hasp.h): one number that
 * never goes down.
 *
 *     offset    0   slot: magic, version, sequence, mark, digest
 *     offset  512   slot: likewise
 *
 * The slot with the greater sequence is valid; the other one is written next.
 * So a write that is torn by a power loss leaves the older mark readable, and
 * that is correct: nothing was admitted under the newer one. A new file gets
 * its name only when it is complete, so a short one is damaged.
 *
 * A mutex excludes other threads, flock() on the file other processes; both are
 * held from enter to leave. The mark is read from the file each time, since
 * another process may have raised it. */

#ifndef HASP_CLIENT_FENCE_FILE_H
#define HASP_CLIENT_FENCE_FILE_H

#include <stdint.h>

#include "base/err.h"

#define FENCE_SLOT_SIZE 512
#define FENCE_FILE_SIZE (2 * FENCE_SLOT_SIZE)

struct fence_slot {
    uint64_t sequence;
    uint64_t mark;
};

/* Pure: the bytes of a slot, and back; HASP_ECORRUPT. */
void fence_slot_encode(const struct fence_slot *slot,
                       uint8_t ret_bytes[FENCE_SLOT_SIZE]);
MUST_CHECK int fence_slot_decode(const uint8_t bytes[FENCE_SLOT_SIZE],
                                 struct fence_slot *ret_slot);

#endif /* HASP_CLIENT_FENCE_FILE_H */
