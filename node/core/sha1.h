/* SPDX-License-Identifier: MIT */

/* SHA-1 (FIPS 180-4): the name under which Redis clients call scripts, and
 * nothing else; it protects nothing here. */

#ifndef HASP_NODE_CORE_SHA1_H
#define HASP_NODE_CORE_SHA1_H

#include "base/bytes.h"

#define SHA1_TEXT_SIZE 41

/* The digest of 'bytes' as 40 hex digits and a zero. */
void sha1_text(struct bytes bytes, char out[SHA1_TEXT_SIZE]);

#endif /* HASP_NODE_CORE_SHA1_H */
