/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_disk.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "tests/sim/sim_net.h"
#include "tests/sim/sim_node.h"

struct disk_write {
    struct list in_queue;
    bool is_truncation;
    struct disk_entry entry; /* Of a truncation only the index counts. */
};

static void free_body(struct disk_entry *entry)
{
    free((void *)(uintptr_t)entry->body.data);
}

static uint64_t first_index(const struct sim_disk *disk)
{
    return disk->entry_count > 0 ? disk->entries[0].log_index
                                 : disk->next_index;
}

static uint64_t last_index(const struct sim_disk *disk)
{
    return first_index(disk) + disk->entry_count - 1;
}

static void cut_from(struct sim_disk *disk, uint64_t from_index)
{
    while (disk->entry_count > 0 && last_index(disk) >= from_index) {
        disk->next_index = last_index(disk);
        free_body(&disk->entries[disk->entry_count - 1]);
        disk->entry_count--;
    }
}

/* Takes over the body of 'entry'. As in the WAL an entry replaces what stands
 * at its index and behind. */
static void put(struct sim_disk *disk, const struct disk_entry *entry)
{
    cut_from(disk, entry->log_index);
    CHECK(disk->entry_count == 0 || entry->log_index == last_index(disk) + 1);
    if (disk->entry_count == disk->entry_capacity) {
        disk->entry_capacity = disk->entry_capacity == 0
                                   ? 64
                                   : 2 * disk->entry_capacity;
        disk->entries = memory_resize(disk->entries, disk->entry_capacity *
                                                         sizeof *disk->entries);
    }
    disk->entries[disk->entry_count++] = *entry;
}

static void carry_out(struct sim_disk *disk, struct disk_write *write)
{
    if (write->is_truncation) {
        cut_from(disk, write->entry.log_index);
    } else {
        put(disk, &write->entry);
        write->entry.body = (struct bytes){NULL, 0};
    }
}

static void drop_writes(struct list *writes)
{
    LIST_EACH_SAFE (node, writes) {
        struct disk_write *write = LIST_ENTRY(node, struct disk_write,
                                              in_queue);
        list_remove(node);
        free_body(&write->entry);
        free(write);
    }
}

static struct sim_news *tell(struct sim_disk *disk, enum news_kind kind)
{
    struct sim_host *host = sim_node_host(disk->node);
    struct sim_news *news = memory_new(sizeof *news);
    news->kind = kind;
    list_push_back(&host->inbox, &news->in_inbox);
    sim_host_poke(disk->sim, host);
    return news;
}

static uint64_t latency(struct sim_disk *disk)
{
    struct sim *sim = disk->sim;
    uint64_t ns = disk->latency_ns + prng_below(&sim->prng, disk->latency_ns);
    ns += disk->flush_ns;
    if (disk->slow_until_ns > sim->now_ns) {
        ns += sim_between(sim, 10, 1500) * SIM_MS;
    } else if (sim_chance(sim, 0.002)) {
        ns += sim_between(sim, 1, 100) * SIM_MS;
    }
    return ns;
}

static void written(struct sim *sim, struct sim_event *event)
{
    struct sim_disk *disk = LIST_ENTRY(event, struct sim_disk, written);
    struct sim_news *news = NULL;
    LIST_EACH_SAFE (node, &disk->writing) {
        struct disk_write *write = LIST_ENTRY(node, struct disk_write,
                                              in_queue);
        carry_out(disk, write);
        if (!write->is_truncation) {
            news = news == NULL ? tell(disk, NEWS_PERSISTED) : news;
            news->term = write->entry.term;
            news->log_index = write->entry.log_index;
            news->flush_ns = disk->write_ns;
        }
        list_remove(node);
        free(write);
    }
    sim_note(sim, sim_node_host(disk->node), "written", last_index(disk), 0, 0);
    sim_disk_start(disk);
}

static void start_vote(struct sim_disk *disk)
{
    disk->saving = disk->asked;
    disk->save_ns = latency(disk);
    sim_at(disk->sim, &disk->saved, disk->sim->now_ns + disk->save_ns);
}

static bool is_saving(const struct sim_disk *disk)
{
    return disk->saved.node.slot != 0;
}

static void vote_saved(struct sim *sim, struct sim_event *event)
{
    struct sim_disk *disk = LIST_ENTRY(event, struct sim_disk, saved);
    struct sim_news *news = tell(disk, NEWS_VOTE_SAVED);
    disk->vote = disk->saving;
    news->term = disk->vote.term;
    news->voted_for = disk->vote.voted_for;
    news->flush_ns = disk->save_ns;
    sim_note(sim, sim_node_host(disk->node), "vote saved", news->term,
             news->voted_for, 0);
    if (disk->asked.term != disk->vote.term ||
        disk->asked.voted_for != disk->vote.voted_for) {
        start_vote(disk);
    } else {
        sim_disk_start(disk);
    }
}

/* By index, the newest first: one's own may be ready only after a newer one was
 * received. */
static void keep_snapshot(struct sim_disk *disk, struct disk_snapshot *snapshot)
{
    if (disk->snapshot_count == DISK_SNAPSHOT_MAX) {
        buffer_done(&disk->snapshots[DISK_SNAPSHOT_MAX - 1].stream);
        disk->snapshot_count--;
    }
    uint32_t i = disk->snapshot_count++;
    while (i > 0 && disk->snapshots[i - 1].log_index <= snapshot->log_index) {
        disk->snapshots[i] = disk->snapshots[i - 1];
        i--;
    }
    disk->snapshots[i] = *snapshot;
    *snapshot = (struct disk_snapshot){.log_index = 0};
}

static void taken(struct sim *sim, struct sim_event *event)
{
    struct sim_disk *disk = LIST_ENTRY(event, struct sim_disk, taken);
    struct sim_news *news = tell(disk, NEWS_SNAPSHOT_TAKEN);
    news->log_index = disk->taking.log_index;
    if (sim->phase == SIM_CHAOS && sim_chance(sim, 0.05)) {
        news->error = HASP_ENOSPC;
        buffer_done(&disk->taking.stream);
        return;
    }
    sim->stats.snapshots++;
    sim_note(sim, sim_node_host(disk->node), "has taken",
             disk->taking.log_index, 0, 0);
    keep_snapshot(disk, &disk->taking);
}

static void adopted(struct sim *sim, struct sim_event *event)
{
    struct sim_disk *disk = LIST_ENTRY(event, struct sim_disk, adopted);
    struct snapshot_header header;
    char why[HASP_WHY_SIZE];
    disk->is_adopting = false;
    struct sim_news *news = tell(disk, NEWS_SNAPSHOT_RECEIVED);
    news->error = snapshot_check(buffer_bytes(&disk->receiving.stream), &header,
                                 why);
    if (news->error != 0) {
        buffer_clear(&disk->receiving.stream);
        return;
    }
    sim->stats.installs++;
    sim_note(sim, sim_node_host(disk->node), "has adopted", header.last_index,
             header.last_term, 0);
    disk->receiving.log_index = header.last_index;
    disk->receiving.term = header.last_term;
    keep_snapshot(disk, &disk->receiving);
}

void sim_disk_init(struct sim_disk *disk, struct sim *sim,
                   struct sim_node *node)
{
    *disk = (struct sim_disk){.sim = sim, .node = node, .next_index = 1};
    list_init(&disk->queued);
    list_init(&disk->writing);
    disk->written.run = written;
    disk->saved.run = vote_saved;
    disk->taken.run = taken;
    disk->adopted.run = adopted;
    disk->table = table_new_memory();
    disk->is_table_trusted = true;
    disk->latency_ns = sim_between(sim, 50, 3000) * SIM_US;
}

void sim_disk_done(struct sim_disk *disk)
{
    drop_writes(&disk->queued);
    drop_writes(&disk->writing);
    for (uint32_t i = 0; i < disk->entry_count; i++) {
        free_body(&disk->entries[i]);
    }
    free(disk->entries);
    for (uint32_t i = 0; i < disk->snapshot_count; i++) {
        buffer_done(&disk->snapshots[i].stream);
    }
    buffer_done(&disk->taking.stream);
    buffer_done(&disk->receiving.stream);
    table_close(disk->table);
}

void sim_disk_bootstrap(struct sim_disk *disk, struct bytes members)
{
    struct disk_entry entry = {
        .term = 1,
        .log_index = 1,
        .type = ENTRY_CHANGE,
        .body = bytes_of(memory_copy(members.data, members.size), members.size),
    };
    put(disk, &entry);
    disk->vote.term = 1;
}

void sim_disk_save_vote(struct sim_disk *disk, uint64_t term,
                        uint64_t voted_for)
{
    CHECK(term >= disk->vote.term);
    disk->asked = (struct disk_vote){.term = term, .voted_for = voted_for};
    if (!is_saving(disk)) {
        start_vote(disk);
    }
}

static struct disk_write *queue_write(struct sim_disk *disk)
{
    struct disk_write *write = memory_new(sizeof *write);
    list_push_back(&disk->queued, &write->in_queue);
    return write;
}

void sim_disk_truncate(struct sim_disk *disk, uint64_t from_index)
{
    struct disk_write *write = queue_write(disk);
    write->is_truncation = true;
    write->entry.log_index = from_index;
}

void sim_disk_append(struct sim_disk *disk, const struct replica_entry *entries,
                     uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct bytes body = entries[i].body;
        struct disk_write *write = queue_write(disk);
        write->entry = (struct disk_entry){
            .term = entries[i].term,
            .log_index = entries[i].log_index,
            .type = (uint8_t)entries[i].type,
            .body = bytes_of(memory_copy(body.data, body.size), body.size),
        };
    }
}

void sim_disk_start(struct sim_disk *disk)
{
    if (!list_is_empty(&disk->writing) || list_is_empty(&disk->queued) ||
        is_saving(disk)) {
        return;
    }
    LIST_EACH_SAFE (node, &disk->queued) {
        list_remove(node);
        list_push_back(&disk->writing, node);
    }
    disk->write_ns = latency(disk);
    sim_at(disk->sim, &disk->written, disk->sim->now_ns + disk->write_ns);
}

void sim_disk_trim(struct sim_disk *disk, uint64_t up_to_index)
{
    CHECK(disk->snapshot_count > 0 &&
          disk->snapshots[0].log_index >= up_to_index);
    uint32_t count = 0;
    while (count < disk->entry_count &&
           disk->entries[count].log_index <= up_to_index) {
        free_body(&disk->entries[count]);
        count++;
    }
    if (count == 0) {
        return;
    }
    disk->next_index = disk->entries[count - 1].log_index + 1;
    disk->entry_count -= count;
    memmove(disk->entries, disk->entries + count,
            disk->entry_count * sizeof *disk->entries);
}

void sim_disk_reset(struct sim_disk *disk, uint64_t next_index)
{
    drop_writes(&disk->queued);
    drop_writes(&disk->writing);
    sim_cancel(disk->sim, &disk->written);
    for (uint32_t i = 0; i < disk->entry_count; i++) {
        free_body(&disk->entries[i]);
    }
    disk->entry_count = 0;
    disk->next_index = next_index;
}

static int append_piece(void *data, struct bytes piece)
{
    buffer_put_bytes(data, piece);
    return 0;
}

void sim_disk_snapshot_take(struct sim_disk *disk,
                            const struct snapshot_header *header)
{
    CHECK(disk->taken.node.slot == 0);
    struct table_txn *txn = NULL;
    CHECK(table_begin_read(disk->table, &txn) == 0);
    buffer_done(&disk->taking.stream);
    disk->taking = (struct disk_snapshot){.log_index = header->last_index,
                                          .term = header->last_term};
    int error = snapshot_encode(header, txn, append_piece,
                                &disk->taking.stream);
    CHECK(error == 0);
    table_abort(txn);
    sim_at(disk->sim, &disk->taken,
           disk->sim->now_ns + 3 * latency(disk) +
               prng_below(&disk->sim->prng, 20) * SIM_MS);
}

const struct disk_snapshot *sim_disk_newest(const struct sim_disk *disk)
{
    return disk->snapshot_count > 0 ? &disk->snapshots[0] : NULL;
}

bool sim_disk_snapshot_read(struct sim_disk *disk, uint64_t log_index,
                            uint64_t term, uint64_t offset, size_t size,
                            struct buffer *out)
{
    for (uint32_t i = 0; i < disk->snapshot_count; i++) {
        struct disk_snapshot *snapshot = &disk->snapshots[i];
        if (snapshot->log_index != log_index || snapshot->term != term) {
            continue;
        }
        CHECK(offset <= snapshot->stream.size);
        size_t left = snapshot->stream.size - (size_t)offset;
        buffer_put(out, snapshot->stream.data + offset,
                   left < size ? left : size);
        return true;
    }
    return false;
}

void sim_disk_snapshot_write(struct sim_disk *disk, uint64_t offset,
                             struct bytes chunk)
{
    CHECK(!disk->is_adopting && disk->installing_next == 0);
    if (offset == 0) {
        buffer_clear(&disk->receiving.stream);
    }
    CHECK(offset == disk->receiving.stream.size);
    buffer_put_bytes(&disk->receiving.stream, chunk);
}

void sim_disk_snapshot_adopt(struct sim_disk *disk)
{
    CHECK(!disk->is_adopting);
    disk->is_adopting = true;
    sim_at(disk->sim, &disk->adopted, disk->sim->now_ns + 3 * latency(disk));
}

static void load_newest(struct sim_disk *disk)
{
    CHECK(disk->snapshot_count > 0);
    struct table_txn *txn = NULL;
    CHECK(table_begin_write(disk->table, &txn) == 0);
    CHECK(snapshot_decode(buffer_bytes(&disk->snapshots[0].stream), txn) == 0);
    CHECK(table_commit(txn) == 0);
    disk->is_table_trusted = true;
}

static void installed(struct sim *sim, struct sim_event *event)
{
    struct sim_disk *disk = LIST_ENTRY(event, struct sim_disk, installed);
    sim_disk_reset(disk, disk->installing_next);
    disk->installing_next = 0;
    load_newest(disk);
    sim_note(sim, sim_node_host(disk->node), "has installed",
             disk->snapshots[0].log_index, 0, 0);
    tell(disk, NEWS_SNAPSHOT_INSTALLED);
}

void sim_disk_snapshot_install(struct sim_disk *disk, uint64_t next_index)
{
    CHECK(disk->installing_next == 0 && next_index != 0);
    disk->installing_next = next_index;
    disk->is_table_trusted = false;
    disk->installed.run = installed;
    sim_at(disk->sim, &disk->installed,
           disk->sim->now_ns + sim_between(disk->sim, 1, 30) * latency(disk));
}

/* The log may have been emptied by then, the table never is whole. */
static void break_off_installing(struct sim_disk *disk)
{
    sim_cancel(disk->sim, &disk->installed);
    if (disk->installing_next != 0 && sim_chance(disk->sim, 0.5)) {
        sim_disk_reset(disk, disk->installing_next);
    }
    disk->installing_next = 0;
}

void sim_disk_crash(struct sim_disk *disk, bool is_os_down)
{
    struct sim *sim = disk->sim;
    if (is_saving(disk) && sim_chance(sim, 0.5)) {
        disk->vote = disk->saving;
    }
    sim_cancel(sim, &disk->saved);
    sim_cancel(sim, &disk->written);
    sim_cancel(sim, &disk->taken);
    sim_cancel(sim, &disk->adopted);
    uint64_t count = 0;
    LIST_EACH (node, &disk->writing) {
        count++;
    }
    uint64_t survive = sim_between(sim, 0, count);
    LIST_EACH (node, &disk->writing) {
        if (survive-- == 0) {
            break;
        }
        carry_out(disk, LIST_ENTRY(node, struct disk_write, in_queue));
    }
    drop_writes(&disk->writing);
    drop_writes(&disk->queued);
    break_off_installing(disk);
    buffer_done(&disk->taking.stream);
    buffer_clear(&disk->receiving.stream);
    disk->is_adopting = false;
    disk->fails_next = false;
    if (is_os_down) {
        table_close(disk->table);
        disk->table = table_new_memory();
        disk->is_table_trusted = false;
    }
}

static uint64_t table_applied(struct table *table)
{
    struct table_txn *txn = NULL;
    struct bytes value;
    uint64_t applied = 0;
    CHECK(table_begin_read(table, &txn) == 0);
    if (table_get(txn, TABLE_META, BYTES_LITERAL(SNAPSHOT_META_APPLIED),
                  &value) == 0) {
        CHECK(value.size == 16);
        applied = load_u64_be(value.data);
    }
    table_abort(txn);
    return applied;
}

/* An adopted snapshot may be newer than the log, if the crash came before the
 * log was emptied. */
static void fit_log(struct sim_disk *disk, const struct disk_snapshot *newest)
{
    uint64_t at = newest->log_index;
    if (last_index(disk) < at || first_index(disk) > at + 1) {
        sim_disk_reset(disk, at + 1);
        return;
    }
    if (first_index(disk) <= at &&
        disk->entries[at - first_index(disk)].term != newest->term) {
        sim_disk_reset(disk, at + 1);
    }
}

void sim_disk_open(struct sim_disk *disk, struct replica_start *ret_start)
{
    const struct disk_snapshot *newest = sim_disk_newest(disk);
    struct replica_start start = {.term = disk->vote.term,
                                  .voted_for = disk->vote.voted_for};
    if (newest != NULL) {
        struct snapshot_header header;
        char why[HASP_WHY_SIZE];
        int error = snapshot_check(buffer_bytes(&newest->stream), &header, why);
        CHECK(error == 0);
        start.snapshot_index = header.last_index;
        start.snapshot_term = header.last_term;
        start.snapshot_members = header.configuration;
        start.snapshot_members_index = header.configuration_index;
        fit_log(disk, newest);
        if (!disk->is_table_trusted ||
            table_applied(disk->table) < newest->log_index) {
            load_newest(disk);
        }
    }
    disk->is_table_trusted = true;
    start.applied_index = table_applied(disk->table);
    if (start.applied_index > last_index(disk)) {
        sim_fail(disk->sim,
                 "state on disk is never ahead of the log: %s starts with "
                 "applied index %llu and a log that ends at %llu",
                 sim_node_host(disk->node)->name,
                 (unsigned long long)start.applied_index,
                 (unsigned long long)last_index(disk));
    }
    start.entry_count = disk->entry_count;
    struct replica_entry *entries = memory_new((disk->entry_count + 1) *
                                               sizeof *entries);
    for (uint32_t i = 0; i < disk->entry_count; i++) {
        entries[i] = (struct replica_entry){
            .term = disk->entries[i].term,
            .log_index = disk->entries[i].log_index,
            .type = (enum replica_entry_type)disk->entries[i].type,
            .body = disk->entries[i].body,
        };
    }
    start.entries = entries;
    *ret_start = start;
}
