/* SPDX-License-Identifier: MIT */

/* What net/stream_tls.c calls in net/stream.c. */

#ifndef HASP_NET_STREAM_PARTS_H
#define HASP_NET_STREAM_PARTS_H

#include "net/stream.h"

/* Plain bytes have come: the owner sees them where they lie. */
void stream_take_in(struct stream *stream, struct bytes bytes);
/* Sends what lies there; nothing may be under way. */
void stream_send_output(struct stream *stream);
/* Reads while there is room, as stream_tls_is_full() and the limits say. */
void stream_keep_reading(struct stream *stream);
void stream_start_timer(struct stream *stream, uint64_t after_ms);
/* The other end has gone, or the socket failed. */
void stream_fail(struct stream *stream, int uv_error);

#endif /* HASP_NET_STREAM_PARTS_H */
