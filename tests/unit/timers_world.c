/* SPDX-License-Identifier: MIT */

#include "tests/unit/timers_world.h"

uint64_t ns(const struct world *w)
{
    return w->now_ms * MS;
}

static inline uint32_t number_of(const struct world *w, uint64_t session)
{
    for (uint32_t i = 0; i < w->session_count; i++) {
        if (w->session[i] == session) {
            return i + 1;
        }
    }
    return 0;
}

static inline struct result apply(struct world *w, struct bytes command)
{
    effects_clear(&w->effects);
    w->index++;
    assert_int_equal(lockfsm_apply(w->fsm, w->index, 1, command, &w->effects),
                     0);
    struct result result = {.code = RESULT_OK};
    for (uint32_t i = 0; i < w->effects.count; i++) {
        timers_follow(w->timers, w->fsm, &w->effects.effect[i], ns(w));
        if (w->effects.effect[i].type == EFFECT_RESULT) {
            result = w->effects.effect[i].result;
        }
    }
    return result;
}

struct result apply_command(struct world *w)
{
    encode_user(&w->command, USER_ANYONE);
    struct result result = apply(w, buffer_bytes(&w->command));
    buffer_clear(&w->command);
    return result;
}

void begin_timers(struct world *w)
{
    timers_begin(w->timers, w->fsm, ns(w));
    while (!timers_inherit(w->timers, w->fsm, 3)) {
        assert_false(timers_are_on(w->timers));
    }
    assert_true(timers_are_on(w->timers));
}

int set_up(void **state)
{
    struct world *w = memory_new(sizeof *w);
    w->fsm = lockfsm_new();
    w->timers = timers_new();
    w->now_ms = 1000000;
    uint8_t cluster_id[16] = {1};
    struct lockfsm_limits limits = lockfsm_default_limits;
    limits.of[LIMIT_TTL_MAX] = TTL_ASKED_MS_MAX;
    struct begin_command begin = {
        .node = 1,
        .cluster_id = bytes_of(cluster_id, CLUSTER_ID_SIZE),
        .token_base = 1000,
        .limits = limits.of,
        .limit_count = LIMIT_COUNT};
    encode_begin(&w->command, &begin);
    apply_command(w);
    begin_timers(w);
    *state = w;
    return 0;
}

int tear_down(void **state)
{
    struct world *w = *state;
    for (uint32_t i = 0; i < PROPOSED_MAX; i++) {
        buffer_done(&w->proposed[i]);
    }
    buffer_done(&w->text);
    buffer_done(&w->command);
    effects_done(&w->effects);
    timers_free(w->timers);
    lockfsm_free(w->fsm);
    free(w);
    return 0;
}

uint64_t open_session(struct world *w, uint32_t ttl_ms, uint32_t linger_ms)
{
    struct open_command open = {.ttl_ms = ttl_ms,
                                .linger_ms = linger_ms,
                                .name = BYTES_LITERAL("client"),
                                .address = BYTES_LITERAL("10.0.0.1:1")};
    encode_open(&w->command, &open);
    struct result result = apply_command(w);
    assert_int_equal(result.code, RESULT_OK);
    assert_true(w->session_count < SESSION_MAX);
    w->session[w->session_count++] = result.token;
    return result.token;
}

uint64_t open_durable(struct world *w)
{
    struct open_command open = {.is_durable = true,
                                .name = BYTES_LITERAL("client")};
    encode_open(&w->command, &open);
    struct result result = apply_command(w);
    assert_int_equal(result.code, RESULT_OK);
    assert_true(w->session_count < SESSION_MAX);
    w->session[w->session_count++] = result.token;
    return result.token;
}

struct result acquire(struct world *w, uint64_t session, const char *lock,
                      struct ask ask)
{
    struct bytes name = bytes_of_text(lock);
    struct acquire_command command = {.origin = {.session = session},
                                      .names = &name,
                                      .name_count = 1,
                                      .is_waiting = true,
                                      .wait_ms = ask.wait_ms,
                                      .delay_ms = ask.delay_ms,
                                      .hold_ms = ask.hold_ms};
    encode_acquire(&w->command, &command);
    return apply_command(w);
}

void release(struct world *w, uint64_t session, const char *lock)
{
    struct bytes name = bytes_of_text(lock);
    struct release_command command = {
        .origin = {.session = session}, .names = &name, .name_count = 1};
    encode_release(&w->command, &command);
    assert_int_equal(apply_command(w).code, RESULT_OK);
}

void downgrade(struct world *w, uint64_t session, const char *lock)
{
    struct convert_command command = {.origin = {.session = session},
                                      .name = bytes_of_text(lock),
                                      .to = LOCK_SHARED};
    encode_convert(&w->command, &command);
    assert_int_equal(apply_command(w).code, RESULT_OK);
}

static inline void describe(struct world *w, const struct entry *c)
{
    switch (c->op) {
    case OP_EXPIRE:
        buffer_put_text(&w->text, "expire");
        for (size_t i = 0; i < c->expire->session_count; i++) {
            buffer_printf(&w->text, " %u",
                          number_of(w, c->expire->sessions[i]));
        }
        break;
    case OP_TIME:
        w->time_count++;
        w->elapsed_ms = c->time->elapsed_ms;
        if (c->time->mark_count == 0) {
            return;
        }
        buffer_put_text(&w->text, "mark");
        for (size_t i = 0; i < c->time->mark_count; i++) {
            buffer_printf(&w->text, " %u=%u",
                          number_of(w, c->time->marks[i].session),
                          c->time->marks[i].quiet_ms);
        }
        break;
    case OP_WAIT_TIMEOUT:
        buffer_printf(&w->text, "wait-timeout %u @%llu",
                      number_of(w, c->wait_timeout->session),
                      (unsigned long long)c->wait_timeout->wait_index);
        break;
    case OP_DELAY_OVER:
        buffer_printf(&w->text, "delay-over %.*s @%llu",
                      (int)c->delay_over->name.size, c->delay_over->name.data,
                      (unsigned long long)c->delay_over->since_index);
        break;
    case OP_HOLD_OVER:
        buffer_printf(&w->text, "hold-over %u %llu",
                      number_of(w, c->hold_over->session),
                      (unsigned long long)c->hold_over->token);
        break;
    case OP_BREAK_OVER:
        buffer_printf(&w->text, "break-over %u @%llu",
                      number_of(w, c->break_over->session),
                      (unsigned long long)c->break_over->since_index);
        break;
    case OP_BLACKLIST_OVER:
        buffer_printf(&w->text, "blacklist-over @%llu",
                      (unsigned long long)c->blacklist_over->since_index);
        break;
    case OP_QUARANTINE_OVER:
        buffer_printf(&w->text, "quarantine-over @%llu",
                      (unsigned long long)c->quarantine_over->since_index);
        break;
    default:
        buffer_put_text(&w->text, "another");
        break;
    }
    buffer_put_text(&w->text, "\n");
}

static inline bool propose(void *data, const struct entry *entry)
{
    struct world *w = data;
    if (w->is_refusing) {
        return false;
    }
    assert_true(w->proposed_count < PROPOSED_MAX);
    entry_put(&w->proposed[w->proposed_count++], entry);
    describe(w, entry);
    return true;
}

const char *due_at(struct world *w, uint64_t now_ms, uint32_t session_max,
                   uint32_t command_max)
{
    w->now_ms = now_ms;
    buffer_clear(&w->text);
    timers_due(w->timers, ns(w), ns(w), session_max, command_max, propose, w);
    buffer_put_u8(&w->text, 0);
    return (const char *)w->text.data;
}

const char *due(struct world *w, uint64_t now_ms)
{
    return due_at(w, now_ms, 100, 100);
}

void apply_proposed(struct world *w)
{
    while (w->applied_count < w->proposed_count) {
        apply(w, buffer_bytes(&w->proposed[w->applied_count++]));
    }
}

void log_heard(struct world *w, uint64_t session)
{
    timers_hearing(w->timers, session);
    encode_heard(&w->command, &(struct heard_command){.sessions = &session,
                                                      .session_count = 1});
    buffer_put_bytes(&w->proposed[w->proposed_count++],
                     buffer_bytes(&w->command));
    buffer_clear(&w->command);
}

void forget_proposed(struct world *w)
{
    while (w->proposed_count > 0) {
        buffer_clear(&w->proposed[--w->proposed_count]);
    }
    w->applied_count = 0;
}

void change_leader(struct world *w, uint64_t now_ms)
{
    timers_end(w->timers);
    forget_proposed(w);
    w->now_ms = now_ms;
    struct begin_command begin = {
        .node = 1,
        .base_index = timers_base(w->timers),
        .elapsed_ms = timers_elapsed_ms(w->timers, ns(w)),
    };
    encode_begin(&w->command, &begin);
    apply_command(w);
    begin_timers(w);
}

uint64_t lease_left(struct world *w, uint64_t session)
{
    return timers_lease_left(w->timers, session, ns(w)) / MS;
}
