/* SPDX-License-Identifier: MIT */

#include "base/size.h"

#include <ctype.h>
#include <string.h>

#include "base/bytes.h"

bool size_parse(const char *text, uint64_t *ret_size)
{
    size_t length = strlen(text);
    unsigned shift = 0;
    uint64_t value;
    if (length > 1) {
        int last = toupper((unsigned char)text[length - 1]);
        shift = last == 'K' ? 10 : last == 'M' ? 20 : last == 'G' ? 30 : 0;
        length -= shift > 0;
    }
    if (!bytes_to_u64(bytes_of(text, length), &value) ||
        value > UINT64_MAX >> shift) {
        return false;
    }
    *ret_size = value << shift;
    return true;
}
