/* SPDX-License-Identifier: MIT */

/* Reads the maps of a reply; a value of another type counts as missing. */

#ifndef HASP_CLIENT_REPLY_H
#define HASP_CLIENT_REPLY_H

#include <stdint.h>

#include "net/resp.h"

/* The number under 'key' in the map value[at]; 0 if there is no positive
 * one. */
uint64_t reply_number(const struct resp_reply *reply, uint32_t at,
                      const char *key);

/* The text under 'key', borrowed from the reply; empty if there is none. */
struct bytes reply_text(const struct resp_reply *reply, uint32_t at,
                        const char *key);

/* The array under 'key': sets the index of its first element and returns the
 * number of elements; 0 if there is no array. The element after value[at] is
 * value[at + value[at].span]. */
uint32_t reply_array(const struct resp_reply *reply, uint32_t at,
                     const char *key, uint32_t *ret_first);

#endif /* HASP_CLIENT_REPLY_H */
