/* SPDX-License-Identifier: MIT */

/* Adds up the stages of requests, and keeps the slow ones. */

#include "core/slow_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "core/command.h"
#include "core/state.h"

static const char *const stage_names[SLOW_STAGE_COUNT] = {
#define SLOW_STAGE_NAME(NAME, name) name,
    SLOW_STAGES(SLOW_STAGE_NAME)
#undef SLOW_STAGE_NAME
};

void slow_log_done(struct core *core)
{
    free(core->slow_log.ring);
}

/* Adds the time up to 'to_ns'; nothing if that is over, or 0: unknown. */
static void slow_log_advance(struct request *request, enum slow_stage stage,
                             uint64_t to_ns)
{
    struct slow_clock *clock = &request->clock;
    if (to_ns > clock->since_ns) {
        clock->spent_ns[stage] += to_ns - clock->since_ns;
        clock->since_ns = to_ns;
    }
}

static enum slow_stage stage_of(enum request_state state)
{
    switch (state) {
    case REQUEST_HELD:
    case REQUEST_CHANGING:
    case REQUEST_QUEUED:
    case REQUEST_SNAPSHOT:
        return SLOW_WAIT;
    case REQUEST_FORWARDED:
        return SLOW_FORWARD;
    case REQUEST_ASKING:
    case REQUEST_DOOMED:
        return SLOW_CONFIRM;
    case REQUEST_LOGGED:
        return SLOW_PROPOSE;
    case REQUEST_READY:
        return SLOW_ANSWER;
    default:
        return SLOW_QUEUE;
    }
}

void slow_log_leave(const struct core *core, struct request *request)
{
    slow_log_advance(request, stage_of(request->state), core->now_ns);
}

void slow_log_entry(const struct core *core, const struct expected *expected)
{
    if (core->options.slow_ms == 0) {
        return;
    }
    for (struct request *r = expected->requests; r != NULL; r = r->next) {
        slow_log_advance(r, SLOW_PROPOSE, expected->proposed_ns);
        slow_log_advance(r, SLOW_FLUSH, expected->flushed_ns);
        slow_log_advance(r, SLOW_REPLICATE, expected->committed_ns);
        slow_log_advance(r, SLOW_APPLY, core->now_ns);
    }
}

void slow_log_waited(const struct core *core, struct request *request,
                     uint32_t waited_ms)
{
    uint64_t *spent_ns = request->clock.spent_ns;
    slow_log_leave(core, request);
    uint64_t waited_ns = u64_min(waited_ms * NS_PER_MS, spent_ns[SLOW_FORWARD]);
    spent_ns[SLOW_FORWARD] -= waited_ns;
    spent_ns[SLOW_WAIT] += waited_ns;
}

uint32_t slow_log_wait_ms(const struct request *request)
{
    return (uint32_t)u64_min(request->clock.spent_ns[SLOW_WAIT] / NS_PER_MS,
                             UINT32_MAX);
}

uint32_t slow_log_name_at(const struct command *command)
{
    const char *operands = command->operands;
    if (operands == NULL || operands[0] == '\0') {
        return command->key_at;
    }
    return strchr("lrp", operands[0]) != NULL ? 1 : operands[0] == 'n' ? 2 : 0;
}

static void copy_text(char *out, size_t size, struct bytes text)
{
    size_t n = text.size < size ? text.size : size - 1;
    if (n > 0) {
        memcpy(out, text.data, n);
    }
    out[n] = '\0';
}

static void slow_log_line(struct core *core, const struct slow_request *slow)
{
    char stages[256] = "", lock[BYTES_SHOWN_SIZE], client[BYTES_SHOWN_SIZE];
    uint32_t left_out;
    int size = 0;
    if (!log_limit_pass(&core->slow_log.lines, core->now_ns / NS_PER_MS,
                        &left_out)) {
        return;
    }
    for (int i = 0; i < SLOW_STAGE_COUNT; i++) {
        if (slow->spent_ns[i] >= NS_PER_MS) {
            size += snprintf(stages + size, sizeof stages - (size_t)size,
                             " %s_ms=%" PRIu64, stage_names[i],
                             slow->spent_ns[i] / NS_PER_MS);
        }
    }
    LOG_INFO("slow request",
             "command=%s lock=\"%s\" client=\"%s\" session=%" PRIu64
             " took_ms=%" PRIu64 "%s%s%s left_out=%" PRIu32,
             slow->command, bytes_shown(bytes_of_text(slow->lock), lock),
             bytes_shown(bytes_of_text(slow->client), client), slow->session,
             slow->took_ns / NS_PER_MS, stages,
             slow->trace[0] != '\0' ? " trace=" : "", slow->trace, left_out);
}

void slow_log_add(struct core *core, const struct request *request,
                  const struct slow_texts *texts, uint64_t took_ns)
{
    struct slow_log *log = &core->slow_log;
    const struct user *user = lockfsm_user(core->fsm, request->user);
    if (log->ring == NULL) {
        log->ring = memory_new(SLOW_COUNT_MAX * sizeof *log->ring);
    }
    struct slow_request *slow = &log->ring[log->count++ % SLOW_COUNT_MAX];
    *slow = (struct slow_request){
        .number = log->count,
        .wall_ms = core->port.wall_ms(core->port.data),
        .took_ns = took_ns,
        .session = request->session,
        .peer = request->peer,
        .command = request->command->name,
        .word = request->outcome.word};
    memcpy(slow->spent_ns, request->clock.spent_ns, sizeof slow->spent_ns);
    copy_text(slow->lock, sizeof slow->lock, texts->lock);
    copy_text(slow->client, sizeof slow->client, texts->client);
    copy_text(slow->from, sizeof slow->from, texts->from);
    uint8_t trace[TRACE_SIZE];
    (void)traceparent_parse(texts->trace, trace);
    traceparent_format(trace, slow->trace);
    if (user != NULL) {
        copy_text(slow->user, sizeof slow->user, user->name);
    }
    slow_log_line(core, slow);
}

uint64_t slow_log_took_ns(const struct core *core, struct request *request)
{
    uint64_t took_ns = 0;
    uint64_t slow_ns = core->options.slow_ms * NS_PER_MS;
    if (slow_ns == 0 || request->command == NULL ||
        (request->conn == NULL && request->peer == 0)) {
        return 0;
    }
    slow_log_advance(request, SLOW_ANSWER,
                     core->port.clock_ns != NULL
                         ? core->port.clock_ns(core->port.data)
                         : core->now_ns);
    for (int i = 0; i < SLOW_WAIT; i++) {
        took_ns += request->clock.spent_ns[i];
    }
    return took_ns >= slow_ns ? took_ns : 0;
}

const struct slow_request *slow_log_at(const struct core *core, uint64_t place)
{
    const struct slow_log *log = &core->slow_log;
    if (place >= u64_min(log->count, SLOW_COUNT_MAX)) {
        return NULL;
    }
    return &log->ring[(log->count - 1 - place) % SLOW_COUNT_MAX];
}

void slow_log_put(const struct slow_request *slow, struct resp_writer *writer)
{
    resp_map(writer, 12 + SLOW_STAGE_COUNT);
    resp_key_number(writer, "number", slow->number);
    resp_key_number(writer, "time_ms", slow->wall_ms);
    resp_key_text(writer, "command", slow->command);
    resp_key_bulk(writer, "lock", bytes_of_text(slow->lock));
    resp_key_bulk(writer, "client", bytes_of_text(slow->client));
    resp_key_text(writer, "user", slow->user);
    resp_key_text(writer, "from", slow->from);
    resp_key_number(writer, "session", slow->session);
    resp_key_number(writer, "by_node", slow->peer);
    resp_key_text(writer, "error", core_words[slow->word]);
    resp_key_text(writer, "trace", slow->trace);
    resp_key_number(writer, "took_us", slow->took_ns / 1000);
    for (int i = 0; i < SLOW_STAGE_COUNT; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_us", stage_names[i]);
        resp_key_number(writer, key, slow->spent_ns[i] / 1000);
    }
}

uint64_t core_slow_count(const struct core *core)
{
    return core->slow_log.count;
}
