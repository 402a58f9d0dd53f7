/* SPDX-License-Identifier: MIT */

/* Events as text/event-stream
 * (https://html.spec.whatwg.org/multipage/server-sent-events.html). */

#include "http/exchange.h"
#include "net/json.h"

void stream_begin(struct exchange *exchange)
{
    struct http_reply head = {.status = 200,
                              .content_type = "text/event-stream",
                              .header = {{"X-Accel-Buffering", "no"}}};
    exchange->is_stream = true;
    exchange->gateway->stream_count++;
    list_push_back(&exchange->gateway->streams, &exchange->in_waiting);
    http_stream(exchange->raw_exchange, &head);
    stream_comment(exchange);
}

uint32_t streams_from(const struct gateway *gateway, uint64_t origin)
{
    uint32_t count = 0;
    LIST_FOR (const struct exchange, stream, &gateway->streams, in_waiting) {
        count += stream->origin == origin && !stream->is_answered ? 1 : 0;
    }
    return count;
}

struct exchange *streams_of_most(const struct gateway *gateway,
                                 uint32_t *ret_count, uint32_t *ret_most)
{
    struct exchange *found = NULL;
    *ret_count = 0;
    *ret_most = 0;
    LIST_FOR (struct exchange, stream, &gateway->streams, in_waiting) {
        uint32_t count = stream->is_answered
                             ? 0
                             : streams_from(gateway, stream->origin);
        *ret_count += count > 0 ? 1 : 0;
        if (count > *ret_most) {
            *ret_most = count;
            found = stream;
        }
    }
    return found;
}

bool stream_is_slow(const struct exchange *exchange)
{
    return http_stream_unsent(exchange->raw_exchange) > STREAM_UNSENT_MAX;
}

void stream_comment(struct exchange *exchange)
{
    buffer_put_text(http_stream_output(exchange->raw_exchange), ": hasp\n\n");
    http_stream_more(exchange->raw_exchange);
}

/* Writes [lock, kind, {lock, session, token, index, message, id}] as an event.
 * Other kinds, such as the answer to a PUSH that another connection requested,
 * are ignored. */
void stream_push(struct exchange *exchange, const struct resp_reply *reply)
{
    struct buffer *out = http_stream_output(exchange->raw_exchange);
    if (reply->count < 4 || reply->value[3].type != RESP_MAP ||
        resp_find(reply, 3, "message") == NULL) {
        return;
    }
    struct bytes kind = reply->value[2].bytes;
    const struct resp_value *id = resp_find(reply, 3, "id");
    json_t *event = json_object();
    json_put_text(event, "kind", kind);
    (void)json_object_update_new(event, json_of_reply(reply, 3, NULL));
    if (id != NULL) {
        buffer_put_text(out, "id: ");
        buffer_put_bytes(out, id->bytes);
        buffer_put_u8(out, '\n');
    }
    buffer_put_text(out, "event: ");
    buffer_put_bytes(out, kind);
    buffer_put_text(out, "\ndata: ");
    json_write(event, out);
    buffer_put_u8(out, '\n');
    http_stream_more(exchange->raw_exchange);
}
