/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_faces.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_lives.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_promise.h"
#include "tests/sim/sim_shown.h"

/* --- Answers -------------------------------------------------------------- */

static void op_ends(struct worker *worker)
{
    struct sim *sim = worker->client->sim;
    sim->stats.operations++;
    worker->client->progress++;
    worker->op.kind = ASK_NONE;
    uint64_t think_ms = sim_chance(sim, 0.5) ? sim_between(sim, 0, 20)
                                             : sim_between(sim, 20, 800);
    worker->think_until_ns = sim->now_ns + think_ms * SIM_MS;
}

/* The answer was OK; the history must contain what it says. */
static void check_answer(struct worker *worker, enum result_code code,
                         uint64_t token, uint64_t count)
{
    struct sim_client *client = worker->client;
    struct sim *sim = client->sim;
    const struct op *op = &worker->op;
    uint64_t ended = sim_history_ended(sim_check_history(sim), client->session);
    if (ended != 0 && ended <= worker->channel.sent_newest) {
        sim_fail(sim, ORACLE_DEATH,
                 "dead stays dead: %s was answered for session %" PRIu64
                 ", which entry %" PRIu64 " had ended before it asked",
                 client->host.name, client->session, ended);
    }
    if (op->req == 0) {
        return;
    }
    struct past_result past;
    if (!sim_history_result(sim_check_history(sim), client->session, op->req,
                            &past)) {
        sim_fail(sim, ORACLE_RESULTS,
                 "an answer reflects committed state: %s.%s was answered REQ "
                 "%" PRIu64 " and no entry has it",
                 client->host.name, op->tag, op->req);
    } else if (past.code != code || past.token != token ||
               past.count != count) {
        sim_fail(sim, ORACLE_RESULTS,
                 "acknowledged results stay: %s.%s got token %" PRIu64
                 " count %" PRIu64 " code %d for REQ %" PRIu64
                 ", committed are %" PRIu64 ", %" PRIu64 ", %d",
                 client->host.name, op->tag, token, count, (int)code, op->req,
                 past.token, past.count, (int)past.code);
    } else if (past.first_index <= op->newest) {
        sim_fail(sim, ORACLE_RESULTS,
                 "an effect follows its cause: REQ %" PRIu64 " of %s.%s "
                 "took effect before it was asked",
                 op->req, client->host.name, op->tag);
    }
}

static void take_grant(struct worker *worker, uint32_t lock, uint64_t token)
{
    struct sim_client *client = worker->client;
    struct op *op = &worker->op;
    /* A token answers with count 1 for the first hold, more for a re-entry. */
    struct rogue_hold *held = sim_held_find(worker, lock);
    if (!sim_history_granted(sim_check_history(client->sim),
                             sim_lock_bytes(lock), client->session,
                             bytes_of_text(op->tag), token)) {
        sim_fail(client->sim, ORACLE_RESULTS,
                 "an answer reflects committed state: %s.%s got token %" PRIu64
                 " of '%s'",
                 client->host.name, op->tag, token, sim_lock_name(lock));
    }
    worker->last_token[lock] = token;
    if (held != NULL && held->token == token) {
        held->count++;
        return;
    }
    for (int i = 0; i < HOLD_MAX && held == NULL; i++) {
        if (!worker->held[i].is_there) {
            held = &worker->held[i];
        }
    }
    CHECK(held != NULL);
    *held = (struct rogue_hold){
        .is_there = true,
        .lock = lock,
        .mode = op->mode,
        .token = token,
        .count = 1,
        .hold_ms = op->hold_ms,
        .sent = op->sent,
    };
}

/* nil means that the lock was taken, closed, or waited for at some moment since
 * the request. In a quarantine a try is refused, but not a retry that may have
 * taken effect before. */
static void check_not_free(const struct worker *worker)
{
    struct sim *sim = worker->client->sim;
    const struct op *op = &worker->op;
    uint64_t newest = sim_check_newest(sim);
    bool is_excused = op->is_uncertain &&
                      sim_faces_quarantined(sim_check_faces(sim), op->newest);
    if (!is_excused &&
        !sim_lives_sometime(sim_check_lives(sim), sim_lock_bytes(op->lock),
                            op->newest, newest)) {
        sim_fail(sim, ORACLE_REFUSALS,
                 "a try fails only if the lock is not free: %s.%s got nil of "
                 "'%s', which nobody held between entries %" PRIu64
                 " and %" PRIu64,
                 worker->client->host.name, op->tag, sim_lock_name(op->lock),
                 op->newest, newest);
    }
}

static void take_acquired(struct worker *worker, const struct resp_value *value)
{
    struct op *op = &worker->op;
    if (value->type == RESP_NULL) {
        check_not_free(worker);
        check_answer(worker, RESULT_NOT_ACQUIRED, 0, 0);
    } else {
        struct past_result past = {.count = 0};
        sim_history_result(sim_check_history(worker->client->sim),
                           worker->client->session, op->req, &past);
        check_answer(worker, RESULT_OK, (uint64_t)value->integer, past.count);
        take_grant(worker, worker->op.lock, (uint64_t)value->integer);
    }
}

static void take_released(struct worker *worker, const struct resp_value *value)
{
    struct op *op = &worker->op;
    struct rogue_hold *held = sim_held_find(worker, op->lock);
    check_answer(worker, RESULT_OK, 0, (uint64_t)value->integer);
    if (held != NULL) {
        held->count = (uint64_t)value->integer;
        if (held->count == 0) {
            held->is_there = false;
        }
    }
    if (value->integer == 0) {
        worker->dirty_lock = 0;
    }
}

static void check_cancelled(struct worker *worker,
                            const struct resp_value *value)
{
    /* A conversion that came too late answers 0, and keeps the token as
     * well. */
    struct op *op = &worker->op;
    struct past_result past = {.token = 0};
    sim_history_result(sim_check_history(worker->client->sim),
                       worker->client->session, op->req, &past);
    check_answer(worker, RESULT_OK, past.token, (uint64_t)value->integer);
}

/* A read sees everything that was committed when the request was sent, and
 * nothing later than the present state. */
static void take_shown(struct worker *worker)
{
    struct sim *sim = worker->client->sim;
    const struct resp_reply *reply = &worker->channel.reply;
    const struct resp_value *holders = resp_find(reply, 0, "holders");
    uint64_t from = worker->channel.sent_newest;
    uint64_t to = sim_check_newest(sim);
    struct bytes name = sim_lock_bytes(worker->op.lock);
    sim->stats.reads++;
    sim_users_read(sim, worker->client->host.name, &worker->channel.wire->shown,
                   name, READS_LOCK, from, to);
    if (holders == NULL || holders->type != RESP_ARRAY) {
        sim_fail(sim, ORACLE_READS, "SHOW answers a map with holders");
        return;
    }
    if (holders->count == 0 &&
        sim_history_taken_always(sim_check_history(sim), name, from, to)) {
        sim_fail(sim, ORACLE_READS,
                 "reads are linearizable: %s was shown '%s' without "
                 "holders between entries %" PRIu64 " and %" PRIu64,
                 worker->client->host.name, sim_lock_name(worker->op.lock),
                 from, to);
    }
    sim_shown_lock(&worker->channel, worker->client->host.name, name);
    uint32_t at = (uint32_t)(holders - reply->value) + 1;
    for (uint32_t i = 0; i < holders->count; i++) {
        const struct resp_value *token = resp_find(reply, at, "token");
        if (token == NULL ||
            !sim_history_held_sometime(sim_check_history(sim), name,
                                       (uint64_t)token->integer, from, to)) {
            sim_fail(sim, ORACLE_READS,
                     "reads are linearizable: %s was shown a holder of "
                     "'%s' that was none between entries %" PRIu64
                     " and %" PRIu64,
                     worker->client->host.name, sim_lock_name(worker->op.lock),
                     from, to);
        }
        at += reply->value[at].span;
    }
}

static void take_ok(struct worker *worker)
{
    const struct resp_value *value = &worker->channel.reply.value[0];
    switch (worker->op.kind) {
    case ASK_ACQUIRE:
        take_acquired(worker, value);
        break;
    case ASK_RELEASE:
        take_released(worker, value);
        break;
    case ASK_CANCEL:
        check_cancelled(worker, value);
        worker->has_cancelled |= worker->op.owner == worker->number;
        break;
    case ASK_SHOW:
        take_shown(worker);
        break;
    case ASK_ADMIN:
        sim_admin_take(worker->client->sim, &worker->op, value);
        break;
    default:
        break;
    }
    op_ends(worker);
}

static bool is_word(const char *word, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(word, *words) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_disk_full(struct bytes text)
{
    return bytes_has_prefix(text, BYTES_LITERAL("LIMIT disk"));
}

/* The client believed that it held the lock, and it does not hold it. */
static void take_not_held(struct worker *worker)
{
    struct op *op = &worker->op;
    if (op->was_believed && (!op->is_uncertain || op->req != 0)) {
        sim_fail(worker->client->sim, ORACLE_HOLDS,
                 "a client that believes in a hold has it: %s.%s releases '%s' "
                 "and gets NOTHELD",
                 worker->client->host.name, worker->tag,
                 sim_lock_name(op->lock));
    }
    struct rogue_hold *held = sim_held_find(worker, op->lock);
    if (held != NULL) {
        held->is_there = false;
    }
    worker->dirty_lock = 0;
}

static void clean_up(struct worker *worker, uint32_t lock)
{
    worker->dirty_lock = lock + 1;
    worker->has_cancelled = false;
}

/* The outcome is unknown: the lock will be released to be sure. */
void sim_answer_never_comes(struct worker *worker)
{
    struct op *op = &worker->op;
    if (op->kind == ASK_ACQUIRE || op->kind == ASK_RELEASE) {
        struct rogue_hold *held = sim_held_find(worker, op->lock);
        if (held != NULL) {
            held->is_over = true;
        }
        clean_up(worker, op->lock);
        worker->has_lost = true;
    }
    op_ends(worker);
}

/* A request that has taken effect gets its first answer again, whatever the
 * leader cannot do at present. Otherwise nobody would give the lock back. */
static void check_not_done(struct worker *worker, const char *word)
{
    struct op *op = &worker->op;
    struct past_result past = {.token = 0};
    if (op->req != 0 &&
        sim_history_result(sim_check_history(worker->client->sim),
                           worker->client->session, op->req, &past) &&
        past.first_index <= worker->channel.sent_newest) {
        sim_fail(worker->client->sim, ORACLE_RESULTS,
                 "a numbered request takes effect once: %s.%s got %s for REQ "
                 "%" PRIu64 ", which is that of entry %" PRIu64,
                 worker->client->host.name, op->tag, word, op->req,
                 past.first_index);
    }
}

/* The answer says that nothing was done. True if the operation ends here:
 * another request follows. */
static bool is_left_undone(struct worker *worker, const char *word)
{
    struct sim_client *client = worker->client;
    struct op *op = &worker->op;
    char value[32];
    struct sim_request request = {
        .session = client->session, .req = op->req, .value = value};
    snprintf(value, sizeof value, "%" PRIu64, op->value);
    if (op->req != 0) {
        request.kind = 'n';
        value[0] = '\0';
    } else if (op->value != 0) {
        request.kind = 'v';
    }
    bool leaves = op->kind == ASK_ACQUIRE && sim_chance(client->sim, 0.3);
    if (op->is_uncertain ||
        !sim_promises_told(sim_history_promises(sim_check_history(client->sim)),
                           client->host.name, word, &request, leaves)) {
        return false;
    }
    op_ends(worker);
    return true;
}

/* A request that gives back is not refused, neither for lack of room nor
 * because of its user. */
static void check_gives_back(const struct worker *worker, const char *word)
{
    static const char *const never[] = {"LIMIT", "DEADLOCK", "BLACKLISTED",
                                        "NOPERM", NULL};
    const struct op *op = &worker->op;
    if ((op->kind == ASK_RELEASE || op->kind == ASK_CANCEL) &&
        is_word(word, never)) {
        sim_fail(worker->client->sim, ORACLE_REFUSALS,
                 "a release is never refused: %s.%s releases '%s' and gets %s",
                 worker->client->host.name, op->tag, sim_lock_name(op->lock),
                 word);
    }
}

/* The client lacks a right, or has no rights at all. It does not learn the
 * result of an earlier, unanswered request. */
static void take_denied(struct worker *worker, const char *word)
{
    struct op *op = &worker->op;
    bool is_nobody = strcmp(word, "NOPERM") != 0;
    if (op->kind == ASK_ACQUIRE && op->is_uncertain && is_nobody) {
        clean_up(worker, op->lock);
    }
    op_ends(worker);
    if (is_nobody) {
        sim_channel_close(&worker->channel);
    }
}

static void take_error(struct worker *worker, const char *word)
{
    static const char *const later[] = {"NOLEADER", "BUSY", "MOVED", NULL};
    static const char *const ended[] = {"EXPIRED", "NOSESSION", NULL};
    const struct resp_value *value = &worker->channel.reply.value[0];
    static const char *const refused[] = {"DEADLOCK", "LIMIT", "BLACKLISTED",
                                          NULL};
    struct sim_client *client = worker->client;
    struct sim *sim = client->sim;
    struct op *op = &worker->op;
    sim_say(sim, &client->host, "op of %s answered %s", worker->tag, word);
    check_gives_back(worker, word);
    if (op->kind == ASK_ADMIN) {
        op_ends(worker);
    } else if (is_word(word, later) || is_disk_full(value->bytes)) {
        if (is_disk_full(value->bytes)) {
            check_not_done(worker, word);
        }
        (void)is_left_undone(worker, word);
        sim_channel_later(&worker->channel, sim_between(sim, 10, 300) * SIM_MS);
        if (strcmp(word, "BUSY") != 0) {
            sim_channel_close(&worker->channel);
        }
    } else if (is_word(word, ended)) {
        if (sim_history_ended(sim_check_history(sim), client->session) != 0) {
            lease_refused(&client->lease);
            sim_rogue_lose(client, word);
        } else if (strcmp(word, "EXPIRED") == 0) {
            sim_fail(sim, ORACLE_REFUSALS,
                     "a refusal reflects committed state: %s got %s, and "
                     "session %" PRIu64 " lives",
                     client->host.name, word, client->session);
        } else {
            sim_channel_close(&worker->channel);
        }
    } else if (strcmp(word, "UNKNOWN") == 0) {
        sim->stats.unknowns++;
        op->is_uncertain = true;
        if (op->req == 0) {
            sim_answer_never_comes(worker);
        } else {
            sim_channel_later(&worker->channel,
                              sim_between(sim, 10, 300) * SIM_MS);
        }
    } else if (strcmp(word, "NOTHELD") == 0 && op->kind != ASK_NOTE) {
        take_not_held(worker);
        op_ends(worker);
    } else if (sim_users_is_refusal(word)) {
        take_denied(worker, word);
    } else if (is_word(word, refused) || op->kind == ASK_NOTE) {
        op_ends(worker);
    } else if (strcmp(word, "BADARG") == 0 && worker->has_lost &&
               op->kind == ASK_ACQUIRE) {
        /* A lost request without a number is in the queue by now. */
        clean_up(worker, op->lock);
        op_ends(worker);
    } else {
        sim_fail(sim, ORACLE_REFUSALS,
                 "errors are those of the contract: %s.%s got '%.*s'",
                 client->host.name, worker->tag, (int)value->bytes.size,
                 (const char *)value->bytes.data);
    }
}

void sim_answer_take(struct worker *worker)
{
    struct sim_client *client = worker->client;
    char word[32];
    sim_channel_error(&worker->channel, word);
    if (worker->channel.attached != client->session) {
        if (word[0] == '\0') {
            worker->channel.attached = client->session;
        } else {
            sim_channel_close(&worker->channel);
        }
    } else if (word[0] == '\0') {
        take_ok(worker);
    } else {
        take_error(worker, word);
    }
}
