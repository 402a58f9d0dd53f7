/* SPDX-License-Identifier: MIT */

/* UUIDs, durations, values. */

#include "http/consul_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "base/check.h"
#include "base/sha.h"
#include "base/units.h"

#define UUID_BYTES 16
#define SESSION_BITS 53
#define OWNER_PREFIX "consul-"
#define VALUE_MARK \
    "\x01"         \
    "consul"
#define DURATION_NS_MAX (UINT64_C(1) << 62)

/* Puts the 53 bits of the session and the 64 of the random number around the
 * bits for version and variant; five zero bits are left. */
void consul_id_put(const struct consul_id *id, char out[CONSUL_ID_SIZE])
{
    uint8_t raw[UUID_BYTES] = {0};
    char digits[2 * UUID_BYTES + 1];
    CHECK(id->session >> SESSION_BITS == 0);
    if (id->session != 0) {
        store_u64_be(raw, id->session >> 5 << 16);
        raw[6] = (uint8_t)(0x40 | (id->session >> 1 & 15));
        raw[7] = (uint8_t)((id->session & 1) << 7 | id->random >> 57);
        store_u64_be(raw + 8, (id->random & (UINT64_MAX >> 7)) << 5);
        raw[8] = (uint8_t)(0x80 | (raw[8] & 0x3f));
    }
    hex_put(digits, bytes_of(raw, sizeof raw));
    snprintf(out, CONSUL_ID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", digits,
             digits + 8, digits + 12, digits + 16, digits + 20);
}

bool consul_id_get(struct bytes text, struct consul_id *ret_id)
{
    uint8_t raw[UUID_BYTES];
    char digits[2 * UUID_BYTES], again[CONSUL_ID_SIZE];
    size_t count = 0;
    if (text.size != CONSUL_ID_SIZE - 1) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] != '-' && count < sizeof digits) {
            digits[count++] = (char)text.data[i];
        }
    }
    if (!hex_get(bytes_of(digits, count), raw, sizeof raw)) {
        return false;
    }
    struct consul_id id = {
        .session = load_u64_be(raw) >> 16 << 5 | (uint64_t)(raw[6] & 15) << 1 |
                   raw[7] >> 7,
        .random = (uint64_t)(raw[7] & 0x7f) << 57 |
                  (load_u64_be(raw + 8) & (UINT64_MAX >> 2)) >> 5};
    /* The dashes, the version and the zero bits must be right, too. */
    consul_id_put(&id, again);
    *ret_id = id;
    return id.session != 0 &&
           strncasecmp((const char *)text.data, again, text.size) == 0;
}

void consul_id_secret(const struct consul_id *id, char out[CONSUL_SECRET_SIZE])
{
    uint8_t from[14] = "consul", digest[SHA256_SIZE];
    store_u64_be(from + 6, id->random);
    int error = sha256(bytes_of(from, sizeof from), digest);
    CHECK(error == 0);
    hex_put(out, bytes_of(digest, (CONSUL_SECRET_SIZE - 1) / 2));
}

void consul_id_owner(const struct consul_id *id, char out[CONSUL_OWNER_SIZE])
{
    snprintf(out, CONSUL_OWNER_SIZE, OWNER_PREFIX "%016" PRIx64, id->random);
}

uint64_t consul_owner_random(struct bytes owner)
{
    uint8_t raw[8];
    size_t skipped = sizeof OWNER_PREFIX - 1;
    if (!bytes_has_prefix(owner, BYTES_LITERAL(OWNER_PREFIX)) ||
        !hex_get(bytes_of(owner.data + skipped, owner.size - skipped), raw,
                 sizeof raw)) {
        return 0;
    }
    return load_u64_be(raw);
}

/* The unit at the start of 'text' in ns, and its size; 0: there is none. */
static uint64_t duration_unit(struct bytes text, size_t *ret_size)
{
    /* The longer ones first. The micro sign has two code points. */
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1},
                 {"us", NS_PER_US},
                 {"\xc2\xb5s", NS_PER_US},
                 {"\xce\xbcs", NS_PER_US},
                 {"ms", NS_PER_MS},
                 {"s", NS_PER_S},
                 {"m", 60 * NS_PER_S},
                 {"h", 3600 * NS_PER_S}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (bytes_has_prefix(text, bytes_of_text(units[i].name))) {
            *ret_size = strlen(units[i].name);
            return units[i].ns;
        }
    }
    return 0;
}

/* Takes digits, and "." with more digits; false: there are none. The fraction
 * is in billionths. */
static bool duration_number(struct bytes *text, uint64_t *ret_whole,
                            uint64_t *ret_fraction)
{
    uint64_t whole = 0, fraction = 0, place = NS_PER_S;
    bool is_fraction = false, has_any = false;
    while (text->size > 0) {
        uint8_t c = text->data[0];
        if (c == '.' && !is_fraction) {
            is_fraction = true;
        } else if (c < '0' || c > '9') {
            break;
        } else if (is_fraction) {
            place /= 10;
            fraction += (uint64_t)(c - '0') * place;
            has_any = true;
        } else {
            whole = 10 * whole + (uint64_t)(c - '0');
            has_any = true;
        }
        if (whole > DURATION_NS_MAX) {
            return false;
        }
        *text = bytes_of(text->data + 1, text->size - 1);
    }
    *ret_whole = whole;
    *ret_fraction = fraction;
    return has_any;
}

bool consul_duration_get(struct bytes text, uint64_t *ret_ns)
{
    uint64_t sum = 0;
    if (text.size > 0 && text.data[0] == '+') {
        text = bytes_of(text.data + 1, text.size - 1);
    }
    if (bytes_equal(text, BYTES_LITERAL("0"))) {
        *ret_ns = 0;
        return true;
    }
    if (text.size == 0) {
        return false;
    }
    while (text.size > 0) {
        uint64_t whole, fraction;
        size_t size = 0;
        if (!duration_number(&text, &whole, &fraction)) {
            return false;
        }
        uint64_t unit = duration_unit(text, &size);
        if (unit == 0 || whole > DURATION_NS_MAX / unit) {
            return false;
        }
        sum += whole * unit + (unit >= NS_PER_S ? fraction * (unit / NS_PER_S)
                                                : fraction * unit / NS_PER_S);
        if (sum > DURATION_NS_MAX) {
            return false;
        }
        text = bytes_of(text.data + size, text.size - size);
    }
    *ret_ns = sum;
    return true;
}

void consul_value_put(struct buffer *out, uint64_t flags, struct bytes body)
{
    buffer_printf(out, VALUE_MARK "%016" PRIx64, flags);
    buffer_put_bytes(out, body);
}

struct bytes consul_value_get(struct bytes value, uint64_t *ret_flags)
{
    uint8_t raw[8];
    size_t mark = sizeof VALUE_MARK - 1;
    *ret_flags = CONSUL_LOCK_FLAGS;
    if (value.size < CONSUL_VALUE_HEAD ||
        !bytes_has_prefix(value, BYTES_LITERAL(VALUE_MARK)) ||
        !hex_get(bytes_of(value.data + mark, 16), raw, sizeof raw)) {
        return value;
    }
    *ret_flags = load_u64_be(raw);
    return bytes_of(value.data + CONSUL_VALUE_HEAD,
                    value.size - CONSUL_VALUE_HEAD);
}
