/* SPDX-License-Identifier: MIT */

/* CRC32C (Castagnoli, the polynomial of iSCSI, RFC 3720 B.4): guards what is
 * written to disk against torn writes and rot, not against forgery.
 *
 * Uses the processor's instruction (SSE4.2) if it has one. Chaining: the
 * checksum of 'ab' is crc32c(crc32c(0, a), b). Threads: any. */

#ifndef HASP_STORAGE_CRC32C_H
#define HASP_STORAGE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues 'crc' (0 to begin) over 'size' bytes. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

/* The same from a table, as on a processor without the instruction. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size);

#endif /* HASP_STORAGE_CRC32C_H */
