/* SPDX-License-Identifier: MIT */

/* A byte stream over TCP on libuv, with limits: the layer on which clients' and
 * peers' connections stand, and under which TLS will slip.
 *
 * A stream is born from a listener or from stream_connect(), calls 'on_bytes' for
 * what arrives, and is closed once, by either side, with a reason; 'on_closed' is
 * its last call, after which the owner may free what embeds it. Output gathers in
 * stream_output() and leaves with ONE write per stream_flush(); a second flush
 * while one is under way waits for it.
 *
 * What is watched:
 *   - input: at most 'input_max' bytes lie unread by the owner; beyond, reading
 *     pauses until the owner has consumed some (back-pressure);
 *   - output: beyond 'output_max' bytes unsent the peer is too slow and the stream
 *     closes with the reason "output limit";
 *   - TCP: NODELAY, keepalive (idle 2 s, interval 1 s, 3 probes) and
 *     TCP_USER_TIMEOUT (5 s), so that a half-open connection is noticed within
 *     seconds.
 *
 * Buffers shrink back when they are empty: an idle stream keeps at most 'idle_max'
 * bytes. SIGPIPE must be ignored by the program.
 * Threads: the loop's. */

#ifndef HASP_NET_STREAM_H
#define HASP_NET_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"

struct stream;

struct stream_limits {
    size_t input_max;  /* 0: 1 MiB. */
    size_t output_max; /* 0: 16 MiB. */
    size_t idle_max;   /* 0: 16 KiB. */
};

struct stream_events {
    /* Bytes have arrived: stream_input() has them; the owner calls
     * stream_consume() for what it has dealt with. May close the stream. */
    void (*on_bytes)(struct stream *stream);
    /* A connection asked for by stream_connect() stands. May be NULL. */
    void (*on_connected)(struct stream *stream);
    /* The last call. 'reason' is a static text: "closed by the other end",
     * "connection refused", "output limit", what stream_close() was given ... */
    void (*on_closed)(struct stream *stream, const char *reason);
};

struct stream {
    uv_tcp_t tcp; /* tcp.data points to the stream. */
    uv_write_t write;
    uv_connect_t connect;
    const struct stream_events *events;
    struct stream_limits limits;
    void *owner;
    struct buffer input;
    size_t input_start; /* Consumed part of 'input'. */
    struct buffer output;
    struct buffer in_flight;
    const char *close_reason;
    char address[64]; /* "host:port" of the other end. */
    bool is_open;
    bool is_writing;
    bool is_reading;
    bool is_closing;
    bool closes_when_flushed;
};

/* Connects to the numeric address or host name 'host':'port' (names are resolved
 * asynchronously at each connect). on_closed tells of a failure. An error return
 * means that nothing was started. */
MUST_CHECK int stream_connect(struct stream *stream, uv_loop_t *loop,
                              const char *host, uint16_t port,
                              const struct stream_events *events,
                              const struct stream_limits *limits, void *owner);

struct bytes stream_input(const struct stream *stream);
void stream_consume(struct stream *stream, size_t size);
/* Stops calling on_bytes (a blocked client) and starts it again; on resuming,
 * on_bytes is called if unconsumed input lies there. */
void stream_pause(struct stream *stream);
void stream_resume(struct stream *stream);

struct buffer *stream_output(struct stream *stream);
void stream_flush(struct stream *stream);
/* Closes now; what was not sent is lost. Idempotent. 'reason' is static text. */
void stream_close(struct stream *stream, const char *reason);
/* Closes after what is in the output has been sent (bounded: 2 s). */
void stream_close_flushed(struct stream *stream, const char *reason);

/* --- Listening ------------------------------------------------------------ */

struct listener;
/* A connection was accepted: the owner gives a stream's memory (zeroed) with
 * '*ret_owner', '*ret_events' and '*ret_limits' set, or NULL to refuse it (over a
 * limit); it is then closed at once after 'refusal' (may be NULL) was written. */
typedef struct stream *listener_accept_fn(void *data, const char *address,
                                          const struct stream_events **ret_events,
                                          const struct stream_limits **ret_limits,
                                          void **ret_owner,
                                          const char **ret_refusal);
/* Called when the accepted stream is ready (may write). */
typedef void listener_ready_fn(void *data, struct stream *stream);

/* Listens on 'host':'port' (port 0: any; listener_port() tells). Errors with a
 * message. EMFILE on accept pauses accepting for 100 ms and is logged once. */
MUST_CHECK int listener_open(uv_loop_t *loop, const char *host, uint16_t port,
                             listener_accept_fn *accept,
                             listener_ready_fn *ready, void *data,
                             struct listener **ret_listener,
                             char why[HASP_WHY_SIZE]);
uint16_t listener_port(const struct listener *listener);
/* Stops accepting; the memory goes when the loop has closed it. */
void listener_close(struct listener *listener);

/* True if 'host' (numeric) is a loopback address. */
bool address_is_loopback(const char *host);
/* Splits "host:port" or "[v6]:port". */
MUST_CHECK int address_split(const char *address, char *ret_host,
                             size_t host_size, uint16_t *ret_port);

#endif /* HASP_NET_STREAM_H */
