/* SPDX-License-Identifier: MIT */

/* A byte stream over TCP on libuv, with limits: the layer below clients' and
 * peers' connections, optionally with TLS.
 *
 * A stream comes from a listener or from stream_connect(), calls 'on_bytes' for
 * its input, and is closed once, by either side, with a reason. 'on_closed' is
 * its last callback, always called by the loop and never from inside a call of
 * the owner; after it the owner can free the memory of the stream. Every
 * function, including stream_close(), can be called from inside every callback.
 * Output is collected in stream_output() and written with ONE write per
 * stream_flush(); a second flush while one is in progress waits for it.
 *
 * Limits:
 *   - input: at most 'input_max' bytes are unread by the owner; beyond, reading
 *     pauses until the owner has consumed half of them (back-pressure);
 *   - output: beyond 'output_max' bytes unsent the peer is too slow and the
 *     stream closes with the reason "output limit";
 *   - TCP: NODELAY, keepalive (idle 2 s, interval 1 s, 3 probes) and
 *     TCP_USER_TIMEOUT (5 s), so that a half-open connection is noticed within
 *     seconds;
 *   - connecting: 'connect_ms' for the lookup of a name, and again for each
 *     address that it has;
 *   - very many that end at once: if 'pace' is set, STREAM_SLOT_COUNT are
 *     closed in STREAM_SLOT_MS, the others later, but for stream_close().
 *
 * Memory: input is read into one buffer that all streams of the process share,
 * and passed to the owner from there; only the bytes that the owner leaves are
 * copied. An idle stream keeps at most 'idle_max' bytes. The timer runs only
 * while connecting, resuming or closing. The program must ignore SIGPIPE.
 * Threads: the loop's; loops of several threads are independent. */

#ifndef HASP_NET_STREAM_H
#define HASP_NET_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/address.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "net/tls.h"

struct stream_tls;
struct stream;

/* Streams that share a pace are closed a few at a time when many end at once: a
 * close costs 10 to 30 us of the loop's time, most of it in the kernel. A pace
 * outlives its streams. */
struct stream_pace {
    struct list waiting; /* Streams waiting for their close, oldest first. */
    uint64_t slot_ms;    /* Start of the newest slot, by uv_now() ... */
    uint32_t count;      /* ... and the number of closes in it. */
    uint32_t gone_count; /* Descriptors closed, on_closed due. */
    bool is_off;         /* None waits: the process is about to end. */
};
#define STREAM_SLOT_MS 4
#define STREAM_SLOT_COUNT 64

struct stream_limits {
    size_t input_max;         /* 0: 1 MiB. */
    size_t output_max;        /* 0: 16 MiB. */
    size_t idle_max;          /* 0: 16 KiB. */
    uint32_t connect_ms;      /* 0: STREAM_CONNECT_MS. */
    struct stream_pace *pace; /* NULL: closed at once. */
};

struct stream_events {
    /* Bytes have arrived in stream_input(); the owner calls stream_consume()
     * for those that it has processed. May close the stream. */
    void (*on_bytes)(struct stream *stream);
    /* The connection of stream_connect() is established, including TLS. May be
     * NULL. */
    void (*on_connected)(struct stream *stream);
    /* The close waits for its slot: the stream no longer counts for the owner,
     * but its descriptor is still open. May be called from inside a call of the
     * owner. May be NULL. */
    void (*on_ended)(struct stream *stream);
    /* The last callback. 'reason' is valid during this call: "closed by the
     * peer", "connection refused", "output limit", the argument of
     * stream_close(), or the error in the peer's certificate. */
    void (*on_closed)(struct stream *stream, const char *reason);
    /* The kernel has bytes: true if they may be read now. Otherwise they stay
     * there, and the stream rests after this call: the owner calls
     * stream_read() or stream_wake() later. Not called before the stream is
     * ready, nor while it closes. NULL: always true. */
    bool (*may_read)(struct stream *stream);
    /* All output that did not leave at once has been passed to the kernel. May
     * be NULL. */
    void (*on_drained)(struct stream *stream);
    /* A step of a TLS handshake, some 0.5 ms of work, begins or is over. May be
     * NULL. */
    void (*on_handshake)(struct stream *stream, bool is_over);
};

#define STREAM_ADDRESS_SIZE ADDRESS_SIZE
#define STREAM_CONNECT_MS 2000
#define STREAM_LAST_FLUSH_MS 2000
/* A reason (net/rights.h). */
#define STREAM_PASSED_RIGHTS "it passed descriptors, which hasp does not accept"

struct stream {
    uv_tcp_t tcp; /* Its data points to the stream. */
    uv_timer_t timer;
    uv_write_t write;
    uv_connect_t connect;
    uv_shutdown_t shutdown;
    const struct stream_events *events;
    struct stream_limits limits; /* The owner may change them. */
    void *owner;
    struct bytes arrived; /* Input in the shared buffer, during on_bytes;
                             otherwise in: */
    struct buffer input;
    size_t input_start; /* The consumed part of 'input'. */
    struct buffer output;
    struct buffer in_flight;
    struct stream_target *target;  /* While connecting. */
    struct stream_tls *stream_tls; /* NULL: plain. */
    const char *close_reason;
    struct list in_pace;               /* While the close waits for its slot. */
    char address[STREAM_ADDRESS_SIZE]; /* "host:port" of the peer. */
    ssize_t read_size;                 /* By rights_read(), for read_cb(). */
    uint8_t handle_count;              /* libuv handles that are not closed. */
    bool is_open;                      /* Connected. */
    bool is_writing;
    bool is_reading;
    bool is_paused;
    bool is_resting;    /* Read only by stream_read(). */
    bool is_delivering; /* Inside on_bytes. */
    bool is_again;      /* on_bytes is due again. */
    bool is_closing;
    bool closes_when_flushed;
    bool was_closed_by_peer; /* The peer closed or reset it. */
    bool has_failed_tls;     /* TLS was not established, or failed. */
    bool has_failed_lookup;  /* The name was not resolved in time. */
    bool may_get_rights;     /* Read by rights_read(). */
};

/* Connects to the numeric address or host name 'host':'port' (names are
 * resolved asynchronously at each connect, and each of their addresses is
 * tried). A failure is reported by on_closed. If this returns an error, nothing
 * was started. */
MUST_CHECK int stream_connect(struct stream *stream, uv_loop_t *loop,
                              const char *host, uint16_t port,
                              const struct stream_events *events,
                              const struct stream_limits *limits, void *owner);
/* Call it right after stream_connect() to use TLS as the client; 'node' as in
 * tls_new(). */
void stream_use_tls(struct stream *stream, struct tls_context *context,
                    uint64_t node);
/* Takes over the connected socket 'fd'; used by the listener. Errors are
 * reported by on_closed. */
void stream_adopt(struct stream *stream, uv_loop_t *loop, int fd,
                  const struct stream_events *events,
                  const struct stream_limits *limits, void *owner);

/* The peer's identity from its certificate; NULL: no TLS, or the handshake is
 * not complete. */
const struct tls_identity *stream_identity(const struct stream *stream);

/* The unread input. Inside on_bytes the bytes are valid until it returns;
 * outside, until stream_consume() or until the loop continues. */
struct bytes stream_input(const struct stream *stream);
void stream_consume(struct stream *stream, size_t size);
/* Stops calling on_bytes (for a blocked client) and resumes it; after resuming,
 * on_bytes is called soon (not from inside this call) if there is unconsumed
 * input. A paused stream still notices that the peer has closed it. */
void stream_pause(struct stream *stream);
void stream_resume(struct stream *stream);
/* Leaves input in the kernel until stream_wake(). Unlike a paused stream, a
 * resting one uses no memory, and only stream_read() notices that the peer has
 * closed it. */
void stream_rest(struct stream *stream);
/* Reads up to STREAM_READ_SIZE bytes of a resting stream, and calls on_bytes as
 * if they had arrived now. True if the kernel may have more. */
#define STREAM_READ_SIZE 8192
bool stream_read(struct stream *stream);
void stream_wake(struct stream *stream);

/* The buffer to which the owner appends output; a closing stream drops it. */
struct buffer *stream_output(struct stream *stream);
void stream_flush(struct stream *stream);
/* Bytes that have not been passed to the kernel yet. */
size_t stream_unsent(const struct stream *stream);
void stream_pace_init(struct stream_pace *pace);
/* Reserves a place for a close; returns the time from 'now_ms' until it. */
uint64_t stream_pace_ms(struct stream_pace *pace, uint64_t now_ms);
/* Closes the stream that has waited longest; its descriptor is closed when this
 * returns. False if none waits. */
bool stream_pace_hurry(struct stream_pace *pace);
/* Closes at once, also a stream that waits for its slot; unsent output is lost.
 * Idempotent. 'reason' is a static text. */
void stream_close(struct stream *stream, const char *reason);
/* As stream_close(), for one of very many streams: its socket is closed when
 * the pace allows. For its owner it is closing from now on. */
void stream_close_in_slot(struct stream *stream, const char *reason);
/* Closes after the output has been sent and the peer has closed in return (at
 * most STREAM_LAST_FLUSH_MS); on_bytes is no longer called. */
void stream_close_flushed(struct stream *stream, const char *reason);

/* --- Listening ------------------------------------------------------------ */

struct listener;
/* A connection was accepted: the owner returns zeroed memory for the stream and
 * sets '*ret_owner', '*ret_events' and '*ret_limits', or returns NULL to refuse
 * it (over a limit); then '*ret_refusal' (may be NULL) is written and the
 * connection is closed at once. */
typedef struct stream *
listener_accept_fn(void *data, const char *address,
                   const struct stream_events **ret_events,
                   const struct stream_limits **ret_limits, void **ret_owner,
                   const char **ret_refusal);
/* Called when the accepted stream is ready for use: at once, or on a port with
 * TLS after the handshake or the first plain byte. The owner gets no bytes
 * before. */
typedef void listener_ready_fn(void *data, struct stream *stream);

/* Listens on 'host':'port' (port 0: any; listener_port() returns it). An error
 * has a message. EMFILE on accept pauses accepting for 100 ms and is logged
 * once. */
MUST_CHECK int listener_open(uv_loop_t *loop, const char *host, uint16_t port,
                             listener_accept_fn *accept,
                             listener_ready_fn *ready, void *data,
                             struct listener **ret_listener,
                             char why[HASP_WHY_SIZE]);
/* Listens on a bound socket, and closes it with the listener. 'name' (static
 * text, or NULL) is the address of its connections: LOCAL_ADDRESS, or
 * ADMIN_SOCKET_ADDRESS, whose peers are then checked (net/admin_socket.h). */
struct listener *listener_adopt(uv_loop_t *loop, int fd, const char *name,
                                listener_accept_fn *accept,
                                listener_ready_fn *ready, void *data);
/* Protocols that a port accepts; the first byte distinguishes them. */
enum tls_mode {
    TLS_OFF,    /* Plain only. */
    TLS_ALLOW,  /* Plain and TLS. */
    TLS_REQUIRE /* TLS only; plain gets 'refusal' and is closed. */
};
/* Applies to future connections. Keeps a reference to 'context', which may be
 * NULL for TLS_OFF. 'refusal' is static text or NULL. */
void listener_use_tls(struct listener *listener, enum tls_mode mode,
                      struct tls_context *context, const char *refusal);
/* Only binds a socket, for an owner that accepts by itself. Host "*" is every
 * address of this machine, IPv6 and IPv4. */
MUST_CHECK int listener_bind(const char *host, uint16_t port, int *ret_fd,
                             char why[HASP_WHY_SIZE]);
uint16_t listener_port_of(int fd);
uint16_t listener_port(const struct listener *listener);
/* True if no other machine can reach the address that it is bound to; a name
 * counts as the address to which it was resolved. */
bool listener_is_loopback_of(int fd);
bool listener_is_loopback(const struct listener *listener);
/* Stops accepting at once; the memory is freed when the loop has closed it. */
void listener_close(struct listener *listener);
/* As listener_close(); 'closed' is called when the memory is freed. */
void listener_close_then(struct listener *listener, void (*closed)(void *data),
                         void *data);

/* --- Addresses (net/address.c) -------------------------------------------- */

/* "host:port", "[v6]:port"; a mapped IPv4 address is shown as IPv4. */
void address_format(const struct sockaddr *from,
                    char ret_address[STREAM_ADDRESS_SIZE]);

#endif /* HASP_NET_STREAM_H */
