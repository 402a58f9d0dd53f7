/* SPDX-License-Identifier: MIT */

/* Events as text/event-stream
 * (https://html.spec.whatwg.org/multipage/server-sent-events.html). */

#include "http/json.h"
#include "http/visit.h"

void stream_begin(struct visit *visit)
{
    struct http_reply head = {.status = 200,
                              .content_type = "text/event-stream",
                              .header = {{"X-Accel-Buffering", "no"}}};
    visit->is_stream = true;
    visit->gateway->stream_count++;
    list_push_back(&visit->gateway->streams, &visit->in_waiting);
    http_stream(visit->exchange, &head);
    stream_comment(visit);
}

bool stream_is_slow(const struct visit *visit)
{
    return http_stream_unsent(visit->exchange) > STREAM_UNSENT_MAX;
}

void stream_comment(struct visit *visit)
{
    buffer_put_text(http_stream_output(visit->exchange), ": hasp\n\n");
    http_stream_more(visit->exchange);
}

/* [lock, kind, {lock, session, token, index, message, id}]; of other kinds, as
 * the answer to a PUSH that another connection has asked for, nothing is told.
 */
void stream_push(struct visit *visit, const struct resp_reply *reply)
{
    struct buffer *out = http_stream_output(visit->exchange);
    if (reply->count < 4 || reply->value[3].type != RESP_MAP ||
        resp_find(reply, 3, "message") == NULL) {
        return;
    }
    struct bytes kind = reply->value[2].bytes;
    const struct resp_value *id = resp_find(reply, 3, "id");
    json_t *event = json_object();
    json_put_text(event, "kind", kind);
    (void)json_object_update_new(event, json_of_reply(reply, 3));
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
    http_stream_more(visit->exchange);
}
