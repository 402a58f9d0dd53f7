/* SPDX-License-Identifier: MIT */

/* What is told over HTTP: /healthz, /readyz, and the numbers of /metrics. */

#include "node/monitor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "lockfsm/feature.h"
#include "net/http.h"
#include "node/node.h"
#include "storage/disk_watch.h"
#include "storage/wal.h"

static bool disk_hangs(struct buffer *reason)
{
    const char *what = NULL;
    uint64_t hangs_ns = disk_watch_oldest(&what);
    if (hangs_ns < DISK_HANGS_NS) {
        return false;
    }
    buffer_printf(reason, "disk hangs since %.1f s (%s)\n",
                  (double)hangs_ns / (double)NS_PER_S, what);
    return true;
}

/* A node in quarantine, or without room, serves: who asks is told. */
static void put_ready(const struct hasp_node *node, struct buffer *reason)
{
    if (node->journal.is_full) {
        buffer_put_text(reason, core_is_serving(node->core)
                                    ? "; changes are refused: the disk is "
                                      "nearly full"
                                    : "; the disk is nearly full");
    }
    uint64_t left_ms = core_quarantine_ms(node->core);
    if (left_ms > 0) {
        buffer_printf(reason,
                      "; quarantine after a restore: nothing is granted for "
                      "another %" PRIu64 " s",
                      (left_ms + 999) / 1000);
    }
    buffer_put_text(reason, "\n");
}

static bool is_ready(const struct hasp_node *node, struct buffer *reason)
{
    if (node->turn.is_stopping) {
        buffer_put_text(reason, "stopping\n");
        return false;
    }
    if (turn_is_over(&node->turn)) {
        buffer_put_text(reason, "about to end: see its log\n");
        return false;
    }
    if (!node->has_begun) {
        char missing[128];
        founding_missing(&node->founding, missing, sizeof missing);
        buffer_printf(reason, "waiting for members %s to found the cluster\n",
                      missing);
        return false;
    }
    if (core_is_barred(node->core)) {
        buffer_put_text(reason,
                        "barred: another member says that this one has lost "
                        "what it had acknowledged\n");
        return false;
    }
    uint64_t leader = replica_leader(core_replica(node->core));
    if (core_is_serving(node->core)) {
        if (disk_hangs(reason)) {
            return false;
        }
        buffer_put_text(reason, "ok, leader");
        put_ready(node, reason);
        return true;
    }
    if (leader == 0) {
        buffer_put_text(reason, "no leader is known\n");
        return false;
    }
    if (leader == node->options.id) {
        buffer_put_text(reason, "leader, not serving yet\n");
        return false;
    }
    if (!peers_is_up(node->members.peers, leader)) {
        buffer_printf(reason,
                      "no connection with the leader, member %" PRIu64 "\n",
                      leader);
        return false;
    }
    if (lag_is_long(&node->monitor.lag, turn_now())) {
        buffer_printf(reason,
                      "behind: applied %" PRIu64 " of %" PRIu64 " entries\n",
                      lockfsm_applied_index(core_state(node->core)),
                      replica_known_commit(core_replica(node->core)));
        return false;
    }
    if (disk_hangs(reason)) {
        return false;
    }
    buffer_printf(reason, "ok, follower of %" PRIu64, leader);
    put_ready(node, reason);
    return true;
}

static void head(struct buffer *out, const char *name, const char *type,
                 const char *help)
{
    buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void counter(struct buffer *out, const char *name, const char *help,
                    uint64_t value)
{
    head(out, name, "counter", help);
    buffer_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void put_counts(const struct core_counts *counts, struct buffer *out)
{
    counter(out, "hasp_grants_total", "Locks granted.", counts->grants);
    counter(out, "hasp_sessions_ended_total", "Sessions that have ended.",
            counts->sessions_ended);
    counter(out, "hasp_unclean_ends_total",
            "Holds that expired or outlasted their limit.",
            counts->unclean_ends);
    counter(out, "hasp_scrubbed_records_total",
            "Records looked at at rest, in memory and in the table.",
            counts->scrubbed);
    head(out, "hasp_refusals_total", "counter",
         "Requests refused because of a limit, or too much in flight.");
    buffer_printf(out, "hasp_refusals_total{word=\"LIMIT\"} %" PRIu64 "\n",
                  counts->limits);
    buffer_printf(out, "hasp_refusals_total{word=\"BUSY\"} %" PRIu64 "\n",
                  counts->busy);
}

static void gauge(struct buffer *out, const char *name, const char *help,
                  uint64_t value)
{
    head(out, name, "gauge", help);
    buffer_printf(out, "%s %" PRIu64 "\n", name, value);
}

static bool is_scarce(const struct hasp_node *node)
{
    return node->journal.is_full || node->journal.durable.writes.is_slow;
}

static void put_raft(const struct hasp_node *node, struct buffer *out)
{
    const struct replica *replica = core_replica(node->core);
    gauge(out, "hasp_raft_term", "Raft's current term.", replica_term(replica));
    gauge(out, "hasp_raft_leader", "Id of the leader, 0 if none is known.",
          replica_leader(replica));
    gauge(out, "hasp_raft_is_leader", "1 if this node leads.",
          replica_role(replica) == REPLICA_LEADER);
    gauge(out, "hasp_raft_is_serving",
          "1 if this node leads and answers requests.",
          core_is_serving(node->core));
    gauge(out, "hasp_takes_changes",
          "1 if this node leads and its disk has room: changes are taken.",
          core_is_serving(node->core) && !is_scarce(node));
    gauge(out, "hasp_raft_last_index", "Index of the newest entry of the log.",
          replica_last_index(replica));
    gauge(out, "hasp_raft_commit_index", "Index of the newest committed entry.",
          replica_commit_index(replica));
    gauge(out, "hasp_raft_known_commit_index",
          "The newest commit index that a leader has told.",
          replica_known_commit(replica));
    gauge(out, "hasp_raft_applied_index", "Index of the newest applied entry.",
          lockfsm_applied_index(core_state(node->core)));
    gauge(out, "hasp_raft_log_cache_bytes", "Payload of entries in memory.",
          replica_log_size(replica));
}

static void put_members(const struct hasp_node *node, struct buffer *out)
{
    int32_t ppm;
    head(out, "hasp_clock_rate_ppm", "gauge",
         "Millionths by which the peer's clock is faster than this node's.");
    for (uint32_t i = 0; node->has_begun && i < node->members.count; i++) {
        uint64_t id = node->members.link[i].id;
        if (!node->members.link[i].is_guest &&
            core_clock_ppm(node->core, id, &ppm)) {
            buffer_printf(
                out, "hasp_clock_rate_ppm{peer=\"%" PRIu64 "\"} %" PRId32 "\n",
                id, ppm);
        }
    }
    head(out, "hasp_member_up", "gauge",
         "1 if there is a connection with the member.");
    for (uint32_t i = 0; i < node->members.count; i++) {
        const struct member_link *link = &node->members.link[i];
        if (link->is_guest) {
            continue;
        }
        buffer_printf(out, "hasp_member_up{member=\"%" PRIu64 "\"} %d\n",
                      link->id, link->is_up);
    }
}

static void put_state(const struct hasp_node *node, struct buffer *out)
{
    const struct lockfsm *state = core_state(node->core);
    gauge(out, "hasp_sessions", "Open sessions.",
          HASH_CNT(by_id, lockfsm_sessions(state)));
    gauge(out, "hasp_locks", "Locks that are held, waited for or delayed.",
          HASH_CNT(by_name, lockfsm_locks(state)));
    gauge(out, "hasp_feature_level",
          "Up to which feature level this node understands entries.",
          FEATURE_LEVEL);
    gauge(out, "hasp_cluster_feature_level",
          "To which the cluster was raised, as far as is applied here.",
          lockfsm_feature_level(state));
    gauge(out, "hasp_quarantine_left_seconds",
          "Until anything is granted again after a restore; 0: no quarantine.",
          (core_quarantine_ms(node->core) + 999) / 1000);
    gauge(out, "hasp_state_agreed_index",
          "Index at which a majority had the same state, as the leader saw.",
          core_agreed_index(node->core));
    head(out, "hasp_limit", "gauge", "Limits of the cluster's state.");
    for (int key = 0; key < LIMIT_COUNT; key++) {
        buffer_printf(out, "hasp_limit{limit=\"%s\"} %" PRIu64 "\n",
                      limit_rules[key].name,
                      lockfsm_limit(state, (enum limit_key)key));
    }
    head(out, "hasp_limit_used", "gauge",
         "What is used of a limit, by the session or lock that has most.");
    for (int key = 0; key < LIMIT_COUNT; key++) {
        if (limit_is_bound((enum limit_key)key)) {
            continue;
        }
        buffer_printf(out, "hasp_limit_used{limit=\"%s\"} %" PRIu64 "\n",
                      limit_rules[key].name,
                      lockfsm_limit_use(state, (enum limit_key)key));
    }
    gauge(out, "hasp_state_dirty_records",
          "Records of the state that are not in the table yet.",
          lockfsm_dirty_count(state));
}

static void put_disk(const struct hasp_node *node, struct buffer *out)
{
    const struct journal *journal = &node->journal;
    uint64_t used, room;
    head(out, "hasp_log_write_seconds", "summary",
         "Durable writes of the log.");
    buffer_printf(out, "hasp_log_write_seconds_sum %.6f\n",
                  (double)journal->durable.writes.sum_ns / 1e9);
    buffer_printf(out, "hasp_log_write_seconds_count %" PRIu64 "\n",
                  journal->durable.writes.count);
    head(out, "hasp_log_write_seconds_max", "gauge",
         "The longest durable write since the start.");
    buffer_printf(out, "hasp_log_write_seconds_max %.6f\n",
                  (double)journal->durable.writes.max_ns / 1e9);
    gauge(out, "hasp_log_disk_bytes", "Size of the log on disk.",
          wal_disk_size(journal->durable.wal));
    gauge(out, "hasp_disk_free_bytes", "Room left for the data directory.",
          journal->free_size);
    gauge(out, "hasp_disk_is_scarce",
          "1 if changes are refused because the disk is full or hangs.",
          is_scarce(node));
    table_size(node->table, &used, &room);
    gauge(out, "hasp_table_bytes", "Size of the table on disk.", used);
    gauge(out, "hasp_table_room_bytes",
          "Address space reserved for the table; it grows by itself.", room);
    const char *what = "";
    uint64_t oldest_ns = disk_watch_oldest(&what);
    head(out, "hasp_disk_wait_seconds", "gauge",
         "How long the oldest operation under way has waited for the disk.");
    buffer_printf(out, "hasp_disk_wait_seconds{what=\"%s\"} %.1f\n", what,
                  (double)oldest_ns / (double)NS_PER_S);
    gauge(out, "hasp_snapshot_index", "Index of the newest snapshot.",
          node->archive.newest_index);
    gauge(out, "hasp_snapshot_bytes", "Size of the newest snapshot.",
          node->archive.newest_size);
}

static void put_tls(const struct hasp_node *node, struct buffer *out)
{
    int64_t days_node, days_ca;
    head(out, "hasp_tls_failures_total", "counter",
         "Connections without TLS although it is wanted, or with a bad "
         "certificate.");
    buffer_printf(out, "hasp_tls_failures_total{port=\"client\"} %" PRIu64 "\n",
                  node->clients.tls_failed_count);
    buffer_printf(out, "hasp_tls_failures_total{port=\"peer\"} %" PRIu64 "\n",
                  peers_tls_failed(node->members.peers));
    counter(out, "hasp_tls_reload_failures_total",
            "Changed certificates that were not taken.",
            node->certificates.failed_count);
    if (certificates_days_left(&node->certificates, &days_node, &days_ca)) {
        head(out, "hasp_tls_days_left", "gauge",
             "Days until a certificate of this node expires.");
        buffer_printf(out, "hasp_tls_days_left{what=\"node\"} %" PRId64 "\n",
                      days_node);
        buffer_printf(out, "hasp_tls_days_left{what=\"ca\"} %" PRId64 "\n",
                      days_ca);
    }
}

static void put_metrics(const struct hasp_node *node, struct buffer *out)
{
    struct buffer reason = {0};
    head(out, "hasp_build_info", "gauge", "The program's version.");
    buffer_printf(out, "hasp_build_info{version=\"%s\"} 1\n", HASP_VERSION);
    gauge(out, "hasp_node_id", "Id of this node in its cluster.",
          node->options.id);
    gauge(out, "hasp_ready", "1 if clients are served here.",
          is_ready(node, &reason));
    buffer_done(&reason);
    gauge(out, "hasp_connections", "Connections of clients.",
          node->clients.count);
    gauge(out, "hasp_connections_max",
          "Connections of clients that this node takes.",
          node->clients.count_max);
    counter(out, "hasp_connections_refused_total",
            "Connections refused because of a limit.",
            node->clients.refused_count);
    head(out, "hasp_connections_cut_total", "counter",
         "Connections that this node closed, by the reason.");
    for (int i = 0; i < CLIENTS_CUT_REASONS; i++) {
        buffer_printf(out,
                      "hasp_connections_cut_total{reason=\"%s\"} %" PRIu64 "\n",
                      clients_cut_reason[i], node->clients.cut_count[i]);
    }
    put_tls(node, out);
    counter(out, "hasp_requests_total", "Requests received from clients.",
            node->clients.request_count);
    counter(out, "hasp_loop_turns_total", "Turns of the event loop's core.",
            node->loop.turn_count);
    counter(out, "hasp_loop_stalls_total",
            "Times the event loop was away for longer than a tick.",
            node->loop.stall_count);
    if (node->has_begun) {
        put_raft(node, out);
        put_state(node, out);
        put_counts(core_counts(node->core), out);
    }
    put_members(node, out);
    put_disk(node, out);
}

void monitor_answer(struct monitor *monitor, const char *path,
                    struct http_reply *reply)
{
    if (monitor->node->has_begun) {
        monitor_note(monitor, monitor->node->core, turn_now());
    }
    if (strcmp(path, "/healthz") == 0) {
        buffer_put_text(&reply->body, "ok\n");
    } else if (strcmp(path, "/readyz") == 0) {
        reply->status = is_ready(monitor->node, &reply->body) ? 200 : 503;
    } else {
        CHECK(strcmp(path, "/metrics") == 0);
        reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
        put_metrics(monitor->node, &reply->body);
    }
}

void monitor_note(struct monitor *monitor, const struct core *core,
                  uint64_t now_ns)
{
    lag_note(&monitor->lag, replica_known_commit(core_replica(core)),
             lockfsm_applied_index(core_state(core)), now_ns);
}
