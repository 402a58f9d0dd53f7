/* SPDX-License-Identifier: MIT */

#include "node/facts.h"

#include <time.h>

#include "base/check.h"
#include "node/node.h"

static void add_facts(struct core_fact *facts, uint32_t *count,
                      const struct core_fact *rows, size_t row_count)
{
    CHECK(*count + row_count <= CORE_FACT_MAX);
    for (size_t i = 0; i < row_count; i++) {
        facts[*count] = rows[i];
        *count += 1;
    }
}

static const struct process *facts_process(struct hasp_node *node)
{
    struct facts *facts = &node->facts;
    uint64_t now_ns = turn_now();
    if (facts->read_ns == 0 || now_ns - facts->read_ns > FACTS_FRESH_NS) {
        process_look(&facts->process);
        facts->read_ns = now_ns;
    }
    return &facts->process;
}

static void put_machine(struct hasp_node *node, struct core_facts *facts)
{
    const struct process *process = facts_process(node);
    int64_t days_node = -1, days_ca = -1;
    double up_s = (double)time(NULL) - process->started_s;
    int64_t backup_s = -1;
    if (node->has_begun && core_counts(node->core)->backups > 0) {
        backup_s = (int64_t)((turn_now() - core_counts(node->core)->backup_ns) /
                             NS_PER_S);
    }
    (void)certificates_days_left(&node->certificates, &days_node, &days_ca);
    const struct core_fact rows[] = {
        {"uptime_s", up_s > 0 ? (int64_t)up_s : 0},
        {"open_files", (int64_t)process->open_files},
        {"max_files",
         process->most_files > 0 ? (int64_t)process->most_files : -1},
        {"connections", (int64_t)node->options.limits.connections},
        {"resident_bytes", (int64_t)process->resident_size},
        {"swapped_bytes", process->swapped_size},
        {"disk_free_bytes", (int64_t)node->journal.free_size},
        {"disk_reserve_bytes", (int64_t)node->options.limits.disk_reserve},
        {"snapshots_failed", (int64_t)node->snapshot_store.failed_count},
        {"audit_file_failures", (int64_t)node->audit_file.failed_count},
        {"backup_age_s", backup_s},
        {"last_exit", (int64_t)node->last_exit.kind},
        {"drained", node->has_begun && core_is_draining(node->core)},
        {"certificate_days", days_node},
        {"ca_days", days_ca},
    };
    add_facts(facts->machine, &facts->machine_count, rows,
              sizeof rows / sizeof rows[0]);
}

static void put_settings(const struct hasp_node *node, struct core_facts *facts)
{
    const struct hasp_node_options *options = &node->options;
    const struct hasp_node_limits *limits = &options->limits;
    const struct core_fact rows[] = {
        {"raft.election_ms", options->election_ms},
        {"raft.heartbeat_ms", options->heartbeat_ms},
        {"limits.name_size", limits->name_size},
        {"limits.value_size", limits->value_size},
        {"limits.request_size", limits->request_size},
        {"limits.sessions_per_conn", limits->sessions_per_conn},
        {"limits.requests_per_conn", limits->requests_per_conn},
        {"client.redirect", (int64_t)options->redirect},
        {"tls.client", (int64_t)options->tls_client},
        {"tls.peer", (int64_t)options->tls_peer},
        {"security.insecure", options->is_insecure},
        {"redis.del", options->allows_del},
        {"redis.no_ttl", options->allows_no_ttl},
        {"redis.same_value", options->renews_same_value},
        {"upgrade.finalize", options->finalizes_itself},
    };
    add_facts(facts->settings, &facts->settings_count, rows,
              sizeof rows / sizeof rows[0]);
}

void facts_port(void *data, struct core_facts *ret_facts)
{
    struct hasp_node *node = data;
    put_machine(node, ret_facts);
    put_settings(node, ret_facts);
}
