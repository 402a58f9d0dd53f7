/* SPDX-License-Identifier: MIT */

/* Redis lock clients: SET NX PX and what goes with it (rule 18).
 *
 * A value is an exclusive lock held by a session of its own, whose lease is
 * 1.25 PX + 5 ms: those clients trust the whole PX of their own clock, and with
 * clocks 10 % off on either side they still end first. PTTL tells 0.8 of what
 * is left. Each success is a heartbeat that stands in the log: the deadline
 * moves on receipt, and a session that has been doomed meanwhile is no success.
 * A shorter time never moves a deadline back, since its answer may not reach
 * the client.
 *
 * Scripts over several keys are carried out key by key, each an entry; where
 * one fails, those set before are taken back. */

#include "core/commands/commands.h"
#include "base/check.h"
#include "core/lease.h"
#include "core/propose.h"
#include "core/questions.h"
#include "core/redis/scripts.h"
#include "core/request.h"
#include "core/state.h"
#include "lease/rules.h"

#define PX_MAX_MS ((uint64_t)TTL_ASKED_MS_MAX)

/* What a command comes down to. */
enum redis_kind { KIND_SET, KIND_EXPIRE, KIND_DELETE, KIND_READ };

struct redis_call {
    enum script_op op; /* SCRIPT_NONE: a command of its own. */
    enum redis_kind kind;
    const struct bytes *keys;
    uint32_t key_count;
    struct bytes value;
    bool any_value;
    bool is_fresh; /* SET: not for one who holds it already. */
    uint64_t px_ms;
    bool adds; /* px_ms is added to what is left. */
};

static bool to_px(struct bytes text, uint64_t unit_ms, uint64_t *ret_px_ms)
{
    uint64_t number;
    if (!bytes_to_u64(text, &number) || number == 0 ||
        number > PX_MAX_MS / unit_ms) {
        return false;
    }
    *ret_px_ms = number * unit_ms;
    return true;
}

static bool understand_set(const struct call *call, struct redis_call *redis)
{
    bool is_nx = false;
    redis->kind = KIND_SET;
    redis->value = call->argument[2];
    for (uint32_t i = 3; i < call->count; i++) {
        struct bytes word = call->argument[i];
        bool is_px = bytes_is_word(word, "PX");
        if (bytes_is_word(word, "NX") && !is_nx) {
            is_nx = true;
        } else if (bytes_is_word(word, "FRESH") && !redis->is_fresh) {
            redis->is_fresh = true;
        } else if ((is_px || bytes_is_word(word, "EX")) && redis->px_ms == 0 &&
                   i + 1 < call->count) {
            if (!to_px(call->argument[++i], is_px ? 1 : 1000, &redis->px_ms)) {
                return false;
            }
        } else {
            return false;
        }
    }
    return is_nx && redis->px_ms != 0;
}

/* EVALSHA sha count key... argument... */
static bool understand_script(const struct call *call, struct redis_call *redis)
{
    static const struct scripts none;
    uint64_t count;
    redis->op = scripts_find(&none, bytes_of_text(call->canonical_sha));
    if (!bytes_to_u64(call->argument[2], &count) || count == 0 ||
        count > MULTI_COUNT_MAX || call->count - 3 < count) {
        return false;
    }
    redis->keys = &call->argument[3];
    redis->key_count = (uint32_t)count;
    const struct bytes *argument = &call->argument[3 + count];
    uint32_t given = call->count - 3 - (uint32_t)count;
    bool is_multi = redis->op == SCRIPT_MULTI_SET ||
                    redis->op == SCRIPT_MULTI_EXPIRE ||
                    redis->op == SCRIPT_MULTI_DELETE;
    if (!is_multi && count != 1) {
        return false;
    }
    if (redis->op == SCRIPT_GET_PTTL) {
        redis->kind = KIND_READ;
        return true;
    }
    if (given < 1) {
        return false;
    }
    redis->value = argument[0];
    switch (redis->op) {
    case SCRIPT_PTTL_IF:
        redis->kind = KIND_READ;
        return true;
    case SCRIPT_DELETE:
    case SCRIPT_DELETE_ABSENT:
    case SCRIPT_MULTI_DELETE:
        redis->kind = KIND_DELETE;
        return true;
    case SCRIPT_SET_OK:
        redis->kind = given > 2 && argument[2].size == 3 &&
                              memcmp(argument[2].data, "yes", 3) == 0
                          ? KIND_SET
                          : KIND_EXPIRE;
        break;
    case SCRIPT_SET_OR_EXPIRE:
    case SCRIPT_SET_TRUE:
    case SCRIPT_MULTI_SET:
        redis->kind = KIND_SET;
        break;
    case SCRIPT_EXTEND:
        redis->kind = KIND_EXPIRE;
        redis->adds = given > 2 && argument[2].size == 1 &&
                      argument[2].data[0] == '0';
        break;
    default:
        redis->kind = KIND_EXPIRE;
    }
    return given > 1 &&
           to_px(argument[1], redis->op == SCRIPT_EXPIRE_S ? 1000 : 1,
                 &redis->px_ms);
}

/* False if the arguments are not served. */
static bool understand(const struct call *call, struct redis_call *redis)
{
    struct bytes name = call->argument[0];
    *redis = (struct redis_call){.keys = &call->argument[1], .key_count = 1};
    if (bytes_is_word(name, "SET")) {
        return understand_set(call, redis);
    }
    if (bytes_is_word(name, "PEXPIRE") || bytes_is_word(name, "EXPIRE")) {
        redis->kind = KIND_EXPIRE;
        redis->any_value = true;
        return call->count == 3 &&
               to_px(call->argument[2],
                     bytes_is_word(name, "EXPIRE") ? 1000 : 1, &redis->px_ms);
    }
    return understand_script(call, redis);
}

bool redis_set_parse(struct call *call, struct resp_writer *writer)
{
    struct redis_call redis;
    if (!understand(call, &redis)) {
        return call_fail(
            call, writer,
            "only SET key value NX PX ms (or EX s) is served: a lock "
            "needs a time to live, 1 ms to 1 h");
    }
    if (redis.keys[0].size == 0 || redis.keys[0].size > LOCK_NAME_SIZE_MAX) {
        return call_fail(call, writer, "the key must have 1 to 511 bytes");
    }
    if (redis.value.size > VALUE_SIZE_MAX) {
        return call_fail(call, writer,
                         "the value must have at most 4096 bytes");
    }
    /* For whoever asks for the sizes of what is new. */
    call->names = &call->argument[1];
    call->name_count = 1;
    call->given |= UINT32_C(1) << OPTION_VALUE;
    call->text[OPTION_VALUE] = redis.value;
    return true;
}

bool redis_setnx_parse(struct call *call, struct resp_writer *writer)
{
    return call_fail(call, writer,
                     "it knows no time to live; use SET key value NX PX ms");
}

bool redis_expire_parse(struct call *call, struct resp_writer *writer)
{
    struct redis_call redis;
    if (!understand(call, &redis)) {
        return call_fail(call, writer,
                         "key and time expected, 1 ms to 1 h, without options");
    }
    return redis.keys[0].size <= LOCK_NAME_SIZE_MAX ||
           call_fail(call, writer, "a key has at most 511 bytes");
}

/* Of what only reads. */
bool redis_keys_check(struct call *call, struct resp_writer *writer)
{
    for (uint32_t i = call->command->key_at; i < call->count; i++) {
        if (call->argument[i].size > LOCK_NAME_SIZE_MAX) {
            return call_fail(call, writer, "a key has at most 511 bytes");
        }
    }
    return true;
}

bool redis_eval_parse(struct call *call, struct resp_writer *writer)
{
    struct redis_call redis;
    bool is_sha = bytes_is_word(call->argument[0], "EVALSHA");
    enum script_op op = is_sha ? scripts_find(call->scripts, call->argument[1])
                               : scripts_recognise(call->argument[1]);
    if (op == SCRIPT_NONE && is_sha) {
        resp_error(writer, "NOSCRIPT", "No matching script. Please use EVAL.");
        return false;
    }
    if (op == SCRIPT_NONE) {
        resp_error(writer, "ERR",
                   "unknown script: the scripts of redis-py, redsync, redlock "
                   "(Node.js, Ruby), redislock, Laravel and Spring locks are "
                   "recognised, others cannot be run");
        return false;
    }
    call->canonical_sha = scripts_name(op);
    if (!understand(call, &redis)) {
        return call_fail(
            call, writer,
            "keys or arguments are not those of this script, or the "
            "time is not 1 ms to 1 h");
    }
    for (uint32_t i = 0; i < redis.key_count; i++) {
        if (redis.keys[i].size == 0 ||
            redis.keys[i].size > LOCK_NAME_SIZE_MAX ||
            redis.value.size > VALUE_SIZE_MAX) {
            return call_fail(
                call, writer,
                "keys must have 1 to 511 bytes, the value at most 4096");
        }
    }
    return true;
}

bool redis_is_reading(const struct call *call)
{
    struct redis_call redis;
    return understand(call, &redis) && redis.kind == KIND_READ;
}

/* The holder of the lock that stands for a key; of several the first. */
static const struct hold *find_hold(struct core *core, struct bytes key)
{
    const struct lock *lock = lockfsm_lock(core->fsm, key);
    return lock != NULL && lock->hold_count > 0
               ? LIST_FIRST(&lock->holds, struct hold, in_lock)
               : NULL;
}

/* The receipt of a renewal moves the deadline, so that it does not pass before
 * the entry is applied (rule 2); unless it is to be refused (rule 13), or the
 * value is another user's. */
static void renew(struct core *core, struct request *request,
                  const struct redis_call *redis, struct bytes key)
{
    const struct hold *hold = find_hold(core, key);
    if (redis->kind != KIND_DELETE && !redis->is_fresh && hold != NULL &&
        hold->session->is_redis &&
        hold->session->user_number == request->user &&
        !session_is_refused(hold->session) &&
        lockfsm_may(core->fsm, hold->session->user, VERB_LOCK, key, EXTENT_NAME,
                    NULL) &&
        (redis->any_value || bytes_equal(hold->value, redis->value))) {
        (void)lease_renew(core, hold->session->id, request->received_ns);
    }
}

/* As Redis: -2 absent, -1 without a time to live (a lock that is not a
 * value). */
static int64_t pttl(struct core *core, const struct hold *hold)
{
    if (hold == NULL) {
        return -2;
    }
    if (!hold->session->is_redis) {
        return -1;
    }
    uint64_t left_ns = timers_lease_left(core->timers, hold->session->id,
                                         core->now_ns);
    return (int64_t)(rules_redis_px_ns(left_ns) / NS_PER_MS);
}

/* Proposes what the step at hand needs. */
static void propose_step(struct core *core, struct request *request,
                         const struct redis_call *redis)
{
    CHECK(request->step < redis->key_count);
    struct bytes key = redis->keys[request->step];
    uint64_t px_ms = redis->px_ms;
    if (!propose_is_open(core)) {
        request_refuse(core, request, "NOLEADER", "the leader changed");
        return;
    }
    struct buffer *out = propose_begin(core);
    if (redis->kind == KIND_DELETE || request->is_undoing) {
        encode_redis_delete(out, &(struct redis_delete_command){
                                     .name = key, .value = redis->value});
        propose_end(core, request);
        return;
    }
    if (redis->adds) {
        int64_t left = pttl(core, find_hold(core, key));
        px_ms += left > 0 ? (uint64_t)left : 0;
        uint64_t max = lockfsm_limit(core->fsm, LIMIT_TTL_MAX);
        px_ms = px_ms < max || redis->px_ms > max ? px_ms : max;
    }
    uint32_t ttl_ms = (uint32_t)rules_redis_lease_ms(px_ms);
    if (redis->kind == KIND_SET) {
        struct redis_set_command set = {
            .name = key,
            .value = redis->value,
            .ttl_ms = ttl_ms,
            .px_ms = px_ms,
            .is_fresh = redis->is_fresh,
            .client = request_client(request),
            .address = request_address(request),
        };
        encode_redis_set(out, &set);
    } else {
        struct redis_expire_command expire = {
            .name = key,
            .value = redis->value,
            .any_value = redis->any_value,
            .ttl_ms = ttl_ms,
            .px_ms = px_ms,
        };
        encode_redis_expire(out, &expire);
    }
    propose_end(core, request);
}

/* SET, PEXPIRE, EXPIRE, EVAL, EVALSHA at the leader. */
void redis_run(struct core *core, struct request *request,
               const struct call *call)
{
    struct redis_call redis;
    bool is_good = understand(call, &redis);
    CHECK(is_good); /* It was when it was parsed. */
    if (redis.kind == KIND_READ) {
        questions_enqueue(core, request);
        return;
    }
    if (core->is_disk_scarce && redis.kind == KIND_SET) {
        request_refuse(core, request, "LIMIT",
                       "disk: the leader's disk is nearly full");
        return;
    }
    request->step = 0;
    request->hits = 0;
    request->is_undoing = false;
    for (uint32_t i = 0; i < redis.key_count; i++) {
        renew(core, request, &redis, redis.keys[i]);
    }
    propose_step(core, request, &redis);
}

static bool is_success(struct core *core, const struct redis_call *redis,
                       struct bytes key, const struct result *result)
{
    if (result->code != RESULT_OK) {
        return false;
    }
    if (redis->kind == KIND_DELETE) {
        return result->count > 0;
    }
    if (redis->kind == KIND_EXPIRE && result->count == 0) {
        return false;
    }
    const struct hold *hold = find_hold(core, key);
    return hold != NULL && !timers_is_doomed(core->timers, hold->session->id);
}

static void answer(struct core *core, struct request *request,
                   const struct redis_call *redis, bool is_absent)
{
    struct resp_writer *writer = request_reply(core, request);
    bool is_hit = request->hits > 0;
    bool says_ok = redis->op == SCRIPT_SET_OK ||
                   (redis->op == SCRIPT_NONE && redis->kind == KIND_SET);
    if (says_ok && is_hit) {
        resp_simple(writer, "OK");
    } else if (!is_hit && (says_ok || redis->op == SCRIPT_SET_TRUE)) {
        resp_null(writer);
    } else if (redis->op == SCRIPT_DELETE_ABSENT && is_absent) {
        resp_integer(writer, -1);
    } else {
        resp_integer(writer, request->hits);
    }
    request_done(core, request);
}

void redis_reply(struct core *core, struct request *request,
                 const struct result *result)
{
    struct redis_call redis;
    CHECK(request->call != NULL); /* propose_end() leaves it. */
    bool is_good = understand(request->call, &redis);
    CHECK(is_good && request->step < redis.key_count);
    struct bytes key = redis.keys[request->step];
    bool is_hit = is_success(core, &redis, key, result);
    bool is_absent = result->code == RESULT_NOT_HELD;
    if (request->is_undoing) {
        if (request->step > 0) {
            request->step--;
            propose_step(core, request, &redis);
            return;
        }
        answer(core, request, &redis, is_absent);
        return;
    }
    request->hits += is_hit;
    bool is_all_or_none = redis.kind != KIND_DELETE;
    if (!is_hit && is_all_or_none) {
        request->hits = 0;
        if (redis.kind == KIND_SET && request->step > 0) {
            request->is_undoing = true;
            request->step--;
            propose_step(core, request, &redis);
            return;
        }
    } else if (request->step + 1 < redis.key_count) {
        request->step++;
        propose_step(core, request, &redis);
        return;
    }
    answer(core, request, &redis, is_absent);
}

/* GET, and the reading scripts. */
void redis_get_read(struct core *core, struct request *request,
                    const struct call *call)
{
    const struct hold *hold = find_hold(core, call->argument[1]);
    struct resp_writer *writer = request_reply(core, request);
    if (hold != NULL) {
        resp_bulk(writer, hold->value);
    } else {
        resp_null(writer);
    }
    request_done(core, request);
}

void redis_eval_read(struct core *core, struct request *request,
                     const struct call *call)
{
    struct redis_call redis;
    (void)understand(call, &redis);
    const struct hold *hold = find_hold(core, redis.keys[0]);
    struct resp_writer *writer = request_reply(core, request);
    if (redis.op == SCRIPT_GET_PTTL) {
        resp_array(writer, 2);
        if (hold != NULL) {
            resp_bulk(writer, hold->value);
        } else {
            resp_null(writer);
        }
        resp_integer(writer, pttl(core, hold));
    } else if (hold != NULL && bytes_equal(hold->value, redis.value)) {
        resp_integer(writer, pttl(core, hold));
    } else {
        resp_integer(writer, -3);
    }
    request_done(core, request);
}

void redis_exists_read(struct core *core, struct request *request,
                       const struct call *call)
{
    int64_t count = 0;
    for (uint32_t i = 1; i < call->count; i++) {
        count += find_hold(core, call->argument[i]) != NULL;
    }
    request_answer_integer(core, request, count);
}

/* PTTL and TTL. */
void redis_ttl_read(struct core *core, struct request *request,
                    const struct call *call)
{
    int64_t left = pttl(core, find_hold(core, call->argument[1]));
    if (left > 0 && !bytes_is_word(call->argument[0], "PTTL")) {
        left = (left + 500) / 1000;
    }
    request_answer_integer(core, request, left);
}

/* DEL and UNLINK: a lock is not just deleted under its holder. */
void redis_delete_read(struct core *core, struct request *request,
                       const struct call *call)
{
    for (uint32_t i = 1; i < call->count; i++) {
        if (find_hold(core, call->argument[i]) != NULL) {
            request_refuse(core, request, "BADARG",
                           "a held lock is released by its holder (with "
                           "the script that compares the value), or taken by "
                           "LOCK.RELEASEIF");
            return;
        }
    }
    request_answer_integer(core, request, 0);
}

void redis_script_run(struct core *core, struct request *request,
                      const struct call *call)
{
    struct bytes what = call->argument[1];
    if (bytes_is_word(what, "LOAD") && call->count == 3) {
        char sha[SHA1_TEXT_SIZE];
        enum script_op op = scripts_recognise(call->argument[2]);
        if (op == SCRIPT_NONE) {
            request_refuse(core, request, "ERR",
                           "unknown script: only those of lock clients are "
                           "recognised");
            return;
        }
        sha1_text(call->argument[2], sha);
        scripts_load(&core->scripts, sha, op);
        resp_text(request_reply(core, request), sha);
        request_done(core, request);
    } else if (bytes_is_word(what, "EXISTS") && call->count > 2) {
        struct resp_writer *writer = request_reply(core, request);
        resp_array(writer, call->count - 2);
        for (uint32_t i = 2; i < call->count; i++) {
            resp_integer(writer,
                         scripts_find(&core->scripts, call->argument[i]) !=
                             SCRIPT_NONE);
        }
        request_done(core, request);
    } else if (bytes_is_word(what, "FLUSH")) {
        scripts_clear(&core->scripts);
        request_answer_ok(core, request);
    } else {
        request_refuse(core, request, "ERR",
                       "unknown subcommand of SCRIPT: try LOAD, EXISTS or "
                       "FLUSH");
    }
}
