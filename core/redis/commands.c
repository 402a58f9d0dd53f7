/* SPDX-License-Identifier: MIT */

/* Commands of Redis clients: commands on keys, and scripts of them.
 *
 * The leader executes a command or script on the applied state (keys.h,
 * script.h). That changes nothing, but yields what it found, what each key is
 * to become, and the answer. If nothing is to change, the answer is valid once
 * leadership is confirmed and a second execution gives the same. Otherwise the
 * entry says what was found and what is to be done: applying it compares, and
 * does all of it or nothing. If a key has changed meanwhile, the command is
 * executed again, on a state in which another client has succeeded.
 *
 * So a script, whatever it does, is one entry and one decision, and a node that
 * applies the entry needs to know nothing of scripts.
 *
 * A key is a lock held by a session of its own (rule 18). Its lease is 1.25 PX
 * + 5 ms, because those clients trust the whole PX of their own clock. PTTL
 * returns 0.8 of what is left. Each renewal is a heartbeat that is logged: the
 * deadline moves on receipt, and a session that became doomed meanwhile is not
 * a success. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "core/authorize.h"
#include "core/commands/commands.h"
#include "core/dispatch.h"
#include "core/propose.h"
#include "core/read_index.h"
#include "core/redis/keys.h"
#include "core/redis/script.h"
#include "core/request.h"
#include "core/scripts.h"
#include "core/session/lease.h"
#include "core/state.h"
#include "lockfsm/user/access.h"

/* How often the decision is repeated because the keys changed before its entry
 * was applied. Each time another client has succeeded. */
#define TRIES_MAX 32

/* The outcome of executing a request. */
struct finding {
    struct redis_keys keys;
    struct value answer;
    bool is_missed;      /* A watched key has changed, so EXEC does nothing. */
    enum core_word word; /* WORD_NONE: it can be done; otherwise why not: */
    char error[2 * SCRIPT_WHY_SIZE];
};

/* --- Arguments ------------------------------------------------------------ */

/* Records which of the arguments are keys. */
static bool take_keys(struct call *call, struct resp_writer *writer,
                      uint32_t first, uint32_t count)
{
    call->names = &call->argument[first];
    call->name_count = count;
    if (count > MULTI_COUNT_MAX) {
        return call_fail(call, writer, "more than 64 keys");
    }
    for (uint32_t i = 0; i < count; i++) {
        if (call->names[i].size > LOCK_NAME_SIZE_MAX) {
            return call_fail(call, writer, "a key has at most 511 bytes");
        }
    }
    return true;
}

bool redis_key_parse(struct call *call, struct resp_writer *writer)
{
    return take_keys(call, writer, 1, 1);
}

bool redis_keys_parse(struct call *call, struct resp_writer *writer)
{
    return take_keys(call, writer, 1, call->count - 1);
}

bool redis_set_parse(struct call *call, struct resp_writer *writer)
{
    /* The bounds on the sizes of new values check this option. */
    call->given |= UINT64_C(1) << OPTION_VALUE;
    call->text[OPTION_VALUE] = call->argument[2];
    return take_keys(call, writer, 1, 1);
}

/* Arguments: the text, the number of keys, the keys, and further arguments. An
 * EVALSHA with an unknown text is parsed here, too. */
bool redis_eval_parse(struct call *call, struct resp_writer *writer)
{
    uint64_t count;
    if (bytes_is_word(call->argument[0], "EVALSHA")) {
        return call_fail_as(call, writer, WORD_NOSCRIPT,
                            "No matching script. Please use EVAL.");
    }
    if (!bytes_to_u64(call->argument[2], &count) || count > call->count - 3) {
        return call_fail(call, writer,
                         "the number of keys must be from 0 to the number of "
                         "arguments after it");
    }
    return take_keys(call, writer, 3, (uint32_t)count);
}

static bool fail_exec(struct call *call, struct resp_writer *writer)
{
    return call_fail(call, writer, "not as a node sends it");
}

/* transaction.h describes the form, and keeps clients from sending one. */
bool redis_exec_parse(struct call *call, struct resp_writer *writer)
{
    uint64_t count;
    if (call->count < 2 || !bytes_to_u64(call->argument[1], &count) ||
        count > MULTI_COUNT_MAX || call->count < 2 + 2 * count) {
        return fail_exec(call, writer);
    }
    for (uint64_t at = 2 + 2 * count; at < call->count;) {
        uint64_t words;
        if (!bytes_to_u64(call->argument[at], &words) || words == 0 ||
            words >= call->count - at) {
            return fail_exec(call, writer);
        }
        at += 1 + words;
    }
    return take_keys(call, writer, 2, (uint32_t)count);
}

/* --- Execution ------------------------------------------------------------ */

/* Refuses; request_refuse() adds the command's name to an error about the
 * arguments. */
static void commands_fail(struct finding *finding, enum core_word word,
                          const char *what, const char *why)
{
    bool is_named = word == WORD_BADARG;
    finding->word = word;
    snprintf(finding->error, sizeof finding->error, "%s%s%s",
             is_named ? "" : what, is_named ? "" : ": ", why);
}

/* Fails a single command. An error about the type of a key keeps Redis's own
 * code and text. */
static void fail_command(struct finding *finding, const char *what,
                         const char *why)
{
    static const char code[] = "WRONGTYPE";
    if (strncmp(why, code, sizeof code - 1) != 0) {
        commands_fail(finding, WORD_BADARG, what, why);
        return;
    }
    finding->word = WORD_WRONGTYPE;
    snprintf(finding->error, sizeof finding->error, "%.*s",
             (int)sizeof finding->error - 1, why + sizeof code);
}

/* The beginning of a text, in one line, for people. */
static const char *commands_shown(struct bytes text, char *out, size_t size)
{
    size_t count = text.size < size - 1 ? text.size : size - 1;
    for (size_t i = 0; i < count; i++) {
        uint8_t c = text.data[i];
        out[i] = c >= 0x20 && c < 0x7f && c != '"' && c != '\\' ? (char)c : ' ';
    }
    out[count] = '\0';
    return out;
}

static void run_script(struct core *core, const struct call *call,
                       struct finding *finding)
{
    struct script script;
    struct script_error error;
    struct arena *arena = &core->scripts.arena;
    struct script_run run = {
        .arena = arena,
        .key = call->names,
        .key_count = call->name_count,
        .argument = &call->argument[3 + call->name_count],
        .argument_count = call->count - 3 - call->name_count,
        .call = redis_keys_call,
        .data = &finding->keys,
        .call_steps = &finding->keys.steps,
    };
    /* redis_eval_parse() has checked this. */
    CHECK(call->count >= 3 + call->name_count);
    finding->keys.is_script = true;
    finding->keys.declared = call->names;
    finding->keys.declared_count = call->name_count;
    read_index_spend(core, call->argument[1].size);
    if (!script_parse(call->argument[1], arena, redis_keys_know, &script,
                      &error)) {
        commands_fail(finding, WORD_UNSUPPORTED,
                      "hasp does not run this script", error.text);
    } else if (!script_run(&script, &run, &finding->answer, &error)) {
        commands_fail(finding, WORD_ERR, "script", error.text);
    }
    read_index_spend(core, run.steps);
}

/* Prepares the view of the keys. */
static void commands_begin(struct core *core, const struct request *request,
                           struct redis_keys *keys)
{
    arena_reset(&core->scripts.arena);
    keys->fsm = core->fsm;
    keys->timers = core->timers;
    keys->user = lockfsm_user(core->fsm, request->user);
    keys->now_ns = core->now_ns;
    keys->arena = &core->scripts.arena;
    keys->may_delete = core->options.allows_del;
    keys->may_endure = core->options.allows_no_ttl;
    keys->may_repeat = core->options.renews_same_value;
    keys->is_script = false;
    keys->declared = NULL;
    keys->declared_count = 0;
    keys->count = 0;
    keys->message_count = 0;
    /* The time is read once, so that a script sees one time however long it
     * runs. */
    keys->time_ms = scripts_time_ms(
        &core->scripts, core->port.wall_ms(core->port.data), core->now_ns);
    keys->asked_time = false;
    keys->is_as_if_done = false;
    keys->steps = 0;
}

/* Compares the watched versions; false if one has changed, or there is an
 * error. */
static bool are_as_watched(const struct call *call, struct finding *finding)
{
    const struct bytes *version = call->names + call->name_count;
    /* redis_exec_parse() has checked this. */
    CHECK(call->count >= 2 + 2 * call->name_count);
    for (uint32_t i = 0; i < call->name_count; i++) {
        uint64_t then, now;
        if (version[i].size == 0) {
            continue;
        }
        if (!redis_keys_watch(&finding->keys, call->names[i], &now)) {
            commands_fail(finding, WORD_EXECABORT,
                          "Transaction discarded because of",
                          finding->keys.error);
            return false;
        }
        if (!bytes_to_u64(version[i], &then) || then != now) {
            finding->is_missed = true;
            return false;
        }
    }
    return true;
}

/* Runs the commands that MULTI has queued, one after the other. If one of them
 * cannot be executed, none is, unlike in Redis. */
static void run_transaction(const struct call *call, struct finding *finding)
{
    struct redis_keys *keys = &finding->keys;
    uint32_t words;
    keys->declared = call->names;
    keys->declared_count = call->name_count;
    if (!are_as_watched(call, finding)) {
        return;
    }
    finding->answer = value_new_table(keys->arena);
    for (uint32_t at = 2 + 2 * call->name_count; at < call->count;
         at += 1 + words) {
        const struct bytes *argument = &call->argument[at + 1];
        struct value answer;
        uint64_t count = 0;
        char what[64], name[24];
        bool is_number = bytes_to_u64(call->argument[at], &count);
        CHECK(is_number); /* redis_exec_parse() has checked it. */
        words = (uint32_t)count;
        if (!redis_keys_call(keys, argument, words, &answer)) {
            snprintf(what, sizeof what, "Transaction discarded because of: %s",
                     commands_shown(argument[0], name, sizeof name));
            commands_fail(finding, WORD_EXECABORT, what, keys->error);
            return;
        }
        value_append(keys->arena, finding->answer.table, &answer);
    }
}

/* The bounds of an answer. A list may be in an answer many times, and in
 * itself, so the script's memory does not bound the answer. */
#define ANSWER_VALUES_MAX 16384
#define ANSWER_BYTES_MAX ((size_t)4 << 20)
#define ANSWER_DEPTH_MAX 8

struct answer_size {
    uint32_t values;
    size_t bytes;
};

/* Subtracts the size of a value from what is left for the answer; false if too
 * little is left. */
static bool take_size(const struct value *value, uint32_t depth,
                      struct answer_size *left)
{
    CHECK(value->type <= VALUE_FUNCTION); /* The value was set. */
    if (depth > ANSWER_DEPTH_MAX || left->values == 0) {
        return false;
    }
    left->values--;
    if (value->type == VALUE_TEXT) {
        bool has_room = value->text.size <= left->bytes;
        left->bytes -= has_room ? value->text.size : 0;
        return has_room;
    }
    bool is_good = true;
    for (uint32_t i = 0;
         value->type == VALUE_TABLE && is_good && i < value->table->count;
         i++) {
        is_good = take_size(&value->table->item[i], depth + 1, left);
    }
    return is_good;
}

static void commands_carry_out(struct core *core, const struct request *request,
                               struct finding *finding)
{
    const struct call *call = request->call;
    enum core_word word = WORD_BADARG;
    char name[64];
    commands_begin(core, request, &finding->keys);
    finding->word = WORD_NONE;
    finding->is_missed = false;
    finding->answer = (struct value){.type = VALUE_NIL};
    command_name(call->command, name, sizeof name);
    if (bytes_is_word(call->argument[0], "EVAL")) {
        run_script(core, call, finding);
    } else if (bytes_is_word(call->argument[0], "EXEC")) {
        word = WORD_EXECABORT;
        run_transaction(call, finding);
    } else if (!redis_keys_call(&finding->keys, call->argument, call->count,
                                &finding->answer)) {
        fail_command(finding, name, finding->keys.error);
    }
    if (!finding->keys.is_script) {
        read_index_spend(core, finding->keys.steps);
    }
    /* The answer is bounded before the keys are finished: a command whose
     * answer cannot be sent must change nothing. */
    struct answer_size left = {ANSWER_VALUES_MAX, ANSWER_BYTES_MAX};
    if (finding->word == WORD_NONE && !take_size(&finding->answer, 0, &left)) {
        bool is_script = finding->keys.is_script;
        commands_fail(finding, is_script ? WORD_ERR : word,
                      is_script ? "script" : name,
                      "an answer may have at most 16384 values, 4 MiB and 8 "
                      "nested lists");
    } else if (finding->word == WORD_NONE &&
               !redis_keys_finish(&finding->keys)) {
        commands_fail(finding, word, name, finding->keys.error);
    }
}

static bool commands_changes(const struct finding *finding)
{
    return finding->word == WORD_NONE && redis_keys_change(&finding->keys);
}

/* An error of several words begins with its code. */
static void put_status(struct resp_writer *writer, struct bytes status,
                       bool is_error)
{
    char text[256];
    snprintf(text, sizeof text, "%.*s", (int)status.size,
             (const char *)status.data);
    if (!is_error) {
        resp_simple(writer, text);
        return;
    }
    char *rest = strchr(text, ' ');
    if (rest == NULL) {
        resp_error(writer, "ERR", "%s", text);
    } else {
        *rest = '\0';
        resp_error(writer, text, "%s", rest + 1);
    }
}

/* Makes an answer from what a script returns, as Redis does. */
static void commands_put_value(struct resp_writer *writer,
                               const struct value *value, uint32_t depth)
{
    const struct value *status;
    switch (value->type) {
    case VALUE_TRUE:
        resp_integer(writer, 1);
        return;
    case VALUE_NUMBER:
        resp_integer(writer, value->number > -9e15 && value->number < 9e15
                                 ? (int64_t)value->number
                                 : 0);
        return;
    case VALUE_TEXT:
        resp_bulk(writer, value->text);
        return;
    case VALUE_TABLE:
        break;
    default:
        resp_null(writer);
        return;
    }
    const struct value_table *table = value->table;
    status = value_field(table, "err");
    bool is_error = status != NULL && status->type == VALUE_TEXT;
    status = is_error ? status : value_field(table, "ok");
    if (status != NULL && status->type == VALUE_TEXT) {
        put_status(writer, status->text, is_error);
        return;
    }
    uint32_t count = 0;
    CHECK(depth <= ANSWER_DEPTH_MAX); /* take_size() has checked the depth. */
    while (count < table->count && table->item[count].type != VALUE_NIL) {
        count++;
    }
    resp_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        commands_put_value(writer, &table->item[i], depth + 1);
    }
}

/* True for an error that a script returns, which is data. */
static bool is_error(const struct value *value)
{
    const struct value *text = value->type == VALUE_TABLE
                                   ? value_field(value->table, "err")
                                   : NULL;
    return text != NULL && text->type == VALUE_TEXT;
}

static void commands_put_answer(struct resp_writer *writer,
                                const struct finding *finding)
{
    CHECK(finding->word == WORD_NONE);
    if (finding->is_missed) {
        resp_null_array(writer);
    } else {
        commands_put_value(writer, &finding->answer, 0);
    }
}

/* The receipt of a renewal moves the deadline, so that it does not pass before
 * the entry is applied (rule 2), unless it is going to be refused (rule 13).
 * Its session is recorded: one that becomes doomed until then is not a
 * success. */
static void commands_renew(struct core *core, struct request *request,
                           const struct redis_keys *keys)
{
    buffer_clear(&request->renewed);
    for (uint32_t i = 0; i < keys->count; i++) {
        const struct redis_view *view = &keys->view[i];
        const struct hold *hold;
        if (view->key.was != REDIS_VALUE ||
            (view->key.ttl_ms == 0 && !view->key.is_durable)) {
            continue;
        }
        /* The view of a key that was deleted and set again has lost its
         * hold. */
        (void)lockfsm_redis(core->fsm, keys->user, view->key.name, &hold);
        CHECK(hold != NULL);
        if (!session_is_refused(core->fsm, hold->session) &&
            lockfsm_may(core->fsm, keys->user, VERB_LOCK, view->key.name,
                        EXTENT_NAME, NULL)) {
            (void)lease_renew(core, hold->session->id, request->received_ns);
        }
        buffer_put_u64(&request->renewed, hold->session->id);
    }
}

static void commands_propose(struct core *core, struct request *request,
                             const struct finding *finding)
{
    struct redis_key key[MULTI_COUNT_MAX];
    struct redis_command redis = {.keys = key,
                                  .key_count = finding->keys.count,
                                  .messages = finding->keys.message,
                                  .message_count = finding->keys.message_count,
                                  .client = request_client(request),
                                  .address = request_address(request)};
    CHECK(finding->word == WORD_NONE && !finding->is_missed);
    CHECK(finding->keys.count <= MULTI_COUNT_MAX);
    redis.time_ms = finding->keys.asked_time ? finding->keys.time_ms : 0;
    for (uint32_t i = 0; i < finding->keys.count; i++) {
        key[i] = finding->keys.view[i].key;
        if (key[i].is_durable) {
            redis.wall_ms = core->port.wall_ms(core->port.data);
        }
    }
    /* The answer is written now, because it describes the state that the entry
     * compares with; the state may be another when the entry is applied. */
    struct resp_writer writer = {&request->answer, request->version};
    buffer_clear(&request->answer);
    commands_put_answer(&writer, finding);
    request->answer_is_error = is_error(&finding->answer);
    commands_renew(core, request, &finding->keys);
    propose_redis(core, request, &redis);
}

/* Logs that a script was refused or failed, once for each text. */
static void note_refused(struct core *core, const struct request *request,
                         const struct finding *finding)
{
    struct bytes text = request->call->argument[1];
    struct bytes key = request->call->name_count > 0 ? request->call->names[0]
                                                     : BYTES_LITERAL("");
    char sha[SHA1_TEXT_SIZE], begin[64], name[64];
    for (uint32_t i = 0; i < request->call->name_count; i++) {
        const struct hold *hold;
        if (lockfsm_redis(core->fsm, finding->keys.user,
                          request->call->names[i], &hold) == REDIS_VALUE) {
            scripts_note_refusal(&core->scripts, hold->token, finding->error);
        }
    }
    sha1_text(text, sha);
    /* A client that repeats its script would fill the log. */
    if (scripts_note_refused(&core->scripts, sha)) {
        LOG_WARN("script of a Redis client refused",
                 "sha=%s key=\"%s\" reason=\"%s\" script=\"%s\"", sha,
                 commands_shown(key, name, sizeof name), finding->error,
                 commands_shown(text, begin, sizeof begin));
    }
}

/* In the quarantine nobody holds a key, and nobody is granted one: it appears
 * as that of a foreign holder. Answers that say so would be wrong, whichever
 * they are (GET "", EXISTS 1, SET NX nil), so there is none. */
static void commands_bar(struct core *core, struct finding *finding)
{
    if (lockfsm_quarantine(core->fsm, NULL) == 0) {
        return;
    }
    for (uint32_t i = 0; i < finding->keys.count; i++) {
        if (finding->keys.view[i].key.was == REDIS_OTHER) {
            finding->word = WORD_BUSY;
            snprintf(finding->error, sizeof finding->error,
                     "quarantine after a restore: nothing is granted for "
                     "another %" PRIu64 " ms",
                     core_quarantine_ms(core));
            return;
        }
    }
}

/* Keys of other cells (lockfsm/cells.h) are not free but unknown. Values that
 * this cell has can always be deleted. */
static void commands_bar_cells(struct core *core, struct finding *finding)
{
    uint32_t foreign = 0;
    struct result result;
    for (uint32_t i = 0; i < finding->keys.count; i++) {
        const struct redis_key *key = &finding->keys.view[i].key;
        if (key->was != REDIS_VALUE &&
            lockfsm_name_is_foreign(core->fsm, key->name, &result)) {
            foreign++;
            finding->word = WORD_FOREIGN;
            snprintf(finding->error, sizeof finding->error, "%.*s",
                     (int)result.text.size, (const char *)result.text.data);
        }
    }
    if (foreign > 0 && foreign < finding->keys.count) {
        finding->word = WORD_BADARG;
        snprintf(finding->error, sizeof finding->error,
                 "the keys belong to several cells: one command can name those "
                 "of one cell only");
    }
}

/* Decides on a request; 'is_current': the state here is certainly the
 * leader's. */
static void commands_decide(struct core *core, struct request *request,
                            bool is_current)
{
    struct finding finding;
    /* The right is checked first: whether there is a change discloses the keys'
     * contents. */
    if (!authorize_passes_keys(core, request, request->call, is_current)) {
        return;
    }
    commands_carry_out(core, request, &finding);
    commands_bar(core, &finding);
    if (lockfsm_cell_count(core->fsm) > 0) {
        commands_bar_cells(core, &finding);
    }
    if (!commands_changes(&finding)) {
        if (!is_current) {
            read_index_enqueue(core, request);
            return;
        }
        if (finding.word != WORD_NONE && finding.word != WORD_BUSY &&
            finding.word != WORD_FOREIGN && finding.keys.is_script) {
            note_refused(core, request, &finding);
        }
        if (finding.word != WORD_NONE) {
            request_refuse(core, request, finding.word, finding.error);
            return;
        }
        if (finding.keys.is_as_if_done && request_may_be_done(request)) {
            /* Its own entry at an earlier leader, or another client. */
            request_refuse(core, request, WORD_UNKNOWN,
                           "this value holds the key");
            return;
        }
        commands_put_answer(request_reply(core, request), &finding);
        request_done(core, request);
    } else if (!propose_is_open(core)) {
        request_refuse(core, request, WORD_NOLEADER, "the leader changed");
    } else if (core->run.disk != CORE_DISK_OK &&
               redis_keys_take(&finding.keys)) {
        dispatch_refuse_for_disk(core, request);
    } else {
        commands_propose(core, request, &finding);
    }
}

/* Runs the request at the leader. */
void redis_run(struct core *core, struct request *request)
{
    /* The call stays until the entry is applied. */
    CHECK(request->call != NULL);
    request->tries = 0;
    if ((request->command->flags & COMMAND_SCANS) != 0 &&
        core->turn.scan_budget == 0) {
        read_index_enqueue(core, request); /* A later turn has budget for it. */
    } else {
        commands_decide(core, request, false);
    }
}

/* Continues the request when leadership is confirmed. */
void redis_read(struct core *core, struct request *request)
{
    /* A request that waits for a read keeps its call. */
    CHECK(request->call != NULL);
    commands_decide(core, request, true);
}

/* Answers the versions of the keys to the asked node (transaction.h). */
void redis_watch_read(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct redis_keys keys;
    uint64_t version;
    commands_begin(core, request, &keys);
    for (uint32_t i = 0; i < call->name_count; i++) {
        if (!redis_keys_watch(&keys, call->names[i], &version)) {
            request_refuse(core, request, WORD_BADARG, keys.error);
            return;
        }
    }
    /* A refusal cannot follow a started answer, so all keys were checked before
     * the first version is written. */
    struct buffer *out = request_reply(core, request)->out;
    for (uint32_t i = 0; i < call->name_count; i++) {
        bool is_found = redis_keys_watch(&keys, call->names[i], &version);
        CHECK(is_found);
        buffer_put_run(out, call->names[i]);
        buffer_put_u64(out, version);
    }
    request_done_as(core, request, ANSWER_WATCHED, 0);
}

/* True if a session that the entry renewed was to end before the entry was
 * applied. */
static bool is_doomed(struct core *core, const struct request *request)
{
    struct reader reader = reader_of(buffer_bytes(&request->renewed));
    while (reader_left(&reader) > 0) {
        uint64_t id = reader_u64(&reader);
        if (lockfsm_session(core->fsm, id) == NULL ||
            timers_is_doomed(core->timers, id)) {
            return true;
        }
    }
    return false;
}

/* Answers when the entry is applied. The decision is valid at this moment, in
 * which this node leads. */
void redis_reply(struct core *core, struct request *request,
                 const struct result *result)
{
    /* propose_entry() does not release the call of such a command. */
    CHECK(request->call != NULL);
    request->outcome.has_changed = result->count > 0 &&
                                   !request->answer_is_error;
    if (result->count > 0 && is_doomed(core, request)) {
        /* The client would take success for a lease, and a retry would have the
         * effect twice. */
        request_fail(core, request, WORD_UNKNOWN,
                     BYTES_LITERAL("done, but its lease ends"));
        return;
    }
    if (result->count > 0) {
        struct resp_writer *writer = request_reply(core, request);
        buffer_put_bytes(writer->out, buffer_bytes(&request->answer));
        request_done(core, request);
        return;
    }
    /* The entry found other keys than expected, and did nothing. An earlier
     * leader's entry may be the reason, so whether that one had the effect
     * stays open. */
    request->effect.own = false;
    if (++request->tries < TRIES_MAX) {
        commands_decide(core, request, true);
    } else {
        request_refuse(core, request, WORD_BUSY,
                       "these keys change all the time: try again");
    }
}

/* --- SCRIPT --------------------------------------------------------------- */

static void commands_load(struct core *core, struct request *request,
                          struct bytes text)
{
    struct script script;
    struct script_error error;
    char sha[SHA1_TEXT_SIZE], why[256];
    arena_reset(&core->scripts.arena);
    if (!script_parse(text, &core->scripts.arena, redis_keys_know, &script,
                      &error)) {
        snprintf(why, sizeof why, "hasp does not run this script: %s",
                 error.text);
        request_refuse(core, request, WORD_UNSUPPORTED, why);
        return;
    }
    scripts_load(&core->scripts, text, sha);
    resp_text(request_reply(core, request), sha);
    request_done(core, request);
}

void redis_script_run(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct bytes what = call->argument[1], text;
    if (bytes_is_word(what, "LOAD") && call->count == 3) {
        commands_load(core, request, call->argument[2]);
    } else if (bytes_is_word(what, "EXISTS") && call->count > 2) {
        struct resp_writer *writer = request_reply(core, request);
        resp_array(writer, call->count - 2);
        for (uint32_t i = 2; i < call->count; i++) {
            resp_integer(
                writer, scripts_find(&core->scripts, call->argument[i], &text));
        }
        request_done(core, request);
    } else if (bytes_is_word(what, "FLUSH")) {
        scripts_clear(&core->scripts);
        request_answer_ok(core, request);
    } else {
        request_refuse(core, request, WORD_ERR,
                       "unknown subcommand of SCRIPT: try LOAD, EXISTS or "
                       "FLUSH");
    }
}
