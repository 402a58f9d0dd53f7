/* SPDX-License-Identifier: MIT */

/* What stands in the maps of a reply; a node that tells something else than it
 * should is taken to tell nothing. */

#ifndef HASP_CLIENT_REPLY_H
#define HASP_CLIENT_REPLY_H

#include <stdint.h>

#include "net/resp.h"

/* The number under 'key' in the map value[at]; 0 if there is none above 0. */
uint64_t reply_number(const struct resp_reply *reply, uint32_t at,
                      const char *key);

/* The text under 'key', borrowed from the reply; empty if there is none. */
struct bytes reply_text(const struct resp_reply *reply, uint32_t at,
                        const char *key);

/* The array under 'key': gives where its first element stands and returns how
 * many there are; 0 if there is no array. The next element of value[at] stands
 * at at + value[at].span. */
uint32_t reply_array(const struct resp_reply *reply, uint32_t at,
                     const char *key, uint32_t *ret_first);

#endif /* HASP_CLIENT_REPLY_H */
