/* SPDX-License-Identifier: MIT */

#include "tests/unit/replica_world.h"

void world_disk_truncate(struct world_disk *disk, uint64_t from)
{
    while (disk->count > 0 && disk->base + disk->count >= from) {
        disk->count--;
        buffer_done(&disk->entries[disk->count].body);
    }
}

void world_disk_trim(struct world_disk *disk, uint64_t up_to)
{
    while (disk->count > 0 && disk->base < up_to) {
        buffer_done(&disk->entries[0].body);
        disk->count--;
        disk->base++;
        memmove(disk->entries, disk->entries + 1,
                disk->count * sizeof *disk->entries);
    }
}

void world_disk_append(struct world_disk *disk, uint64_t log_index,
                       struct world_entry entry)
{
    if (disk->count == 0) {
        disk->base = log_index - 1;
    }
    assert_int_equal(log_index, disk->base + disk->count + 1);
    if (disk->count == disk->capacity) {
        disk->capacity = disk->capacity * 2 + 64;
        disk->entries = memory_resize(disk->entries,
                                      disk->capacity * sizeof *disk->entries);
    }
    disk->entries[disk->count++] = entry;
}

void world_write_done(struct world_write *write)
{
    for (uint64_t i = 0; i < write->count; i++) {
        buffer_done(&write->entries[i].body);
    }
    free(write->entries);
}

void world_snapshot_copy(struct world_snapshot *to,
                         const struct world_snapshot *from)
{
    struct buffer members = to->members;
    buffer_clear(&members);
    buffer_put_bytes(&members, buffer_bytes(&from->members));
    *to = *from;
    to->members = members;
}

static inline uint64_t world_mix(uint64_t a, uint64_t b)
{
    struct prng prng = {.state = a * UINT64_C(0x100000001b3) ^ b};
    return prng_next(&prng);
}

static inline uint64_t world_hash(const struct replica_entry *entry)
{
    uint64_t hash = world_mix(entry->term, (uint64_t)entry->type);
    hash = world_mix(hash, entry->body.size);
    for (size_t i = 0; i < entry->body.size; i++) {
        hash = (hash ^ entry->body.data[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

uint64_t world_below(struct world *world, uint64_t bound)
{
    return prng_below(&world->prng, bound);
}

/* --- Oracles -------------------------------------------------------------- */

static inline void world_reserve(uint64_t **array, uint64_t *capacity,
                                 uint64_t index)
{
    if (index >= *capacity) {
        uint64_t larger = index * 2 + 256;
        *array = memory_resize(*array, larger * sizeof **array);
        memset(*array + *capacity, 0, (larger - *capacity) * sizeof **array);
        *capacity = larger;
    }
}

static inline void world_see_leader(struct world *world,
                                    struct world_node *node)
{
    uint64_t term = replica_term(node->replica);
    world_reserve(&world->leader_of_term, &world->term_capacity, term);
    WORLD_CHECK(world, world->leader_of_term[term] == 0 ||
                           world->leader_of_term[term] == node->id);
    world->leader_of_term[term] = node->id;
    if (term > world->newest_leader_term) {
        world->newest_leader_term = term;
    }
}

static inline void world_grow_seen(struct world *world)
{
    struct world_seen *old = world->seen;
    uint64_t old_capacity = world->seen_capacity;
    world->seen_capacity = old_capacity == 0 ? 4096 : old_capacity * 2;
    world->seen = memory_new(world->seen_capacity * sizeof *world->seen);
    for (uint64_t i = 0; i < old_capacity; i++) {
        if (old[i].log_index > 0) {
            uint64_t at = world_mix(old[i].log_index, old[i].term);
            while (world->seen[at % world->seen_capacity].log_index > 0) {
                at++;
            }
            world->seen[at % world->seen_capacity] = old[i];
        }
    }
    free(old);
}

static inline void world_see_entry(struct world *world, uint64_t prev_term,
                                   const struct replica_entry *entry)
{
    uint64_t hash = world_hash(entry);
    if (world->seen_count * 2 >= world->seen_capacity) {
        world_grow_seen(world);
    }
    uint64_t at = world_mix(entry->log_index, entry->term);
    struct world_seen *seen = &world->seen[at % world->seen_capacity];
    while (seen->log_index > 0 &&
           (seen->log_index != entry->log_index || seen->term != entry->term)) {
        seen = &world->seen[++at % world->seen_capacity];
    }
    if (seen->log_index == 0) {
        *seen = (struct world_seen){entry->log_index, entry->term, prev_term,
                                    hash};
        world->seen_count++;
    }
    WORLD_CHECK(world, seen->hash == hash);
    if (seen->prev_term == UINT64_MAX) {
        seen->prev_term = prev_term;
    }
    WORLD_CHECK(world, prev_term == UINT64_MAX || seen->prev_term == prev_term);
}

static inline void world_see_committed(struct world *world,
                                       const struct replica_entry *entry)
{
    uint64_t hash = world_hash(entry);
    world_reserve(&world->committed, &world->committed_capacity,
                  entry->log_index);
    WORLD_CHECK(world, world->committed[entry->log_index] == 0 ||
                           world->committed[entry->log_index] == hash);
    world->committed[entry->log_index] = hash;
    if (entry->log_index > world->committed_last) {
        world->committed_last = entry->log_index;
    }
}

static inline void world_see_confirmed(struct world *world,
                                       struct world_node *node)
{
    uint64_t confirmed = replica_confirmed(node->replica);
    for (uint32_t i = 0; i < WORLD_QUESTIONS; i++) {
        struct world_question *q = &node->questions[i];
        if (q->number == 0 || q->number > confirmed ||
            q->term != replica_term(node->replica)) {
            continue;
        }
        WORLD_CHECK(world, q->newest_leader_term <= q->term);
        WORLD_CHECK(world, q->known == 0 || q->known >= q->committed);
        q->number = 0;
        node->confirmed_count++;
    }
}

/* --- Disk ----------------------------------------------------------------- */

/* Carries out the first 'count' entries of the oldest write. */
static inline void world_write_to_disk(struct world_node *node, uint64_t count)
{
    struct world_write *write = &node->writes[0];
    if (write->truncate_from > 0) {
        world_disk_truncate(&node->disk, write->truncate_from);
    }
    for (uint64_t i = 0; i < count; i++) {
        world_disk_append(&node->disk, write->first + i, write->entries[i]);
        write->entries[i] = (struct world_entry){0};
    }
    world_write_done(write);
    node->write_count--;
    memmove(node->writes, node->writes + 1,
            node->write_count * sizeof *node->writes);
}

static inline void world_queue_write(struct world *world,
                                     struct world_node *node,
                                     const struct replica_update *update)
{
    struct world_write write = {
        .at_ms = world->now_ms + world->flush_ms[node->id] +
                 world_below(world, world->disk_ms + 1),
        .truncate_from = update->truncate_from,
        .count = update->entry_count,
    };
    if (node->write_count > 0 &&
        node->writes[node->write_count - 1].at_ms > write.at_ms) {
        write.at_ms = node->writes[node->write_count - 1].at_ms;
    }
    write.flush_ms = write.at_ms - world->now_ms;
    if (update->entry_count > 0) {
        write.first = update->entries[0].log_index;
        write.entries = memory_new(write.count * sizeof *write.entries);
    }
    for (uint64_t i = 0; i < write.count; i++) {
        const struct replica_entry *entry = &update->entries[i];
        write.entries[i].term = entry->term;
        write.entries[i].type = entry->type;
        buffer_put_bytes(&write.entries[i].body, entry->body);
    }
    node->writes = memory_resize(node->writes, (node->write_count + 1) *
                                                   sizeof *node->writes);
    node->writes[node->write_count++] = write;
}

/* --- Network -------------------------------------------------------------- */

static inline struct world_message *world_post(struct world *world,
                                               uint64_t from, uint64_t to)
{
    if (world->message_count == world->message_capacity) {
        world->message_capacity = world->message_capacity * 2 + 64;
        world->messages = memory_resize(
            world->messages, world->message_capacity * sizeof *world->messages);
    }
    struct world_message *message = &world->messages[world->message_count++];
    *message = (struct world_message){
        .at_ms = world->now_ms + 1 + world_below(world, world->delay_ms),
        .from = from,
        .to = to,
    };
    return message;
}

static inline void world_send(struct world *world, uint64_t from, uint64_t to,
                              struct bytes bytes)
{
    WORLD_CHECK(world, to > 0 && to < WORLD_NODES_MAX && to != from);
    if (world->cut[from][to] || prng_chance(&world->prng, world->drop)) {
        return;
    }
    buffer_put_bytes(&world_post(world, from, to)->bytes, bytes);
    if (prng_chance(&world->prng, world->twice)) {
        buffer_put_bytes(&world_post(world, from, to)->bytes, bytes);
    }
}

static inline void world_send_snapshot(struct world *world,
                                       struct world_node *node, uint64_t to)
{
    WORLD_CHECK(world, node->snapshot.log_index > 0);
    if (world->cut[node->id][to] || prng_chance(&world->prng, world->drop)) {
        return;
    }
    struct world_message *message = world_post(world, node->id, to);
    message->is_snapshot = true;
    message->leader_term = replica_term(node->replica);
    message->at_ms += world_below(world, 50);
    world_snapshot_copy(&message->snapshot, &node->snapshot);
}

static inline void world_install(struct world *world, struct world_node *node,
                                 const struct world_message *message)
{
    struct replica_update update;
    const struct world_snapshot *snapshot = &message->snapshot;
    bool is_newer = snapshot->log_index > node->snapshot.log_index;
    bool is_wanted = replica_install(
        node->replica, message->from, message->leader_term, snapshot->log_index,
        snapshot->term, buffer_bytes(&snapshot->members),
        snapshot->members_index, world->now_ms, &update);
    node->is_installing |= is_wanted;
    world_carry_out(world, node, &update);
    if (!is_wanted) {
        return;
    }
    WORLD_CHECK(world, is_newer);
    WORLD_CHECK(world, snapshot->log_index > node->applied);
    world_snapshot_copy(&node->snapshot, snapshot);
    node->taking_until_ms = 0;
    while (node->write_count > 0) {
        world_write_done(&node->writes[--node->write_count]);
    }
    if (world->stops_half_way && world_below(world, 10) == 0) {
        return;
    }
    world_disk_truncate(&node->disk, 1);
    node->applied = snapshot->log_index;
    node->state = snapshot->state;
    node->seen_commit = snapshot->log_index;
    node->trimmed = snapshot->log_index;
    node->is_installing = false;
    node->installed_count++;
    replica_installed(node->replica, world->now_ms, &update);
    world_carry_out(world, node, &update);
}

static inline void world_deliver(struct world *world,
                                 struct world_message message)
{
    struct world_node *node = &world->nodes[message.to];
    if (node->replica != NULL && !world->cut[message.from][message.to]) {
        if (message.is_snapshot) {
            world_install(world, node, &message);
        } else {
            struct replica_update update;
            int error = replica_receive(
                node->replica, message.from, DIRECTORY(message.from),
                buffer_bytes(&message.bytes), world->now_ms, &update);
            WORLD_CHECK(world, error == 0);
            world_carry_out(world, node, &update);
        }
    }
    buffer_done(&message.bytes);
    buffer_done(&message.snapshot.members);
}

/* --- Nodes ---------------------------------------------------------------- */

static inline void world_apply(struct world *world, struct world_node *node)
{
    uint64_t up_to = replica_appliable(node->replica);
    while (node->applied < up_to) {
        struct replica_entry entry = replica_entry(node->replica,
                                                   node->applied + 1);
        node->applied++;
        node->state = world_mix(node->state, world_hash(&entry));
        world_reserve(&world->state_at, &world->state_capacity, node->applied);
        WORLD_CHECK(world, world->state_at[node->applied] == 0 ||
                               world->state_at[node->applied] == node->state);
        world->state_at[node->applied] = node->state;
        replica_applied(node->replica, node->applied);
    }
}

/* The committed prefix that is known, durable here or not. */
static inline void world_see_commit(struct world *world,
                                    struct world_node *node)
{
    uint64_t last = replica_commit_index(node->replica);
    WORLD_CHECK(world, last >= node->seen_commit);
    WORLD_CHECK(world, last <= replica_last_index(node->replica));
    for (uint64_t i = node->seen_commit + 1; i <= last; i++) {
        struct replica_entry entry = replica_entry(node->replica, i);
        world_see_committed(world, &entry);
    }
    node->seen_commit = last;
}

static inline void world_trace(struct world *world,
                               const struct world_node *node,
                               const struct replica_update *update)
{
    uint64_t hash = world_mix(world->trace, node->id);
    hash = world_mix(hash, update->term * 4 + update->voted_for * 2 +
                               update->save_vote);
    hash = world_mix(hash, update->truncate_from * 4 + update->committed * 2 +
                               update->confirmed);
    for (uint32_t i = 0; i < update->entry_count; i++) {
        hash = world_mix(hash, world_hash(&update->entries[i]));
    }
    for (uint32_t i = 0; i < update->message_count; i++) {
        struct replica_entry whole = {.body = update->messages[i].bytes};
        hash = world_mix(hash, world_hash(&whole));
        hash = world_mix(hash, update->messages[i].to);
    }
    world->trace = hash;
}

/* While a vote is being saved, no message leaves that depends on it. */
static inline void world_check_early(struct world *world,
                                     const struct world_node *node,
                                     const struct replica_update *update)
{
    for (uint32_t i = 0; node->save_due_ms > 0 && i < update->message_count;
         i++) {
        struct message message;
        WORLD_CHECK(world,
                    message_decode(update->messages[i].bytes, &message) == 0);
        WORLD_CHECK(
            world, (message.kind == MESSAGE_VOTE && message.vote.is_standing) ||
                       (message.kind == MESSAGE_VOTE_RESULT &&
                        message.vote_result.is_pre_vote));
    }
}

static inline void world_start_save(struct world *world,
                                    struct world_node *node)
{
    node->saving_term = node->asked_term;
    node->saving_vote = node->asked_vote;
    node->save_ms = world->flush_ms[node->id] +
                    world_below(world, world->disk_ms + 1);
    node->save_due_ms = world->now_ms + node->save_ms;
}

/* The newest vote requested is saved, regardless of earlier requests. */
static inline void world_save_vote(struct world *world, struct world_node *node,
                                   const struct replica_update *update)
{
    uint64_t term = node->save_due_ms > 0 ? node->asked_term : node->term;
    uint64_t vote = node->save_due_ms > 0 ? node->asked_vote : node->voted_for;
    WORLD_CHECK(world, update->term >= term);
    WORLD_CHECK(world,
                update->term > term || vote == 0 || vote == update->voted_for);
    node->asked_term = update->term;
    node->asked_vote = update->voted_for;
    if (node->save_due_ms == 0) {
        world_start_save(world, node);
    }
}

static inline void world_vote_saved(struct world *world,
                                    struct world_node *node)
{
    struct replica_update update;
    node->save_due_ms = 0;
    node->term = node->saving_term;
    node->voted_for = node->saving_vote;
    if (node->asked_term != node->term || node->asked_vote != node->voted_for) {
        world_start_save(world, node);
    }
    replica_vote_saved(node->replica, node->term, node->voted_for,
                       node->save_ms, world->now_ms, &update);
    world_carry_out(world, node, &update);
}

void world_carry_out(struct world *world, struct world_node *node,
                     const struct replica_update *update)
{
    world_trace(world, node, update);
    if (update->save_vote) {
        world_save_vote(world, node, update);
    }
    WORLD_CHECK(world, update->term == (node->save_due_ms > 0 ? node->asked_term
                                                              : node->term));
    world_check_early(world, node, update);
    if (update->truncate_from > 0 || update->entry_count > 0) {
        for (uint32_t i = 0; i < update->entry_count; i++) {
            const struct replica_entry *entry = &update->entries[i];
            uint64_t before = UINT64_MAX; /* No longer known. */
            if (entry->log_index - 1 > node->trimmed) {
                before = replica_entry(node->replica, entry->log_index - 1)
                             .term;
            }
            world_see_entry(world, before, entry);
        }
        world_queue_write(world, node, update);
    }
    for (uint32_t i = 0; i < update->message_count; i++) {
        world_send(world, node->id, update->messages[i].to,
                   update->messages[i].bytes);
    }
    if (update->snapshot_to > 0) {
        world_send_snapshot(world, node, update->snapshot_to);
    }
    if (update->role_changed) {
        node->wants_begin = replica_role(node->replica) == REPLICA_LEADER;
        node->begin_index = 0;
        if (node->wants_begin) {
            world_see_leader(world, node);
        }
    }
    if (update->confirmed) {
        world_see_confirmed(world, node);
    }
    if (!node->is_installing) {
        world_see_commit(world, node);
    }
    if (update->committed) {
        world_apply(world, node);
    }
}

void world_start_node(struct world *world, struct world_node *node)
{
    struct replica_options options = {
        .id = node->id,
        .incarnation = DIRECTORY(node->id),
        .seed = prng_next(&world->prng),
        .election_ms = 300,
        .heartbeat_ms = 50,
        .snapshot_timeout_ms = 1000,
        .in_flight_max = world->in_flight_max,
    };
    struct replica_entry *entries = memory_new((node->disk.count + 1) *
                                               sizeof *entries);
    for (uint64_t i = 0; i < node->disk.count; i++) {
        entries[i] = (struct replica_entry){
            .term = node->disk.entries[i].term,
            .log_index = node->disk.base + 1 + i,
            .type = node->disk.entries[i].type,
            .body = buffer_bytes(&node->disk.entries[i].body),
        };
    }
    uint64_t last = node->disk.base + node->disk.count;
    if (node->applied < node->snapshot.log_index || node->applied > last ||
        last < node->snapshot.log_index || world->loses_tables) {
        node->applied = node->snapshot.log_index;
        node->state = node->snapshot.state;
    }
    struct replica_start start = {
        .term = node->term,
        .voted_for = node->voted_for,
        .snapshot_index = node->snapshot.log_index,
        .snapshot_term = node->snapshot.term,
        .snapshot_members = buffer_bytes(&node->snapshot.members),
        .snapshot_members_index = node->snapshot.members_index,
        .entries = entries,
        .entry_count = (uint32_t)node->disk.count,
        .applied_index = node->applied,
    };
    struct replica_update update;
    char why[HASP_WHY_SIZE] = "";
    node->replica = replica_new(&options);
    int error = replica_begin(node->replica, &start, world->now_ms, &update,
                              why);
    if (error != 0) {
        print_error("seed %" PRIu64 ": %s\n", world->seed, why);
    }
    WORLD_CHECK(world, error == 0);
    node->trimmed = node->disk.count > 0 && update.truncate_from == 0
                        ? node->disk.base
                        : node->snapshot.log_index;
    node->seen_commit = node->snapshot.log_index;
    node->is_installing = false;
    node->has_joined = true;
    node->wants_begin = false;
    memset(node->questions, 0, sizeof node->questions);
    free(entries);
    world_carry_out(world, node, &update);
}

void world_crash(struct world *world, struct world_node *node)
{
    if (node->replica == NULL) {
        return;
    }
    replica_free(node->replica);
    node->replica = NULL;
    node->taking_until_ms = 0;
    bool is_saving = node->save_due_ms > 0;
    node->save_due_ms = 0;
    if (is_saving && world_below(world, 2) == 0) {
        node->term = node->saving_term;
        node->voted_for = node->saving_vote;
    }
    /* The log is not written while a vote is being saved. */
    while (node->write_count > 0 && !is_saving && world_below(world, 2) == 0) {
        uint64_t count = node->writes[0].count;
        uint64_t written = world_below(world, count + 1);
        world_write_to_disk(node, written);
        if (written < count) {
            break;
        }
    }
    while (node->write_count > 0) {
        world_write_done(&node->writes[--node->write_count]);
    }
}

void world_kill(struct world *world, struct world_node *node)
{
    world_crash(world, node);
    for (uint64_t id = 1; id < WORLD_NODES_MAX; id++) {
        if (world->nodes[id].replica != NULL) {
            replica_hurry(world->nodes[id].replica, node->id, world->now_ms);
        }
    }
}

static inline void world_finish_writes(struct world *world,
                                       struct world_node *node)
{
    uint64_t term = 0;
    uint64_t last = 0;
    uint64_t flush_ms = 0;
    struct replica_update update;
    if (node->save_due_ms > 0 && node->save_due_ms <= world->now_ms) {
        world_vote_saved(world, node);
    }
    while (node->replica != NULL && node->write_count > 0 &&
           node->save_due_ms == 0 && node->writes[0].at_ms <= world->now_ms) {
        struct world_write *write = &node->writes[0];
        flush_ms = write->flush_ms;
        if (write->count > 0) {
            term = write->entries[write->count - 1].term;
            last = write->first + write->count - 1;
        }
        world_write_to_disk(node, write->count);
        /* Completions are reported one by one or several at once. */
        if (last > 0 && world_below(world, 2) == 0) {
            replica_persisted(node->replica, term, last, flush_ms,
                              world->now_ms, &update);
            last = 0;
            world_carry_out(world, node, &update);
        }
    }
    if (last > 0) {
        replica_persisted(node->replica, term, last, flush_ms, world->now_ms,
                          &update);
        world_carry_out(world, node, &update);
    }
}

static inline void world_take_snapshot(struct world *world,
                                       struct world_node *node)
{
    uint64_t since = node->applied - node->snapshot.log_index;
    if (node->taking_until_ms > 0 || world->snapshot_entries == 0 ||
        node->is_installing || since < world->snapshot_entries ||
        node->applied <= node->trimmed) {
        return;
    }
    struct world_snapshot *taking = &node->taking;
    buffer_clear(&taking->members);
    replica_members_at(node->replica, node->applied, &taking->members,
                       &taking->members_index);
    taking->log_index = node->applied;
    taking->term = replica_entry(node->replica, node->applied).term;
    taking->state = node->state;
    node->taking_until_ms = world->now_ms + 1 + world_below(world, 30);
}

static inline void world_end_snapshot(struct world *world,
                                      struct world_node *node)
{
    struct replica_update update;
    if (node->taking_until_ms == 0 || node->taking_until_ms > world->now_ms) {
        return;
    }
    node->taking_until_ms = 0;
    world_snapshot_copy(&node->snapshot, &node->taking);
    uint64_t trimmed = replica_snapshot_taken(
        node->replica, node->taking.log_index, world->now_ms, &update);
    if (trimmed > node->trimmed) {
        node->trimmed = trimmed;
        /* Whole segments only: some more stays on disk. */
        uint64_t kept = world_below(world, 3);
        world_disk_trim(&node->disk, trimmed > kept ? trimmed - kept : 0);
    }
    world_carry_out(world, node, &update);
}

int world_submit(struct world *world, struct world_node *node, uint32_t count,
                 uint64_t *ret_first)
{
    uint8_t body[64];
    struct bytes commands[64];
    struct replica_update update;
    assert_true(count <= 64);
    memset(body, (int)world_below(world, 256), sizeof body);
    for (uint32_t i = 0; i < count; i++) {
        commands[i] = bytes_of(body, world_below(world, sizeof body + 1));
    }
    store_u64(body, ++world->last_command);
    int error = replica_submit(node->replica, commands, count, world->now_ms,
                               ret_first, &update);
    world_carry_out(world, node, &update);
    return error;
}

void world_ask(struct world *world, struct world_node *node)
{
    struct replica_update update;
    uint64_t commit = replica_commit_index(node->replica);
    uint64_t expected = replica_next_question(node->replica);
    struct world_question question = {
        .term = replica_term(node->replica),
        .newest_leader_term = world->newest_leader_term,
        .committed = world->committed_last,
    };
    if (node->begin_index > 0 && commit >= node->begin_index) {
        question.known = commit;
    }
    question.number = replica_ask(node->replica, world->now_ms, &update);
    if (question.number > 0) {
        WORLD_CHECK(world, question.number == expected);
        node->questions[question.number % WORLD_QUESTIONS] = question;
    }
    world_carry_out(world, node, &update);
}

/* The work of a replica's owner at the end of each turn. */
static inline void world_turn(struct world *world, struct world_node *node)
{
    struct replica_update update;
    world_finish_writes(world, node);
    world_end_snapshot(world, node);
    if (replica_deadline(node->replica) <= world->now_ms) {
        replica_tick(node->replica, world->now_ms, &update);
        world_carry_out(world, node, &update);
        WORLD_CHECK(world, replica_deadline(node->replica) > world->now_ms ||
                               update.snapshot_to > 0);
    }
    if (node->wants_begin) {
        node->wants_begin = false;
        if (world_submit(world, node, 1, &node->begin_index) != 0) {
            node->begin_index = 0;
        }
    }
    world_take_snapshot(world, node);
}

void world_step(struct world *world)
{
    world->now_ms++;
    for (uint32_t i = 0; i < world->message_count;) {
        struct world_message message = world->messages[i];
        if (message.at_ms > world->now_ms) {
            i++;
            continue;
        }
        world->messages[i] = world->messages[--world->message_count];
        world_deliver(world, message);
    }
    for (uint64_t id = 1; id < WORLD_NODES_MAX; id++) {
        if (world->nodes[id].replica != NULL) {
            world_turn(world, &world->nodes[id]);
        }
    }
}

void world_run(struct world *world, uint64_t duration_ms)
{
    for (uint64_t i = 0; i < duration_ms; i++) {
        world_step(world);
    }
}

void world_init(struct world *world, uint64_t seed, uint32_t count)
{
    struct replica_members members = {.count = count};
    struct buffer encoded = {0};
    *world = (struct world){
        .seed = seed,
        .prng.state = seed,
        .now_ms = 1000,
        .node_count = count,
        .delay_ms = 3,
        .disk_ms = 2,
        .in_flight_max = 64,
    };
    for (uint32_t i = 0; i < count; i++) {
        members.member[i].id = i + 1;
        members.member[i].incarnation = DIRECTORY(i + 1);
        members.member[i].role = MEMBER_VOTER;
        snprintf(members.member[i].address, MEMBER_ADDRESS_SIZE, "n%u", i + 1);
    }
    replica_members_encode(&members, &encoded);
    for (uint64_t id = 1; id < WORLD_NODES_MAX; id++) {
        struct world_node *node = &world->nodes[id];
        node->id = id;
        if (id <= count) {
            struct world_entry first = {.term = 1, .type = ENTRY_CHANGE};
            buffer_put_bytes(&first.body, buffer_bytes(&encoded));
            world_disk_append(&node->disk, 1, first);
            world_start_node(world, node);
        }
    }
    buffer_done(&encoded);
}

void world_done(struct world *world)
{
    for (uint64_t id = 1; id < WORLD_NODES_MAX; id++) {
        struct world_node *node = &world->nodes[id];
        replica_free(node->replica);
        while (node->write_count > 0) {
            world_write_done(&node->writes[--node->write_count]);
        }
        free(node->writes);
        world_disk_truncate(&node->disk, 1);
        free(node->disk.entries);
        buffer_done(&node->snapshot.members);
        buffer_done(&node->taking.members);
    }
    for (uint32_t i = 0; i < world->message_count; i++) {
        buffer_done(&world->messages[i].bytes);
        buffer_done(&world->messages[i].snapshot.members);
    }
    free(world->messages);
    free(world->leader_of_term);
    free(world->committed);
    free(world->state_at);
    free(world->seen);
}

struct world_node *world_leader(struct world *world)
{
    for (uint64_t id = 1; id < WORLD_NODES_MAX; id++) {
        struct world_node *node = &world->nodes[id];
        if (node->replica != NULL &&
            replica_role(node->replica) == REPLICA_LEADER &&
            replica_term(node->replica) == world->newest_leader_term &&
            node->begin_index > 0 && node->applied >= node->begin_index) {
            return node;
        }
    }
    return NULL;
}

struct world_node *world_wait_leader(struct world *world)
{
    for (uint32_t i = 0; i < 60000; i++) {
        struct world_node *leader = world_leader(world);
        if (leader != NULL) {
            return leader;
        }
        world_step(world);
    }
    WORLD_CHECK(world, false && "no leader in a minute");
    return NULL;
}

void world_heal(struct world *world)
{
    memset(world->cut, 0, sizeof world->cut);
    world->drop = 0;
    world->twice = 0;
    for (uint64_t id = 1; id < WORLD_NODES_MAX; id++) {
        struct world_node *node = &world->nodes[id];
        if (node->is_installing) {
            world_crash(world, node);
        }
        if (node->replica == NULL && node->has_joined) {
            world_start_node(world, node);
        }
    }
}

static inline bool world_is_settled(struct world *world)
{
    struct world_node *leader = world_leader(world);
    struct replica_members members;
    if (leader == NULL ||
        leader->applied != replica_last_index(leader->replica)) {
        return false;
    }
    replica_members(leader->replica, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        struct world_node *node = &world->nodes[members.member[i].id];
        if (members.member[i].role != MEMBER_SPARE &&
            (node->replica == NULL || node->is_installing ||
             node->applied != leader->applied ||
             node->state != leader->state)) {
            return false;
        }
    }
    return true;
}

void world_settle(struct world *world)
{
    uint64_t first;
    for (uint32_t i = 0; i < 60000; i++) {
        struct world_node *leader = world_leader(world);
        if (i % 500 == 0 && leader != NULL) {
            (void)world_submit(world, leader, 1, &first);
        }
        world_step(world);
        if (i > 2000 && world_is_settled(world)) {
            return;
        }
        for (uint64_t id = 1; id < WORLD_NODES_MAX; id++) {
            struct world_node *node = &world->nodes[id];
            if (node->is_installing) { /* Left half-way: see world_install(). */
                world_crash(world, node);
                world_start_node(world, node);
            }
        }
    }
    WORLD_CHECK(world, false && "not settled in a minute");
}
