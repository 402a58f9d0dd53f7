/* SPDX-License-Identifier: MIT */

/* Lifecycle of a node: open, run, stop, close. */

#include "node/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "lockfsm/lockfsm.h"
#include "node/options.h"
#include "node/recovery.h"
#include "node/startup.h"
#include "storage/wal.h"

/* Time for connections to close when the node stops. */
#define SETTLE_NS (3 * NS_PER_S)
#define SETTLE_STEP_MS 20
/* Time for clients to read their last answers. */
#define GOODBYE_NS (300 * NS_PER_MS)

static void log_to_host(void *data, enum log_level level, const char *event,
                        const char *fields)
{
    struct hasp_node *node = data;
    node->options.log(node->options.log_data, (enum hasp_node_log_level)level,
                      event, fields);
}

/* The node that is being opened, for the handler of fatal signals: its owner
 * does not have it yet. A process runs one node at a time. */
static struct hasp_node *volatile opening_node;

static int node_open_failed(struct hasp_node *node, int status,
                            const char *why);

int hasp_node_open(const struct hasp_node_options *options,
                   struct hasp_node **ret_node, char why[HASP_NODE_WHY_SIZE])
{
    struct recovery recovery = {0};
    int status = hasp_node_options_check(options, why);
    if (status != 0) {
        return status;
    }
    struct hasp_node *node = memory_new(sizeof *node);
    options_copy(&node->options, options);
    options_members(&node->options, &node->configured);
    if (node->options.log != NULL) {
        log_set_sink(log_to_host, node);
        log_set_level((enum log_level)node->options.log_level);
    }
    CHECK(uv_loop_init(&node->uv) == 0);
    node->turn.uv = &node->uv;
    node->journal.node = node;
    snapshot_store_init(&node->snapshot_store, node);
    last_exit_init(&node->last_exit);
    probes_open(&node->probes);
    metadata_writer_init(&node->metadata_writer, &node->turn);
    audit_file_init(&node->audit_file, node);
    logins_init(&node->logins, node);
    settings_init(&node->settings, node);
    loop_open(node);
    node->monitor.node = node;
    web_init(&node->web, node);
    opening_node = node;

    if (certificates_open(&node->certificates, node, why) != 0) {
        status = HASP_NODE_CONFIG;
    } else if (startup_open_disk(node, &recovery, why) != 0) {
        /* The disk before the ports: the directory's lock keeps a second
         * process from answering at them, and peers are greeted with its
         * identity. */
        status = HASP_NODE_STORAGE;
    } else if (members_open(&node->members, node, node->options.listen_peer,
                            why) != 0 ||
               clients_open(&node->clients, node, node->options.listen_client,
                            why) != 0 ||
               clients_open_door(&node->clients, why) != 0 ||
               (node->options.listen_local != NULL &&
                clients_open_local(&node->clients, node->options.listen_local,
                                   why) != 0) ||
               (node->options.listen_http != NULL &&
                web_open(&node->web, node->options.listen_http, why) != 0) ||
               (node->options.listen_consul != NULL &&
                web_open_consul(&node->web, node->options.listen_consul, why) !=
                    0)) {
        status = HASP_NODE_UNAVAILABLE;
    } else {
        certificates_use(&node->certificates);
        journal_watch(&node->journal);
        if (!node->turn.has_failed) {
            startup_from_disk(node, &recovery);
        }
        if (node->turn.has_failed) {
            status = node->turn.exit_status;
            memcpy(why, node->turn.why, HASP_NODE_WHY_SIZE);
        }
    }
    recovery_done(&recovery);
    if (status != 0) {
        return node_open_failed(node, status, why);
    }
    *ret_node = node;
    return 0;
}

static void on_settle(uv_timer_t *timer)
{
    (void)timer; /* The timer only wakes the loop. */
}

/* Runs the loop until connections are closed and workers have ended. */
static void node_settle(struct hasp_node *node)
{
    uint64_t began = turn_now();
    uint64_t by = began + SETTLE_NS;
    uv_prepare_stop(&node->loop.prepare);
    uv_check_stop(&node->loop.check);
    uv_idle_stop(&node->loop.idle);
    CHECK(uv_timer_start(&node->loop.timer, on_settle, SETTLE_STEP_MS,
                         SETTLE_STEP_MS) == 0);
    if (node->journal.is_polling) {
        journal_await(&node->journal, true);
    }
    /* Wait for the workers without limit, since they use the table and the
     * directory, which are closed next. */
    while (snapshot_store_is_busy(&node->snapshot_store) ||
           metadata_writer_are_busy(&node->metadata_writer) ||
           node->audit_file.is_busy || node->certificates.is_busy ||
           node->settings.is_busy ||
           (turn_now() < by &&
            (node->clients.count > 0 || !node->members.is_closed ||
             !probes_are_closed(&node->probes) ||
             (node->journal.durable.wal != NULL && !node->turn.has_failed &&
              wal_is_busy(node->journal.durable.wal))))) {
        uv_run(&node->uv, UV_RUN_ONCE);
        if (turn_now() >= began + GOODBYE_NS) {
            clients_cut(&node->clients);
        }
    }
    CHECK(uv_timer_stop(&node->loop.timer) == 0);
}

/* Sends the answers, flushes the state to its table and syncs the table. Then
 * the next start trusts the table even under another boot (rule 23). */
static void stop_cleanly(struct hasp_node *node)
{
    clients_close(&node->clients);
    members_close(&node->members);
    probes_close(&node->probes);
    web_close(&node->web);
    node_settle(node);
    if (node->turn.has_failed || !node->has_begun) {
        return;
    }
    /* It needs the core, which is freed below. */
    audit_file_finish(&node->audit_file);
    int rv = core_flush(node->core);
    rv = rv ?: table_sync(node->table);
    if (rv == 0) {
        core_free(node->core);
        node->core = NULL;
        table_close(node->table);
        node->table = NULL;
        /* Only after the table is closed may the mark say that it is complete
         * (rule 23). */
        rv = datadir_table_closed(node->datadir);
    }
    if (rv != 0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE,
                  "cannot close the table in '%s': %s", node->options.directory,
                  hasp_strerror(rv));
    }
}

/* Records an error with which the process will end, for the next start. */
static void record_error(const struct hasp_node *node, int status,
                         const char *why)
{
    char text[HASP_NODE_WHY_SIZE + 16];
    snprintf(text, sizeof text, "%d: %s", status, why);
    last_exit_write(&node->last_exit, LAST_EXIT_ERROR, text, strlen(text));
}

/* Records how the node ends, for the next start. */
static void record_exit(const struct hasp_node *node)
{
    if (node->turn.has_failed) {
        record_error(node, node->turn.exit_status, node->turn.why);
    } else {
        last_exit_write(&node->last_exit, LAST_EXIT_CLEAN, "", 0);
    }
}

static int node_open_failed(struct hasp_node *node, int status, const char *why)
{
    record_error(node, status, why);
    hasp_node_close(node);
    return status;
}

void hasp_node_record_crash(const struct hasp_node *node, const char *text,
                            size_t size)
{
    node = node != NULL ? node : opening_node;
    if (node == NULL) {
        return;
    }
    last_exit_write(&node->last_exit, LAST_EXIT_CRASH, text, size);
}

int hasp_node_run(struct hasp_node *node)
{
    CHECK(!node->turn.is_over);
    opening_node = NULL;
    loop_run(node);
    node->turn.is_over = true; /* The core must not be called from here on. */
    if (!node->turn.has_failed) {
        stop_cleanly(node);
    }
    record_exit(node);
    if (node->turn.has_failed) {
        /* Close the connections at once: with a hung disk the process can take
         * long to end, and no client should wait for it. */
        clients_close(&node->clients);
        members_close(&node->members);
    }
    return node->turn.exit_status;
}

void hasp_node_stop(struct hasp_node *node)
{
    uv_async_send(&node->loop.stop);
}

void hasp_node_reload(struct hasp_node *node)
{
    uv_async_send(&node->loop.reload);
}

void hasp_node_change(struct hasp_node *node,
                      const struct hasp_node_options *options)
{
    settings_change(node, options);
}

void hasp_node_close(struct hasp_node *node)
{
    if (node == NULL) {
        return;
    }
    opening_node = NULL;
    node->turn.is_over = true;
    clients_close(&node->clients);
    members_close(&node->members);
    probes_close(&node->probes);
    web_close(&node->web);
    node_settle(node);
    journal_unwatch(&node->journal);
    loop_close(node);
    uv_run(&node->uv, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&node->uv) == 0);
    if (node->core != NULL) {
        core_free(node->core);
    }
    clients_done(&node->clients);
    account_done(&node->turn.account);
    web_done(&node->web);
    monitor_done(&node->monitor);
    certificates_done(&node->certificates);
    audit_file_done(&node->audit_file);
    logins_done(&node->logins);
    snapshot_store_done(&node->snapshot_store);
    journal_done(&node->journal);
    /* The log and the table are closed after the core and the workers, which
     * use them. */
    wal_close(node->journal.durable.wal);
    table_close(node->table);
    last_exit_close(&node->last_exit);
    if (node->datadir != NULL) {
        datadir_close(node->datadir);
    }
    if (node->options.log != NULL) {
        log_set_sink(NULL, NULL);
    }
    options_done(&node->options);
    free(node);
}

const char *hasp_node_client_address(const struct hasp_node *node)
{
    return node->client_address;
}

const char *hasp_node_why(const struct hasp_node *node)
{
    return node->turn.why;
}
