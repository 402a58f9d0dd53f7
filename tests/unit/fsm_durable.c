/* SPDX-License-Identifier: MIT */

#include "tests/unit/fsm_durable.h"

void run_break(struct script *script, struct buffer *out)
{
    const char *session = option(script, "session");
    struct break_holds_command c = {.name = bytes_of_text(word(script, 1)),
                                    .after_ms = number(script, "after"),
                                    .reason = text_of(script, "reason"),
                                    .by = text_of(script, "by")};
    c.session = session != NULL ? session_named(script, session) : 0;
    encode_break_holds(out, &c);
}

void run_object(struct script *script, struct buffer *out)
{
    struct object_command c = {.origin = origin_in(script),
                               .name = bytes_of_text(word(script, 2)),
                               .message = text_of(script, "message")};
    encode_object(out, &c);
}

void run_hold_over(struct script *script, struct buffer *out)
{
    struct origin origin = origin_in(script);
    struct hold_over_command c = {.name = bytes_of_text(word(script, 2)),
                                  .session = origin.session,
                                  .owner = origin.owner,
                                  .token = number(script, "token")};
    encode_hold_over(out, &c);
}

void run_break_over(struct script *script, struct buffer *out)
{
    struct origin origin = origin_in(script);
    struct break_over_command c = {.name = bytes_of_text(word(script, 2)),
                                   .session = origin.session,
                                   .owner = origin.owner,
                                   .since_index = number(script, "since")};
    encode_break_over(out, &c);
}

void read_durable(const struct script *script, struct open_command *open)
{
    if (flag(script, "durable")) {
        open->is_durable = true;
        open->ttl_ms = (uint32_t)number(script, "ttl");
        open->wall_ms = number(script, "wall");
    }
}

void put_ttl(struct buffer *out, const struct session *session)
{
    if (session->is_durable) {
        buffer_put_text(out, "session durable");
        put_number(out, "opened", session->opened_ms);
    } else {
        buffer_printf(out, "session ttl=%" PRIu32, session->ttl_ms);
    }
}

void put_break(struct buffer *out, const struct hold *hold)
{
    if (hold->break_count > 0) {
        put_number(out, "broken", hold->breaks->since_index);
        put_number(out, "after", hold->breaks->after_ms);
        put_number(out, "clock", hold->breaks->clock_ms);
        put_text(out, " by=", hold->breaks->by);
        put_text(out, ": ", hold->breaks->reason);
    }
}
