/* SPDX-License-Identifier: MIT */

/* Bytes: a borrowed run of bytes, a growable buffer, and a bounded reader.
 *
 * Integers are little-endian. A buffer aborts when memory runs out (a node
 * that cannot allocate stops). A reader never reads past its end: the first
 * failing get marks it bad, every later get returns 0 or an empty run, and the
 * caller asks reader_ok() once at the end. */

#ifndef HASP_BASE_BYTES_H
#define HASP_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A run of bytes that another object owns. 'data' may be NULL if size is 0. */
struct bytes {
    const uint8_t *data;
    size_t size;
};

#define BYTES_LITERAL(text) \
    ((struct bytes){(const uint8_t *)(text), sizeof(text) - 1})

static inline struct bytes bytes_of(const void *data, size_t size)
{
    return (struct bytes){.data = data, .size = size};
}

static inline struct bytes bytes_of_text(const char *text)
{
    return bytes_of(text, strlen(text));
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size &&
           (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Orders like memcmp(), with a prefix before longer runs. */
int bytes_compare(struct bytes a, struct bytes b);

/* True if 'a' is the ASCII word 'word' (upper case), whatever its case. */
bool bytes_is_word(struct bytes a, const char *word);

bool bytes_has_prefix(struct bytes a, struct bytes prefix);

/* Removes the bytes before the first 'mark' from '*rest', and the mark; all of
 * it if there is no mark. */
struct bytes bytes_cut(struct bytes *rest, char mark);

/* For a message: at most 40 bytes, '?' for unprintable ones. Returns 'out'. */
#define BYTES_SHOWN_SIZE 41u
const char *bytes_shown(struct bytes a, char out[BYTES_SHOWN_SIZE]);

/* The size of the first character of 'a', which is not empty, if a line can
 * contain it unchanged: 0 for a control character, for one that reverses the
 * direction of writing, and for invalid UTF-8. */
size_t bytes_printable(struct bytes a);

/* Parses a decimal unsigned integer without sign, blanks or leading '+'.
 * Returns false, leaving 'ret_value' alone, if 'a' is anything else or does
 * not fit. */
bool bytes_to_u64(struct bytes a, uint64_t *ret_value);

/* Writes two lower-case hex digits per byte, and a zero. */
void hex_put(char *out, struct bytes bytes);
/* Reads 'size' bytes from twice as many hex digits, in either case; false, with
 * 'out' left alone or in part written, if 'text' is anything else. */
bool hex_get(struct bytes text, uint8_t *out, size_t size);

/* The common prefix of all texts that match the glob; borrowed from 'pattern'.
 */
struct bytes bytes_fixed(struct bytes pattern);
/* Matches 'text' against the glob 'pattern' ('*', '?', '[a-z]', '\x'). */
bool bytes_match(struct bytes pattern, struct bytes text);
/* The same; adds the examined bytes of 'pattern' to 'steps'. */
bool bytes_match_counted(struct bytes pattern, struct bytes text,
                         uint64_t *steps);

/* A growable run of bytes, which the buffer owns. Zeroed memory is an empty
 * buffer. */
struct buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
};

void buffer_done(struct buffer *buffer);
static inline void buffer_clear(struct buffer *buffer)
{
    buffer->size = 0;
}
static inline struct bytes buffer_bytes(const struct buffer *buffer)
{
    return bytes_of(buffer->data, buffer->size);
}

/* For buffer_reserve(): there is too little room for 'size' more bytes. */
void buffer_grow(struct buffer *buffer, size_t size);
/* Makes room for 'size' more bytes and returns their address; the caller then
 * adds the size that it wrote to 'buffer->size'. */
static inline uint8_t *buffer_reserve(struct buffer *buffer, size_t size)
{
    if (size > buffer->capacity - buffer->size) {
        buffer_grow(buffer, size);
    }
    return buffer->data + buffer->size;
}
static inline void buffer_put(struct buffer *buffer, const void *data,
                              size_t size)
{
    if (size > 0) { /* memcpy() from NULL is undefined. */
        memcpy(buffer_reserve(buffer, size), data, size);
        buffer->size += size;
    }
}
static inline void buffer_put_bytes(struct buffer *buffer, struct bytes bytes)
{
    buffer_put(buffer, bytes.data, bytes.size);
}
void buffer_put_text(struct buffer *buffer, const char *text);
void buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Drops 'size' bytes from the front. */
void buffer_consume(struct buffer *buffer, size_t size);

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool is_bad;
};

static inline struct reader reader_of(struct bytes bytes)
{
    /* Adding even 0 to a null pointer is undefined. */
    const uint8_t *end = bytes.size > 0 ? bytes.data + bytes.size : bytes.data;
    return (struct reader){bytes.data, end, false};
}
static inline size_t reader_left(const struct reader *reader)
{
    return (size_t)(reader->end - reader->at);
}
/* The next 'size' bytes, borrowed from the input. */
static inline struct bytes reader_bytes(struct reader *reader, size_t size)
{
    if (reader->is_bad || reader_left(reader) < size) {
        reader->is_bad = true;
        return (struct bytes){NULL, 0};
    }
    struct bytes bytes = {reader->at, size};
    if (size > 0) { /* NULL + 0 is undefined. */
        reader->at += size;
    }
    return bytes;
}
/* True if no get failed; with 'at_end', also only if nothing is left. */
static inline bool reader_ok(const struct reader *reader, bool at_end)
{
    return !reader->is_bad && (!at_end || reader->at == reader->end);
}

static inline uint32_t load_u32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return le32toh(value);
}
static inline uint64_t load_u64(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return le64toh(value);
}
static inline uint8_t reader_u8(struct reader *reader)
{
    struct bytes bytes = reader_bytes(reader, 1);
    return bytes.size == 1 ? bytes.data[0] : 0;
}
static inline uint16_t reader_u16(struct reader *reader)
{
    struct bytes bytes = reader_bytes(reader, 2);
    return bytes.size == 2
               ? (uint16_t)(bytes.data[0] | (unsigned)bytes.data[1] << 8)
               : 0;
}
static inline uint32_t reader_u32(struct reader *reader)
{
    struct bytes bytes = reader_bytes(reader, 4);
    return bytes.size == 4 ? load_u32(bytes.data) : 0;
}
static inline uint64_t reader_u64(struct reader *reader)
{
    struct bytes bytes = reader_bytes(reader, 8);
    return bytes.size == 8 ? load_u64(bytes.data) : 0;
}
/* Reads a run that buffer_put_run() wrote. */
static inline struct bytes reader_run(struct reader *reader)
{
    uint32_t size = reader_u32(reader);
    return reader_bytes(reader, size);
}

static inline void store_u32(void *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}
static inline void store_u64(void *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}
static inline void buffer_put_u8(struct buffer *buffer, uint8_t value)
{
    *buffer_reserve(buffer, 1) = value;
    buffer->size++;
}
static inline void buffer_put_u32(struct buffer *buffer, uint32_t value)
{
    store_u32(buffer_reserve(buffer, 4), value);
    buffer->size += 4;
}
static inline void buffer_put_u64(struct buffer *buffer, uint64_t value)
{
    store_u64(buffer_reserve(buffer, 8), value);
    buffer->size += 8;
}
/* Appends a u32 length and the bytes. */
void buffer_put_run(struct buffer *buffer, struct bytes bytes);

/* Big-endian, for keys whose order must be meaningful. */
static inline void store_u64_be(void *to, uint64_t value)
{
    value = htobe64(value);
    memcpy(to, &value, sizeof value);
}
static inline uint64_t load_u64_be(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return be64toh(value);
}

#endif /* HASP_BASE_BYTES_H */
