/* SPDX-License-Identifier: MIT */

/* TLS below a stream, and the gate of a listener, which detects TLS and paces
 * handshakes. Only for net/stream.c and net/listener.c.
 *
 *     accepted: first byte awaited --0x16--> handshake --> up
 *                        '--another: plain, or refused
 *     dialled:  handshake --> up
 *
 * A handshake costs about half a millisecond of the loop's thread, so those of
 * accepted connections are paced: a complete flight of the peer waits for its
 * turn, and each gate processes GATE_FLIGHTS of them in a turn of the loop,
 * oldest first. If thousands of clients reconnect at once, that is seconds of
 * work, but in slices of two milliseconds, between which everything else
 * continues. The number of waiting handshakes is bounded by the owner's limits
 * of connections, in all and from one address. Time spent waiting for the gate
 * does not count for the timeout. */

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
    const char *refusal;         /* Sent to plain connections; or NULL. */
    listener_ready_fn *ready;    /* May be NULL. */
    void *data;
    struct list quiet; /* Streams without a complete flight ... */
    struct list due;   /* ... and those with one, waiting. */
    uv_check_t check;  /* Both run while 'due' is not empty. */
    uv_idle_t idle;
};

/* Two handles; 'closed' is called for each. */
#define GATE_HANDLES 2
void gate_open(struct gate *gate, uv_loop_t *loop);
void gate_close(struct gate *gate, uv_close_cb closed);
void gate_use(struct gate *gate, enum tls_mode mode,
              struct tls_context *context, const char *refusal);
/* Takes an accepted stream, which is ready at once if the port is plain. */
void gate_take(struct gate *gate, struct stream *stream);

/* --- A stream's ----------------------------------------------------------- */

struct stream_tls;

/* The socket is connected: starts the handshake. */
void stream_tls_connected(struct stream *stream);
/* Processes bytes from the socket. */
void stream_tls_take(struct stream *stream, struct bytes bytes);
/* True until the owner can send and receive. */
bool stream_tls_is_unready(const struct stream *stream);
/* As stream_tls_is_unready(), for a stream that this side has connected. */
bool stream_tls_is_dialling(const struct stream *stream);
/* True if enough input waits for its turn in the gate. */
bool stream_tls_is_full(const struct stream *stream);
/* The bytes to be sent, with the stream's output encrypted; NULL: that failed,
 * and the stream is closing. */
struct buffer *stream_tls_output(struct stream *stream);
bool stream_tls_has_output(const struct stream *stream);
/* Appends close_notify, once; true if there is output to send. */
bool stream_tls_end(struct stream *stream);
/* The timer of the handshake has fired. */
void stream_tls_is_late(struct stream *stream);
void stream_tls_free(struct stream_tls *stream_tls); /* NULL is ignored. */

#endif /* HASP_NET_STREAM_TLS_H */
