/* SPDX-License-Identifier: MIT */

/* Functions of net/stream.c for net/stream_tls.c. */

#ifndef HASP_NET_STREAM_PARTS_H
#define HASP_NET_STREAM_PARTS_H

#include "net/stream.h"

/* Passes plain bytes to the owner, in place. */
void stream_take_in(struct stream *stream, struct bytes bytes);
/* Sends the output; no write may be in progress. */
void stream_send_output(struct stream *stream);
/* Reads while there is room, as stream_tls_is_full() and the limits say. */
void stream_keep_reading(struct stream *stream);
void stream_start_timer(struct stream *stream, uint64_t after_ms);
/* The peer has closed the connection, or the socket failed. */
void stream_fail(struct stream *stream, int uv_error);

#endif /* HASP_NET_STREAM_PARTS_H */
