/* SPDX-License-Identifier: MIT */

/* What programs learn from the machine, checked against the history: grants and
 * refusals, pushes, events, heartbeats. */

#include <inttypes.h>
#include <string.h>

#include "tests/sim/sim_check.h"
#include "tests/sim/sim_history.h"
#include "tests/sim/sim_lives.h"
#include "tests/sim/sim_program.h"
#include "tests/sim/sim_promise.h"

static struct sim_history *history_of(const struct sim_program *program)
{
    return sim_check_history(program->sim);
}

static const char *name_of(const struct sim_program *program)
{
    return program->client->host.name;
}

/* --- Calls ---------------------------------------------------------------- */

/* The log's result of a numbered call that ended with 'code'. */
static void expect_result(const struct sim_caller *caller,
                          enum result_code code)
{
    const struct sim_program *program = caller->program;
    struct past_result past = {.code = RESULT_OK};
    bool is_there = sim_history_result(history_of(program), program->session,
                                       caller->number_of_call, &past);
    if (!is_there || past.code != code) {
        sim_fail(program->sim, ORACLE_RESULTS,
                 "an answer reflects committed state: t%u of %s got code %d "
                 "for REQ %" PRIu64 ", the log has %s %d",
                 caller->number, name_of(program), (int)code,
                 caller->number_of_call, is_there ? "code" : "nothing",
                 (int)past.code);
    } else if (past.first_index <= caller->newest) {
        sim_fail(program->sim, ORACLE_RESULTS,
                 "an effect follows its cause: REQ %" PRIu64 " of t%u of %s "
                 "took effect before it was asked",
                 caller->number_of_call, caller->number, name_of(program));
    }
}

/* A grant is reported once, except to an owner with a name, who may get it
 * again. */
static void expect_grant(const struct sim_caller *caller,
                         const struct hasp_hold *hold)
{
    const struct sim_program *program = caller->program;
    expect_result(caller, RESULT_OK);
    for (size_t i = 0; i < hold->count; i++) {
        uint32_t told = sim_history_tell_grant(
            history_of(program), bytes_of_text(hold->held[i].name),
            program->session, bytes_of_text(hold->owner->tag),
            hold->held[i].token);
        if (told == 0 || (told > 1 && hold->owner->is_private)) {
            sim_fail(program->sim, ORACLE_RESULTS,
                     "a grant is that of the log, reported once: %s.%s got "
                     "token %" PRIu64 " of '%s' %u times%s",
                     name_of(program), hold->owner->tag, hold->held[i].token,
                     hold->held[i].name, told == 0 ? 1 : told,
                     told == 0 ? ", the log has none" : "");
        }
    }
}

/* For a lock reported as not free: it was taken, closed or waited for at some
 * moment since the request; of several locks, one was. */
static void expect_not_free(const struct sim_caller *caller)
{
    struct sim *sim = caller->program->sim;
    uint64_t newest = sim_check_newest(sim);
    bool is_one_there = caller->kind != CALL_ACQUIRE;
    for (uint32_t i = 0; i < caller->count; i++) {
        is_one_there |= sim_lives_sometime(sim_check_lives(sim),
                                           sim_lock_bytes(caller->lock[i]),
                                           caller->newest, newest);
    }
    if (!is_one_there) {
        sim_fail(sim, ORACLE_REFUSALS,
                 "a try fails only if the lock is not free: t%u of %s got so "
                 "of '%s', which nobody held between entries %" PRIu64
                 " and %" PRIu64,
                 caller->number, name_of(caller->program),
                 sim_lock_name(caller->lock[0]), caller->newest, newest);
    }
}

/* The refusal says that it was not done: then the log does not contain it. A
 * release continues without its caller until it is done. */
static void expect_nothing(const struct sim_caller *caller, bool is_for_ever)
{
    const struct sim_program *program = caller->program;
    struct past_result past;
    if (caller->number_of_call == 0 || caller->kind == CALL_RELEASE) {
        return;
    }
    if (is_for_ever) {
        struct sim_request request = {.kind = 'n',
                                      .session = program->session,
                                      .req = caller->number_of_call,
                                      .value = ""};
        (void)sim_promises_told(sim_history_promises(history_of(program)),
                                name_of(program), caller->call.why, &request,
                                true);
    } else if (sim_history_result(history_of(program), program->session,
                                  caller->number_of_call, &past) &&
               past.code == RESULT_OK) {
        sim_fail(program->sim, ORACLE_REFUSALS,
                 "a refusal is true: t%u of %s got '%s' for REQ %" PRIu64
                 ", which entry %" PRIu64 " has done",
                 caller->number, name_of(program), caller->call.why,
                 caller->number_of_call, past.first_index);
    }
}

static bool was_taken(const struct sim_caller *caller)
{
    bool is_taken = false;
    for (uint32_t i = 0; i < caller->count; i++) {
        is_taken |= sim_history_taken(history_of(caller->program),
                                      sim_lock_bytes(caller->lock[i]),
                                      caller->program->session,
                                      (struct bytes){NULL, 0}, 0) != 0;
    }
    return is_taken;
}

static void expect_not_held(const struct sim_caller *caller)
{
    if (caller->was_believed && !was_taken(caller)) {
        sim_fail(caller->program->sim, ORACLE_HOLDS,
                 "a client that believes in a hold has it: t%u of %s believed "
                 "in '%s' and gets NOTHELD",
                 caller->number, name_of(caller->program),
                 sim_lock_name(caller->lock[0]));
    }
}

/* A read sees everything that was committed when it was sent, and nothing later
 * than the present state. */
static void expect_read(const struct sim_caller *caller)
{
    struct sim *sim = caller->program->sim;
    struct sim_history *history = history_of(caller->program);
    struct bytes name = sim_lock_bytes(caller->lock[0]);
    uint64_t from = caller->newest, to = sim_check_newest(sim);
    bool is_wrong = caller->call.number == 1
                        ? !sim_history_held_sometime(history, name,
                                                     caller->token, from, to)
                        : sim_history_held_always(history, name, caller->token,
                                                  from, to);
    sim->stats.reads++;
    sim_users_read(sim, name_of(caller->program), &caller->program->line->who,
                   name, READS_LOCK, from, to);
    if (is_wrong) {
        sim_fail(sim, ORACLE_READS,
                 "reads are linearizable: %s got %" PRIu64 " for token "
                 "%" PRIu64 " of '%s' between entries %" PRIu64 " and %" PRIu64,
                 name_of(caller->program), caller->call.number, caller->token,
                 sim_lock_name(caller->lock[0]), from, to);
    }
}

/* The request was sent in this life, with a token of another. */
static bool is_of_former_life(const struct sim_caller *caller)
{
    const struct sim *sim = caller->program->sim;
    return caller->token < sim_check_token_base(sim) &&
           sim_check_life_at(sim, caller->newest) == sim->life;
}

static void expect_admission(const struct sim_caller *caller)
{
    struct sim *sim = caller->program->sim;
    uint32_t lock = caller->lock[0];
    if (is_of_former_life(caller)) {
        if (caller->call.number == 1) {
            sim_fail(sim, ORACLE_LIVES,
                     "tokens of a former life are not admitted: %s was let in "
                     "at '%s' with %" PRIu64,
                     name_of(caller->program), sim_lock_name(lock),
                     caller->token);
        }
    } else if (caller->call.number == 1) {
        if (caller->token < caller->floor) {
            sim_fail(sim, ORACLE_READS,
                     "a fence lets nothing older in: token %" PRIu64
                     " of '%s' after %" PRIu64,
                     caller->token, sim_lock_name(lock), caller->floor);
        }
        if (sim->fence_admitted[lock] < caller->token) {
            sim->fence_admitted[lock] = caller->token;
        }
    } else if (caller->token >= sim->fence_asked[lock] &&
               caller->token >= sim_check_token_base(sim)) {
        sim_fail(sim, ORACLE_READS,
                 "a fence lets the newest in: token %" PRIu64 " of '%s'",
                 caller->token, sim_lock_name(lock));
    }
}

static void told_good(const struct sim_caller *caller)
{
    switch (caller->kind) {
    case CALL_ACQUIRE:
        expect_grant(caller, caller->call.hold);
        break;
    case CALL_CONVERT:
        expect_result(caller, RESULT_OK);
        break;
    case CALL_RELEASE:
    case CALL_NOTE:
        expect_result(caller, RESULT_OK);
        break;
    case CALL_CHECK:
        expect_read(caller);
        break;
    case CALL_ADMIT:
        expect_admission(caller);
        break;
    case CALL_PLEASE:
    case CALL_TAKE:
    case CALL_BREAK:
    case CALL_BLACKLIST:
    case CALL_NONE:
        break;
    }
}

/* Nothing was done, for lack of a right; a request that gives back needs
 * none. */
static void expect_denied(const struct sim_caller *caller)
{
    const struct sim_program *program = caller->program;
    struct bytes why = bytes_of_text(caller->call.why);
    if (!sim_users_are_told(program->sim, &program->line->was, why,
                            caller->newest, program->line->was_accepted)) {
        sim_users_told(program->sim, name_of(program), &program->line->who, why,
                       caller->newest, program->line->accepted);
    }
    expect_nothing(caller, false);
    if (caller->kind == CALL_RELEASE &&
        bytes_has_prefix(why, BYTES_LITERAL("NOPERM"))) {
        sim_fail(program->sim, ORACLE_REFUSALS,
                 "a release is never refused: t%u of %s got %s", caller->number,
                 name_of(program), caller->call.why);
    }
}

/* Answers that only these commands get. */
static bool is_understood(const struct sim_caller *caller)
{
    int error = caller->call.error;
    switch (caller->kind) {
    case CALL_ADMIT: /* The token is of a hold that was never granted. */
        return error == HASP_EINVALID;
    case CALL_BREAK: /* Somebody else has it by now, with a lease. */
        return error == HASP_EINVALID &&
               strstr(caller->call.why, "no such hold is durable") != NULL;
    default:
        return false;
    }
}

void sim_told_call(struct sim_caller *caller)
{
    const struct client_call *call = &caller->call;
    switch (call->error) {
    case 0:
        told_good(caller);
        break;
    case HASP_NOT_ACQUIRED:
        expect_result(caller, RESULT_NOT_ACQUIRED);
        expect_not_free(caller);
        break;
    case HASP_ENOTHELD:
        expect_not_held(caller);
        break;
    case HASP_ECONNECT:
    case HASP_ENOTLEADER:
    case HASP_EBUSY:
        expect_nothing(caller, true);
        break;
    case HASP_EFULL:
    case HASP_EDEADLOCK:
    case HASP_EBLACKLISTED:
        expect_nothing(caller, false);
        if (caller->kind == CALL_RELEASE) {
            sim_fail(caller->program->sim, ORACLE_REFUSALS,
                     "a release is never refused: t%u of %s got %s",
                     caller->number, name_of(caller->program), call->why);
        }
        break;
    case HASP_EREFUSED:
        expect_denied(caller);
        break;
    case HASP_EUNKNOWN:
        caller->program->sim->stats.unknowns++;
        break;
    case HASP_EINTR:
        if (!caller->is_interrupted) {
            sim_fail(caller->program->sim, ORACLE_REFUSALS,
                     "EINTR ends only interrupted calls: t%u of %s was not",
                     caller->number, name_of(caller->program));
        }
        break;
    case HASP_ELOST:
        break; /* sim_told_lease() has checked that. */
    default:
        if (is_understood(caller)) {
            break;
        }
        sim_fail(caller->program->sim, ORACLE_REFUSALS,
                 "errors are those of the contract: t%u of %s got %d, %s",
                 caller->number, name_of(caller->program), call->error,
                 call->why);
        break;
    }
}

/* --- The session ---------------------------------------------------------- */

void sim_told_event(struct sim_program *program, const struct hasp_event *event)
{
    struct sim *sim = program->sim;
    sim_note(sim, &program->client->host, "event", (uint64_t)event->kind,
             event->token, program->session);
    sim_say(sim, &program->client->host, "event: %s %s", event->name,
            event->text);
    for (uint32_t i = 0; i < program->caller_count; i++) {
        sim_caller_lost(&program->caller[i], event);
    }
    bool trusts = sim_program_trusts(program);
    /* A message for a person, or a request to release a lock, changes no
     * belief. */
    bool is_of_belief = event->kind != HASP_EVENT_PLEASE &&
                        event->kind != HASP_EVENT_NOTICE;
    bool is_of_session = event->token == 0;
    if (is_of_session && is_of_belief &&
        trusts != (event->kind == HASP_EVENT_SAFE)) {
        sim_fail(sim, ORACLE_LEASES,
                 "events report what to believe: %s got %d, and %s",
                 name_of(program), (int)event->kind,
                 trusts ? "trusts" : "does not trust");
    }
    if (event->kind == HASP_EVENT_LOST && !is_of_session &&
        strcmp(event->text, "max hold") != 0 &&
        sim_history_holds(history_of(program), bytes_of_text(event->name),
                          program->session, event->token)) {
        sim_fail(sim, ORACLE_HOLDS,
                 "only ended holds are reported lost: %s was informed that "
                 "'%s' with token %" PRIu64 " has ended",
                 name_of(program), event->name, event->token);
    }
}

/* After the heartbeat there is no belief in a hold that ended before it was
 * sent. */
static void expect_untaken(void *data, const struct sim_belief *belief)
{
    struct sim_program *program = data;
    uint64_t index = sim_history_taken(
        history_of(program), sim_lock_bytes(belief->lock), belief->session,
        bytes_of_text(belief->tag), belief->token);
    if (index != 0 && sim_program_has_heard(program, index)) {
        sim_fail(program->sim, ORACLE_HOLDS,
                 "a client that believes in a hold has it: %s.%s believes in "
                 "'%s' with token %" PRIu64 ", which entry %" PRIu64
                 " had taken before its heartbeat left",
                 name_of(program), belief->tag, sim_lock_name(belief->lock),
                 belief->token, index);
    }
}

/* A heartbeat (at first the OPEN) that was sent at 'sent' was answered OK. */
static void told_kept(struct sim_program *program, struct lease_clock sent,
                      uint64_t newest)
{
    struct sim *sim = program->sim;
    struct sim_history *history = history_of(program);
    const struct lease *lease = &program->machine.lease;
    uint64_t session = program->machine.credentials.session;
    uint64_t ended = sim_history_ended(history, session);
    sim->stats.beats++;
    program->told_newest = newest;
    sim_program_beliefs(program, expect_untaken, program);
    sim_hoard_kept(&program->hoard);
    program->client->progress++;
    sim_note(sim, &program->client->host, "kept", session, 0, 0);
    sim_users_kept(sim, name_of(program), &program->line->who, newest,
                   newest == 0 ? 0 : program->asked_applied);
    if (!sim_history_opened(history, session)) {
        sim_fail(sim, ORACLE_RESULTS,
                 "an answer reflects committed state: %s got session %" PRIu64,
                 name_of(program), session);
    }
    sim_history_beat(
        history, session,
        sim_clock_when(&program->client->host.clock, sent.boottime_ns),
        lease->ttl_ns / SIM_MS, lease->linger_ns / SIM_MS);
    if (ended != 0 && ended <= newest) {
        sim_fail(
            sim, ORACLE_DEATH,
            "dead stays dead: %s got OK for a heartbeat of session %" PRIu64
            ", which entry %" PRIu64 " had ended before it was sent",
            name_of(program), session, ended);
    }
    /* No lease ends before a session without one does. */
    if (ended != 0 && !program->is_durable &&
        !sim_history_dropped(history, session) && sim_program_trusts(program)) {
        sim_fail(sim, ORACLE_LEASES,
                 "the client ends first: %s got OK and trusts session %" PRIu64
                 ", which entry %" PRIu64 " has ended",
                 name_of(program), session, ended);
    }
}

void sim_told_lease(struct sim_program *program, const struct lease *before)
{
    const struct lease *lease = &program->machine.lease;
    struct lease was = *before;
    if (lease->is_granted &&
        lease->sent.boottime_ns != program->kept.boottime_ns) {
        bool is_first = program->kept.boottime_ns == 0;
        program->kept = lease->sent;
        told_kept(program, is_first ? lease->sent : program->asked,
                  is_first ? 0 : program->asked_newest);
    }
    if (lease->is_lost && !before->is_lost && before->is_granted &&
        lease_check(&was, sim_client_clock(program->client)) != LEASE_LOST &&
        sim_history_ended(history_of(program), program->session) == 0) {
        sim_fail(program->sim, ORACLE_REFUSALS,
                 "a refusal reflects committed state: %s takes session %" PRIu64
                 " as lost, which lives",
                 name_of(program), program->session);
    }
}

void sim_told_rest(struct sim_program *program)
{
    uint64_t session = program->session;
    if (!sim_program_trusts(program)) {
        return;
    }
    const char *left = sim_history_left(history_of(program), session);
    if (left != NULL) {
        sim_fail(program->sim, ORACLE_HOLDS,
                 "a released lock is not held: %s has released everything, and "
                 "session %" PRIu64 " has '%s'",
                 name_of(program), session, left);
    }
}
