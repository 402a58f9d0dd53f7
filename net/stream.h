/* SPDX-License-Identifier: MIT */

/* A byte stream over TCP on libuv, with limits: the layer on which clients' and
 * peers' connections stand, with TLS below it where that is wanted.
 *
 * A stream is born from a listener or from stream_connect(), calls 'on_bytes'
 * for what arrives, and is closed once, by either side, with a reason;
 * 'on_closed' is its last call, always from the loop and never from inside a
 * call of the owner's; after it the owner may free what embeds the stream.
 * Every call may be made from inside every callback, stream_close() included.
 * Output gathers in stream_output() and leaves with ONE write per
 * stream_flush(); a second flush while one is under way waits for it.
 *
 * What is watched:
 *   - input: at most 'input_max' bytes lie unread by the owner; beyond, reading
 *     pauses until the owner has consumed half of them (back-pressure);
 *   - output: beyond 'output_max' bytes unsent the peer is too slow and the
 *     stream closes with the reason "output limit";
 *   - TCP: NODELAY, keepalive (idle 2 s, interval 1 s, 3 probes) and
 *     TCP_USER_TIMEOUT (5 s), so that a half-open connection is noticed within
 *     seconds;
 *   - connecting: 'connect_ms' for the lookup of a name, and again for each
 *     address that it has;
 *   - very many that end at once: where 'pace' is given, STREAM_SLOT_COUNT are
 *     closed in STREAM_SLOT_MS, the others later, but for stream_close().
 *
 * Memory: what arrives is read into one buffer that all streams of the process
 * share and is handed over from there; only what the owner leaves is copied. An
 * idle stream keeps at most 'idle_max' bytes. The timer inside runs only while
 * connecting, resuming or closing. SIGPIPE must be ignored by the program.
 * Threads: the loop's; loops of several threads do not disturb each other. */

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

/* Streams that share one are closed a few at a time when they end at once: a
 * close costs 10 to 30 us of the loop, most of it in the kernel. It outlives
 * its streams. */
struct stream_pace {
    struct list waiting; /* Those that wait for their close, the first first. */
    uint64_t slot_ms;    /* By uv_now(): when the newest slot begins, ... */
    uint32_t count;      /* ... and how many close in it. */
    uint32_t gone_count; /* Their descriptors are closed, on_closed is due. */
    bool is_off;         /* None waits any more: the process is about to end. */
};
#define STREAM_SLOT_MS 4
#define STREAM_SLOT_COUNT 64

struct stream_limits {
    size_t input_max;         /* 0: 1 MiB. */
    size_t output_max;        /* 0: 16 MiB. */
    size_t idle_max;          /* 0: 16 KiB. */
    uint32_t connect_ms;      /* 0: STREAM_CONNECT_MS. */
    struct stream_pace *pace; /* NULL: is closed at once. */
};

struct stream_events {
    /* Bytes have arrived: stream_input() has them; the owner calls
     * stream_consume() for what it has dealt with. May close the stream. */
    void (*on_bytes)(struct stream *stream);
    /* A connection asked for by stream_connect() stands, its TLS too. May be
     * NULL. */
    void (*on_connected)(struct stream *stream);
    /* The close waits for its slot: the stream counts no more, but its
     * descriptor does. May be called from inside a call of the owner's. May be
     * NULL. */
    void (*on_ended)(struct stream *stream);
    /* The last call. 'reason' is a text that lives as long as this call:
     * "closed by the other end", "connection refused", "output limit", what
     * stream_close() was given, or what is wrong with the other end's
     * certificate. */
    void (*on_closed)(struct stream *stream, const char *reason);
    /* Bytes lie in the kernel: true if they may be read now. If not they stay
     * there, and the stream rests when this has returned: the owner calls
     * stream_read() later, or stream_wake(). Not asked before the stream is
     * ready, nor once it closes. May be NULL: always. */
    bool (*may_read)(struct stream *stream);
    /* What did not leave at once has been handed to the kernel, and nothing
     * waits any more. May be NULL. */
    void (*on_drained)(struct stream *stream);
};

#define STREAM_ADDRESS_SIZE ADDRESS_SIZE
#define STREAM_CONNECT_MS 2000
#define STREAM_LAST_FLUSH_MS 2000
/* A reason (net/rights.h). */
#define STREAM_PASSED_RIGHTS "it passed descriptors, which hasp does not accept"

struct stream {
    uv_tcp_t tcp; /* tcp.data points to the stream. */
    uv_timer_t timer;
    uv_write_t write;
    uv_connect_t connect;
    uv_shutdown_t shutdown;
    const struct stream_events *events;
    struct stream_limits limits; /* The owner may change them. */
    void *owner;
    struct bytes
        arrived; /* Being handed over, from the shared buffer; or else: */
    struct buffer input;
    size_t input_start; /* Consumed part of 'input'. */
    struct buffer output;
    struct buffer in_flight;
    struct stream_target *target;  /* While connecting. */
    struct stream_tls *stream_tls; /* NULL: plain. */
    const char *close_reason;
    struct list in_pace;               /* While its close waits for its slot. */
    char address[STREAM_ADDRESS_SIZE]; /* "host:port" of the other end. */
    ssize_t read_size;                 /* By rights_read(), for read_cb(). */
    uint8_t handle_count;              /* Of libuv's, not yet closed. */
    bool is_open;                      /* Connected. */
    bool is_writing;
    bool is_reading;
    bool is_paused;
    bool is_resting;    /* Read by stream_read() alone. */
    bool is_delivering; /* Inside on_bytes. */
    bool is_again;      /* on_bytes is due once more. */
    bool is_closing;
    bool closes_when_flushed;
    bool was_closed_by_peer; /* The other end closed or reset it. */
    bool has_failed_tls;     /* No TLS came about, or it broke. */
    bool has_failed_lookup;  /* The name has no address, or none in time. */
    bool may_get_rights;     /* Is read by rights_read(). */
};

/* Connects to the numeric address or host name 'host':'port' (names are
 * resolved asynchronously at each connect, and each of their addresses is
 * tried). on_closed tells of a failure. An error return means that nothing was
 * started. */
MUST_CHECK int stream_connect(struct stream *stream, uv_loop_t *loop,
                              const char *host, uint16_t port,
                              const struct stream_events *events,
                              const struct stream_limits *limits, void *owner);
/* Right after that: it is to speak TLS, as the end that connects; 'node' as in
 * tls_new(). */
void stream_use_tls(struct stream *stream, struct tls_context *context,
                    uint64_t node);
/* Takes the connected socket 'fd'; used by the listener. Does not fail: what
 * goes wrong is told by on_closed. */
void stream_adopt(struct stream *stream, uv_loop_t *loop, int fd,
                  const struct stream_events *events,
                  const struct stream_limits *limits, void *owner);

/* Who is at the other end, as its certificate says; NULL: it speaks plain, or
 * its handshake is not done. */
const struct tls_identity *stream_identity(const struct stream *stream);

/* What lies unread. Inside on_bytes the bytes stay where they are until it
 * returns; outside of it, until stream_consume() or until the loop goes on. */
struct bytes stream_input(const struct stream *stream);
void stream_consume(struct stream *stream, size_t size);
/* Stops calling on_bytes (a blocked client) and starts it again; on resuming,
 * on_bytes is called soon (not from inside this call) if unconsumed input lies
 * there. A paused stream still notices that the other end has gone. */
void stream_pause(struct stream *stream);
void stream_resume(struct stream *stream);
/* Leaves in the kernel what comes, until stream_wake(): a stream that is not
 * read for now. Unlike a paused one it takes no memory, and does not notice
 * that the other end has gone before stream_read() does. */
void stream_rest(struct stream *stream);
/* Reads up to STREAM_READ_SIZE of a stream that rests, and calls on_bytes as if
 * they had come now. True if more may lie in the kernel. */
#define STREAM_READ_SIZE 8192
bool stream_read(struct stream *stream);
void stream_wake(struct stream *stream);

/* The owner appends here; on a stream that is closing it is lost. */
struct buffer *stream_output(struct stream *stream);
void stream_flush(struct stream *stream);
/* Bytes that have not been handed to the kernel yet. */
size_t stream_unsent(const struct stream *stream);
void stream_pace_init(struct stream_pace *pace);
/* How long from 'now_ms' on a stream waits for its close, which this takes a
 * place for. */
uint64_t stream_pace_ms(struct stream_pace *pace, uint64_t now_ms);
/* Closes now the one that has waited longest; its descriptor is free when this
 * returns. False if none waits. */
bool stream_pace_hurry(struct stream_pace *pace);
/* Closes now, also one that waits for its slot; what was not sent is lost.
 * Idempotent. 'reason' is static text. */
void stream_close(struct stream *stream, const char *reason);
/* Likewise, but one of very many, which nobody waits for: its socket is closed
 * in its turn by the pace. For its owner it is closing from now on. */
void stream_close_in_slot(struct stream *stream, const char *reason);
/* Closes after what is in the output has been sent and the other end has closed
 * in return (bounded: STREAM_LAST_FLUSH_MS); on_bytes is not called any
 * more. */
void stream_close_flushed(struct stream *stream, const char *reason);

/* --- Listening ------------------------------------------------------------ */

struct listener;
/* A connection was accepted: the owner gives a stream's memory (zeroed) with
 * '*ret_owner', '*ret_events' and '*ret_limits' set, or NULL to refuse it (over
 * a limit); it is then closed at once after 'refusal' (may be NULL) was
 * written. */
typedef struct stream *
listener_accept_fn(void *data, const char *address,
                   const struct stream_events **ret_events,
                   const struct stream_limits **ret_limits, void **ret_owner,
                   const char **ret_refusal);
/* Called when the accepted stream is ready (may write): at once, or where TLS
 * is spoken when that has been found out and its handshake is done. Before, the
 * stream has no bytes for its owner. */
typedef void listener_ready_fn(void *data, struct stream *stream);

/* Listens on 'host':'port' (port 0: any; listener_port() tells). Errors with a
 * message. EMFILE on accept pauses accepting for 100 ms and is logged once. */
MUST_CHECK int listener_open(uv_loop_t *loop, const char *host, uint16_t port,
                             listener_accept_fn *accept,
                             listener_ready_fn *ready, void *data,
                             struct listener **ret_listener,
                             char why[HASP_WHY_SIZE]);
/* Likewise on a socket that is bound, which it closes with itself. 'name'
 * (static text, or NULL) is what those who come by it have for an address:
 * ADMIN_SOCKET_ADDRESS, who are then looked at (net/admin_socket.h), or
 * LOCAL_ADDRESS. */
struct listener *listener_adopt(uv_loop_t *loop, int fd, const char *name,
                                listener_accept_fn *accept,
                                listener_ready_fn *ready, void *data);
/* What is spoken there; the first byte of a connection tells it apart. */
enum tls_mode {
    TLS_OFF,    /* Nothing but plain. */
    TLS_ALLOW,  /* Plain and TLS. */
    TLS_REQUIRE /* Who speaks plain is told 'refusal', and closed. */
};
/* From now on; connections that stand stay as they are. Keeps a reference of
 * 'context', which may be NULL for TLS_OFF. 'refusal' is static text or
 * NULL. */
void listener_use_tls(struct listener *listener, enum tls_mode mode,
                      struct tls_context *context, const char *refusal);
/* The bound socket alone, for an owner that accepts by other means. Host "*" is
 * every address of this machine, of IPv6 and IPv4. */
MUST_CHECK int listener_bind(const char *host, uint16_t port, int *ret_fd,
                             char why[HASP_WHY_SIZE]);
uint16_t listener_port_of(int fd);
uint16_t listener_port(const struct listener *listener);
/* True if no other machine reaches it, by the address that it is bound to: of a
 * name that is whatever it stood for. */
bool listener_is_loopback_of(int fd);
bool listener_is_loopback(const struct listener *listener);
/* Stops accepting at once; the memory goes when the loop has closed it. */
void listener_close(struct listener *listener);
/* Likewise; 'closed' is called when the memory has gone. */
void listener_close_then(struct listener *listener, void (*closed)(void *data),
                         void *data);

/* --- Addresses (net/address.c) -------------------------------------------- */

/* "host:port", "[v6]:port"; a mapped IPv4 address is shown as IPv4. */
void address_format(const struct sockaddr *from,
                    char ret_address[STREAM_ADDRESS_SIZE]);

#endif /* HASP_NET_STREAM_H */
