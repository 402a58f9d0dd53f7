/* SPDX-License-Identifier: MIT */

/* Runs a script of operations on the real state machine and prints its answers,
 * effects and holds, for comparison with model.py.
 *
 * Each line of stdin is an entry, "INDEX OPERATION:USER ARGUMENTS" (positions
 * as in operations.c; anyone's without a user's number), or a question: "dump
 * RESOURCE...", "kept SESSION OWNER REQ", "restore" (through a table and a
 * snapshot into another machine with another hash seed), "reload" (through the
 * table alone), "flush", "newlife MS [suspend]". Bare words; "-" is the empty
 * one and "*N" one of N bytes. After every entry the invariants are checked; a
 * violation ends the run with a line "!...". */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/session/session.h"
#include "lockfsm/user/access.h"
#include "lockfsm/user/quota.h"
#include "storage/snapshot.h"
#include "storage/table.h"
#include "tests/property/operations.h"
#include "tests/property/words.h"
#include "tests/unit/lockfsm_delta.h"

#define MEMBER_MAX 8

static struct lockfsm *fsm;
static struct lockfsm_delta *delta;
static struct table *table;
static struct effects effects;
static struct buffer command;

/* --- Effects -------------------------------------------------------------- */

/* Code, token, count, tokens, text; a deadlock has a second line with the
 * cycle, which the caller prints. */
static void put_result(const struct result *result)
{
    static const char *const names[] = {
        "ok",      "queued",      "nil",      "notheld", "nosession",
        "expired", "blacklisted", "deadlock", "limit",   "badarg",
        "level",   "forgotten",   "noauth",   "noperm",  "quarantined",
        "limit" /* The model has one word for limits and quotas. */};
    bool is_many = result->token_count > 1;
    printf("%s %" PRIu64 " %" PRIu64 " ", names[result->code],
           is_many ? 0 : result->token, result->count);
    for (uint32_t i = 0; is_many && i < result->token_count; i++) {
        printf("%s%" PRIu64, i > 0 ? "," : "", result->tokens[i]);
    }
    printf("%s ", is_many ? "" : "-");
    bool is_told = result->code == RESULT_BLACKLISTED ||
                   result->code == RESULT_NO_AUTH ||
                   result->code == RESULT_NO_PERMISSION;
    put_text(is_told ? result->text : (struct bytes){NULL, 0});
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
        put_text(e->text);
        break;
    case EFFECT_BLACKLISTED:
        printf("B %" PRIu64 " %" PRIu64 " %" PRIu64 " ", e->session,
               e->log_index, e->time_ms);
        put(e->text);
        break;
    case EFFECT_BEGUN:
        printf("b %" PRIu64, e->count);
        break;
    case EFFECT_ACCESS_CHANGED:
        putchar('a');
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
    printf("S %" PRIu64 " %" PRIu64 " %d %" PRIu64 " %" PRIu32 " %" PRIu32 " ",
           s->id, s->user_number, s->is_durable, s->opened_ms, s->ttl_ms,
           s->linger_ms);
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
    printf(" %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu64 "\n",
           s->hold_count, s->wait_count, s->asker_count, s->result_count,
           s->dropped_number);
    LIST_EACH (node, &s->ended) {
        const struct ended_hold *e = LIST_ENTRY(node, struct ended_hold,
                                                in_session);
        printf("E ");
        put(e->lock);
        putchar(' ');
        put(e->owner);
        printf(" %" PRIu64 " %" PRIu64 " %s %" PRIu64 "\n", e->first_token,
               e->token, loss_of(e->loss), e->number);
    }
}

static void put_hold(const struct hold *h)
{
    printf("H %" PRIu64 " ", h->session->id);
    put(h->owner);
    putchar(' ');
    put(h->value);
    printf(" %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu64
           " %" PRIu64 " %" PRIu64,
           (int)h->mode, h->token, h->first_token, h->granted_index, h->count,
           h->delay_ms, h->hold_ms, h->hold_clock_ms);
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

static void put_user(const struct user *user)
{
    printf("U ");
    put(user->name);
    printf(" %" PRIu64 " %" PRIu64 " %d ", user->number, user->changed,
           user->is_disabled);
    for (uint32_t i = 0; i < user->role_count; i++) {
        printf("%s", i > 0 ? "," : "");
        put(user->roles[i].name);
    }
    printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
           user->role_count == 0 ? "-" : "", user_use(user, QUOTA_SESSIONS),
           user_use(user, QUOTA_HOLDS), user_use(user, QUOTA_WAITS));
    LIST_FOR (const struct secret, secret, &user->secrets, in_user) {
        CHECK(lockfsm_secret(fsm, secret->hash) == secret);
        printf("u %" PRIu64 " %u ", secret->number, secret->hash[0]);
        put(secret->label);
        putchar('\n');
    }
}

static bool put_user_at(struct treap_node *node, void *data)
{
    (void)data;
    put_user(LIST_ENTRY(node, struct user, in_order));
    return true;
}

static bool put_role_at(struct treap_node *node, void *data)
{
    const struct role *role = LIST_ENTRY(node, struct role, in_order);
    struct buffer grants = {0};
    (void)data;
    for (uint32_t i = 0; i < role->grant_count; i++) {
        buffer_put_text(&grants, " ");
        grant_print(&grants, &role->grants[i]);
    }
    printf("O ");
    put(role->name);
    printf(" %" PRIu64 "%.*s\n", role->changed, (int)grants.size,
           (const char *)grants.data);
    buffer_done(&grants);
    return true;
}

static bool put_revocation_at(struct treap_node *node, void *data)
{
    const struct revocation *revocation = LIST_ENTRY(node, struct revocation,
                                                     in_order);
    (void)data;
    printf("V %u ", revocation->fingerprint[0]);
    put(revocation->subject);
    printf(" %" PRIu64 "\n", revocation->log_index);
    return true;
}

static void put_users(void)
{
    struct bytes first = {(const uint8_t *)"", 0};
    printf("A %d\n", lockfsm_access_is_required(fsm));
    put_user(lockfsm_user(fsm, USER_ANYONE));
    put_user(lockfsm_user(fsm, USER_LOCAL));
    treap_each(lockfsm_user_order(fsm), first, put_user_at, NULL);
    treap_each(lockfsm_role_order(fsm), first, put_role_at, NULL);
    treap_each(lockfsm_revocation_order(fsm), first, put_revocation_at, NULL);
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
        uint64_t incarnation = lockfsm_incarnation(fsm, node);
        if (incarnation != 0) {
            printf("M %" PRIu64 " %" PRIu64 "\n", node, incarnation);
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
        const struct fence *fence = lockfsm_fence(fsm, word_bytes(i));
        if (fence != NULL) {
            printf("F %s %" PRIu64 "\n", word[i], fence->token);
        }
    }
    put_users();
}

static void ask_kept(void)
{
    struct result result = {0};
    if (!lockfsm_kept_result(fsm, word_number(1), word_number(2), &result)) {
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

/* The memory of the state, without spare capacity. */
static uint64_t memory_size(void)
{
    uint64_t room = 0;
    for (const struct session *s = fsm->sessions; s != NULL;
         s = s->by_id.next) {
        if (s->numbers != NULL) {
            room += s->numbers->spent_room - s->numbers->spent_count;
        }
    }
    return fsm->pool.taken_size - room * 2 * sizeof(uint64_t);
}

/* It understands any level to which the rows raise it. */
static struct lockfsm *new_fsm(void)
{
    struct lockfsm *made = lockfsm_new();
    lockfsm_set_node_level(made, UINT32_MAX - 1);
    return made;
}

static void ask_restore(void)
{
    uint64_t hash = lockfsm_hash(fsm);
    uint64_t size = memory_size();
    if (lockfsm_digest(fsm) != hash) {
        wrong("the incremental digest is not that of the state");
    }
    flush_state();
    if (strcmp(word[0], "restore") == 0 && lockfsm_applied_index(fsm) > 0) {
        restore_table();
    }
    lockfsm_free(fsm);
    forget_delta();
    hash_seed_set(hash_seed + 1); /* No table with the old seed is left. */
    fsm = new_fsm();
    char why[HASP_WHY_SIZE] = "";
    if (lockfsm_load(fsm, table, why) != 0) {
        wrong(why);
    }
    if (lockfsm_hash(fsm) != hash) {
        wrong("the hash differs after a restore");
    }
    if (memory_size() != size) {
        wrong("memory is allocated but unused");
    }
    check_state();
    printf("%s\n", strcmp(word[0], "restore") == 0 ? "restored" : "reloaded");
}

static void ask_new_life(void)
{
    if (word_count > 2) {
        lockfsm_suspend_users(fsm);
    }
    lockfsm_new_life(fsm, word_number(1));
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

/* Splits the user off the operation. */
static uint64_t user_of_operation(void)
{
    char *colon = strchr(word[1], ':');
    if (colon != NULL) {
        *colon = '\0';
        return strtoull(colon + 1, NULL, 10);
    }
    return strcmp(word[1], "limit") == 0 ? USER_LOCAL : USER_ANYONE;
}

/* The leader's check before it proposes must predict the result of the
 * entry. */
static void check_refusal(bool is_numbered, enum result_code foretold,
                          const struct result *result)
{
    bool is_refused = result->code == RESULT_NO_AUTH ||
                      result->code == RESULT_NO_PERMISSION;
    if (!is_numbered &&
        (foretold == RESULT_OK ? is_refused : result->code != foretold)) {
        wrong("a refusal was not predicted, or did not occur");
    }
}

/* Checks the entry as the leader does before it proposes; returns what it
 * predicts. The structure must say what the bytes say. */
static enum result_code foretell(struct bytes encoded)
{
    struct arena arena = {0};
    struct entry entry;
    struct codec_level level, needed;
    struct result refusal;
    struct buffer again = {0};
    if (!entry_get(encoded, &arena, &entry, &level) ||
        !entry_check(&entry, &needed)) {
        wrong("the entry cannot be read");
    }
    entry_put(&again, &entry);
    if (needed.level != level.level || needed.what != level.what ||
        !bytes_equal(buffer_bytes(&again), encoded)) {
        wrong("the entry's structure and its bytes differ");
    }
    (void)lockfsm_refuses(fsm, &entry, &refusal);
    buffer_done(&again);
    arena_done(&arena);
    return refusal.code;
}

static void apply(uint64_t index)
{
    uint64_t user = user_of_operation();
    printf("@%" PRIu64 "\n", index);
    if (strcmp(word_text(1), "skip") == 0) {
        lockfsm_skip(fsm, index, 1);
        check_state();
        return;
    }
    if (strcmp(word_text(1), "change") == 0) {
        struct lockfsm_member named[MEMBER_MAX];
        uint32_t count = 0;
        while (2 * count + 3 < word_count && count < MEMBER_MAX) {
            named[count] = (struct lockfsm_member){word_number(2 * count + 2),
                                                   word_number(2 * count + 3)};
            count++;
        }
        lockfsm_change(fsm, index, 1, named, count);
        check_state();
        return;
    }
    buffer_clear(&command);
    bool is_numbered = operation_write(&command, word_text(1), user);
    enum result_code foretold = foretell(buffer_bytes(&command));
    if (lockfsm_apply(fsm, index, 1, buffer_bytes(&command), &effects) != 0) {
        wrong("cannot be applied");
    }
    check_refusal(is_numbered, foretold, &effects.effect[0].result);
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
    words_read(line);
    if (word_count == 0) {
        return;
    }
    if (word[0][0] >= '0' && word[0][0] <= '9') {
        apply(word_number(0));
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
    (void)argv; /* Whatever the arguments, output is not lost when the process
                   aborts. */
    setvbuf(stdout, out, argc > 1 ? _IOLBF : _IOFBF, sizeof out);
    words_init();
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
