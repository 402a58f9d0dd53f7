/* SPDX-License-Identifier: MIT */

#include "net/stream_tls.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "net/stream_parts.h"

/* Plain bytes that are passed to the owner at a time. */
#define PLAIN_SIZE (64u << 10)
#define RECORD_HEADER_SIZE 5
/* OpenSSL refuses a longer record. */
#define RECORD_SIZE_MAX ((16u << 10) + 256)

struct stream_tls {
    struct stream *stream;
    /* The gate, while an accepted stream is not up; or NULL. */
    struct gate *gate;
    struct list node;  /* In the gate's lists. */
    uint64_t begun_ms; /* Start of the handshake ... */
    /* ... time of that spent waiting for its turn ... */
    uint64_t waited_ms;
    uint64_t due_ms; /* ... and start of the current wait. */
    /* In gate->due. */
    bool is_due;
    bool may_be_plain;
    bool is_accepted;
    bool has_ended;
    struct tls_context *context;
    struct tls *tls; /* NULL before the first byte. */
    /* Bytes of the handshake that were not passed to OpenSSL yet. */
    struct buffer held;
};

static void stream_tls_step(struct stream_tls *stream_tls);

/* --- Life ----------------------------------------------------------------- */

static struct stream_tls *stream_tls_new(struct stream *stream,
                                         struct tls_context *context)
{
    struct stream_tls *stream_tls = memory_new(sizeof *stream_tls);
    CHECK(stream->stream_tls == NULL);
    stream_tls->stream = stream;
    stream_tls->context = tls_context_ref(context);
    list_init(&stream_tls->node);
    stream->stream_tls = stream_tls;
    return stream_tls;
}

void stream_tls_free(struct stream_tls *stream_tls)
{
    if (stream_tls != NULL) {
        list_remove(&stream_tls->node);
        tls_free(stream_tls->tls);
        tls_context_unref(stream_tls->context);
        buffer_done(&stream_tls->held);
        free(stream_tls);
    }
}

static bool is_up(const struct stream_tls *stream_tls)
{
    return stream_tls->tls != NULL && tls_is_up(stream_tls->tls);
}

bool stream_tls_is_unready(const struct stream *stream)
{
    return stream->stream_tls != NULL && !is_up(stream->stream_tls);
}

bool stream_tls_is_dialling(const struct stream *stream)
{
    return stream->is_open && stream_tls_is_unready(stream) &&
           !stream->stream_tls->is_accepted;
}

void stream_use_tls(struct stream *stream, struct tls_context *context,
                    uint64_t node)
{
    CHECK(!stream->is_open);
    struct stream_tls *stream_tls = stream_tls_new(stream, context);
    stream_tls->tls = tls_new(context, false, node);
}

const struct tls_identity *stream_identity(const struct stream *stream)
{
    return stream->stream_tls != NULL && is_up(stream->stream_tls)
               ? tls_identity(stream->stream_tls->tls)
               : NULL;
}

/* Starts the timeout of the handshake, which excludes waits for a turn. */
static void start_clock(struct stream_tls *stream_tls)
{
    stream_tls->begun_ms = uv_now(stream_tls->stream->tcp.loop);
    stream_start_timer(stream_tls->stream, STREAM_TLS_HANDSHAKE_MS);
}

/* --- The gate ------------------------------------------------------------- */

static void stream_tls_check_cb(uv_check_t *check);
static void idle_cb(uv_idle_t *idle);

void gate_open(struct gate *gate, uv_loop_t *loop)
{
    list_init(&gate->quiet);
    list_init(&gate->due);
    CHECK(uv_check_init(loop, &gate->check) == 0);
    CHECK(uv_idle_init(loop, &gate->idle) == 0);
}

/* Detaches the streams in the list from the gate; they are no longer paced. */
static void stream_tls_let_go(struct list *waiting)
{
    LIST_EACH_SAFE (node, waiting) {
        struct stream_tls *stream_tls = LIST_ENTRY(node, struct stream_tls,
                                                   node);
        list_remove(&stream_tls->node);
        stream_tls->gate = NULL;
        stream_tls->is_due = false;
    }
}

void gate_close(struct gate *gate, uv_close_cb closed)
{
    stream_tls_let_go(&gate->quiet);
    stream_tls_let_go(&gate->due);
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
    struct stream_tls *stream_tls = stream_tls_new(stream, gate->context);
    stream_tls->gate = gate;
    stream_tls->is_accepted = true;
    stream_tls->may_be_plain = gate->mode == TLS_ALLOW;
    list_push_back(&gate->quiet, &stream_tls->node);
    if (!stream_tls->may_be_plain) {
        start_clock(stream_tls);
    }
}

static void stream_tls_enqueue(struct stream_tls *stream_tls)
{
    struct gate *gate = stream_tls->gate;
    if (stream_tls->is_due) {
        return;
    }
    stream_tls->is_due = true;
    stream_tls->due_ms = uv_now(gate->check.loop);
    if (list_is_empty(&gate->due)) {
        CHECK(uv_check_start(&gate->check, stream_tls_check_cb) == 0);
        CHECK(uv_idle_start(&gate->idle, idle_cb) == 0);
    }
    list_remove(&stream_tls->node);
    list_push_back(&gate->due, &stream_tls->node);
}

/* An idle handle keeps the loop from sleeping. */
static void idle_cb(uv_idle_t *idle)
{
    (void)idle;
}

static void stream_tls_check_cb(uv_check_t *check)
{
    struct gate *gate = (struct gate *)((char *)check -
                                        offsetof(struct gate, check));
    for (int i = 0; i < GATE_FLIGHTS && !list_is_empty(&gate->due); i++) {
        struct stream_tls *stream_tls = LIST_FIRST(&gate->due,
                                                   struct stream_tls, node);
        stream_tls->is_due = false;
        stream_tls->waited_ms += uv_now(gate->check.loop) - stream_tls->due_ms;
        list_remove(&stream_tls->node);
        list_push_back(&gate->quiet, &stream_tls->node);
        stream_tls_step(stream_tls);
    }
    if (list_is_empty(&gate->due)) {
        uv_check_stop(&gate->check);
        uv_idle_stop(&gate->idle);
    }
}

/* --- The handshake -------------------------------------------------------- */

/* Closes after sending any pending output, e.g. a TLS alert. */
static void stream_tls_refuse(struct stream *stream, const char *reason)
{
    stream->has_failed_tls = true;
    stream_close_flushed(stream, reason);
}

static void send_pending(struct stream *stream)
{
    if (!stream->is_closing && !stream->is_writing &&
        stream_tls_has_output(stream)) {
        stream_send_output(stream);
    }
}

static void stream_tls_go_up(struct stream_tls *stream_tls)
{
    struct stream *stream = stream_tls->stream;
    struct gate *gate = stream_tls->gate;
    uv_timer_stop(&stream->timer);
    list_remove(&stream_tls->node);
    stream_tls->gate = NULL;
    if (stream_tls->is_accepted) {
        tell_ready(gate, stream);
    } else if (stream->events->on_connected != NULL) {
        stream->events->on_connected(stream);
    }
    stream_flush(stream);
}

static void stream_tls_receive(struct stream_tls *stream_tls);

static void stream_tls_note(struct stream *stream, bool is_over)
{
    if (stream->events->on_handshake != NULL) {
        stream->events->on_handshake(stream, is_over);
    }
}

/* Passes the held bytes to OpenSSL; it is this stream's turn. */
static void stream_tls_step(struct stream_tls *stream_tls)
{
    struct stream *stream = stream_tls->stream;
    if (stream->is_closing || stream->closes_when_flushed) {
        return;
    }
    /* Moved out, so that no step below can change the bytes that are being
     * read. */
    struct buffer held = stream_tls->held;
    stream_tls->held = (struct buffer){0};
    stream_tls_note(stream, false);
    int error = tls_feed(stream_tls->tls, buffer_bytes(&held));
    error = error ?: tls_handshake(stream_tls->tls);
    stream_tls_note(stream, true);
    send_pending(stream);
    if (error == 0) {
        stream_tls_go_up(stream_tls);
        stream_tls_receive(stream_tls);
    } else if (error != HASP_EMORE && !stream->is_closing) {
        stream_tls_refuse(stream, tls_why(stream_tls->tls));
    }
    stream_keep_reading(stream);
    buffer_done(&held);
}

void stream_tls_connected(struct stream *stream)
{
    start_clock(stream->stream_tls);
    stream_tls_step(stream->stream_tls);
}

void stream_tls_is_late(struct stream *stream)
{
    const struct stream_tls *stream_tls = stream->stream_tls;
    uint64_t now_ms = uv_now(stream->tcp.loop);
    uint64_t by_ms = stream_tls->begun_ms + stream_tls->waited_ms +
                     STREAM_TLS_HANDSHAKE_MS;
    /* The handshake is waiting, or has waited, for its turn. */
    if (stream_tls->is_due || now_ms < by_ms) {
        stream_start_timer(stream, now_ms < by_ms ? by_ms - now_ms
                                                  : STREAM_TLS_HANDSHAKE_MS);
        return;
    }
    stream->has_failed_tls = true;
    stream_close(stream, stream_tls->tls == NULL
                             ? "no data received; this port requires TLS"
                             : "TLS handshake timed out");
}

/* Handles a connection whose first byte is not that of TLS. */
static void take_plain(struct stream_tls *stream_tls, struct bytes bytes)
{
    struct stream *stream = stream_tls->stream;
    struct gate *gate = stream_tls->gate;
    const char *refusal = gate != NULL ? gate->refusal : NULL;
    bool may_be_plain = stream_tls->may_be_plain;
    stream->stream_tls = NULL;
    stream_tls_free(stream_tls);
    /* It was the deadline of the first byte. */
    uv_timer_stop(&stream->timer);
    if (!may_be_plain) {
        if (refusal != NULL) {
            buffer_put_text(stream_output(stream), refusal);
        }
        stream_tls_refuse(stream, "plain connection; this port requires TLS");
        return;
    }
    tell_ready(gate, stream);
    if (!stream->is_closing) {
        stream_take_in(stream, bytes);
    }
}

/* True if the held bytes contain a whole record, or an oversized one. */
static bool has_whole_record(const struct buffer *held)
{
    if (held->size < RECORD_HEADER_SIZE) {
        return false;
    }
    size_t size = (size_t)held->data[3] << 8 | held->data[4];
    return size > RECORD_SIZE_MAX || held->size >= RECORD_HEADER_SIZE + size;
}

/* Requests can follow the last flight directly, while it waits for its turn:
 * reading stops at this size. No part of a single record is that large. */
bool stream_tls_is_full(const struct stream *stream)
{
    return stream->stream_tls != NULL &&
           stream->stream_tls->held.size > TLS_HANDSHAKE_SIZE_MAX;
}

static void stream_tls_hold(struct stream_tls *stream_tls, struct bytes bytes)
{
    buffer_put_bytes(&stream_tls->held, bytes);
    stream_keep_reading(stream_tls->stream);
    if (!has_whole_record(&stream_tls->held)) {
        CHECK(!stream_tls_is_full(stream_tls->stream));
        return;
    }
    if (stream_tls->gate != NULL) {
        stream_tls_enqueue(stream_tls);
    } else {
        stream_tls_step(stream_tls);
    }
}

void stream_tls_take(struct stream *stream, struct bytes bytes)
{
    struct stream_tls *stream_tls = stream->stream_tls;
    if (stream->is_closing || stream->closes_when_flushed) {
        return;
    }
    if (stream_tls->tls == NULL) {
        if (bytes.data[0] != TLS_FIRST_BYTE) {
            take_plain(stream_tls, bytes);
            return;
        }
        /* OpenSSL's memory is taken only once a connection has shown the first
         * byte of TLS. */
        stream_tls->tls = tls_new(stream_tls->context, true, 0);
        if (stream_tls->may_be_plain) {
            start_clock(stream_tls);
        }
    }
    if (!is_up(stream_tls)) {
        stream_tls_hold(stream_tls, bytes);
    } else if (tls_feed(stream_tls->tls, bytes) == 0) {
        stream_tls_receive(stream_tls);
    } else {
        stream_tls_refuse(stream, tls_why(stream_tls->tls));
    }
}

/* --- When it is up -------------------------------------------------------- */

/* Like the spare buffer of net/stream.c: nothing else runs on the thread while
 * it is in use. */
static _Atomic(uint8_t *) spare_plain;

/* Passes all decrypted bytes to the owner. */
static void stream_tls_receive(struct stream_tls *stream_tls)
{
    struct stream *stream = stream_tls->stream;
    int error = 0;
    uint8_t *plain = atomic_exchange(&spare_plain, NULL);
    if (plain == NULL) {
        plain = memory_resize(NULL, PLAIN_SIZE);
    }
    while (error == 0 && !stream->is_closing && !stream->closes_when_flushed) {
        size_t total = 0, size;
        while (error == 0 && total < PLAIN_SIZE) {
            error = tls_read(stream_tls->tls, plain + total, PLAIN_SIZE - total,
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
    send_pending(stream); /* A key update needs an answer. */
    if (error == HASP_ECLOSED) {
        stream_fail(stream, UV_EOF);
    } else if (error != HASP_EMORE && !stream->is_closing) {
        stream_tls_refuse(stream, tls_why(stream_tls->tls));
    }
}

bool stream_tls_has_output(const struct stream *stream)
{
    const struct stream_tls *stream_tls = stream->stream_tls;
    return stream_tls->tls != NULL &&
           (tls_output(stream_tls->tls)->size > 0 ||
            (is_up(stream_tls) && stream->output.size > 0));
}

struct buffer *stream_tls_output(struct stream *stream)
{
    static struct buffer nothing;
    struct stream_tls *stream_tls = stream->stream_tls;
    if (stream_tls->tls == NULL) {
        return &nothing;
    }
    if (is_up(stream_tls) && stream->output.size > 0) {
        if (tls_write(stream_tls->tls, buffer_bytes(&stream->output)) != 0) {
            stream->has_failed_tls = true;
            stream_close(stream, tls_why(stream_tls->tls));
            return NULL;
        }
        buffer_clear(&stream->output);
    }
    return tls_output(stream_tls->tls);
}

bool stream_tls_end(struct stream *stream)
{
    struct stream_tls *stream_tls = stream->stream_tls;
    if (stream_tls->has_ended || !is_up(stream_tls)) {
        return false;
    }
    stream_tls->has_ended = true;
    tls_end(stream_tls->tls);
    return stream_tls_has_output(stream);
}
