/* SPDX-License-Identifier: MIT */

/* TLS under a stream, and the gate of a listener, where it is found out who
 * speaks it. For net/stream.c and net/listener.c alone.
 *
 *     accepted: first byte awaited --0x16--> handshake --> up
 *                        '--another: plain, or refused
 *     dialled:  handshake --> up
 *
 * A handshake costs a node about half a millisecond of its one thread, so those
 * of accepted connections are paced: a flight of the other end's that lies
 * there whole waits for its turn, and each gate takes GATE_FLIGHTS of them in a
 * turn of the loop, oldest first. Thousands of clients that come back at once
 * are then seconds of work in slices of two milliseconds, between which
 * everything else goes on. How many wait is bounded by how many connections the
 * owner takes, in all and from one address; and none is closed for the time
 * that it waits for us. */

#ifndef HASP_NET_STREAM_TLS_H
#define HASP_NET_STREAM_TLS_H

#include "net/stream.h"

/* From accepting, or connecting, to the end of the handshake. */
#define STREAM_TLS_HANDSHAKE_MS 5000
#define GATE_FLIGHTS 4

/* --- A listener's --------------------------------------------------------- */

struct gate {
    enum tls_mode mode;
    struct tls_context *context; /* NULL in TLS_OFF. */
    const char *refusal;         /* Of those who speak plain; or NULL. */
    listener_ready_fn *ready;    /* May be NULL. */
    void *data;
    struct list quiet; /* Those who have not said enough yet ... */
    struct list due;   /* ... and those who have. */
    uv_check_t check;  /* Both run while somebody is due. */
    uv_idle_t idle;
};

/* Two handles, which tell 'closed' when they are. */
#define GATE_HANDLES 2
void gate_open(struct gate *gate, uv_loop_t *loop);
void gate_close(struct gate *gate, uv_close_cb closed);
void gate_use(struct gate *gate, enum tls_mode mode,
              struct tls_context *context, const char *refusal);
/* An accepted stream has begun; it is ready at once where all speak plain. */
void gate_take(struct gate *gate, struct stream *stream);

/* --- A stream's ----------------------------------------------------------- */

struct stream_tls;

/* The socket is connected: begins the handshake. */
void stream_tls_connected(struct stream *stream);
/* Bytes have come from the socket. */
void stream_tls_take(struct stream *stream, struct bytes bytes);
/* True until the owner may send and receive. */
bool stream_tls_is_unready(const struct stream *stream);
/* Likewise, of one that this end has connected. */
bool stream_tls_is_dialling(const struct stream *stream);
/* What has come waits for its turn in the gate, and is enough for now. */
bool stream_tls_is_full(const struct stream *stream);
/* What is to be sent, in which the stream's output is now; NULL: the stream is
 * closing because that failed. */
struct buffer *stream_tls_output(struct stream *stream);
bool stream_tls_has_output(const struct stream *stream);
/* Says once that nothing more will come; true if there is that to be sent. */
bool stream_tls_end(struct stream *stream);
/* The time for the handshake is over. */
void stream_tls_is_late(struct stream *stream);
void stream_tls_free(struct stream_tls *stream_tls); /* NULL is fine. */

#endif /* HASP_NET_STREAM_TLS_H */
