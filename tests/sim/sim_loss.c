/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_loss.h"

#include "raft/replica.h"
#include "tests/sim/sim_behind.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_node.h"

/* A process has stopped this long after the request to. */
#define STOP_NS (10 * SIM_S)
/* Meanwhile the follower acknowledges new entries. */
#define WORK_NS (3 * SIM_S)
/* The old copy is detected: the node connects, is warned, asks and gets an
 * answer. */
#define NOTICED_NS (10 * SIM_S)

static uint64_t last_index(struct sim_node *node)
{
    struct core *core = sim_node_core(node);
    return core != NULL ? replica_last_index(core_replica(core)) : 0;
}

static bool stop(struct sim *sim, struct sim_node *node)
{
    uint64_t until_ns = sim->now_ns + STOP_NS;
    sim_node_stop(node);
    while (sim_node_core(node) != NULL && sim->now_ns < until_ns &&
           !sim->has_failed) {
        sim_run_until(sim, sim->now_ns + 10 * SIM_MS, NULL);
    }
    return sim_node_core(node) == NULL && !sim->has_failed;
}

/* True while the same process leads in the same term. */
static bool still_leads(struct sim *sim, struct sim_node *leader, uint64_t term)
{
    return sim_leader(sim) == leader && sim_node_term(leader) == term;
}

/* The follower has an old disk, and starts from it. */
static void check_old(struct sim *sim, struct sim_node *node,
                      struct sim_node *leader)
{
    struct sim_disk *disk = sim_node_disk(node);
    uint64_t term = sim_node_term(leader);
    uint64_t until_ns = sim->now_ns + NOTICED_NS;
    disk->is_old = true;
    sim_node_start(node);
    while (!disk->is_condemned && still_leads(sim, leader, term) &&
           sim->now_ns < until_ns && !sim->has_failed) {
        sim_run_until(sim, sim->now_ns + 50 * SIM_MS, NULL);
    }
    if (!disk->is_condemned && still_leads(sim, leader, term)) {
        sim_fail(sim, ORACLE_OLD_DISKS,
                 "a disk that lost acknowledged data is detected: %s runs on "
                 "an old one",
                 sim_node_host(node)->name);
    }
    if (sim->has_failed || !disk->is_condemned) {
        return;
    }
    sim->stats.condemned++;
    sim_run_until(sim, sim->now_ns + 1 * SIM_S, NULL);
    sim_node_start(node);
    if (sim_node_core(node) != NULL) {
        sim_fail(sim, ORACLE_OLD_DISKS,
                 "nothing starts from a condemned directory: %s does",
                 sim_node_host(node)->name);
    }
}

/* The table is emptied: the log or a snapshot has all of it. */
static void put_back(struct sim_disk *disk, struct files_machine *copy)
{
    files_restore(disk->files, copy);
    sim_table_done(&disk->lmdb);
    sim_table_init(&disk->lmdb, disk->sim);
}

void sim_loss(struct sim *sim)
{
    struct sim_node *node = sim_behind_choose(sim);
    struct sim_node *leader = sim_leader(sim);
    if (node == NULL || !sim_chance(sim, 0.5)) {
        return;
    }
    struct sim_disk *disk = sim_node_disk(node);
    uint64_t term = sim_node_term(leader);
    sim->is_left_alone = true;
    if (stop(sim, node)) {
        struct files_machine *old = files_copy(disk->files, "old");
        sim_node_start(node);
        uint64_t before = last_index(node);
        sim_run_until(sim, sim->now_ns + WORK_NS, NULL);
        bool is_longer = last_index(node) > before;
        if (is_longer && still_leads(sim, leader, term) && stop(sim, node)) {
            struct files_machine *own = files_copy(disk->files, "own");
            sim_note(sim, sim_node_host(node), "gets an old disk", before, 0,
                     0);
            put_back(disk, old);
            check_old(sim, node, leader);
            sim_node_kill(node, false);
            put_back(disk, own);
            disk->is_old = false;
            disk->is_condemned = false;
        } else {
            files_free(old);
        }
        sim_node_start(node);
    }
    sim->is_left_alone = false;
}
