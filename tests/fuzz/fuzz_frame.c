/* SPDX-License-Identifier: MIT */

/* Untrusted bytes on the peer port through the frame decoders: an accepted
 * frame encodes to the same bytes again (a HELLO may be longer). */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "net/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Decodes 'body' and encodes it again; false if it was refused. */
static bool decode_and_encode(enum frame_type type, struct bytes body,
                              struct buffer *out)
{
    static struct bytes arguments[FRAME_ARGUMENT_MAX];
    static uint64_t sessions[FRAME_SESSION_MAX];
    struct frame_hello hello;
    struct frame_forward forward = {.argument = arguments};
    struct frame_answer answer;
    struct frame_snapshot snapshot;
    struct frame_snapshot_ack ack;
    struct frame_lost lost;
    struct frame_members members;
    struct frame_clock clock;
    enum frame_refusal refusal;
    struct bytes why;
    struct frame_digest digest;
    uint64_t number;
    uint32_t count;
    bool is_quiet;
    int error = HASP_EPROTO;
    if (type == FRAME_HELLO && (error = frame_get_hello(body, &hello)) == 0) {
        if (frame_common_version(&hello.versions, &frame_versions_spoken) ==
            0) {
            return false; /* Not all of it was read. */
        }
        frame_put_hello(out, &hello);
    } else if (type == FRAME_FORWARD &&
               (error = frame_get_forward(body, &forward)) == 0) {
        frame_put_forward(out, &forward);
    } else if (type == FRAME_ANSWER &&
               (error = frame_get_answer(body, &answer)) == 0) {
        frame_put_answer(out, &answer);
    } else if (type == FRAME_CLOSED &&
               (error = frame_get_closed(body, &number, &is_quiet, sessions,
                                         &count)) == 0) {
        frame_put_closed(out, number, is_quiet, sessions, count);
    } else if (type == FRAME_SNAPSHOT &&
               (error = frame_get_snapshot(body, &snapshot)) == 0) {
        frame_put_snapshot(out, &snapshot);
    } else if (type == FRAME_SNAPSHOT_ACK &&
               (error = frame_get_snapshot_ack(body, &ack)) == 0) {
        frame_put_snapshot_ack(out, &ack);
    } else if (type == FRAME_REFUSED &&
               (error = frame_get_refused(body, &refusal, &why)) == 0) {
        frame_put_refused(out, refusal, why);
    } else if (type == FRAME_MEMBERS &&
               (error = frame_get_members(body, &members)) == 0) {
        frame_put_members(out, &members);
    } else if ((type == FRAME_LOST || type == FRAME_ACCUSED ||
                type == FRAME_CLEARED) &&
               (error = frame_get_lost(body, &lost)) == 0) {
        frame_put_lost(out, type, &lost);
    } else if ((type == FRAME_DIGEST || type == FRAME_DIVERGED) &&
               (error = frame_get_digest(body, &digest)) == 0) {
        frame_put_digest(out, type, &digest);
    } else if (type == FRAME_CLOCK &&
               (error = frame_get_clock(body, &clock)) == 0) {
        frame_put_clock(out, &clock);
    } else if ((type == FRAME_PING || type == FRAME_PONG) &&
               (error = frame_get_u64(body, &number)) == 0) {
        frame_put_u64(out, type, number);
    }
    return error == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = memory_copy(data, size);
    struct bytes input = bytes_of(copy, size);
    enum frame_type type;
    struct bytes body;
    size_t used;
    while (frame_parse(input, 1u << 20, &type, &body, &used) == 0) {
        struct buffer out = {0};
        CHECK(used == body.size + FRAME_HEADER_SIZE && used <= input.size);
        if (decode_and_encode(type, body, &out)) {
            if (type == FRAME_HELLO && out.size == used + 1) {
                out.size--; /* The byte that distinguishes it from TLS. */
            }
            size_t compared = type == FRAME_HELLO ? out.size : used;
            size_t from = type == FRAME_HELLO ? FRAME_HEADER_SIZE : 0;
            CHECK(out.size == compared && compared <= used);
            CHECK(memcmp(out.data + from, input.data + from, compared - from) ==
                  0);
        }
        buffer_done(&out);
        input = bytes_of(input.data + used, input.size - used);
    }
    free(copy);
    return 0;
}
