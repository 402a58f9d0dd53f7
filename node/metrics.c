/* SPDX-License-Identifier: MIT */

/* The metrics, from the counters of the parts of a node. */

#include "node/metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/session/logins.h"
#include "lockfsm/feature.h"
#include "node/node.h"
#include "node/process.h"
#include "storage/disk_watch.h"
#include "storage/wal.h"

static void metrics_head(struct buffer *out, const char *name, const char *type,
                         const char *help)
{
    buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void metrics_counter(struct buffer *out, const char *name,
                            const char *help, uint64_t value)
{
    metrics_head(out, name, "counter", help);
    buffer_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void put_counts(const struct core_counts *counts, struct buffer *out)
{
    metrics_counter(out, "hasp_grants_total", "Locks granted.", counts->grants);
    metrics_counter(out, "hasp_sessions_ended_total",
                    "Sessions that have ended.", counts->sessions_ended);
    metrics_counter(out, "hasp_sessions_died_total",
                    "Sessions that a witness has ended, because their process "
                    "was dead.",
                    counts->sessions_died);
    metrics_counter(
        out, "hasp_deadlock_searches_given_up_total",
        "Waits queued without a complete search for deadlocks, because the "
        "search reached its bound.",
        counts->searches_given_up);
    metrics_counter(out, "hasp_unclean_ends_total",
                    "Holds that expired or outlasted their limit.",
                    counts->unclean_ends);
    metrics_counter(out, "hasp_scrubbed_records_total",
                    "Records checked by the scrub, in memory and in the table.",
                    counts->scrubbed);
    metrics_counter(
        out, "hasp_unknown_scripts_total",
        "EVAL and SCRIPT LOAD of scripts that hasp does not support.",
        counts->unknown_scripts);
    metrics_counter(
        out, "hasp_quota_refusals_total",
        "Requests of clients of this node that a quota of their user refused.",
        counts->over_quota);
    metrics_counter(out, "hasp_elections_won_total",
                    "Times this node has become the leader.", counts->elected);
    metrics_counter(out, "hasp_leader_changes_total",
                    "Changes of leader that this node has seen.",
                    counts->leaders);
    metrics_counter(out, "hasp_transfers_total",
                    "Leadership transfers started by this node.",
                    counts->transfers);
    metrics_counter(out, "hasp_backups_total",
                    "Backups that were read from this node to their end.",
                    counts->backups);
    metrics_head(
        out, "hasp_backup_age_seconds", "gauge",
        "Time since the newest of them; missing if there is none since "
        "the node started.");
    if (counts->backups > 0) {
        uint64_t age_ns = turn_now() - counts->backup_ns;
        buffer_printf(out, "hasp_backup_age_seconds %.1f\n",
                      (double)age_ns / (double)NS_PER_S);
    }
    metrics_counter(out, "hasp_transfers_failed_total",
                    "Leadership transfers started by this node that failed.",
                    counts->transfers_failed);
    metrics_head(out, "hasp_errors_total", "counter",
                 "Error answers to clients of this node, by error word.");
    for (uint32_t i = WORD_NONE + 1; i < CORE_WORD_COUNT; i++) {
        buffer_printf(out, "hasp_errors_total{word=\"%s\"} %" PRIu64 "\n",
                      core_words[i], counts->by_word[i]);
    }
}

/* 'label' is "", or a label followed by a comma. */
static void put_histogram(struct buffer *out, const char *name,
                          const char *label, const struct histogram *histogram)
{
    uint64_t count = 0;
    CHECK(label[0] == '\0' || label[strlen(label) - 1] == ',');
    for (uint32_t i = 0; i < HISTOGRAM_BOUND_COUNT; i++) {
        count += histogram->count[i];
        buffer_printf(out, "%s_bucket{%sle=\"%g\"} %" PRIu64 "\n", name, label,
                      (double)histogram_bound_us[i] / 1e6, count);
    }
    count += histogram->count[HISTOGRAM_BOUND_COUNT];
    buffer_printf(out, "%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, label,
                  count);
    /* The label in braces, without its comma, or nothing. */
    const char *open = label[0] != '\0' ? "{" : "";
    const char *close = label[0] != '\0' ? "}" : "";
    int size = (int)strlen(label) - (label[0] != '\0');
    buffer_printf(out, "%s_sum%s%.*s%s %.6f\n", name, open, size, label, close,
                  (double)histogram->sum_us / 1e6);
    buffer_printf(out, "%s_count%s%.*s%s %" PRIu64 "\n", name, open, size,
                  label, close, count);
}

static void put_times(const struct core *core, struct buffer *out)
{
    const struct core_counts *counts = core_counts(core);
    const struct histogram *times;
    const char *command;
    metrics_counter(out, "hasp_slow_requests_total",
                    "Requests that took at least node.slow_ms, without waits.",
                    core_slow_count(core));
    metrics_head(out, "hasp_wait_seconds", "histogram",
                 "Wait time of granted requests that had to wait.");
    put_histogram(out, "hasp_wait_seconds", "", &counts->wait);
    metrics_head(out, "hasp_hold_seconds", "histogram",
                 "Duration of holds that have ended.");
    put_histogram(out, "hasp_hold_seconds", "", &counts->hold);
    metrics_head(
        out, "hasp_replicate_seconds", "histogram",
        "From proposing a batch of entries until a majority has it on disk, "
        "at the leader.");
    put_histogram(out, "hasp_replicate_seconds", "", &counts->replicate);
    metrics_head(out, "hasp_commit_seconds", "histogram",
                 "From proposing an entry to applying it, at the leader.");
    put_histogram(out, "hasp_commit_seconds", "", &counts->commit);
    metrics_head(out, "hasp_request_seconds", "histogram",
                 "Durations of requests of this node's clients, with waits for "
                 "locks, by "
                 "command; only commands that were used.");
    for (uint32_t i = 0;
         (times = core_request_times(core, i, &command)) != NULL; i++) {
        char label[64];
        if (histogram_total(times) > 0) {
            snprintf(label, sizeof label, "command=\"%s\",", command);
            put_histogram(out, "hasp_request_seconds", label, times);
        }
    }
}

static void put_class_counts(const struct core *core, const char *name,
                             size_t offset, struct buffer *out)
{
    const struct core_class *class;
    for (uint32_t i = 0; (class = core_class(core, i)) != NULL; i++) {
        const char *at = (const char *)class + offset;
        buffer_printf(out, "%s{class=\"%s\"} %" PRIu64 "\n", name,
                      class->prefix, *(const uint64_t *)(const void *)at);
    }
}

static void put_class_times(const struct core *core, const char *name,
                            size_t offset, struct buffer *out)
{
    const struct core_class *class;
    for (uint32_t i = 0; (class = core_class(core, i)) != NULL; i++) {
        char label[sizeof class->prefix + 16];
        const char *at = (const char *)class + offset;
        snprintf(label, sizeof label, "class=\"%s\",", class->prefix);
        put_histogram(out, name, label,
                      (const struct histogram *)(const void *)at);
    }
}

/* The classes of metrics.class; their prefixes need no escapes. */
static void metrics_put_classes(const struct core *core, struct buffer *out)
{
    if (core_class(core, 0) == NULL) {
        return;
    }
    metrics_head(out, "hasp_class_grants_total", "counter",
                 "Locks granted, by class of names (metrics.class).");
    put_class_counts(core, "hasp_class_grants_total",
                     offsetof(struct core_class, grants), out);
    metrics_head(out, "hasp_class_waits_total", "counter",
                 "Requests that had to wait, by class of names.");
    put_class_counts(core, "hasp_class_waits_total",
                     offsetof(struct core_class, waits), out);
    metrics_head(out, "hasp_class_unclean_ends_total", "counter",
                 "Holds that expired or outlasted their limit, by class of "
                 "names.");
    put_class_counts(core, "hasp_class_unclean_ends_total",
                     offsetof(struct core_class, unclean_ends), out);
    metrics_head(out, "hasp_class_wait_seconds", "histogram",
                 "Wait time of granted requests that had to wait, by class of "
                 "names; their number is that of hand-overs.");
    put_class_times(core, "hasp_class_wait_seconds",
                    offsetof(struct core_class, wait), out);
    metrics_head(out, "hasp_class_hold_seconds", "histogram",
                 "Duration of holds that have ended, by class of names.");
    put_class_times(core, "hasp_class_hold_seconds",
                    offsetof(struct core_class, hold), out);
}

static void metrics_gauge(struct buffer *out, const char *name,
                          const char *help, uint64_t value)
{
    metrics_head(out, name, "gauge", help);
    buffer_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void put_login(void *data, const struct core_login *login)
{
    char ca[2 * 8 + 1] = "";
    bool is_certified = strcmp(login->by, "certificate") == 0;
    if (is_certified) {
        hex_put(ca, bytes_of(login->ca, sizeof ca / 2));
    }
    buffer_printf(data, "hasp_connections_by{by=\"%s\"", login->by);
    if (login->secret != 0) {
        buffer_printf(data, ",user=\"%s\",secret=\"%" PRIu64 "\"", login->user,
                      login->secret);
    } else if (is_certified) {
        buffer_printf(data, ",ca=\"%s\"", ca);
    }
    buffer_printf(data, "} %" PRIu32 "\n", login->count);
}

/* Rows beyond the bound are left out; hasp_connections has the total. */
static void put_logins(const struct core *core, struct buffer *out)
{
    metrics_head(
        out, "hasp_connections_by", "gauge",
        "Connections of clients by authentication: a user's secret, by its "
        "number, or a certificate, by the fingerprint of its CA.");
    (void)!core_logins(core, put_login, out);
}

static bool is_scarce(const struct hasp_node *node)
{
    return journal_disk(&node->journal) != CORE_DISK_OK;
}

static void put_raft(const struct hasp_node *node, struct buffer *out)
{
    char why[HASP_WHY_SIZE];
    const struct replica *replica = core_replica(node->core);
    metrics_gauge(out, "hasp_raft_term", "Raft's current term.",
                  replica_term(replica));
    metrics_gauge(out, "hasp_raft_leader",
                  "Id of the leader, 0 if none is known.",
                  replica_leader(replica));
    metrics_gauge(out, "hasp_raft_is_leader", "1 if this node leads.",
                  replica_role(replica) == REPLICA_LEADER);
    metrics_gauge(out, "hasp_raft_is_serving",
                  "1 if this node leads and answers requests.",
                  core_is_serving(node->core));
    metrics_gauge(
        out, "hasp_serves_nobody",
        "1 while this node refuses all clients, because it is alone in its "
        "cluster and a peer belongs to another cluster.",
        core_is_apart(node->core, why));
    metrics_gauge(
        out, "hasp_takes_changes",
        "1 if this node accepts changes: it leads and its disk has room.",
        core_is_serving(node->core) && !is_scarce(node));
    metrics_gauge(out, "hasp_raft_last_index",
                  "Index of the newest entry of the log.",
                  replica_last_index(replica));
    metrics_gauge(out, "hasp_raft_commit_index",
                  "Index of the newest committed entry.",
                  replica_commit_index(replica));
    metrics_gauge(out, "hasp_raft_known_commit_index",
                  "Newest commit index that a leader has reported.",
                  replica_known_commit(replica));
    metrics_gauge(out, "hasp_raft_applied_index",
                  "Index of the newest applied entry.",
                  lockfsm_applied_index(core_state(node->core)));
    metrics_gauge(out, "hasp_raft_log_cache_bytes",
                  "Payload of entries in memory.", replica_log_size(replica));
}

static void put_round_trips(const struct hasp_node *node, struct buffer *out)
{
    metrics_head(
        out, "hasp_member_round_trip_seconds", "gauge",
        "How long a PING takes to be answered by the member: the median of "
        "the newest nine.");
    for (uint32_t i = 0; i < node->members.count; i++) {
        const struct member_link *link = &node->members.link[i];
        int64_t us = peers_round_trip_us(node->members.peers, link->id);
        if (!link->is_guest && us >= 0) {
            buffer_printf(out,
                          "hasp_member_round_trip_seconds{member=\"%" PRIu64
                          "\"} %.6f\n",
                          link->id, (double)us / 1e6);
        }
    }
}

static void metrics_put_drain(const struct hasp_node *node, struct buffer *out)
{
    metrics_gauge(
        out, "hasp_drained_seconds",
        "How long this node has been drained (NODE.DRAIN); 0: it is not.",
        node->has_begun ? core_drained_ns(node->core, turn_now()) / NS_PER_S
                        : 0);
}

static void metrics_put_members(const struct hasp_node *node,
                                struct buffer *out)
{
    int32_t ppm;
    char why[HASP_WHY_SIZE];
    metrics_head(
        out, "hasp_clock_rate_ppm", "gauge",
        "Rate of the peer's clock relative to this node's, in ppm; positive: "
        "faster.");
    for (uint32_t i = 0; node->has_begun && i < node->members.count; i++) {
        uint64_t id = node->members.link[i].id;
        if (!node->members.link[i].is_guest &&
            core_clock_ppm(node->core, id, &ppm)) {
            buffer_printf(
                out, "hasp_clock_rate_ppm{peer=\"%" PRIu64 "\"} %" PRId32 "\n",
                id, ppm);
        }
    }
    metrics_gauge(
        out, "hasp_replaced_directories",
        "Nodes that tried to connect within the last minute with a data "
        "directory that does not belong to a member (any longer): stop them.",
        node->has_begun ? core_replaced_count(node->core, turn_now()) : 0);
    metrics_gauge(
        out, "hasp_replacement_waiting",
        "1 while a voter has lost its data directory and does not vote again: "
        "the leader's status says what that waits for.",
        node->has_begun && core_replacement_waits(node->core, why));
    metrics_head(out, "hasp_member_match_index", "gauge",
                 "Newest index at which the member's log matches this node's; "
                 "0 if this node does not lead.");
    for (uint32_t i = 0; node->has_begun && i < node->members.count; i++) {
        uint64_t match, silence_ms;
        if (!node->members.link[i].is_guest) {
            core_member(node->core, node->members.link[i].id, &match,
                        &silence_ms);
            buffer_printf(out,
                          "hasp_member_match_index{member=\"%" PRIu64
                          "\"} %" PRIu64 "\n",
                          node->members.link[i].id, match);
        }
    }
    metrics_head(out, "hasp_member_last_contact_seconds", "gauge",
                 "Time since the member was last heard; -1: never.");
    for (uint32_t i = 0; node->has_begun && i < node->members.count; i++) {
        uint64_t match, silence_ms;
        if (!node->members.link[i].is_guest) {
            core_member(node->core, node->members.link[i].id, &match,
                        &silence_ms);
            buffer_printf(
                out,
                "hasp_member_last_contact_seconds{member=\"%" PRIu64
                "\"} %.3f\n",
                node->members.link[i].id,
                silence_ms == UINT64_MAX ? -1.0 : (double)silence_ms / 1000.0);
        }
    }
    put_round_trips(node, out);
    metrics_head(out, "hasp_member_up", "gauge",
                 "1 if there is a connection to the member.");
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
    metrics_gauge(out, "hasp_sessions", "Open sessions.",
                  HASH_CNT(by_id, lockfsm_sessions(state)));
    metrics_gauge(out, "hasp_holds", "Holds of locks.",
                  lockfsm_hold_count(state));
    metrics_gauge(out, "hasp_waits", "Waits in the queues of locks.",
                  lockfsm_wait_count(state));
    metrics_head(out, "hasp_oldest_wait_seconds", "gauge",
                 "Age of the oldest wait; 0 if there is none.");
    buffer_printf(out, "hasp_oldest_wait_seconds %.3f\n",
                  (double)core_oldest_wait_ms(node->core) / 1000.0);
    metrics_gauge(out, "hasp_locks",
                  "Locks that are held, waited for or in a lock delay.",
                  HASH_CNT(by_name, lockfsm_locks(state)));
    metrics_gauge(out, "hasp_feature_level",
                  "Highest feature level that this node supports.",
                  FEATURE_LEVEL);
    metrics_gauge(out, "hasp_cluster_feature_level",
                  "Feature level of the cluster, as applied by this node.",
                  lockfsm_feature_level(state));
    metrics_gauge(
        out, "hasp_quarantine_left_seconds",
        "Time left of the quarantine after a restore, without grants; 0: none.",
        (core_quarantine_ms(node->core) + 999) / 1000);
    metrics_gauge(
        out, "hasp_state_agreed_index",
        "Highest index at which the leader saw the same state on a majority.",
        core_agreed_index(node->core));
    metrics_head(out, "hasp_limit", "gauge", "Limits of the cluster's state.");
    for (int key = 0; key < LIMIT_COUNT; key++) {
        buffer_printf(out, "hasp_limit{limit=\"%s\"} %" PRIu64 "\n",
                      limit_rules[key].name,
                      lockfsm_limit(state, (enum limit_key)key));
    }
    metrics_head(
        out, "hasp_limit_used", "gauge",
        "Usage of a limit; for limits of a session or a lock, the highest "
        "usage of any.");
    for (int key = 0; key < LIMIT_COUNT; key++) {
        if (limit_is_bound((enum limit_key)key)) {
            continue;
        }
        buffer_printf(out, "hasp_limit_used{limit=\"%s\"} %" PRIu64 "\n",
                      limit_rules[key].name,
                      lockfsm_limit_use(state, (enum limit_key)key));
    }
    metrics_gauge(out, "hasp_state_dirty_records",
                  "Records of the state that are not in the table yet.",
                  lockfsm_dirty_count(state));
}

static void put_stages(const struct loop_profile *loop_profile,
                       struct buffer *out)
{
    metrics_head(out, "hasp_stage_seconds", "histogram",
                 "Time that a pass of the loop spends in each stage; meanwhile "
                 "everything else waits.");
    for (int i = 0; i < STAGE_COUNT; i++) {
        char label[64];
        snprintf(label, sizeof label, "stage=\"%s\",", stage_names[i]);
        put_histogram(out, "hasp_stage_seconds", label,
                      &loop_profile->times[i]);
    }
    metrics_head(out, "hasp_stage_seconds_max", "gauge",
                 "Longest time in a stage since the start.");
    for (int i = 0; i < STAGE_COUNT; i++) {
        buffer_printf(out, "hasp_stage_seconds_max{stage=\"%s\"} %.6f\n",
                      stage_names[i], (double)loop_profile->max_ns[i] / 1e9);
    }
}

static void metrics_put_disk(const struct hasp_node *node, struct buffer *out)
{
    const struct journal *journal = &node->journal;
    uint64_t used, room;
    metrics_head(out, "hasp_log_write_seconds", "histogram",
                 "Durable writes of the log.");
    put_histogram(out, "hasp_log_write_seconds", "",
                  &journal->durable.writes.times);
    uint64_t flush_us = 0, moved_to;
    bool is_slow = node->has_begun && core_disk_is_slow(node->core, &flush_us);
    metrics_head(
        out, "hasp_disk_flush_seconds", "gauge",
        "Median duration of recent durable writes of the log, over at least "
        "2 s; 0: none within 30 s.");
    buffer_printf(out, "hasp_disk_flush_seconds %.6f\n",
                  (double)flush_us / 1e6);
    metrics_gauge(
        out, "hasp_disk_is_slow",
        "1 while hasp_disk_flush_seconds is 50 ms or more; nothing is refused.",
        is_slow);
    metrics_counter(
        out, "hasp_disk_handovers_total",
        "Times this node handed leadership over because of its slow disk.",
        node->has_begun ? core_disk_moved(node->core, &moved_to) : 0);
    metrics_head(out, "hasp_log_write_seconds_max", "gauge",
                 "Longest durable write since the start.");
    buffer_printf(out, "hasp_log_write_seconds_max %.6f\n",
                  (double)journal->durable.writes.max_ns / 1e9);
    metrics_gauge(out, "hasp_log_disk_bytes", "Size of the log on disk.",
                  wal_disk_size(journal->durable.wal));
    metrics_gauge(out, "hasp_disk_free_bytes",
                  "Free disk space for the data directory.",
                  journal->free_size);
    metrics_gauge(out, "hasp_disk_is_scarce",
                  "1 if changes are refused because the disk is full or hangs.",
                  is_scarce(node));
    table_size(node->table, &used, &room);
    metrics_gauge(out, "hasp_table_bytes", "Size of the table on disk.", used);
    metrics_gauge(out, "hasp_table_room_bytes",
                  "Address space reserved for the table; it grows when needed.",
                  room);
    const char *what = "";
    uint64_t oldest_ns = disk_watch_oldest(&what);
    metrics_head(
        out, "hasp_disk_wait_seconds", "gauge",
        "How long the oldest operation in progress has waited for the disk.");
    buffer_printf(out, "hasp_disk_wait_seconds{what=\"%s\"} %.1f\n", what,
                  (double)oldest_ns / (double)NS_PER_S);
    metrics_counter(out, "hasp_snapshots_total",
                    "Snapshots that this node has taken.",
                    node->snapshot_store.taken_count);
    metrics_counter(out, "hasp_snapshots_failed_total",
                    "Snapshots that could not be taken, read, or received.",
                    node->snapshot_store.failed_count);
    metrics_counter(out, "hasp_audit_file_failures_total",
                    "Failures to open or write audit.file.",
                    node->audit_file.failed_count);
    metrics_gauge(out, "hasp_snapshot_index", "Index of the newest snapshot.",
                  node->snapshot_store.newest_index);
    metrics_gauge(out, "hasp_snapshot_bytes", "Size of the newest snapshot.",
                  node->snapshot_store.newest_size);
}

static void put_doors(const struct hasp_node *node, struct buffer *out)
{
    metrics_head(out, "hasp_http_door_requests_total", "counter",
                 "Answers to the protocols of other programs: done, refused "
                 "because another holds the lock, and refused otherwise.");
    for (enum gateway_door door = 0; door < GATEWAY_DOOR_COUNT; door++) {
        const struct gateway *gateway = door == GATEWAY_CONSUL
                                            ? &node->web.consul_gateway
                                            : &node->web.gateway;
        const struct gateway_door_count *count = &gateway->doors[door];
        const char *name = gateway_door_name(door);
        const struct {
            const char *name;
            uint64_t count;
        } outcomes[] = {{"done", count->done},
                        {"held", count->held},
                        {"refused", count->refused}};
        for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
            buffer_printf(out,
                          "hasp_http_door_requests_total{door=\"%s\","
                          "outcome=\"%s\"} %" PRIu64 "\n",
                          name, outcomes[i].name, outcomes[i].count);
        }
    }
}

/* The sum over the HTTP ports that are open. */
static uint64_t sum_of_ports(const struct hasp_node *node,
                             uint64_t (*count)(const struct http *http))
{
    const struct web *web = &node->web;
    return (web->http != NULL ? count(web->http) : 0) +
           (web->consul != NULL ? count(web->consul) : 0);
}

static void put_tls(const struct hasp_node *node, struct buffer *out)
{
    int64_t days_node, days_ca;
    metrics_head(
        out, "hasp_tls_failures_total", "counter",
        "Connections that failed because TLS was required and not used, or "
        "because of an invalid certificate.");
    buffer_printf(out, "hasp_tls_failures_total{port=\"client\"} %" PRIu64 "\n",
                  node->clients.tls_failed_count);
    buffer_printf(out, "hasp_tls_failures_total{port=\"peer\"} %" PRIu64 "\n",
                  peers_tls_failed(node->members.peers));
    buffer_printf(out, "hasp_tls_failures_total{port=\"http\"} %" PRIu64 "\n",
                  sum_of_ports(node, http_tls_failed));
    metrics_counter(
        out, "hasp_http_unread_closed_total",
        "HTTP connections closed because clients left too many bytes of "
        "answers unread.",
        sum_of_ports(node, http_unread_cut));
    metrics_gauge(out, "hasp_consul_waits",
                  "Blocking GETs of clients of Consul that wait.",
                  node->web.consul_gateway.wait_count);
    metrics_counter(out, "hasp_tls_reload_failures_total",
                    "Changed certificates that were rejected.",
                    node->certificates.failed_count);
    metrics_head(
        out, "hasp_tls_days_left", "gauge",
        "Days until a certificate of this node expires; only with TLS.");
    if (certificates_days_left(&node->certificates, &days_node, &days_ca)) {
        buffer_printf(out, "hasp_tls_days_left{what=\"node\"} %" PRId64 "\n",
                      days_node);
        buffer_printf(out, "hasp_tls_days_left{what=\"ca\"} %" PRId64 "\n",
                      days_ca);
    }
}

/* How the last process with this data directory ended. */
static void put_last_exit(const struct hasp_node *node, struct buffer *out)
{
    metrics_head(out, "hasp_last_exit", "gauge",
                 "1 for the way in which the last run of this node ended: "
                 "none, clean, killed, error or crash.");
    for (int kind = 0; kind < LAST_EXIT_KIND_COUNT; kind++) {
        buffer_printf(out, "hasp_last_exit{how=\"%s\"} %d\n",
                      last_exit_name((enum last_exit_kind)kind),
                      kind == (int)node->last_exit.kind);
    }
}

/* Writes the standard metrics of a process, as every client library of
 * Prometheus does. */
static void put_process(struct buffer *out)
{
    struct process process;
    process_look(&process);
    metrics_head(out, "process_cpu_seconds_total", "counter",
                 "CPU time, user and system.");
    buffer_printf(out, "process_cpu_seconds_total %.6f\n", process.cpu_s);
    metrics_gauge(out, "process_resident_memory_bytes", "Resident memory.",
                  process.resident_size);
    metrics_gauge(out, "process_virtual_memory_bytes", "Virtual memory.",
                  process.virtual_size);
    metrics_gauge(out, "process_open_fds", "Open files.", process.open_files);
    metrics_gauge(out, "process_max_fds", "Limit of open files.",
                  process.most_files);
    metrics_head(out, "process_start_time_seconds", "gauge",
                 "Start time of the process, since 1970.");
    buffer_printf(out, "process_start_time_seconds %.2f\n", process.started_s);
}

void metrics_put(const struct hasp_node *node, bool is_ready,
                 struct buffer *out)
{
    metrics_head(out, "hasp_build_info", "gauge", "The program's version.");
    buffer_printf(out, "hasp_build_info{version=\"%s\"} 1\n", HASP_VERSION);
    metrics_gauge(out, "hasp_node_id", "Id of this node in its cluster.",
                  node->options.id);
    metrics_gauge(out, "hasp_ready", "1 if this node is ready (/readyz).",
                  is_ready);
    metrics_gauge(out, "hasp_connections", "Connections of clients.",
                  node->clients.count);
    metrics_gauge(out, "hasp_connections_max",
                  "Limit of client connections of this node.",
                  node->clients.count_max);
    metrics_counter(out, "hasp_connections_refused_total",
                    "Connections refused because of a limit.",
                    node->clients.refused_count);
    metrics_head(out, "hasp_connections_cut_total", "counter",
                 "Connections that this node closed, by reason.");
    for (int i = 0; i < CLIENTS_CUT_REASONS; i++) {
        buffer_printf(out,
                      "hasp_connections_cut_total{reason=\"%s\"} %" PRIu64 "\n",
                      clients_cut_reason[i], node->clients.cut_count[i]);
    }
    metrics_counter(out, "hasp_requests_total",
                    "Requests received from clients.",
                    node->clients.request_count);
    metrics_counter(out, "hasp_loop_turns_total", "Turns of the core.",
                    node->loop.turn_count);
    metrics_head(
        out, "hasp_turn_seconds", "histogram",
        "Duration of turns, in which input is decided, proposed, applied, "
        "answered and sent; meanwhile everything else waits.");
    put_histogram(out, "hasp_turn_seconds", "", &node->loop.turns);
    put_stages(&node->turn.loop_profile, out);
    metrics_counter(out, "hasp_loop_stalls_total",
                    "Times the event loop stalled for longer than 100 ms.",
                    node->loop.stall_count);
    if (node->has_begun) {
        put_logins(node->core, out);
        put_raft(node, out);
        put_state(node, out);
        put_counts(core_counts(node->core), out);
        put_times(node->core, out);
        metrics_put_classes(node->core, out);
    }
    metrics_put_drain(node, out);
    metrics_put_members(node, out);
    metrics_put_disk(node, out);
    put_tls(node, out);
    put_last_exit(node, out);
    put_doors(node, out);
    put_process(out);
}
