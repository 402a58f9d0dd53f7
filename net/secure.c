/* SPDX-License-Identifier: MIT */

#include "net/secure.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "net/stream_parts.h"

/* How many plain bytes are handed over at a time. */
#define PLAIN_SIZE (64u << 10)
#define RECORD_HEADER_SIZE 5
/* OpenSSL refuses a longer record. */
#define RECORD_SIZE_MAX ((16u << 10) + 256)

struct secure {
    struct stream *stream;
    /* The gate of an accepted stream that is not up yet; or NULL. */
    struct gate *gate;
    struct list node;  /* In the gate's lists. */
    uint64_t begun_ms; /* When the handshake began ... */
    /* ... how long of that it has waited for its turn ... */
    uint64_t waited_ms;
    uint64_t due_ms; /* ... and since when it waits now. */
    /* It stands in the gate's list of those that wait for a turn. */
    bool is_due;
    bool may_be_plain;
    bool is_accepted;
    bool has_ended;
    struct tls_context *context;
    struct tls *tls; /* NULL before the first byte. */
    /* The bytes of a handshake that OpenSSL has not seen yet. */
    struct buffer held;
};

static void step(struct secure *secure);

/* --- Life ----------------------------------------------------------------- */

static struct secure *secure_new(struct stream *stream,
                                 struct tls_context *context)
{
    struct secure *secure = memory_new(sizeof *secure);
    CHECK(stream->secure == NULL);
    secure->stream = stream;
    secure->context = tls_context_ref(context);
    list_init(&secure->node);
    stream->secure = secure;
    return secure;
}

void secure_free(struct secure *secure)
{
    if (secure != NULL) {
        list_remove(&secure->node);
        tls_free(secure->tls);
        tls_context_unref(secure->context);
        buffer_done(&secure->held);
        free(secure);
    }
}

static bool is_up(const struct secure *secure)
{
    return secure->tls != NULL && tls_is_up(secure->tls);
}

bool secure_is_unready(const struct stream *stream)
{
    return stream->secure != NULL && !is_up(stream->secure);
}

bool secure_is_dialling(const struct stream *stream)
{
    return stream->is_open && secure_is_unready(stream) &&
           !stream->secure->is_accepted;
}

void stream_use_tls(struct stream *stream, struct tls_context *context,
                    uint64_t node)
{
    CHECK(!stream->is_open);
    struct secure *secure = secure_new(stream, context);
    secure->tls = tls_new(context, false, node);
}

const struct tls_identity *stream_identity(const struct stream *stream)
{
    return stream->secure != NULL && is_up(stream->secure)
               ? tls_identity(stream->secure->tls)
               : NULL;
}

/* Starts the time of the handshake, from which waits for a turn are taken off.
 */
static void start_clock(struct secure *secure)
{
    secure->begun_ms = uv_now(secure->stream->tcp.loop);
    stream_start_timer(secure->stream, SECURE_HANDSHAKE_MS);
}

/* --- The gate ------------------------------------------------------------- */

static void check_cb(uv_check_t *check);
static void idle_cb(uv_idle_t *idle);

void gate_open(struct gate *gate, uv_loop_t *loop)
{
    list_init(&gate->quiet);
    list_init(&gate->due);
    CHECK(uv_check_init(loop, &gate->check) == 0);
    CHECK(uv_idle_init(loop, &gate->idle) == 0);
}

/* Lets those in the list go on without being paced, and without the gate. */
static void let_go(struct list *waiting)
{
    LIST_EACH_SAFE (node, waiting) {
        struct secure *secure = LIST_ENTRY(node, struct secure, node);
        list_remove(&secure->node);
        secure->gate = NULL;
        secure->is_due = false;
    }
}

void gate_close(struct gate *gate, uv_close_cb closed)
{
    let_go(&gate->quiet);
    let_go(&gate->due);
    tls_context_unref(gate->context);
    gate->context = NULL;
    uv_close((uv_handle_t *)&gate->check, closed);
    uv_close((uv_handle_t *)&gate->idle, closed);
}

void gate_use(struct gate *gate, enum tls_mode mode,
              struct tls_context *context, const char *refusal)
{
    struct tls_context *old = gate->context;
    CHECK(mode == TLS_OFF || context != NULL);
    gate->mode = mode;
    gate->context = mode == TLS_OFF ? NULL : tls_context_ref(context);
    gate->refusal = refusal;
    tls_context_unref(old);
}

static void tell_ready(struct gate *gate, struct stream *stream)
{
    if (gate != NULL && gate->ready != NULL) {
        gate->ready(gate->data, stream);
    }
}

void gate_take(struct gate *gate, struct stream *stream)
{
    if (stream->is_closing) {
        return;
    }
    if (gate->mode == TLS_OFF) {
        tell_ready(gate, stream);
        return;
    }
    struct secure *secure = secure_new(stream, gate->context);
    secure->gate = gate;
    secure->is_accepted = true;
    secure->may_be_plain = gate->mode == TLS_ALLOW;
    list_push_back(&gate->quiet, &secure->node);
    if (!secure->may_be_plain) {
        start_clock(secure);
    }
}

static void enqueue(struct secure *secure)
{
    struct gate *gate = secure->gate;
    if (secure->is_due) {
        return;
    }
    secure->is_due = true;
    secure->due_ms = uv_now(gate->check.loop);
    if (list_is_empty(&gate->due)) {
        CHECK(uv_check_start(&gate->check, check_cb) == 0);
        CHECK(uv_idle_start(&gate->idle, idle_cb) == 0);
    }
    list_remove(&secure->node);
    list_push_back(&gate->due, &secure->node);
}

/* An idle handle keeps the loop from sleeping. */
static void idle_cb(uv_idle_t *idle)
{
    (void)idle;
}

static void check_cb(uv_check_t *check)
{
    struct gate *gate = (struct gate *)((char *)check -
                                        offsetof(struct gate, check));
    for (int i = 0; i < GATE_FLIGHTS && !list_is_empty(&gate->due); i++) {
        struct secure *secure = LIST_FIRST(&gate->due, struct secure, node);
        secure->is_due = false;
        secure->waited_ms += uv_now(gate->check.loop) - secure->due_ms;
        list_remove(&secure->node);
        list_push_back(&gate->quiet, &secure->node);
        step(secure);
    }
    if (list_is_empty(&gate->due)) {
        uv_check_stop(&gate->check);
        uv_idle_stop(&gate->idle);
    }
}

/* --- The handshake -------------------------------------------------------- */

/* Sends the reason, if that is possible, and closes. */
static void refuse(struct stream *stream, const char *reason)
{
    stream->has_failed_tls = true;
    stream_close_flushed(stream, reason);
}

static void send_pending(struct stream *stream)
{
    if (!stream->is_closing && !stream->is_writing &&
        secure_has_output(stream)) {
        stream_send_output(stream);
    }
}

static void go_up(struct secure *secure)
{
    struct stream *stream = secure->stream;
    struct gate *gate = secure->gate;
    uv_timer_stop(&stream->timer);
    list_remove(&secure->node);
    secure->gate = NULL;
    if (secure->is_accepted) {
        tell_ready(gate, stream);
    } else if (stream->events->on_connected != NULL) {
        stream->events->on_connected(stream);
    }
    stream_flush(stream);
}

static void receive(struct secure *secure);

/* Feeds what is held, if it is this stream's turn. */
static void step(struct secure *secure)
{
    struct stream *stream = secure->stream;
    if (stream->is_closing || stream->closes_when_flushed) {
        return;
    }
    struct buffer held = secure->held;
    secure->held = (struct buffer){0};
    int error = tls_feed(secure->tls, buffer_bytes(&held));
    error = error ?: tls_handshake(secure->tls);
    send_pending(stream);
    if (error == 0) {
        go_up(secure);
        receive(secure);
    } else if (error != HASP_EMORE && !stream->is_closing) {
        refuse(stream, tls_why(secure->tls));
    }
    stream_keep_reading(stream);
    buffer_done(&held);
}

void secure_connected(struct stream *stream)
{
    start_clock(stream->secure);
    step(stream->secure);
}

void secure_is_late(struct stream *stream)
{
    const struct secure *secure = stream->secure;
    uint64_t now_ms = uv_now(stream->tcp.loop);
    uint64_t by_ms = secure->begun_ms + secure->waited_ms + SECURE_HANDSHAKE_MS;
    /* The handshake waits, or has waited, for its turn. */
    if (secure->is_due || now_ms < by_ms) {
        stream_start_timer(stream, now_ms < by_ms ? by_ms - now_ms
                                                  : SECURE_HANDSHAKE_MS);
        return;
    }
    stream->has_failed_tls = true;
    stream_close(stream, secure->tls == NULL
                             ? "it says nothing, this port wants TLS"
                             : "its TLS handshake takes too long");
}

/* Handles a first byte that is not that of a handshake. */
static void take_plain(struct secure *secure, struct bytes bytes)
{
    struct stream *stream = secure->stream;
    struct gate *gate = secure->gate;
    const char *refusal = gate != NULL ? gate->refusal : NULL;
    bool may_be_plain = secure->may_be_plain;
    stream->secure = NULL;
    secure_free(secure);
    uv_timer_stop(&stream->timer);
    if (!may_be_plain) {
        if (refusal != NULL) {
            buffer_put_text(stream_output(stream), refusal);
        }
        refuse(stream, "it speaks plain, this port wants TLS");
        return;
    }
    tell_ready(gate, stream);
    if (!stream->is_closing) {
        stream_take_in(stream, bytes);
    }
}

/* True if what is held is worth a call of OpenSSL. */
static bool has_whole_record(const struct buffer *held)
{
    if (held->size < RECORD_HEADER_SIZE) {
        return false;
    }
    size_t size = (size_t)held->data[3] << 8 | held->data[4];
    return size > RECORD_SIZE_MAX || held->size >= RECORD_HEADER_SIZE + size;
}

/* Requests may come right behind the last flight, while that waits for its
 * turn: then no more is read. No part of a record is that large. */
bool secure_is_full(const struct stream *stream)
{
    return stream->secure != NULL &&
           stream->secure->held.size > TLS_HANDSHAKE_SIZE_MAX;
}

static void hold(struct secure *secure, struct bytes bytes)
{
    buffer_put_bytes(&secure->held, bytes);
    stream_keep_reading(secure->stream);
    if (!has_whole_record(&secure->held)) {
        CHECK(!secure_is_full(secure->stream));
        return;
    }
    if (secure->gate != NULL) {
        enqueue(secure);
    } else {
        step(secure);
    }
}

void secure_take(struct stream *stream, struct bytes bytes)
{
    struct secure *secure = stream->secure;
    if (stream->is_closing || stream->closes_when_flushed) {
        return;
    }
    if (secure->tls == NULL) {
        if (bytes.data[0] != TLS_FIRST_BYTE) {
            take_plain(secure, bytes);
            return;
        }
        secure->tls = tls_new(secure->context, true, 0);
        if (secure->may_be_plain) {
            start_clock(secure);
        }
    }
    if (!is_up(secure)) {
        hold(secure, bytes);
    } else if (tls_feed(secure->tls, bytes) == 0) {
        receive(secure);
    } else {
        refuse(stream, tls_why(secure->tls));
    }
}

/* --- When it is up -------------------------------------------------------- */

/* As that of net/stream.c: between its taking and its giving back nothing else
 * runs on a thread. */
static _Atomic(uint8_t *) spare_plain;

/* Hands over what can be read of what was fed. */
static void receive(struct secure *secure)
{
    struct stream *stream = secure->stream;
    int error = 0;
    uint8_t *plain = atomic_exchange(&spare_plain, NULL);
    if (plain == NULL) {
        plain = memory_resize(NULL, PLAIN_SIZE);
    }
    while (error == 0 && !stream->is_closing && !stream->closes_when_flushed) {
        size_t total = 0, size;
        while (error == 0 && total < PLAIN_SIZE) {
            error = tls_read(secure->tls, plain + total, PLAIN_SIZE - total,
                             &size);
            total += error == 0 ? size : 0;
        }
        if (total > 0) {
            stream_take_in(stream, bytes_of(plain, total));
        }
    }
    free(atomic_exchange(&spare_plain, plain));
    if (stream->is_closing || stream->closes_when_flushed) {
        return;
    }
    send_pending(stream); /* A change of keys needs an answer. */
    if (error == HASP_ECLOSED) {
        stream_fail(stream, UV_EOF);
    } else if (error != HASP_EMORE && !stream->is_closing) {
        refuse(stream, tls_why(secure->tls));
    }
}

bool secure_has_output(const struct stream *stream)
{
    const struct secure *secure = stream->secure;
    return secure->tls != NULL && (tls_output(secure->tls)->size > 0 ||
                                   (is_up(secure) && stream->output.size > 0));
}

struct buffer *secure_output(struct stream *stream)
{
    static struct buffer nothing;
    struct secure *secure = stream->secure;
    if (secure->tls == NULL) {
        return &nothing;
    }
    if (is_up(secure) && stream->output.size > 0) {
        if (tls_write(secure->tls, buffer_bytes(&stream->output)) != 0) {
            stream->has_failed_tls = true;
            stream_close(stream, tls_why(secure->tls));
            return NULL;
        }
        buffer_clear(&stream->output);
    }
    return tls_output(secure->tls);
}

bool secure_end(struct stream *stream)
{
    struct secure *secure = stream->secure;
    if (secure->has_ended || !is_up(secure)) {
        return false;
    }
    secure->has_ended = true;
    tls_end(secure->tls);
    return secure_has_output(stream);
}
