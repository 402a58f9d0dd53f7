/* SPDX-License-Identifier: MIT */

/* One turn of the core for all input, on libuv's loop; the timer; stalls; the
 * end. */

#include "node/loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/minmax.h"
#include "node/node.h"
#include "node/options.h"
#include "node/startup.h"

/* Time between housekeeping. */
#define TICK_NS NS_PER_S
/* Time for handing leadership over before a stop. */
#define STOP_NS (2 * NS_PER_S)
/* Time for clients' work in one iteration, beyond one request of each payer. */
#define ACCOUNT_NS (2 * NS_PER_MS)
/* Turns in one iteration before the sockets are polled again, and the time that
 * they may take: a leader that does not read is deposed. */
#define TURNS_MAX 8
#define TURNS_NS (5 * NS_PER_MS)

/* Reports the node's status to the host if it has changed. */
static void tell_status(struct hasp_node *node)
{
    char text[sizeof node->status_text];
    if (node->turn.is_stopping) {
        snprintf(text, sizeof text, "stopping");
    } else if (!node->has_begun) {
        char missing[64];
        founding_missing(&node->founding, missing, sizeof missing);
        snprintf(text, sizeof text, "waiting for members %s to found a cluster",
                 missing);
    } else if (core_is_barred(node->core)) {
        snprintf(text, sizeof text,
                 "barred: another member reports that this node lost data");
    } else {
        const struct replica *replica = core_replica(node->core);
        uint64_t leader = replica_leader(replica);
        if (replica_role(replica) == REPLICA_LEADER) {
            snprintf(text, sizeof text, "leader, term %" PRIu64 "%s",
                     replica_term(replica),
                     core_is_serving(node->core) ? "" : ", not serving yet");
        } else if (leader != 0) {
            snprintf(text, sizeof text,
                     "follower of %" PRIu64 ", term %" PRIu64, leader,
                     replica_term(replica));
        } else {
            snprintf(text, sizeof text, "no leader, term %" PRIu64,
                     replica_term(replica));
        }
    }
    if (strcmp(text, node->status_text) != 0) {
        memcpy(node->status_text, text, sizeof text);
        if (node->options.on_status != NULL) {
            node->options.on_status(node->options.status_data, text);
        }
    }
}

/* Reports a change of leader to the host at once. */
static void look_at_role(struct hasp_node *node)
{
    struct loop *loop = &node->loop;
    const struct replica *replica = core_replica(node->core);
    uint64_t leader = replica_leader(replica);
    uint64_t term = replica_term(replica);
    bool is_serving = core_is_serving(node->core);
    if (leader != loop->seen_leader || term != loop->seen_term ||
        is_serving != loop->seen_serving) {
        loop->seen_leader = leader;
        loop->seen_term = term;
        loop->seen_serving = is_serving;
        tell_status(node);
    }
}

static void end_stage(struct hasp_node *node, enum stage stage)
{
    loop_profile_end(&node->turn.loop_profile, stage, turn_now());
}

static void loop_turn(struct hasp_node *node, uint64_t now_ns)
{
    struct loop *loop = &node->loop;
    CHECK(!turn_is_over(&node->turn));
    loop->turn_count++;
    if (!node->has_begun) {
        startup_when_due(node, now_ns);
        if (!node->turn.has_failed) {
            peers_flush(node->members.peers);
            clients_flush(&node->clients);
        }
        /* A starting node may have read its table. */
        end_stage(node, STAGE_REST);
        return;
    }
    snapshot_store_report(&node->snapshot_store);
    loop->deadline_ns = core_turn(node->core, turn_read(&node->turn, now_ns),
                                  now_ns);
    if (turn_is_over(&node->turn)) {
        return; /* After a failure nothing may be sent. */
    }
    monitor_note(&node->monitor, node->core, now_ns);
    logins_turn(&node->logins, now_ns);
    audit_file_turn(&node->audit_file, now_ns);
    if (loop->deadline_ns <= now_ns) {
        loop->turn->is_due = true; /* The core has more to do. */
    }
    journal_start(&node->journal);
    if (turn_is_over(&node->turn)) {
        return;
    }
    look_at_role(node);
    peers_flush(node->members.peers);
    end_stage(node, STAGE_SEND);
    clients_flush(&node->clients);
    web_flush(&node->web);
    if (clients_have_resumed(&node->clients)) {
        end_stage(node, STAGE_REPLY);
        clients_resume(&node->clients);
        end_stage(node, STAGE_RECEIVE);
    }
}

static void on_stop(uv_async_t *stop)
{
    struct hasp_node *node = stop->data;
    struct loop *loop = &node->loop;
    uint64_t now = turn_now();
    if (loop->turn->is_stopping) {
        return;
    }
    loop->turn->is_stopping = true;
    tell_status(node);
    loop->stop_by_ns = now + STOP_NS;
    loop->turn->is_due = true;
    if (node->has_begun && !node->turn.has_failed) {
        clients_refuse(&node->clients);
        core_stop(node->core, now);
    }
}

static void on_reload(uv_async_t *reload)
{
    struct hasp_node *node = reload->data;
    if (!turn_is_over(&node->turn)) {
        certificates_reload(&node->certificates);
        audit_file_reopen(&node->audit_file);
        settings_reload(&node->settings);
    }
}

/* The account's units are microseconds. */
static uint64_t account_clock(void)
{
    return turn_now() / NS_PER_US;
}

void loop_open(struct hasp_node *node)
{
    struct loop *loop = &node->loop;
    account_init(&node->turn.account, ACCOUNT_NS / NS_PER_US, account_clock);
    *loop = (struct loop){.turn = &node->turn, .deadline_ns = UINT64_MAX};
    CHECK(uv_prepare_init(&node->uv, &loop->prepare) == 0);
    CHECK(uv_check_init(&node->uv, &loop->check) == 0);
    CHECK(uv_idle_init(&node->uv, &loop->idle) == 0);
    CHECK(uv_timer_init(&node->uv, &loop->timer) == 0);
    CHECK(uv_async_init(&node->uv, &loop->stop, on_stop) == 0);
    CHECK(uv_async_init(&node->uv, &loop->reload, on_reload) == 0);
    loop->reload.data = node;
    loop->prepare.data = node;
    loop->check.data = node;
    loop->timer.data = node;
    loop->stop.data = node;
}

/* Logs configured limits once, when the cluster's limits are known. */
static void tell_limits(struct hasp_node *node)
{
    if (node->has_logged_limits || !node->has_begun) {
        return;
    }
    const struct replica *replica = core_replica(node->core);
    const struct lockfsm *fsm = core_state(node->core);
    if (replica_leader(replica) != 0 && lockfsm_has_limits(fsm) &&
        lockfsm_applied_index(fsm) >= replica_known_commit(replica)) {
        node->has_logged_limits = true;
        options_tell_limits(&node->options, fsm);
    }
}

/* Logs that the table's thread has grown the table. */
static void tell_table(struct hasp_node *node)
{
    struct loop *loop = &node->loop;
    uint64_t used, room;
    if (!node->has_begun) {
        return;
    }
    table_size(node->table, &used, &room);
    if (room > loop->logged_room) {
        LOG_INFO("table grown", "bytes=%" PRIu64 " room=%" PRIu64, used, room);
    }
    loop->logged_room = room;
}

/* Warns at the start, and whenever users are no longer enforced. */
static void tell_users(struct hasp_node *node)
{
    bool is_unenforced = node->has_begun &&
                         core_users(node->core) == CORE_USERS_UNENFORCED;
    if (is_unenforced && !node->loop.has_logged_unenforced) {
        LOG_WARN("users are not enforced",
                 "reason=\"the peer port is plain\" hint=\"set tls.peer = "
                 "require, and insecure = no\"");
    }
    node->loop.has_logged_unenforced = is_unenforced;
}

static void loop_tick(struct hasp_node *node, uint64_t now_ns)
{
    tell_users(node);
    tell_limits(node);
    tell_table(node);
    if (node->options.on_alive != NULL) {
        node->options.on_alive(node->options.status_data);
    }
    clients_tick(&node->clients, now_ns);
    web_tick(&node->web, now_ns);
    certificates_tick(&node->certificates, now_ns);
    journal_tick(&node->journal, now_ns);
    settings_tick(&node->settings, now_ns);
    if (!node->turn.has_failed) {
        tell_status(node);
    }
}

static void look_for_end(struct hasp_node *node, uint64_t now_ns)
{
    struct loop *loop = &node->loop;
    if (!loop->turn->is_stopping || loop->turn->is_over) {
        return;
    }
    bool is_quiet = !node->has_begun || core_is_quiet(node->core);
    if (is_quiet || now_ns >= loop->stop_by_ns) {
        LOG_INFO("stopped", "handed_over=%s", is_quiet ? "yes" : "no");
        loop->turn->is_over = true;
        uv_stop(&node->uv);
    }
}

/* Records that the loop runs, and logs if it runs later than expected. */
static void note_alive(struct loop *loop, uint64_t expected_ns, uint64_t now_ns)
{
    if (stall_note(&loop->turn->stall, expected_ns, now_ns)) {
        LOG_WARN("loop stalled", "ms=%" PRIu64 " longest_stage=%s",
                 (now_ns - expected_ns) / NS_PER_MS,
                 loop_profile_longest(&loop->turn->loop_profile));
        loop->stall_count++;
    }
}

/* Serves clients that had to wait, as the account allows. */
static void serve_resting(struct hasp_node *node)
{
    struct turn *turn = node->loop.turn;
    if (account_has_resting(&turn->account) && !turn_is_over(turn)) {
        uint64_t now = turn_at_work(turn);
        account_serve(&turn->account, now);
        loop_profile_end(&turn->loop_profile, STAGE_RECEIVE, turn_now());
    }
}

static void run_turns(struct hasp_node *node)
{
    struct loop *loop = &node->loop;
    uint64_t now = turn_now();
    uint64_t by = now + TURNS_NS;
    loop_profile_begin(&loop->turn->loop_profile, now);
    for (int i = 0; i < TURNS_MAX && loop->turn->is_due && now < by; i++) {
        if (turn_is_over(&node->turn)) {
            return;
        }
        loop->turn->is_due = false;
        if (now >= loop->tick_ns) {
            loop->tick_ns = now + TICK_NS;
            loop_tick(node, now);
            end_stage(node, STAGE_REST);
        }
        if (now >= journal_next(&node->journal)) {
            journal_look(&node->journal, now);
        }
        if (turn_is_over(&node->turn)) {
            return; /* After a failure the core must not be called. */
        }
        loop_turn(node, now);
        if (turn_is_over(&node->turn)) {
            return;
        }
        look_for_end(node, now);
        journal_await(&node->journal, false);
        uint64_t after = turn_now();
        loop_profile_end(&loop->turn->loop_profile, STAGE_REPLY, after);
        note_alive(loop, now, after);
        histogram_note(&loop->turns, after - now);
        now = after;
    }
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

static void loop_on_timer(uv_timer_t *timer)
{
    struct hasp_node *node = timer->data;
    node->loop.armed_ns = 0;
    node->turn.is_due = true;
}

/* Sets the timer, or keeps the next poll from blocking. */
static void loop_arm(struct hasp_node *node, uint64_t now_ns)
{
    struct loop *loop = &node->loop;
    /* One timer for all deadlines: it is only set again if the earliest one has
     * changed. */
    uint64_t at = u64_min(loop->tick_ns, journal_next(&node->journal));
    at = u64_min(at, loop->deadline_ns);
    at = u64_min(at, web_due(&node->web));
    if (loop->turn->is_stopping) {
        at = u64_min(at, loop->stop_by_ns);
    }
    bool must_idle = loop->turn->is_due || stall_is_on(&loop->turn->stall) ||
                     account_has_resting(&loop->turn->account);
    if (!must_idle) {
        journal_await(&node->journal, true);
        must_idle = loop->turn->is_due;
    }
    if (must_idle != loop->is_idling) {
        loop->is_idling = must_idle;
        CHECK((must_idle ? uv_idle_start(&loop->idle, on_idle)
                         : uv_idle_stop(&loop->idle)) == 0);
    }
    if (at != loop->armed_ns) {
        uint64_t left_ms = at > now_ns
                               ? (at - now_ns + NS_PER_MS - 1) / NS_PER_MS
                               : 1;
        loop->armed_ns = at;
        uv_update_time(&node->uv);
        CHECK(uv_timer_start(&loop->timer, loop_on_timer, left_ms, 0) == 0);
    }
}

/* Timers and closed handles run before this, so a turn may be due. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct hasp_node *node = prepare->data;
    struct loop *loop = &node->loop;
    uint64_t now = turn_now();
    loop_profile_end(&loop->turn->loop_profile, STAGE_REST, now);
    note_alive(loop, loop->turn->stall.alive_ns, now);
    if (loop->turn->is_due) {
        run_turns(node);
    }
    account_begin(&loop->turn->account, loop->turn->read_ns);
    loop_arm(node, turn_now());
    loop_profile_sleep(&loop->turn->loop_profile);
}

/* The poll and its callbacks are done: all ready input was processed, or
 * rests. */
static void on_check(uv_check_t *check)
{
    struct hasp_node *node = check->data;
    struct loop *loop = &node->loop;
    uint64_t now = turn_now();
    uint64_t expected = loop->turn->stall.alive_ns;
    bool was_stalled = stall_is_on(&loop->turn->stall);
    if (!loop->is_idling && loop->armed_ns > expected) {
        /* The loop was allowed to sleep until then. */
        expected = loop->armed_ns;
    }
    loop_profile_end(&loop->turn->loop_profile, STAGE_RECEIVE, now);
    note_alive(loop, expected, now);
    if (was_stalled &&
        stall_pass(&loop->turn->stall, loop->turn->saw_more, now)) {
        /* Work that waited for the end of the stall can continue. */
        loop->turn->is_due = true;
    }
    loop->turn->saw_more = false;
    journal_await(&node->journal, false);
    serve_resting(node);
    if (loop->turn->is_due) {
        run_turns(node);
    }
}

void loop_run(struct hasp_node *node)
{
    struct loop *loop = &node->loop;
    uint64_t now = turn_now();
    stall_init(&loop->turn->stall, now);
    loop->turn->read_ns = now;
    loop->tick_ns = now + TICK_NS;
    loop->turn->is_due = true;
    CHECK(uv_prepare_start(&loop->prepare, on_prepare) == 0);
    CHECK(uv_check_start(&loop->check, on_check) == 0);
    uv_run(&node->uv, UV_RUN_DEFAULT);
}

void loop_close(struct hasp_node *node)
{
    struct loop *loop = &node->loop;
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_close((uv_handle_t *)&loop->idle, NULL);
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->stop, NULL);
    uv_close((uv_handle_t *)&loop->reload, NULL);
}
