/* SPDX-License-Identifier: MIT */

/* Runs a script of operations on the real state machine and prints what it
 * answers, tells and holds, for comparison with model.py.
 *
 * Each line of stdin is an entry, "INDEX OPERATION ARGUMENTS" (positions as in
 * the run_ functions below), or a question: "dump RESOURCE...", "kept SESSION
 * OWNER REQ", "restore" (through a table and a snapshot into another machine
 * with another hash seed), "reload" (through the table alone), "flush",
 * "newlife MS". Bare words; "-" is the empty one and "*N" one of
 * N bytes. After every entry the invariants are checked; what is wrong ends the
 * run with a line "!...". */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "lockfsm/access.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "storage/snapshot.h"
#include "storage/table.h"
#include "tests/unit/lockfsm_delta.h"

#define WORD_MAX 256
#define MEMBER_MAX 8

static struct lockfsm *fsm;
static struct lockfsm_delta *delta;
static struct table *table;
static struct effects effects;
static struct buffer command;
static char *word[WORD_MAX];
static uint32_t word_count;
static uint8_t long_word[1 << 16];

/* --- Words ---------------------------------------------------------------- */

static _Noreturn void wrong(const char *what)
{
    printf("!%s\n", what);
    fflush(stdout);
    exit(1);
}

static const char *text(uint32_t at)
{
    if (at >= word_count) {
        wrong("too few words");
    }
    return word[at];
}

static uint64_t number(uint32_t at)
{
    return strtoull(text(at), NULL, 10);
}

static struct bytes bytes(uint32_t at)
{
    const char *from = text(at);
    if (from[0] == '*' && from[1] != '\0') {
        uint64_t size = strtoull(from + 1, NULL, 10);
        CHECK(size <= sizeof long_word);
        return bytes_of(long_word, size);
    }
    return strcmp(from, "-") == 0 ? (struct bytes){NULL, 0}
                                  : bytes_of_text(from);
}

static void put(struct bytes bytes)
{
    if (bytes.size == 0) {
        putchar('-');
    } else if (bytes.data[0] == long_word[0]) {
        printf("*%zu", bytes.size);
    } else {
        fwrite(bytes.data, 1, bytes.size, stdout);
    }
}

static struct origin origin(void)
{
    static uint64_t also[2];
    struct origin origin = {.session = number(2),
                            .owner = bytes(3),
                            .req = number(4),
                            .acked = strtoull(text(5), NULL, 10),
                            .also_acked = also};
    const char *comma = strchr(text(5), ','); /* "2,5-9" */
    if (comma != NULL) {
        char *end;
        also[0] = strtoull(comma + 1, &end, 10);
        also[1] = strtoull(end + 1, NULL, 10);
        origin.also_acked_count = 1;
    }
    return origin;
}

static uint32_t names_from(uint32_t at, struct bytes *ret_names)
{
    uint32_t count = 0;
    while (at + count < word_count) {
        ret_names[count] = bytes(at + count);
        count++;
    }
    return count;
}

/* --- Operations ----------------------------------------------------------- */

static void run_begin(void)
{
    uint8_t id[16] = {1};
    encode_begin(&command,
                 &(struct begin_command){
                     .node = number(2),
                     .incarnation = number(3),
                     .cluster_id = bytes_of(id, number(4) != 0 ? sizeof id : 0),
                     .token_base = number(5),
                     .base_index = number(6),
                     .elapsed_ms = (uint32_t)number(7)});
}

static void run_register(void)
{
    encode_register_node(
        &command, &(struct register_node_command){.node = number(2),
                                                  .incarnation = number(3),
                                                  .added_index = number(4)});
}

static void run_act(void)
{
    encode_act(&command, &(struct act_command){.kind = (enum act_kind)number(2),
                                               .member = number(3),
                                               .address = bytes(6),
                                               .wall_ms = number(4)});
    encode_trail(&command, bytes(6), bytes(5), 0);
}

static void run_feature(void)
{
    encode_set_feature(
        &command, &(struct set_feature_command){.level = (uint32_t)number(2)});
}

static void run_quarantine_over(void)
{
    encode_quarantine_over(
        &command, &(struct quarantine_over_command){.since_index = number(2)});
}

static void run_open(void)
{
    struct label labels[LABEL_COUNT_MAX];
    struct open_command c = {.ttl_ms = (uint32_t)number(2),
                             .linger_ms = (uint32_t)number(3),
                             .name = bytes(4),
                             .address = bytes(5),
                             .labels = labels,
                             .label_count = (uint32_t)number(6),
                             .is_durable = number(7) != 0,
                             .wall_ms = number(8)};
    for (uint32_t i = 0; i < c.label_count; i++) {
        labels[i] = (struct label){BYTES_LITERAL("key"), bytes_of_text("v")};
    }
    encode_open(&command, &c);
}

static void run_close(void)
{
    struct origin from = origin();
    encode_close(&command, &(struct close_command){.origin = from});
}

static void run_expire(void)
{
    uint64_t sessions[WORD_MAX];
    for (uint32_t i = 2; i < word_count; i++) {
        sessions[i - 2] = number(i);
    }
    encode_expire(&command,
                  &(struct expire_command){.sessions = sessions,
                                           .session_count = word_count - 2});
}

static void run_time(void)
{
    struct session_mark marks[WORD_MAX];
    struct time_command time = {.base_index = number(2),
                                .elapsed_ms = (uint32_t)number(3),
                                .marks = marks};
    for (uint32_t i = 4; i + 1 < word_count; i += 2) {
        marks[time.mark_count++] = (struct session_mark){
            number(i), (uint32_t)number(i + 1)};
    }
    encode_time(&command, &time);
}

static void run_heard(void)
{
    uint64_t sessions[WORD_MAX];
    for (uint32_t i = 2; i < word_count; i++) {
        sessions[i - 2] = number(i);
    }
    encode_heard(&command,
                 &(struct heard_command){.sessions = sessions,
                                         .session_count = word_count - 2});
}

static void run_acquire(void)
{
    struct bytes names[WORD_MAX];
    encode_acquire(&command, &(struct acquire_command){
                                 .origin = origin(),
                                 .mode = (enum lock_mode)number(6),
                                 .slots = (uint32_t)number(7),
                                 .is_waiting = number(8) != 0,
                                 .wait_ms = number(9),
                                 .is_barging = number(10) != 0,
                                 .value = bytes(11),
                                 .delay_ms = number(12),
                                 .hold_ms = number(13),
                                 .names = names,
                                 .name_count = names_from(14, names)});
}

static void run_release(void)
{
    struct bytes names[WORD_MAX];
    encode_release(&command, &(struct release_command){
                                 .origin = origin(),
                                 .token = number(6),
                                 .is_counting = number(7) != 0,
                                 .names = names,
                                 .name_count = names_from(8, names)});
}

static void run_release_if(void)
{
    encode_release_if(&command,
                      &(struct release_if_command){.origin = origin(),
                                                   .name = bytes(6),
                                                   .session = number(7),
                                                   .owner = bytes(8),
                                                   .token = number(9)});
}

static void run_convert(void)
{
    encode_convert(&command,
                   &(struct convert_command){.origin = origin(),
                                             .name = bytes(6),
                                             .to = (enum lock_mode)number(7),
                                             .is_waiting = number(8) != 0,
                                             .wait_ms = number(9)});
}

static void run_cancel(void)
{
    struct origin from = origin();
    encode_cancel(&command,
                  &(struct cancel_command){.origin = from, .name = bytes(6)});
}

static void run_note(void)
{
    struct note_command c = {.origin = origin(),
                             .name = bytes(6),
                             .token = number(7),
                             .text = bytes(8)};
    encode_note(&command, &c);
}

static void run_please(void)
{
    struct origin from = origin();
    encode_please(&command, &(struct please_command){.origin = from,
                                                     .name = bytes(6),
                                                     .message = bytes(7)});
}

static void run_wait_over(void)
{
    encode_wait_timeout(&command,
                        &(struct wait_timeout_command){number(2), bytes(3),
                                                       number(4), number(5)});
}

static void run_delay_over(void)
{
    encode_delay_over(&command,
                      &(struct delay_over_command){.name = bytes(2),
                                                   .since_index = number(3)});
}

static struct hold_over_command hold_key(void)
{
    return (struct hold_over_command){bytes(2), number(3), bytes(4), number(5)};
}

static void run_hold_over(void)
{
    struct hold_over_command key = hold_key();
    encode_hold_over(&command, &key);
}

static void run_break(void)
{
    encode_break_holds(&command,
                       &(struct break_holds_command){.origin = origin(),
                                                     .name = bytes(6),
                                                     .after_ms = number(7),
                                                     .session = number(8),
                                                     .reason = bytes(9),
                                                     .by = bytes(10)});
}

static void run_object(void)
{
    struct object_command c = {
        .origin = origin(), .name = bytes(6), .message = bytes(7)};
    encode_object(&command, &c);
}

static void run_break_over(void)
{
    struct break_over_command c = {bytes(2), number(3), bytes(4), number(5)};
    encode_break_over(&command, &c);
}

static void run_blacklist_add(void)
{
    encode_blacklist_add(&command,
                         &(struct blacklist_add_command){.origin = origin(),
                                                         .session = number(6),
                                                         .client = bytes(7),
                                                         .reason = bytes(8),
                                                         .by = bytes(9),
                                                         .for_ms = number(10)});
}

static void run_blacklist_remove(void)
{
    encode_blacklist_remove(
        &command, &(struct blacklist_remove_command){.origin = origin(),
                                                     .session = number(6),
                                                     .client = bytes(7)});
}

static void run_blacklist_over(void)
{
    encode_blacklist_over(
        &command, &(struct blacklist_over_command){.since_index = number(2)});
}

static void run_fence(void)
{
    struct origin from = origin();
    encode_fence_admit(&command,
                       &(struct fence_admit_command){.origin = from,
                                                     .resource = bytes(6),
                                                     .token = number(7)});
}

static void run_limit(void)
{
    struct origin from = origin();
    encode_set_limit(
        &command, &(struct set_limit_command){.origin = from,
                                              .key = (enum limit_key)number(6),
                                              .value = number(7)});
}

static void run_unfence(void)
{
    struct origin from = origin();
    encode_fence_remove(&command, &(struct fence_remove_command){
                                      .origin = from, .resource = bytes(6)});
}

/* "redis CLIENT", then per key: name, was, value, change, new value, ttl, px.
 */
static void run_redis(void)
{
    static struct redis_key keys[MULTI_COUNT_MAX];
    struct redis_command redis = {
        .keys = keys, .client = bytes(2), .address = BYTES_LITERAL("host:1")};
    redis.wall_ms = number(3);
    for (size_t i = 4; i < word_count; i += 8) {
        keys[redis.key_count++] = (struct redis_key){
            .name = bytes(i),
            .was = (enum redis_state)number(i + 1),
            .value = bytes(i + 2),
            .change = (enum redis_change)number(i + 3),
            .new_value = bytes(i + 4),
            .ttl_ms = (uint32_t)number(i + 5),
            .px_ms = number(i + 6),
            .is_durable = number(i + 7) != 0};
    }
    encode_redis(&command, &redis);
}

static const struct {
    const char *name;
    void (*run)(void);
} operations[] = {
    {"acq", run_acquire},
    {"rel", run_release},
    {"open", run_open},
    {"conv", run_convert},
    {"cancel", run_cancel},
    {"close", run_close},
    {"expire", run_expire},
    {"time", run_time},
    {"heard", run_heard},
    {"relif", run_release_if},
    {"note", run_note},
    {"please", run_please},
    {"waitover", run_wait_over},
    {"delayover", run_delay_over},
    {"holdover", run_hold_over},
    {"break", run_break},
    {"object", run_object},
    {"breakover", run_break_over},
    {"bladd", run_blacklist_add},
    {"blrem", run_blacklist_remove},
    {"blover", run_blacklist_over},
    {"fence", run_fence},
    {"unfence", run_unfence},
    {"redis", run_redis},
    {"begin", run_begin},
    {"register", run_register},
    {"act", run_act},
    {"feature", run_feature},
    {"quarover", run_quarantine_over},
    {"limit", run_limit},
};

/* --- Effects -------------------------------------------------------------- */

/* Code, token, count, tokens, text; of a deadlock a second line with the
 * cycle, which the caller puts. */
static void put_result(const struct result *result)
{
    static const char *const names[] = {
        "ok",      "queued",      "nil",      "notheld", "nosession",
        "expired", "blacklisted", "deadlock", "limit",   "badarg",
        "level",   "forgotten",   "noauth",   "noperm"};
    bool is_many = result->token_count > 1;
    printf("%s %" PRIu64 " %" PRIu64 " ", names[result->code],
           is_many ? 0 : result->token, result->count);
    for (uint32_t i = 0; is_many && i < result->token_count; i++) {
        printf("%s%" PRIu64, i > 0 ? "," : "", result->tokens[i]);
    }
    printf("%s ", is_many ? "" : "-");
    put(result->code == RESULT_BLACKLISTED ? result->text
                                           : (struct bytes){NULL, 0});
}

static void put_cycle(const struct result *result)
{
    if (result->code == RESULT_DEADLOCK) {
        printf("~%.*s\n", (int)result->text.size,
               (const char *)result->text.data);
    }
}

/* "max hold" as one word. */
static const char *reason_of(const struct effect *effect)
{
    if (effect->reason == NULL) {
        return "-";
    }
    return strcmp(effect->reason, "max hold") == 0 ? "max-hold"
                                                   : effect->reason;
}

static void put_place(char kind, const struct effect *effect)
{
    printf("%c %" PRIu64 " ", kind, effect->session);
    put(effect->owner);
    putchar(' ');
    put(effect->lock);
    putchar(' ');
}

static void put_lock_effect(const struct effect *e)
{
    switch (e->type) {
    case EFFECT_GRANTED:
        put_place('G', e);
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %s", e->token,
               e->wait_index, e->hold_ms, reason_of(e));
        break;
    case EFFECT_QUEUED:
        put_place('Q', e);
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, e->wait_index,
               e->asked_index, e->time_ms, e->count);
        break;
    case EFFECT_RELEASED:
    case EFFECT_HOLD_EXPIRED:
        put_place(e->type == EFFECT_RELEASED ? 'R' : 'X', e);
        printf("%" PRIu64 " %s", e->token, reason_of(e));
        break;
    case EFFECT_WAIT_ENDED:
        put_place('N', e);
        printf("%" PRIu64 " %s", e->wait_index, reason_of(e));
        break;
    case EFFECT_PLEASE:
        put_place('P', e);
        put(e->text);
        break;
    case EFFECT_BREAKING:
    case EFFECT_OBJECTED:
        put_place(e->type == EFFECT_BREAKING ? 'Y' : 'y', e);
        printf("%" PRIu64 " %" PRIu64 " ", e->token, e->time_ms);
        put(e->text);
        break;
    case EFFECT_DELAYED:
    case EFFECT_DELAY_OVER:
        printf("%s ", e->type == EFFECT_DELAYED ? "D" : "d");
        put(e->lock);
        if (e->type == EFFECT_DELAYED) {
            printf(" %" PRIu64 " %" PRIu64, e->time_ms, e->wait_index);
        }
        break;
    default:
        UNREACHABLE();
    }
}

static void put_effect(const struct effect *e)
{
    switch (e->type) {
    case EFFECT_RESULT:
        printf("r ");
        put_result(&e->result);
        printf(" %" PRIu64, e->wait_index);
        break;
    case EFFECT_WAIT_RESULT:
        put_place('w', e);
        printf("%" PRIu64 " %" PRIu64 " ", e->wait_index, e->asked_index);
        put_result(&e->result);
        break;
    case EFFECT_SESSION_OPENED:
        printf("O %" PRIu64 " %" PRIu64, e->session, e->time_ms);
        break;
    case EFFECT_SESSION_ENDED:
        printf("E %" PRIu64 " %s", e->session, reason_of(e));
        break;
    case EFFECT_SESSION_MARKED:
        printf("A %" PRIu64 " %" PRIu64, e->session, e->time_ms);
        break;
    case EFFECT_SESSION_HEARD:
        printf("h %" PRIu64, e->session);
        break;
    case EFFECT_TIME:
        printf("t %" PRIu64, e->time_ms);
        break;
    case EFFECT_SESSION_CHANGED:
        printf("C %" PRIu64 " %" PRIu64 " %s ", e->session, e->time_ms,
               reason_of(e));
        put(e->text);
        break;
    case EFFECT_BLACKLISTED:
        printf("B %" PRIu64 " %" PRIu64 " %" PRIu64 " ", e->session,
               e->log_index, e->time_ms);
        put(e->text);
        break;
    case EFFECT_BEGUN:
        printf("b %" PRIu64, e->count);
        break;
    case EFFECT_REGISTERED:
        printf("g %" PRIu64 " %" PRIu64, e->count, e->token);
        break;
    case EFFECT_LIMIT_SET:
        printf("l %" PRIu64 " %" PRIu64, e->count, e->token);
        break;
    default:
        put_lock_effect(e);
        break;
    }
    putchar('\n');
    if (e->type == EFFECT_RESULT || e->type == EFFECT_WAIT_RESULT) {
        put_cycle(&e->result);
    }
}

/* --- The state ------------------------------------------------------------ */

/* As one word. */
static const char *loss_of(enum hold_loss loss)
{
    return loss == LOSS_MAX_HOLD ? "max-hold" : hold_loss_name(loss);
}

static void put_session(const struct session *s)
{
    struct quiet quiet;
    printf("S %" PRIu64 " %d %" PRIu64 " %" PRIu32 " %" PRIu32 " ", s->id,
           s->is_durable, s->opened_ms, s->ttl_ms, s->linger_ms);
    if (!s->is_durable && lockfsm_mark(fsm, s, &quiet)) {
        printf("%" PRIu64 "@%" PRIu64 " ", quiet.quiet_ms, quiet.clock_ms);
    } else {
        printf("- ");
    }
    put(s->name);
    putchar(' ');
    put(s->address);
    printf(" %" PRIu32 " %" PRIu64 " %d %" PRIu64, s->label_count,
           s->blacklist_index, s->is_redis, s->px_ms);
    printf(" %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", s->hold_count,
           s->wait_count, s->asker_count, s->result_count);
    LIST_EACH (node, &s->ended) {
        const struct ended_hold *e = LIST_ENTRY(node, struct ended_hold,
                                                in_session);
        printf("E ");
        put(e->lock);
        putchar(' ');
        put(e->owner);
        printf(" %" PRIu64 " %s\n", e->token, loss_of(e->loss));
    }
}

static void put_hold(const struct hold *h)
{
    printf("H %" PRIu64 " ", h->session->id);
    put(h->owner);
    putchar(' ');
    put(h->value);
    printf(" %d %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64
           " %" PRIu64,
           (int)h->mode, h->token, h->granted_index, h->count, h->delay_ms,
           h->hold_ms, h->hold_clock_ms);
    if (h->break_count > 0) {
        printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " ", h->breaks->since_index,
               h->breaks->after_ms, h->breaks->clock_ms);
        put(h->breaks->by);
        putchar(' ');
        put(h->breaks->reason);
    }
    putchar('\n');
}

static void put_wait(const struct wait *w)
{
    printf("W %" PRIu64 " ", w->session->id);
    put(w->owner);
    putchar(' ');
    put(w->value);
    printf(" %d %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
           " %" PRIu64 " %" PRIu64 " %d %" PRIu64 "\n",
           (int)w->mode, w->slots, w->wait_index, w->asked_index, w->wait_ms,
           w->delay_ms, w->hold_ms, w->req, w->is_upgrade, w->wait_clock_ms);
}

static void put_lock(const struct lock *lock)
{
    printf("L ");
    put(lock->name);
    printf(" %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu64
           " %" PRIu64 " ",
           lock->slots, lock->delay_ms, lock->delay_index, lock->delay_slots,
           lock->last_token, lock->delay_clock_ms);
    put(lock->note);
    putchar('\n');
    LIST_EACH (node, &lock->holds) {
        const struct hold *hold = LIST_ENTRY(node, struct hold, in_lock);
        CHECK(hold->mode == lock->mode);
        put_hold(hold);
    }
    LIST_EACH (node, &lock->queue) {
        put_wait(LIST_ENTRY(node, struct wait, in_lock));
    }
}

static int by_name(const void *a, const void *b)
{
    return bytes_compare((*(const struct lock *const *)a)->name,
                         (*(const struct lock *const *)b)->name);
}

static int by_id(const void *a, const void *b)
{
    uint64_t left = (*(const struct session *const *)a)->id;
    uint64_t right = (*(const struct session *const *)b)->id;
    return left < right ? -1 : left > right;
}

static void put_all_sessions(void)
{
    const struct session *first = lockfsm_sessions(fsm);
    uint32_t count = HASH_CNT(by_id, first);
    const struct session **all = memory_new((count + 1) * sizeof *all);
    uint32_t at = 0;
    for (const struct session *s = first; s != NULL; s = s->by_id.next) {
        all[at++] = s;
    }
    CHECK(at == count);
    qsort(all, count, sizeof *all, by_id);
    for (uint32_t i = 0; i < count; i++) {
        put_session(all[i]);
    }
    free(all);
}

static void put_all_locks(void)
{
    const struct lock *first = lockfsm_locks(fsm);
    uint32_t count = HASH_CNT(by_name, first);
    const struct lock **all = memory_new((count + 1) * sizeof *all);
    uint32_t at = 0;
    for (const struct lock *lock = first; lock != NULL;
         lock = lock->by_name.next) {
        all[at++] = lock;
    }
    CHECK(at == count);
    qsort(all, count, sizeof *all, by_name);
    for (uint32_t i = 0; i < count; i++) {
        put_lock(all[i]);
    }
    free(all);
}

static void put_blacklist(void)
{
    LIST_EACH (node, lockfsm_blacklist(fsm)) {
        const struct blacklisting *b = LIST_ENTRY(node, struct blacklisting,
                                                  in_order);
        printf("B %" PRIu64 " %" PRIu64 " ", b->since_index, b->session);
        put(b->client);
        putchar(' ');
        put(b->reason);
        putchar(' ');
        put(b->by);
        printf(" %" PRIu64 " %" PRIu64 "\n", b->for_ms, b->clock_ms);
    }
}

static void ask_dump(void)
{
    uint8_t id[16];
    uint64_t quarantine_ms = 0;
    uint64_t quarantine = lockfsm_quarantine(fsm, &quarantine_ms);
    lockfsm_cluster_id(fsm, id);
    printf("I %" PRIu64 " %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu32
           " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
           lockfsm_applied_index(fsm), lockfsm_token_base(fsm), id[0],
           quarantine, quarantine_ms, lockfsm_feature_level(fsm),
           lockfsm_clock(fsm), lockfsm_clock_index(fsm),
           lockfsm_quarantine_clock(fsm));
    for (uint64_t node = 0; node < MEMBER_MAX; node++) {
        uint64_t added_index = lockfsm_added_index(fsm, node);
        if (added_index != 0) {
            printf("M %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", node, added_index,
                   lockfsm_incarnation(fsm, node));
        }
    }
    for (uint64_t node = 0; node < MEMBER_MAX; node++) {
        struct removal removal;
        if (lockfsm_removal(fsm, node, &removal)) {
            printf("X %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " ", node,
                   removal.log_index, removal.incarnation, removal.wall_ms);
            put(removal.by);
            putchar('\n');
        }
    }
    put_all_sessions();
    put_all_locks();
    put_blacklist();
    for (uint32_t i = 1; i < word_count; i++) {
        const struct fence *fence = lockfsm_fence(fsm, bytes(i));
        if (fence != NULL) {
            printf("F %s %" PRIu64 "\n", word[i], fence->token);
        }
    }
}

static void ask_kept(void)
{
    struct result result = {0};
    if (!lockfsm_kept_result(fsm, number(1), number(2), &result)) {
        printf("k none\n");
        return;
    }
    printf("k ");
    put_result(&result);
    putchar('\n');
    put_cycle(&result);
}

/* --- Tables and snapshots ------------------------------------------------- */

/* A delta has hash tables, too, and compares states of one life only. */
static void forget_delta(void)
{
    lockfsm_delta_free(delta);
    delta = lockfsm_delta_new();
}

static void check_state(void)
{
    const char *what = lockfsm_check_basic(fsm);
    if (what == NULL) {
        what = lockfsm_delta_check(delta, fsm);
    }
    if (what != NULL) {
        wrong(what);
    }
}

static void flush_state(void)
{
    CHECK(lockfsm_flush(fsm, table) == 0);
    CHECK(lockfsm_dirty_count(fsm) == 0);
}

static int gather(void *data, struct bytes piece)
{
    buffer_put_bytes(data, piece);
    return 0;
}

/* Carries the table over into a new one as a snapshot. */
static void restore_table(void)
{
    struct buffer stream = {0};
    struct snapshot_header header = {.last_index = lockfsm_applied_index(fsm),
                                     .last_term = lockfsm_applied_term(fsm)};
    struct table_txn *txn;
    CHECK(table_begin_read(table, &txn) == 0);
    CHECK(snapshot_encode(&header, txn, gather, &stream) == 0);
    table_abort(txn);
    table_close(table);
    table = table_new_memory();
    char why[HASP_WHY_SIZE] = "";
    if (snapshot_check(buffer_bytes(&stream), &header, why) != 0) {
        wrong(why);
    }
    CHECK(table_begin_write(table, &txn) == 0);
    CHECK(snapshot_decode(buffer_bytes(&stream), txn) == 0);
    CHECK(table_commit(txn) == 0);
    buffer_done(&stream);
}

/* It understands whatever level the rows raise it to. */
static struct lockfsm *new_fsm(void)
{
    struct lockfsm *made = lockfsm_new();
    lockfsm_set_node_level(made, UINT32_MAX - 1);
    return made;
}

static void ask_restore(void)
{
    uint64_t hash = lockfsm_hash(fsm);
    if (lockfsm_digest(fsm) != hash) {
        wrong("the digest that is kept up is not that of the state");
    }
    flush_state();
    if (strcmp(word[0], "restore") == 0) {
        restore_table();
    }
    lockfsm_free(fsm);
    forget_delta();
    hash_seed_set(hash_seed + 1); /* No table with the old one is left. */
    fsm = new_fsm();
    char why[HASP_WHY_SIZE] = "";
    if (lockfsm_load(fsm, table, why) != 0) {
        wrong(why);
    }
    if (lockfsm_hash(fsm) != hash) {
        wrong("the hash differs after a restore");
    }
    check_state();
    printf("%s\n", strcmp(word[0], "restore") == 0 ? "restored" : "reloaded");
}

static void ask_new_life(void)
{
    lockfsm_new_life(fsm, number(1));
    forget_delta();
    check_state();
}

static const struct {
    const char *name;
    void (*ask)(void);
} questions[] = {
    {"dump", ask_dump},      {"kept", ask_kept},     {"restore", ask_restore},
    {"reload", ask_restore}, {"flush", flush_state}, {"newlife", ask_new_life},
};

/* --- Lines ---------------------------------------------------------------- */

static void apply(uint64_t index)
{
    printf("@%" PRIu64 "\n", index);
    if (strcmp(text(1), "skip") == 0) {
        lockfsm_skip(fsm, index, 1);
        check_state();
        return;
    }
    if (strcmp(text(1), "change") == 0) {
        uint64_t nodes[MEMBER_MAX];
        uint32_t count = 0;
        while (count + 2 < word_count && count < MEMBER_MAX) {
            nodes[count] = number(count + 2);
            count++;
        }
        lockfsm_change(fsm, index, 1, nodes, count);
        check_state();
        return;
    }
    buffer_clear(&command);
    size_t i = 0;
    while (strcmp(text(1), operations[i].name) != 0) {
        i++;
        if (i == sizeof operations / sizeof *operations) {
            wrong("unknown operation");
        }
    }
    operations[i].run();
    if (operations[i].run != run_act) { /* Which the leader makes. */
        encode_user(&command,
                    operations[i].run == run_limit ? USER_LOCAL : USER_ANYONE);
    }
    if (lockfsm_apply(fsm, index, 1, buffer_bytes(&command), &effects) != 0) {
        wrong("cannot be applied");
    }
    for (uint32_t e = 0; e < effects.count; e++) {
        CHECK((effects.effect[e].type == EFFECT_RESULT) == (e == 0));
        CHECK(effects.effect[e].log_index == index);
        put_effect(&effects.effect[e]);
    }
    effects_clear(&effects);
    check_state();
}

static void run_line(char *line)
{
    word_count = 0;
    char *rest = NULL;
    for (char *at = strtok_r(line, " \n", &rest); at != NULL;
         at = strtok_r(NULL, " \n", &rest)) {
        CHECK(word_count < WORD_MAX);
        word[word_count++] = at;
    }
    if (word_count == 0) {
        return;
    }
    if (word[0][0] >= '0' && word[0][0] <= '9') {
        apply(number(0));
        return;
    }
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        if (strcmp(word[0], questions[i].name) == 0) {
            questions[i].ask();
            return;
        }
    }
    wrong("unknown question");
}

int main(int argc, char **argv)
{
    static char out[1 << 16];
    (void)argv; /* With any argument, nothing is lost when it aborts. */
    setvbuf(stdout, out, argc > 1 ? _IOLBF : _IOFBF, sizeof out);
    memset(long_word, '#', sizeof long_word);
    hash_seed_set(1);
    fsm = new_fsm();
    delta = lockfsm_delta_new();
    table = table_new_memory();
    check_state();
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) >= 0) {
        run_line(line);
    }
    free(line);
    lockfsm_delta_free(delta);
    lockfsm_free(fsm);
    table_close(table);
    effects_done(&effects);
    buffer_done(&command);
    return 0;
}
