/* SPDX-License-Identifier: MIT */

/* Runs the transcripts of tests/fsm: the answers and reports of the state
 * machine, entry by entry, in a form that a person can check.
 *
 *     # A lock passes to the first waiter when its owner's session expires.
 *     open s1
 *     ----
 *     ok token=1
 *     opened s1 ttl=10000
 *
 * A block is one or more commands, a line "----", and their output; an empty
 * line ends it. The log index is 1 for the first command and grows by one with
 * each, so a token is the number of its command. REWRITE=1 replaces the
 * outputs (then read the difference).
 *
 * Each entry is applied to two machines. The second is flushed into a table and
 * loaded from it again after every entry; both must have the same output and
 * the same hash. After every entry the invariants are checked.
 *
 * Commands: see the table at the end. Names of sessions are ours: "open s1"
 * gives the name s1 to the session, "s1/x" is owner x of session s1. */

#include <glob.h>

#include "tests/unit/fsm_cells.h"
#include "tests/unit/fsm_durable.h"
#include "tests/unit/fsm_ends.h"
#include "tests/unit/fsm_script.h"
#include "tests/unit/fsm_users.h"
#include "tests/unit/lockfsm_delta.h"
#include "tests/unit/vectors.h"

/* --- Commands ------------------------------------------------------------- */

static void add_alias(struct script *script, const char *name)
{
    CHECK(script->alias_count < ALIAS_MAX);
    struct alias *alias = &script->alias[script->alias_count++];
    snprintf(alias->name, sizeof alias->name, "%s", name);
    alias->session = lockfsm_token_base(script->plain.fsm) + script->index + 1;
}

/* Sets the limits that the line names; false if there are none. */
static bool limits_in(const struct script *script, struct lockfsm_limits *set)
{
    bool has_any = false;
    *set = lockfsm_default_limits;
    for (int key = 0; key < LIMIT_COUNT; key++) {
        if (option(script, limit_rules[key].name) != NULL) {
            set->of[key] = number(script, limit_rules[key].name);
            has_any = true;
        }
    }
    return has_any;
}

static void run_begin(struct script *script, struct buffer *out)
{
    uint8_t id[16] = {1};
    struct lockfsm_limits limits;
    bool has_limits = limits_in(script, &limits);
    struct begin_command c = {
        .node = number(script, "node"),
        .cluster_id = bytes_of(id, flag(script, "new") ? sizeof id : 0),
        .token_base = number(script, "base"),
        .base_index = number(script, "of"),
        .elapsed_ms = (uint32_t)number(script, "ms"),
        .limits = limits.of,
        .limit_count = has_limits ? LIMIT_COUNT : 0};
    encode_begin(out, &c);
}

static void run_limit(struct script *script, struct buffer *out)
{
    struct origin nobody = {0};
    enum limit_key key;
    char *equals = strchr(word(script, 1), '=');
    if (equals == NULL ||
        !limit_find(
            bytes_of(word(script, 1), (size_t)(equals - word(script, 1))),
            &key)) {
        bad(script, "unknown limit");
    }
    encode_set_limit(out, &(struct set_limit_command){
                              .origin = nobody,
                              .key = key,
                              .value = strtoull(equals + 1, NULL, 10)});
}

static void run_open(struct script *script, struct buffer *out)
{
    struct label label = {text_of(script, "label"), BYTES_LITERAL("v")};
    struct open_command c = {.ttl_ms = 10000,
                             .linger_ms = (uint32_t)number(script, "linger"),
                             .name = text_of(script, "client"),
                             .address = BYTES_LITERAL("127.0.0.1:1"),
                             .labels = &label,
                             .label_count = label.key.size > 0};
    if (option(script, "ttl") != NULL) {
        c.ttl_ms = (uint32_t)number(script, "ttl");
    }
    read_will(option(script, "will"), c.will);
    read_durable(script, &c);
    add_alias(script, word(script, 1));
    encode_open(out, &c);
}

/* "time of=7 ms=800 s1=250 s2=300" */
static void run_time(struct script *script, struct buffer *out)
{
    struct session_mark marks[WORD_MAX];
    struct time_command c = {.base_index = number(script, "of"),
                             .elapsed_ms = (uint32_t)number(script, "ms"),
                             .marks = marks};
    for (uint32_t i = 1; i < script->word_count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", script->word[i]);
        char *value = strchr(name, '=');
        CHECK(value != NULL);
        *value++ = '\0';
        if (strcmp(name, "of") != 0 && strcmp(name, "ms") != 0) {
            marks[c.mark_count++] = (struct session_mark){
                session_named(script, name),
                (uint32_t)strtoul(value, NULL, 10)};
        }
    }
    encode_time(out, &c);
}

static void run_heard(struct script *script, struct buffer *out)
{
    uint64_t sessions[WORD_MAX];
    for (uint32_t i = 1; i < script->word_count; i++) {
        sessions[i - 1] = session_named(script, script->word[i]);
    }
    encode_heard(
        out, &(struct heard_command){.sessions = sessions,
                                     .session_count = script->word_count - 1});
}

static enum lock_mode mode_in(const struct script *script)
{
    if (option(script, "slots") != NULL) {
        return LOCK_SLOTS;
    }
    return flag(script, "shared") ? LOCK_SHARED : LOCK_EXCLUSIVE;
}

static void run_acquire(struct script *script, struct buffer *out)
{
    struct bytes names[MULTI_COUNT_MAX];
    char *list = memory_text(word(script, 2));
    struct acquire_command c = {.origin = origin_in(script),
                                .names = names,
                                .name_count = split_names(list, names),
                                .mode = mode_in(script),
                                .slots = (uint32_t)number(script, "slots"),
                                .is_waiting = flag(script, "wait") ||
                                              option(script, "wait") != NULL,
                                .wait_ms = number(script, "wait"),
                                .is_barging = flag(script, "barge"),
                                .value = text_of(script, "value"),
                                .delay_ms = number(script, "delay"),
                                .hold_ms = number(script, "hold")};
    encode_acquire(out, &c);
    free(list);
}

static void run_release(struct script *script, struct buffer *out)
{
    struct bytes names[MULTI_COUNT_MAX];
    uint64_t tokens[MULTI_COUNT_MAX];
    char *list = memory_text(word(script, 2));
    struct release_command c = {.origin = origin_in(script),
                                .names = names,
                                .name_count = split_names(list, names),
                                .tokens = tokens,
                                .token_count = tokens_in(script, tokens),
                                .is_counting = flag(script, "count")};
    encode_release(out, &c);
    free(list);
}

static void run_release_if(struct script *script, struct buffer *out)
{
    const char *session = option(script, "session");
    struct release_if_command c = {.name = bytes_of_text(word(script, 1)),
                                   .owner = text_of(script, "owner"),
                                   .token = number(script, "token")};
    c.session = session != NULL ? session_named(script, session) : 0;
    encode_release_if(out, &c);
}

static void run_convert(struct script *script, struct buffer *out)
{
    struct convert_command c = {
        .origin = origin_in(script),
        .name = bytes_of_text(word(script, 2)),
        .to = flag(script, "shared") ? LOCK_SHARED : LOCK_EXCLUSIVE,
        .is_waiting = flag(script, "wait") || option(script, "wait") != NULL,
        .wait_ms = number(script, "wait"),
        .token = number(script, "token")};
    encode_convert(out, &c);
}

static void run_cancel(struct script *script, struct buffer *out)
{
    struct origin origin = origin_in(script);
    encode_cancel(
        out, &(struct cancel_command){.origin = origin,
                                      .name = bytes_of_text(word(script, 2))});
}

static void run_note(struct script *script, struct buffer *out)
{
    struct note_command note = {.origin = origin_in(script),
                                .name = bytes_of_text(word(script, 2)),
                                .token = number(script, "token"),
                                .text = text_of(script, "text")};
    encode_note(out, &note);
}

static void run_please(struct script *script, struct buffer *out)
{
    struct origin origin = {0};
    encode_please(
        out, &(struct please_command){.origin = origin,
                                      .name = bytes_of_text(word(script, 1)),
                                      .message = text_of(script, "message")});
}

static void run_timeout(struct script *script, struct buffer *out)
{
    struct origin origin = origin_in(script);
    encode_wait_timeout(
        out, &(struct wait_timeout_command){origin.session, origin.owner,
                                            number(script, "place"),
                                            number(script, "asked")});
}

static void run_delay_over(struct script *script, struct buffer *out)
{
    encode_delay_over(out, &(struct delay_over_command){
                               .name = bytes_of_text(word(script, 1)),
                               .since_index = number(script, "since")});
}

static struct blacklist_add_command listing_in(const struct script *script)
{
    const char *session = option(script, "session");
    return (struct blacklist_add_command){
        .session = session != NULL ? session_named(script, session) : 0,
        .client = text_of(script, "client"),
        .reason = text_of(script, "reason"),
        .by = text_of(script, "by"),
        .for_ms = number(script, "for")};
}

static void run_blacklist(struct script *script, struct buffer *out)
{
    struct blacklist_add_command c = listing_in(script);
    encode_blacklist_add(out, &c);
}

static void run_pardon(struct script *script, struct buffer *out)
{
    struct blacklist_add_command c = listing_in(script);
    encode_blacklist_remove(out, &(struct blacklist_remove_command){
                                     .session = c.session, .client = c.client});
}

static void run_blacklist_over(struct script *script, struct buffer *out)
{
    encode_blacklist_over(out, &(struct blacklist_over_command){
                                   .since_index = number(script, "since")});
}

static void run_fence(struct script *script, struct buffer *out)
{
    struct origin origin = {0};
    encode_fence_admit(out, &(struct fence_admit_command){
                                .origin = origin,
                                .resource = bytes_of_text(word(script, 1)),
                                .token = number(script, "token")});
}

static void run_unfence(struct script *script, struct buffer *out)
{
    struct origin origin = {0};
    encode_fence_remove(
        out, &(struct fence_remove_command){
                 .origin = origin, .resource = bytes_of_text(word(script, 1))});
}

static void run_feature(struct script *script, struct buffer *out)
{
    encode_set_feature(out, &(struct set_feature_command){
                                .level = (uint32_t)number(script, "level")});
}

static void run_quarantine_over(struct script *script, struct buffer *out)
{
    encode_quarantine_over(out, &(struct quarantine_over_command){
                                    .since_index = number(script, "since")});
}

/* "redis NAME key:was:change[:value] ... px=ms tell=text": NAME is given to the
 * session that it may open; 'was' is free, other, or a value. */
static void read_redis_key(char *text, uint64_t px_ms, bool is_durable,
                           struct redis_key *ret_key)
{
    static const char *const changes[] = {
        [REDIS_KEEP] = "keep",
        [REDIS_SET] = "set",
        [REDIS_RENEW] = "renew",
        [REDIS_DELETE] = "delete",
    };
    char *part[4] = {NULL};
    char *rest = text;
    for (int i = 0; i < 4 && rest != NULL; i++) {
        part[i] = strsep(&rest, ":");
    }
    CHECK(part[2] != NULL);
    *ret_key = (struct redis_key){.name = bytes_of_text(part[0])};
    if (strcmp(part[1], "other") == 0) {
        ret_key->was = REDIS_OTHER;
    } else if (strcmp(part[1], "free") != 0) {
        ret_key->was = REDIS_VALUE;
        ret_key->value = bytes_of_text(part[1]);
    }
    ret_key->keeps_grant = strcmp(part[2], "edit") == 0;
    part[2] = ret_key->keeps_grant ? "set" : part[2];
    while (strcmp(changes[ret_key->change], part[2]) != 0) {
        ret_key->change++;
        CHECK(ret_key->change <= REDIS_DELETE);
    }
    if (ret_key->change == REDIS_SET || ret_key->change == REDIS_RENEW) {
        ret_key->is_durable = is_durable;
        ret_key->px_ms = is_durable ? 0 : px_ms;
        ret_key->ttl_ms = is_durable ? 0 : (uint32_t)(px_ms * 5 / 4 + 5);
    }
    if (part[3] != NULL) {
        ret_key->new_value = bytes_of_text(part[3]);
    }
}

static void run_redis(struct script *script, struct buffer *out)
{
    static char texts[MULTI_COUNT_MAX][64];
    struct redis_key keys[MULTI_COUNT_MAX];
    struct redis_command c = {.keys = keys,
                              .client = text_of(script, "client"),
                              .wall_ms = number(script, "wall")};
    for (uint32_t i = 2;
         i < script->word_count && strchr(word(script, i), ':') != NULL; i++) {
        snprintf(texts[c.key_count], sizeof texts[0], "%s", word(script, i));
        read_redis_key(texts[c.key_count], number(script, "px"),
                       flag(script, "durable"), &keys[c.key_count]);
        c.key_count++;
    }
    add_alias(script, word(script, 1));
    struct redis_message message = {.channel = BYTES_LITERAL("news"),
                                    .text = text_of(script, "tell")};
    c.messages = &message;
    c.message_count = message.text.size > 0;
    encode_redis(out, &c);
}

/* --- Output --------------------------------------------------------------- */

static const char *const code_names[] = {
    [RESULT_OK] = "ok",
    [RESULT_QUEUED] = "queued",
    [RESULT_NOT_ACQUIRED] = "not acquired",
    [RESULT_NOT_HELD] = "not held",
    [RESULT_NO_SESSION] = "no session",
    [RESULT_EXPIRED] = "expired",
    [RESULT_BLACKLISTED] = "blacklisted",
    [RESULT_DEADLOCK] = "deadlock",
    [RESULT_LIMIT] = "limit",
    [RESULT_BAD_ARGUMENT] = "bad argument",
    [RESULT_FORGOTTEN] = "forgotten",
    [RESULT_NO_AUTH] = "no auth",
    [RESULT_NO_PERMISSION] = "no permission",
    [RESULT_QUARANTINED] = "quarantined",
    [RESULT_QUOTA] = "quota",
    [RESULT_FOREIGN] = "foreign",
};

static const char *const effect_names[] = {
    [EFFECT_RESULT] = "result",
    [EFFECT_WAIT_RESULT] = "answer",
    [EFFECT_SESSION_OPENED] = "opened",
    [EFFECT_SESSION_ENDED] = "ended",
    [EFFECT_SESSION_MARKED] = "marked",
    [EFFECT_SESSION_HEARD] = "heard",
    [EFFECT_SWEPT] = "swept",
    [EFFECT_SESSION_CHANGED] = "changed",
    [EFFECT_GRANTED] = "granted",
    [EFFECT_QUEUED] = "queued",
    [EFFECT_RELEASED] = "released",
    [EFFECT_HOLD_EXPIRED] = "unclean end",
    [EFFECT_WAIT_ENDED] = "wait ended",
    [EFFECT_SEARCH_GIVEN_UP] = "search given up",
    [EFFECT_DELAYED] = "delayed",
    [EFFECT_DELAY_OVER] = "delay over",
    [EFFECT_BREAKING] = "breaking",
    [EFFECT_OBJECTED] = "objected",
    [EFFECT_PLEASE] = "please",
    [EFFECT_BLACKLISTED] = "blacklisting",
    [EFFECT_BEGUN] = "begun",
    [EFFECT_LIMIT_SET] = "limit set",
    [EFFECT_TIME] = "time",
    [EFFECT_ACCESS_CHANGED] = "access changed",
    [EFFECT_MESSAGE] = "message",
};

static void put_session(const struct script *script, struct buffer *out,
                        uint64_t session, struct bytes owner)
{
    for (uint32_t i = 0; i < script->alias_count; i++) {
        if (script->alias[i].session == session) {
            buffer_printf(out, " %s", script->alias[i].name);
            put_text(out, "/", owner);
            return;
        }
    }
    if (session != 0) {
        buffer_printf(out, " #%" PRIu64, session);
    }
}

static void put_result(struct buffer *out, const struct result *result)
{
    buffer_put_text(out, code_names[result->code]);
    if (result->token_count > 1) {
        buffer_put_text(out, " tokens=");
        for (uint32_t i = 0; i < result->token_count; i++) {
            buffer_printf(out, "%s%" PRIu64, i > 0 ? "," : "",
                          result->tokens[i]);
        }
    } else {
        put_number(out, "token", result->token);
    }
    put_number(out, "count", result->count);
    put_text(out, ": ", result->text);
}

static void put_effect(const struct script *script, struct buffer *out,
                       const struct effect *effect)
{
    if (effect->type == EFFECT_RESULT) {
        put_result(out, &effect->result);
        put_number(out, "place", effect->wait_index);
    } else {
        buffer_put_text(out, effect_names[effect->type]);
        put_session(script, out, effect->session, effect->owner);
        put_text(out, " ", effect->lock);
        if (effect->type == EFFECT_WAIT_RESULT) {
            buffer_put_text(out, " ");
            put_result(out, &effect->result);
        } else {
            put_number(out, "token", effect->token);
            put_number(out, "count", effect->count);
        }
        put_number(out, "place", effect->wait_index);
        put_number(out, "asked", effect->asked_index);
        put_number(out, "ms", effect->time_ms);
        put_number(out, "hold", effect->hold_ms);
        if (effect->reason != NULL) {
            buffer_printf(out, " (%s)", effect->reason);
        }
        put_text(out, ": ", effect->text);
    }
    buffer_put_text(out, "\n");
}

static void put_effects(const struct script *script, struct buffer *out,
                        const struct effects *effects)
{
    for (uint32_t i = 0; i < effects->count; i++) {
        put_effect(script, out, &effects->effect[i]);
    }
}

/* --- Queries -------------------------------------------------------------- */

static void show_lock(struct script *script, struct buffer *out)
{
    const struct lock *lock = lockfsm_lock(script->shown,
                                           bytes_of_text(word(script, 1)));
    if (lock == NULL) {
        buffer_put_text(out, "nothing\n");
        return;
    }
    put_text(out, "", lock->name);
    put_number(out, "slots", lock->slots);
    put_number(out, "delay", lock->delay_ms);
    put_number(out, "since", lock->delay_index);
    put_number(out, "closed", lock->delay_slots);
    put_number(out, "clock", lock->delay_clock_ms);
    put_text(out, " note=", lock->note);
    buffer_put_text(out, "\n");
    LIST_EACH (node, &lock->holds) {
        const struct hold *hold = LIST_ENTRY(node, struct hold, in_lock);
        buffer_put_text(out, "hold");
        put_session(script, out, hold->session->id, hold->owner);
        buffer_printf(out, " %s token=%" PRIu64, lock_mode_name(hold->mode),
                      hold->token);
        put_number(out, "count", hold->count);
        put_number(out, "delay", hold->delay_ms);
        put_number(out, "hold", hold->hold_ms);
        put_number(out, "clock", hold->hold_clock_ms);
        put_text(out, " value=", hold->value);
        put_break(out, hold);
        buffer_put_text(out, "\n");
    }
    LIST_EACH (node, &lock->queue) {
        const struct wait *wait = LIST_ENTRY(node, struct wait, in_lock);
        buffer_put_text(out, "wait");
        put_session(script, out, wait->session->id, wait->owner);
        buffer_printf(out, " %s place=%" PRIu64, lock_mode_name(wait->mode),
                      wait->wait_index);
        put_number(out, "wait", wait->wait_ms);
        put_number(out, "clock", wait->wait_clock_ms);
        put_number(out, "delay", wait->delay_ms);
        put_number(out, "hold", wait->hold_ms);
        put_number(out, "req", wait->req);
        put_text(out, " value=", wait->value);
        buffer_put_text(out, wait->is_upgrade ? " upgrade\n" : "\n");
    }
}

static void show_session(struct script *script, struct buffer *out)
{
    uint64_t id = session_named(script, word(script, 1));
    const struct session *session = lockfsm_session(script->shown, id);
    if (session == NULL) {
        buffer_put_text(out, "nothing\n");
        return;
    }
    put_ttl(out, session);
    put_number(out, "linger", session->linger_ms);
    put_number(out, "holds", session->hold_count);
    put_number(out, "waits", session->wait_count);
    put_number(out, "results", session->result_count);
    put_number(out, "blacklisting", session->blacklist_index);
    put_number(out, "px", session->px_ms);
    put_text(out, " name=", session->name);
    put_text(out, " address=", session->address);
    for (uint32_t i = 0; i < session->label_count; i++) {
        put_text(out, " ", session->labels[i].key);
        put_text(out, "=", session->labels[i].value);
    }
    buffer_put_text(out, "\n");
    LIST_EACH (node, &session->ended) {
        const struct ended_hold *ended = LIST_ENTRY(node, struct ended_hold,
                                                    in_session);
        put_text(out, "ended ", ended->lock);
        put_text(out, "/", ended->owner);
        put_number(out, "token", ended->token);
        buffer_printf(out, " (%s)\n", hold_loss_name(ended->loss));
    }
}

static void show_quiet(struct script *script, struct buffer *out)
{
    uint64_t id = session_named(script, word(script, 1));
    const struct session *session = lockfsm_session(script->shown, id);
    struct quiet quiet;
    if (session == NULL || !lockfsm_mark(script->shown, session, &quiet)) {
        buffer_put_text(out, session == NULL ? "nothing\n" : "no mark\n");
        return;
    }
    buffer_printf(out, "quiet ms=%" PRIu64 " clock=%" PRIu64 "\n",
                  quiet.quiet_ms, quiet.clock_ms);
}

static void show_clock(struct script *script, struct buffer *out)
{
    buffer_printf(out, "clock=%" PRIu64, lockfsm_clock(script->shown));
    put_number(out, "since", lockfsm_clock_index(script->shown));
    put_number(out, "quarantine", lockfsm_quarantine_clock(script->shown));
    buffer_put_text(out, "\n");
}

static void show_kept(struct script *script, struct buffer *out)
{
    struct origin origin = origin_in(script);
    struct result result;
    if (lockfsm_kept_result(script->shown, origin.session, origin.req,
                            &result)) {
        put_result(out, &result);
        buffer_put_text(out, "\n");
    } else {
        buffer_put_text(out, "nothing\n");
    }
}

static void show_fence(struct script *script, struct buffer *out)
{
    const struct fence *fence = lockfsm_fence(script->shown,
                                              bytes_of_text(word(script, 1)));
    if (fence == NULL) {
        buffer_put_text(out, "nothing\n");
    } else {
        buffer_printf(out, "fence token=%" PRIu64 "\n", fence->token);
    }
}

static void show_blacklist(struct script *script, struct buffer *out)
{
    LIST_EACH (node, lockfsm_blacklist(script->shown)) {
        const struct blacklisting *entry = LIST_ENTRY(node, struct blacklisting,
                                                      in_order);
        buffer_put_text(out, "listed");
        put_session(script, out, entry->session, (struct bytes){NULL, 0});
        put_text(out, " ", entry->client);
        put_number(out, "since", entry->since_index);
        put_number(out, "for", entry->for_ms);
        put_number(out, "clock", entry->clock_ms);
        put_text(out, " by=", entry->by);
        put_text(out, ": ", entry->reason);
        buffer_put_text(out, "\n");
    }
}

static void show_cluster(struct script *script, struct buffer *out)
{
    uint64_t ms = 0;
    const struct lockfsm *fsm = script->shown;
    uint64_t since = lockfsm_quarantine(fsm, &ms);
    buffer_put_text(out, "cluster");
    put_number(out, "base", lockfsm_token_base(fsm));
    uint32_t level = lockfsm_feature_level(fsm);
    put_number(out, "feature", level > FEATURE_LEVEL_FIRST ? level : 0);
    put_number(out, "quarantine", since);
    put_number(out, "ms", ms);
    for (uint64_t node = 1; node <= 2; node++) {
        struct removal removal;
        uint64_t incarnation = lockfsm_incarnation(fsm, node);
        if (incarnation != 0) {
            buffer_printf(out, " node%" PRIu64 "=%" PRIu64, node, incarnation);
        }
        if (lockfsm_removal(fsm, node, &removal)) {
            buffer_printf(out, " removed%" PRIu64 "=%" PRIu64 "@%" PRIu64, node,
                          removal.incarnation, removal.log_index);
        }
    }
    buffer_put_text(out, "\n");
}

/* Queries both machines, which must answer the same. */
static void show(struct script *script,
                 void (*look)(struct script *script, struct buffer *out))
{
    struct buffer plain = {0};
    struct buffer reloaded = {0};
    script->shown = script->plain.fsm;
    look(script, &plain);
    script->shown = script->reloaded.fsm;
    look(script, &reloaded);
    if (!bytes_equal(buffer_bytes(&plain), buffer_bytes(&reloaded))) {
        fail_msg("a reloaded state shows otherwise:\n%.*s", (int)reloaded.size,
                 (const char *)reloaded.data);
    }
    buffer_put_bytes(&script->output, buffer_bytes(&plain));
    buffer_done(&plain);
    buffer_done(&reloaded);
}

/* --- Applying ------------------------------------------------------------- */

static void check_machine(struct machine *machine)
{
    const char *wrong = lockfsm_check_basic(machine->fsm);
    if (wrong == NULL) {
        wrong = lockfsm_delta_check(machine->delta, machine->fsm);
    }
    if (wrong != NULL) {
        fail_msg("after entry %" PRIu64 ": %s",
                 lockfsm_applied_index(machine->fsm), wrong);
    }
}

static void apply_to(struct script *script, struct machine *machine)
{
    effects_clear(&machine->effects);
    assert_int_equal(lockfsm_apply(machine->fsm, script->index, 1,
                                   buffer_bytes(&script->command),
                                   &machine->effects),
                     0);
    check_machine(machine);
}

/* It understands any level to which a transcript raises the cluster. */
static struct lockfsm *machine_fsm(uint32_t slice)
{
    struct lockfsm *fsm = lockfsm_new();
    lockfsm_set_node_level(fsm, UINT32_MAX - 1);
    lockfsm_set_slice(fsm, slice);
    return fsm;
}

static void reload(struct script *script)
{
    char why[HASP_WHY_SIZE] = "";
    struct lockfsm *fsm = script->reloaded.fsm;
    assert_int_equal(lockfsm_flush(fsm, script->table), 0);
    assert_int_equal(lockfsm_dirty_count(fsm), 0);
    lockfsm_free(fsm);
    script->reloaded.fsm = machine_fsm(script->slice);
    if (lockfsm_load(script->reloaded.fsm, script->table, why) != 0) {
        fail_msg("%s", why);
    }
    assert_true(lockfsm_hash(script->plain.fsm) ==
                lockfsm_hash(script->reloaded.fsm));
}

static void apply(struct script *script)
{
    script->index++;
    apply_to(script, &script->plain);
    apply_to(script, &script->reloaded);
    struct buffer other = {0};
    size_t start = script->output.size;
    put_effects(script, &script->output, &script->plain.effects);
    put_effects(script, &other, &script->reloaded.effects);
    if (!bytes_equal(
            bytes_of(script->output.data + start, script->output.size - start),
            buffer_bytes(&other))) {
        fail_msg("a reloaded state tells otherwise:\n%.*s", (int)other.size,
                 (const char *)other.data);
    }
    buffer_done(&other);
    reload(script);
}

static void run_new_life(struct script *script, struct buffer *out)
{
    (void)out;
    lockfsm_new_life(script->plain.fsm, number(script, "ms"));
    lockfsm_new_life(script->reloaded.fsm, number(script, "ms"));
    reload(script);
}

/* change NODE:INCARNATION ... */
static void run_change(struct script *script, struct buffer *out)
{
    struct lockfsm_member named[WORD_MAX];
    uint32_t count = (uint32_t)script->word_count - 1;
    (void)out;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(sscanf(script->word[i + 1], "%" SCNu64 ":%" SCNu64,
                                &named[i].node, &named[i].incarnation),
                         2);
    }
    script->index++;
    lockfsm_change(script->plain.fsm, script->index, 1, named, count);
    lockfsm_change(script->reloaded.fsm, script->index, 1, named, count);
    check_machine(&script->plain);
    check_machine(&script->reloaded);
    reload(script);
}

/* RUN_ADMIN: an entry of the local door, unless it names a user. */
enum run_kind { RUN_ENTRY, RUN_ADMIN, RUN_SHOW, RUN_SETUP };
static const struct {
    const char *name;
    run_fn *run;
    enum run_kind kind;
} runs[] = {
    {"begin", run_begin, RUN_ENTRY},
    {"feature", run_feature, RUN_ENTRY},
    {"limit", run_limit, RUN_ADMIN},
    {"cells", run_cells, RUN_ADMIN},
    {"quarantineover", run_quarantine_over, RUN_ENTRY},
    {"open", run_open, RUN_ENTRY},
    {"close", run_close, RUN_ENTRY},
    {"expire", run_expire, RUN_ENTRY},
    {"died", run_died, RUN_ENTRY},
    {"sweep", run_sweep, RUN_ENTRY},
    {"slice", run_slice, RUN_SETUP},
    {"time", run_time, RUN_ENTRY},
    {"heard", run_heard, RUN_ENTRY},
    {"acquire", run_acquire, RUN_ENTRY},
    {"release", run_release, RUN_ENTRY},
    {"releaseif", run_release_if, RUN_ENTRY},
    {"convert", run_convert, RUN_ENTRY},
    {"cancel", run_cancel, RUN_ENTRY},
    {"note", run_note, RUN_ENTRY},
    {"please", run_please, RUN_ENTRY},
    {"timeout", run_timeout, RUN_ENTRY},
    {"delayover", run_delay_over, RUN_ENTRY},
    {"holdover", run_hold_over, RUN_ENTRY},
    {"break", run_break, RUN_ENTRY},
    {"object", run_object, RUN_ENTRY},
    {"breakover", run_break_over, RUN_ENTRY},
    {"blacklist", run_blacklist, RUN_ENTRY},
    {"pardon", run_pardon, RUN_ENTRY},
    {"blacklistover", run_blacklist_over, RUN_ENTRY},
    {"fence", run_fence, RUN_ENTRY},
    {"unfence", run_unfence, RUN_ENTRY},
    {"user", run_user, RUN_ADMIN},
    {"unuser", run_unuser, RUN_ADMIN},
    {"secret", run_secret, RUN_ADMIN},
    {"unsecret", run_unsecret, RUN_ADMIN},
    {"role", run_role, RUN_ADMIN},
    {"unrole", run_unrole, RUN_ADMIN},
    {"access", run_access, RUN_ADMIN},
    {"revoke", run_revoke, RUN_ADMIN},
    {"redis", run_redis, RUN_ENTRY},
    {"newlife", run_new_life, RUN_SETUP},
    {"change", run_change, RUN_SETUP},
    {"lock", show_lock, RUN_SHOW},
    {"session", show_session, RUN_SHOW},
    {"quiet", show_quiet, RUN_SHOW},
    {"clock", show_clock, RUN_SHOW},
    {"kept", show_kept, RUN_SHOW},
    {"mark", show_fence, RUN_SHOW},
    {"who", show_user, RUN_SHOW},
    {"what", show_role, RUN_SHOW},
    {"revoked", show_revoked, RUN_SHOW},
    {"listed", show_blacklist, RUN_SHOW},
    {"cluster", show_cluster, RUN_SHOW},
    {"acts", show_acts, RUN_SHOW},
    {"map", show_cells, RUN_SHOW},
};

static void run_line(void *data, char *line)
{
    struct script *script = data;
    char *rest = NULL;
    script->word_count = 0;
    for (char *at = strtok_r(line, " ", &rest); at != NULL;
         at = strtok_r(NULL, " ", &rest)) {
        CHECK(script->word_count < WORD_MAX);
        script->word[script->word_count++] = at;
    }
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        if (strcmp(runs[i].name, script->word[0]) != 0) {
            continue;
        }
        buffer_clear(&script->command);
        if (runs[i].kind == RUN_SHOW) {
            show(script, runs[i].run);
        } else {
            runs[i].run(script, &script->command);
        }
        if (runs[i].kind == RUN_ENTRY || runs[i].kind == RUN_ADMIN) {
            bool is_own = option(script, "as") != NULL &&
                          strcmp(option(script, "as"), "leader") == 0;
            if (!is_own) {
                encode_user(&script->command,
                            user_in(script, runs[i].kind == RUN_ADMIN
                                                ? USER_LOCAL
                                                : USER_ANYONE));
            }
            if (option(script, "from") != NULL) {
                entry_put(&script->command,
                          &(struct entry){.from = text_of(script, "from"),
                                          .by = text_of(script, "by"),
                                          .wall_ms = number(script, "wall")});
            }
            apply(script);
        }
        return;
    }
    bad(script, "unknown");
}

/* --- Files ---------------------------------------------------------------- */

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    struct buffer text = {0};
    char piece[4096];
    size_t size;
    while ((size = fread(piece, 1, sizeof piece, file)) > 0) {
        buffer_put(&text, piece, size);
    }
    fclose(file);
    buffer_put_u8(&text, 0);
    return (char *)text.data;
}

static void script_init(struct script *script)
{
    *script = (struct script){.table = table_new_memory(),
                              .slice = SLICE_DEFAULT};
    script->plain.fsm = machine_fsm(script->slice);
    script->plain.delta = lockfsm_delta_new();
    script->reloaded.fsm = machine_fsm(script->slice);
    script->reloaded.delta = lockfsm_delta_new();
}

static void script_done(struct script *script)
{
    lockfsm_free(script->plain.fsm);
    lockfsm_free(script->reloaded.fsm);
    lockfsm_delta_free(script->plain.delta);
    lockfsm_delta_free(script->reloaded.delta);
    effects_done(&script->plain.effects);
    effects_done(&script->reloaded.effects);
    buffer_done(&script->command);
    buffer_done(&script->output);
    table_close(script->table);
}

/* Prints the first line that differs. */
static void compare(const char *path, const char *expected, const char *real)
{
    uint32_t line = 1;
    while (*expected != '\0' && *expected == *real) {
        line += *expected == '\n';
        expected++;
        real++;
    }
    if (*expected != *real) {
        fail_msg("%s:%" PRIu32 ": expected '%.*s' and what follows, got '%.*s'"
                 " (REWRITE=1 writes the file anew)",
                 path, line, (int)strcspn(expected, "\n"), expected,
                 (int)strcspn(real, "\n"), real);
    }
}

static void transcript_is_true(void **state)
{
    const char *path = *state;
    char *expected = read_text(path);
    char *text = memory_text(expected);
    struct buffer transcript = {0};
    struct script script;
    script_init(&script);
    vectors_replay(text, run_line, &script, &script.output, &transcript);
    buffer_put_u8(&transcript, 0);
    if (getenv("REWRITE") != NULL) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs((const char *)transcript.data, file);
        fclose(file);
    } else {
        compare(path, expected, (const char *)transcript.data);
    }
    script_done(&script);
    buffer_done(&transcript);
    free(text);
    free(expected);
}

int main(void)
{
    glob_t paths;
    if (glob("tests/fsm/*.txt", 0, NULL, &paths) != 0) {
        fprintf(stderr, "no transcripts: run from the top of the tree\n");
        return 1;
    }
    struct CMUnitTest *tests = memory_new(paths.gl_pathc * sizeof *tests);
    for (size_t i = 0; i < paths.gl_pathc; i++) {
        char *name = memory_text(strrchr(paths.gl_pathv[i], '/') + 1);
        *strrchr(name, '.') = '\0';
        tests[i] = (struct CMUnitTest){.name = name,
                                       .test_func = transcript_is_true,
                                       .initial_state = paths.gl_pathv[i]};
    }
    int failed = _cmocka_run_group_tests("transcripts", tests, paths.gl_pathc,
                                         NULL, NULL);
    for (size_t i = 0; i < paths.gl_pathc; i++) {
        free((void *)tests[i].name);
    }
    free(tests);
    globfree(&paths);
    return failed;
}
