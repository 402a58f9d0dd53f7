/* SPDX-License-Identifier: MIT */

/* Log lines about administration, and the requester that is appended to entries
 * that need it. */

#include "core/audit_log.h"

#include <inttypes.h>

#include "base/check.h"
#include "core/command.h"
#include "core/state.h"
#include "lockfsm/user/audit.h"
#include "lockfsm/user/trail.h"

/* How many of an entry's sessions, and of the holds of each, are shown. */
#define SESSION_SHOWN_MAX 8
#define HOLD_SHOWN_MAX 8
/* How much of a name is shown in a list. */
#define NAME_SHOWN_MAX 64
/* A line of this size gets nothing more. */
#define LINE_SIZE_MAX 1500

static struct bytes asker_of(const struct request *request)
{
    /* The request is being decided on, so its call is there. */
    CHECK(request->call != NULL);
    struct bytes by = call_text(request->call, OPTION_BY);
    return by.size > 0 ? by : request_client(request);
}

void audit_log_sign(struct core *core, const struct request *request,
                    struct entry *entry)
{
    entry->user = request->user;
    entry->from = request_address(request);
    entry->by = asker_of(request);
    entry->wall_ms = core->port.wall_ms(core->port.data);
}

static void audit_log_put_text(struct buffer *line, const char *key,
                               struct bytes text)
{
    if (text.size > 0) {
        buffer_printf(line, "%s%s=%s", line->size > 0 ? " " : "", key,
                      log_quote_bytes(text));
    }
}

static void audit_log_put_number(struct buffer *line, const char *key,
                                 uint64_t number)
{
    buffer_printf(line, "%s%s=%" PRIu64, line->size > 0 ? " " : "", key,
                  number);
}

/* Writes the index, and whether this node had the entry when it started: such
 * an entry may have been logged before, which is recorded nowhere. */
static void put_index(const struct core *core, struct buffer *line,
                      uint64_t log_index)
{
    audit_log_put_number(line, "index", log_index);
    if (log_index <= core->run.replayed_index) {
        buffer_put_text(line, " replayed=yes");
    }
}

static void write_line(const char *event, struct buffer *line)
{
    LOG_INFO(event, "%.*s", (int)line->size, (const char *)line->data);
    buffer_done(line);
}

void audit_log_log(const struct request *request)
{
    struct buffer line = {0};
    CHECK((request->command->flags & COMMAND_ADMIN) != 0);
    buffer_printf(&line, "command=%s", request->command->name);
    audit_log_put_text(&line, "from", request_address(request));
    audit_log_put_text(&line, "by", asker_of(request));
    write_line("administration", &line);
}

void audit_log_act(struct core *core, enum act_kind kind, uint64_t member,
                   const char *address, uint64_t incarnation,
                   struct bytes asker)
{
    struct arena arena = {0}; /* An entry without a command needs none of it. */
    struct entry entry;
    struct codec_level level;
    struct act_command act = {.kind = kind,
                              .member = member,
                              .address = bytes_of_text(address),
                              .incarnation = incarnation,
                              .wall_ms = core->port.wall_ms(core->port.data)};
    bool is_whole = entry_get(asker, &arena, &entry, &level);
    CHECK(is_whole && entry.op == OP_NONE);
    entry.op = OP_ACT;
    entry.act = &act;
    if (!propose_own(core, &entry)) {
        LOG_WARN("an administrative act is logged only by this node",
                 "act=%d member=%" PRIu64, (int)kind, member);
    }
    arena_done(&arena);
}

/* "orders#62380494028806 jobs/1#62380494028809" */
static void put_holds(struct buffer *line, const struct session *session)
{
    struct buffer list = {0};
    uint32_t shown = 0;
    LIST_FOR (const struct hold, hold, &session->holds, in_session) {
        struct bytes name = hold->lock->name;
        /* The line has a bound, however many holds the session has; "more"
         * counts the rest. */
        if (shown == HOLD_SHOWN_MAX || line->size + list.size > LINE_SIZE_MAX) {
            break;
        }
        name.size = name.size < NAME_SHOWN_MAX ? name.size : NAME_SHOWN_MAX;
        audit_log_put_text(&list, "lock", name);
        audit_log_put_number(&list, "token", hold->token);
        shown++;
    }
    CHECK(shown <= session->hold_count);
    buffer_printf(line, " holds=%u", session->hold_count);
    if (shown > 0) {
        buffer_put_text(line, " ");
        buffer_put_bytes(line, buffer_bytes(&list));
    }
    if (shown < session->hold_count) {
        buffer_printf(line, " more=%u", session->hold_count - shown);
    }
    buffer_done(&list);
}

static void audit_log_put_session(struct core *core, struct buffer *line,
                                  uint64_t id)
{
    const struct session *session = lockfsm_session(core->fsm, id);
    audit_log_put_number(line, "session", id);
    if (session == NULL) {
        buffer_put_text(line, " ended=yes");
        return;
    }
    audit_log_put_text(line, "client", session->name);
    audit_log_put_text(line, "address", session->address);
    put_holds(line, session);
}

/* The session that an effect of an administrative entry concerns, or 0. */
static uint64_t session_of(const struct effect *effect)
{
    switch (effect->type) {
    case EFFECT_SESSION_CHANGED:
    case EFFECT_SESSION_ENDED:
    case EFFECT_RELEASED:
    case EFFECT_HOLD_EXPIRED:
    case EFFECT_BREAKING:
    case EFFECT_PLEASE:
        return effect->session;
    default:
        return 0;
    }
}

/* Logs which sessions lost what: the first one in 'line' itself, each of the
 * others in a line of its own. */
static void log_sessions(struct core *core, struct buffer *line,
                         uint64_t log_index, const struct effects *effects)
{
    uint64_t logged[SESSION_SHOWN_MAX];
    uint32_t count = 0, left_out = 0;
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct effect *effect = &effects->effect[i];
        uint64_t id = session_of(effect);
        bool is_known = id == 0;
        if (effect->type == EFFECT_RELEASED && line->size < LINE_SIZE_MAX) {
            audit_log_put_text(line, "released", effect->lock);
            audit_log_put_number(line, "released_token", effect->token);
        }
        for (uint32_t j = 0; j < count; j++) {
            is_known |= logged[j] == id;
        }
        if (is_known) {
            continue;
        }
        /* One entry can end thousands of sessions: the log gets only the first
         * of them and a count. */
        if (count == SESSION_SHOWN_MAX) {
            left_out++;
            continue;
        }
        logged[count++] = id;
    }
    if (count > 0) {
        audit_log_put_session(core, line, logged[0]);
    }
    if (left_out > 0) {
        buffer_printf(line, " sessions_left_out=%u", left_out);
    }
    write_line("administration", line);
    for (uint32_t i = 1; i < count; i++) {
        struct buffer other = {0};
        put_index(core, &other, log_index);
        audit_log_put_session(core, &other, logged[i]);
        write_line("administration concerns", &other);
    }
}

static void put_result(struct buffer *line, const struct result *result,
                       bool tells_count)
{
    if (result->code == RESULT_OK) {
        if (tells_count) {
            audit_log_put_number(line, "result", result->count);
        }
        return;
    }
    audit_log_put_text(line, "refused",
                       bytes_of_text(result_name(result->code)));
    audit_log_put_text(line, "why", result->text);
}

void audit_log_applied(struct core *core, const struct effects *effects)
{
    const struct trail *audit_log = lockfsm_trail(core->fsm);
    const struct result *result = &effects->effect[0].result;
    uint64_t log_index = lockfsm_applied_index(core->fsm);
    struct buffer line = {0};
    uint32_t left_out = 0;
    CHECK(effects->count > 0 && effects->effect[0].type == EFFECT_RESULT);
    if (audit_log->command == NULL || !log_is_on(LOG_INFO_LEVEL)) {
        return;
    }
    if (audit_log->from.size == 0 && result->code == RESULT_OK &&
        result->count == 0) {
        return; /* The deadline was over, but there was nothing left to end. */
    }
    /* Anybody may send LOCK.PLEASE without limit. */
    if (strcmp(audit_log->command, "LOCK.PLEASE") == 0 &&
        !log_limit_pass(&core->run.logged.pleas, core->now_ns / NS_PER_MS,
                        &left_out)) {
        return;
    }
    put_index(core, &line, log_index);
    buffer_printf(&line, " command=%s", audit_log->command);
    audit_log_put_text(&line, "from",
                       audit_log->from.size > 0 ? audit_log->from
                                                : BYTES_LITERAL("itself"));
    audit_log_put_text(&line, "user", audit_log->user);
    audit_log_put_text(&line, "by", audit_log->by);
    if (audit_log->session != 0) {
        audit_log_put_number(&line, "asking_session", audit_log->session);
    }
    if (audit_log->what.size > 0) {
        buffer_put_u8(&line, ' ');
        buffer_put(&line, audit_log->what.data,
                   audit_log->what.size < ACT_WHAT_SIZE_MAX
                       ? audit_log->what.size
                       : ACT_WHAT_SIZE_MAX);
    }
    put_result(&line, result, !audit_log->tells_itself);
    if (left_out > 0) {
        audit_log_put_number(&line, "suppressed", left_out);
    }
    log_sessions(core, &line, log_index, effects);
}

void audit_log_members(struct core *core, uint64_t log_index,
                       const struct replica_members *members)
{
    static const char *const roles[] = {[MEMBER_VOTER] = "voter",
                                        [MEMBER_STANDBY] = "standby",
                                        [MEMBER_SPARE] = "spare"};
    struct buffer line = {0};
    CHECK(members->count <= MEMBER_COUNT_MAX);
    put_index(core, &line, log_index);
    for (uint32_t i = 0; i < members->count; i++) {
        buffer_printf(&line, " member_%" PRIu64 "=%s", members->member[i].id,
                      roles[members->member[i].role]);
    }
    write_line("members", &line);
}
