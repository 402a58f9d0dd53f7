/* SPDX-License-Identifier: MIT */

#include "tests/unit/core_world.h"
#include "core/commands/table.h"

char world_why[HASP_WHY_SIZE];

/* --- The port ------------------------------------------------------------- */

/* A term or a vote is on disk before a message that depends on it leaves. */
static void check_rests_on_disk(const struct world_node *node, uint64_t to,
                                struct bytes body)
{
    struct message message;
    uint64_t vote = 0;
    bool is_pre_vote = false;
    if (message_decode(body, &message) != 0) {
        return;
    }
    if (message.kind == MESSAGE_VOTE) {
        is_pre_vote = message.vote.is_pre_vote || message.vote.is_standing;
        vote = node->id;
    } else if (message.kind == MESSAGE_VOTE_RESULT) {
        is_pre_vote = message.vote_result.is_pre_vote;
        vote = message.vote_result.is_granted ? to : 0;
    }
    if (!is_pre_vote && (message.term > node->term ||
                         (vote != 0 && message.term == node->term &&
                          vote != node->voted_for))) {
        fail_msg("a message of term %llu left before its vote was saved",
                 (unsigned long long)message.term);
    }
}

static void port_save_vote(void *data, uint64_t term, uint64_t voted_for)
{
    struct world_node *node = data;
    node->asked_term = term;
    node->asked_vote = voted_for;
    node->vote_due_ms = node->world->now_ms + WRITE_MS;
}

void port_log_truncate(void *data, uint64_t from_index)
{
    struct world_node *node = data;
    CHECK(from_index >= node->log.first);
    while (node->log.count > 0 &&
           node->log.first + node->log.count > from_index) {
        free((void *)node->log.entry[--node->log.count].body.data);
    }
}

static void port_log_append(void *data, const struct replica_entry *entries,
                            uint32_t count)
{
    struct world_node *node = data;
    struct world_log *log = &node->log;
    world_log_reserve(log, count);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(entries[i].log_index == log->first + log->count);
        log->entry[log->count] = entries[i];
        log->entry[log->count++].body = bytes_of(
            memory_copy(entries[i].body.data, entries[i].body.size),
            entries[i].body.size);
        node->log_bytes += entries[i].body.size;
    }
    if (node->durable_due_ms == 0) {
        node->durable_due_ms = node->world->now_ms + WRITE_MS + node->flush_ms;
    }
}

static void port_log_trim(void *data, uint64_t up_to_index)
{
    struct world_node *node = data;
    struct world_log *log = &node->log;
    while (log->count > 0 && log->first <= up_to_index) {
        free((void *)log->entry[0].body.data);
        memmove(log->entry, log->entry + 1, --log->count * sizeof *log->entry);
        log->first++;
    }
}

static int put_piece(void *data, struct bytes piece)
{
    buffer_put_bytes(data, piece);
    return 0;
}

static void port_snapshot_take(void *data, const struct snapshot_header *header)
{
    struct world_node *node = data;
    struct table_txn *txn;
    assert_int_equal(table_begin_read(node->table, &txn), 0);
    buffer_clear(&node->snapshot);
    assert_int_equal(snapshot_encode(header, txn, put_piece, &node->snapshot),
                     0);
    table_abort(txn);
    node->snapshot_index = header->last_index;
    node->snapshot_term = header->last_term;
    node->snapshot_members_index = header->configuration_index;
    node->snapshot_due = true;
}

static bool port_snapshot_stat(void *data, uint64_t *ret_index,
                               uint64_t *ret_term, uint64_t *ret_size)
{
    struct world_node *node = data;
    *ret_index = node->snapshot_index;
    *ret_term = node->snapshot_term;
    *ret_size = node->snapshot.size;
    return node->snapshot_index != 0;
}

static bool port_snapshot_read(void *data, uint64_t index, uint64_t term,
                               uint64_t offset, size_t size, struct buffer *out)
{
    struct world_node *node = data;
    if (index != node->snapshot_index || term != node->snapshot_term ||
        offset >= node->snapshot.size) {
        return false;
    }
    if (size > node->snapshot.size - offset) {
        size = node->snapshot.size - offset;
    }
    buffer_put(out, node->snapshot.data + offset, size);
    return true;
}

static uint64_t port_snapshot_room(void *data)
{
    const struct world_node *node = data;
    return node->disk_room != 0 ? node->disk_room : UINT64_MAX;
}

static void port_snapshot_write(void *data, uint64_t offset, struct bytes chunk)
{
    struct world_node *node = data;
    if (offset == 0) {
        buffer_clear(&node->incoming);
    }
    CHECK(offset == node->incoming.size);
    buffer_put_bytes(&node->incoming, chunk);
}

static void port_snapshot_adopt(void *data)
{
    struct world_node *node = data;
    node->snapshot_adopt_due = true;
}

static void port_snapshot_install(void *data, uint64_t next_index)
{
    struct world_node *node = data;
    node->install_next = next_index;
}

static void install(struct world_node *node)
{
    struct table_txn *txn;
    port_log_truncate(node, node->log.first);
    node->log.first = node->install_next;
    node->durable_due_ms = 0;
    node->install_next = 0;
    assert_int_equal(table_begin_write(node->table, &txn), 0);
    assert_int_equal(snapshot_decode(buffer_bytes(&node->snapshot), txn), 0);
    assert_int_equal(table_commit(txn), 0);
}

static bool port_peer_is_up(void *data, uint64_t id)
{
    struct world_node *node = data;
    return id <= NODE_MAX && node->link_up[id];
}

static struct buffer *port_peer_output(void *data, uint64_t id,
                                       enum frame_type type)
{
    (void)type;
    struct world_node *node = data;
    return port_peer_is_up(data, id) ? &node->out[id] : NULL;
}

static void port_peers_changed(void *data,
                               const struct replica_members *members)
{
    (void)data;
    (void)members;
}

static void port_peer_drop(void *data, uint64_t id)
{
    struct world_node *node = data;
    CHECK(id <= NODE_MAX);
    node->has_dropped[id] = true;
}

static uint64_t port_peer_silence_ms(void *data, uint64_t id)
{
    const struct world_node *node = data;
    return id > NODE_MAX || node->heard_ms[id] == 0
               ? UINT64_MAX
               : node->world->now_ms - node->heard_ms[id];
}

static void port_probe_address(void *data, uint64_t number, uint64_t id,
                               const char *address)
{
    struct world_node *node = data;
    node->probe_number = number;
    node->probe_id = id;
    snprintf(node->probe_address, sizeof node->probe_address, "%s", address);
}

static struct buffer *port_client_output(void *data, uint64_t conn)
{
    struct world_node *node = data;
    CHECK(conn < CONN_MAX);
    return &node->client[conn].output;
}

static void port_client_close(void *data, uint64_t conn, const char *reason)
{
    struct world_node *node = data;
    (void)reason;
    node->client[conn].was_closed = true;
}

static void port_client_block(void *data, uint64_t conn, bool is_blocked)
{
    struct world_node *node = data;
    node->client[conn].is_blocked = is_blocked;
}

static uint64_t port_wall_ms(void *data)
{
    (void)data;
    return UINT64_C(1800000000000);
}

static void port_random(void *data, void *out, size_t size)
{
    struct world_node *node = data;
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)out)[i] = (uint8_t)prng_next(&node->prng);
    }
}

static void port_cluster_known(void *data,
                               const uint8_t cluster_id[CLUSTER_ID_SIZE])
{
    struct world_node *node = data;
    memcpy(node->cluster_id, cluster_id, CLUSTER_ID_SIZE);
}

static void port_fatal(void *data, int exit_code, const char *why)
{
    struct world_node *node = data;
    fprintf(stderr, "node %d: %s\n", (int)node->id, why);
    node->fatal_code = exit_code;
}

static void port_bar(void *data, const struct core_accusation *accusation,
                     const char *why)
{
    struct world_node *node = data;
    (void)why;
    node->accused = *accusation;
}

static void port_unbar(void *data)
{
    struct world_node *node = data;
    node->accused = (struct core_accusation){0};
}

static bool port_peer_is_proven(void *data, uint64_t id)
{
    const struct world_node *node = data;
    (void)id;
    return !node->is_plain;
}

static void port_access_changed(void *data)
{
    (void)data;
}

static void port_data_lost(void *data, const char *why)
{
    port_fatal(data, 70, why);
}

static struct world_progress progress_of(const struct world_node *node)
{
    const struct lockfsm *fsm = core_state(node->core);
    return (struct world_progress){lockfsm_applied_index(fsm),
                                   lockfsm_flushed_index(fsm), node->log_bytes};
}

/* Entries are proposed, applied and written to the table, each in the stage of
 * that name, and a stage is over only if its work is done. A snapshot is taken
 * of a table that has all entries. */
static void port_stage_over(void *data, enum core_stage stage)
{
    struct world_node *node = data;
    struct world_progress now = progress_of(node);
    struct world_progress *before = &node->stage_begin;
    bool is_upkeep = stage == CORE_STAGE_UPKEEP;
    assert_true(
        (int)stage >= node->stage_next ||
        (stage == CORE_STAGE_PROPOSE && node->stage_next <= CORE_STAGE_TABLE));
    /* A round begins with PROPOSE. */
    assert_true(stage != CORE_STAGE_APPLY ||
                node->stage_next == CORE_STAGE_APPLY);
    assert_true(node->stage_next != 0 || stage == CORE_STAGE_PROPOSE ||
                node->fatal_code != 0);
    assert_true(now.log_bytes == before->log_bytes ||
                stage == CORE_STAGE_PROPOSE);
    assert_true((now.applied != before->applied) ==
                (stage == CORE_STAGE_APPLY));
    assert_true(now.flushed == before->flushed || stage == CORE_STAGE_TABLE ||
                (is_upkeep && node->snapshot_due));
    assert_true(stage != CORE_STAGE_TABLE || now.flushed != before->flushed ||
                now.flushed < now.applied); /* Not written: it was full. */
    *before = now;
    node->stage_next = is_upkeep ? 0 : (int)stage + 1;
}

static struct core_port port_of(struct world_node *node)
{
    return (struct core_port){
        .save_vote = port_save_vote,
        .log_truncate = port_log_truncate,
        .log_append = port_log_append,
        .log_trim = port_log_trim,
        .snapshot_take = port_snapshot_take,
        .snapshot_stat = port_snapshot_stat,
        .snapshot_read = port_snapshot_read,
        .snapshot_room = port_snapshot_room,
        .snapshot_write = port_snapshot_write,
        .snapshot_adopt = port_snapshot_adopt,
        .snapshot_install = port_snapshot_install,
        .peer_is_up = port_peer_is_up,
        .peer_output = port_peer_output,
        .peers_changed = port_peers_changed,
        .peer_drop = port_peer_drop,
        .peer_silence_ms = port_peer_silence_ms,
        .peer_is_proven = port_peer_is_proven,
        .probe_address = port_probe_address,
        .client_output = port_client_output,
        .client_close = port_client_close,
        .client_block = port_client_block,
        .random = port_random,
        .wall_ms = port_wall_ms,
        .cluster_known = port_cluster_known,
        .access_changed = port_access_changed,
        .bar = port_bar,
        .unbar = port_unbar,
        .data_lost = port_data_lost,
        .stage_over = port_stage_over,
        .fatal = port_fatal,
        .data = node,
    };
}

/* --- Nodes ---------------------------------------------------------------- */

uint64_t clock_permille(const struct world_node *node)
{
    return node->clock_permille != 0 ? node->clock_permille : 1000;
}

uint64_t node_now(const struct world_node *node)
{
    return node->world->now_ms * (MS / 1000) * clock_permille(node) +
           node->clock_offset_ns;
}

/* Its timer fires when its clock shows that time, at the latest. */
static uint64_t world_ms_at(const struct world_node *node, uint64_t local_ns)
{
    uint64_t per_ms = MS / 1000 * clock_permille(node);
    return (local_ns - node->clock_offset_ns + per_ms - 1) / per_ms;
}

/* How often unconnected nodes try again. */
#define REDIAL_MS 20

const char *world_network;

static struct replica_members world_members(uint64_t count)
{
    struct replica_members members = {.count = (uint32_t)count};
    for (uint64_t i = 1; i <= count; i++) {
        struct replica_member *member = &members.member[i - 1];
        member->id = i;
        member->incarnation = WORLD_DIRECTORY(i);
        member->role = MEMBER_VOTER;
        char host[32] = "127.0.0.1";
        if (world_network != NULL) {
            snprintf(host, sizeof host, "%s%d", world_network, (int)i);
        }
        snprintf(member->address, sizeof member->address, "%s:%d,%s:%d", host,
                 7100 + (int)i, host, 7200 + (int)i);
    }
    return members;
}

void node_start(struct world *world, uint64_t id)
{
    struct world_node *node = &world->node[id];
    struct core_port port = port_of(node);
    if (world->adapt != NULL) {
        world->adapt(&port);
    }
    struct core_options options = {
        .id = id,
        .seed = 1000 + id,
        .incarnation = node->incarnation,
        .replace_empty_ns = world->replace_empty_ns,
        .election_ms = 200,
        .heartbeat_ms = 40,
        .redirect = world->redirect,
        .trusted = world->trusted,
        .accused = node->accused,
        .limits = world->limits,
        .version = "0.0.test",
        .feature_level = node->feature_level,
        .finalizes_itself = world->finalizes_itself,
        .allows_no_ttl = world->allows_no_ttl,
        .renews_same_value = world->renews_same_value,
        .founders_level = world->founders_level,
        .is_marked = !node->is_unmarked,
    };
    if (world->founding[id] != NULL) {
        options.limits.founding = *world->founding[id];
    }
    char why[HASP_WHY_SIZE] = "";
    struct core_start start = {.table = node->table};
    start.replica.term = node->term;
    start.replica.voted_for = node->voted_for;
    start.replica.entries = node->log.entry;
    start.replica.entry_count = node->log.count;
    struct snapshot_header header;
    if (node->snapshot_index != 0) {
        assert_int_equal(
            snapshot_check(buffer_bytes(&node->snapshot), &header, why), 0);
        start.replica.snapshot_index = header.last_index;
        start.replica.snapshot_term = header.last_term;
        start.replica.snapshot_members = header.configuration;
        start.replica.snapshot_members_index = header.configuration_index;
    }
    node->core = core_new(&options, &port, &core_commands);
    if (core_begin(node->core, &start, node_now(node), why) != 0) {
        fail_msg("core_begin: %s", why);
    }
    node->next_turn_ms = world->now_ms;
}

struct world *world_new(uint64_t count)
{
    struct world *world = memory_new(sizeof *world);
    world->now_ms = 1000;
    world->latency_ms = 1;
    world->node_count = count;
    world->limits = core_default_limits;
    world->limits.founding.of[LIMIT_TTL_MAX] = TTL_ASKED_MS_MAX;
    for (uint64_t id = 1; id <= NODE_MAX; id++) {
        struct world_node *node = &world->node[id];
        node->world = world;
        node->id = id;
        node->table = table_new_memory();
        node->log.first = 1;
        node->prng.state = id;
        node->incarnation = WORLD_DIRECTORY(id);
    }
    return world;
}

void world_found(struct world *world)
{
    struct replica_members members = world_members(world->node_count);
    struct buffer encoded = {0};
    replica_members_encode(&members, &encoded);
    for (uint64_t id = 1; id <= world->node_count; id++) {
        struct replica_entry entry = {1, 1, ENTRY_CHANGE,
                                      buffer_bytes(&encoded)};
        port_log_append(&world->node[id], &entry, 1);
        world->node[id].durable_due_ms = 0;
        node_start(world, id);
    }
    buffer_done(&encoded);
    links_update(world);
}

static void client_drop(struct world_client *client)
{
    buffer_done(&client->output);
    buffer_done(&client->waiting);
    *client = (struct world_client){0};
}

void node_kill(struct world *world, uint64_t id)
{
    struct world_node *node = &world->node[id];
    core_free(node->core);
    node->core = NULL;
    for (int i = 0; i < CONN_MAX; i++) {
        client_drop(&node->client[i]);
    }
    for (int i = 0; i <= NODE_MAX; i++) {
        buffer_done(&node->out[i]);
    }
    memset(node->cluster_id, 0, sizeof node->cluster_id);
    memset(node->heard_ms, 0, sizeof node->heard_ms);
    if (node->vote_due_ms != 0) {
        node->vote_due_ms = 0; /* It has reached the disk. */
        node->term = node->asked_term;
        node->voted_for = node->asked_vote;
    }
    node->probe_number = 0;
    node->durable_due_ms = 0;
    node->snapshot_due = node->snapshot_adopt_due = false;
    if (node->install_next != 0) {
        install(node); /* As the next start does. */
    }
    links_update(world);
}

void node_wipe(struct world *world, uint64_t id)
{
    struct world_node *node = &world->node[id];
    node_kill(world, id);
    port_log_truncate(node, node->log.first);
    node->log.first = 1;
    table_close(node->table);
    node->table = table_new_memory();
    buffer_clear(&node->snapshot);
    node->snapshot_index = node->snapshot_term = node->snapshot_members_index =
        node->term = node->voted_for = node->asked_term = node->asked_vote = 0;
    node->incarnation += 1000;
}

void world_free(struct world *world)
{
    for (uint64_t id = 1; id <= NODE_MAX; id++) {
        struct world_node *node = &world->node[id];
        if (node->core != NULL) {
            core_free(node->core);
        }
        for (int i = 0; i < CONN_MAX; i++) {
            client_drop(&node->client[i]);
        }
        for (int i = 0; i <= NODE_MAX; i++) {
            buffer_done(&node->out[i]);
        }
        port_log_truncate(node, node->log.first);
        free(node->log.entry);
        buffer_done(&node->snapshot);
        buffer_done(&node->incoming);
        table_close(node->table);
    }
    for (uint32_t i = 0; i < world->message_count; i++) {
        free((void *)world->message[i].body.data);
    }
    free(world->message);
    free(world);
}

struct frame_hello hello_of(const struct world *world, uint64_t id)
{
    const struct world_node *node = &world->node[id];
    struct frame_hello hello = {.from = id, .incarnation = node->incarnation};
    memcpy(hello.cluster_id, node->cluster_id, sizeof hello.cluster_id);
    core_fill_hello(node->core, &hello);
    return hello;
}

/* True if node 'a' accepts the current greeting of node 'b'. */
static bool lets_in(struct world *world, uint64_t a, uint64_t b)
{
    char why[HASP_WHY_SIZE];
    struct frame_hello hello = hello_of(world, b);
    return core_check_peer(world->node[a].core, &hello, why) == 0;
}

/* Both ends agree: if one has dropped the link, it is down, and is connected
 * again if both greet each other again. */
static bool is_linked(struct world *world, uint64_t a, uint64_t b)
{
    struct world_node *one = &world->node[a], *other = &world->node[b];
    if (a == b || one->core == NULL || other->core == NULL ||
        world->cut[a][b] || world->cut[b][a] || one->has_dropped[b] ||
        other->has_dropped[a]) {
        return false;
    }
    return (one->link_up[b] && other->link_up[a]) ||
           (lets_in(world, a, b) && lets_in(world, b, a));
}

void links_update(struct world *world)
{
    for (uint64_t a = 1; a <= NODE_MAX; a++) {
        for (uint64_t b = 1; b <= NODE_MAX; b++) {
            struct world_node *node = &world->node[a];
            struct world_node *other = &world->node[b];
            bool is_up = is_linked(world, a, b) && !node->is_unnamed[b] &&
                         !other->is_unnamed[a];
            if (node->link_up[b] == is_up) {
                continue;
            }
            node->link_up[b] = is_up;
            buffer_clear(&node->out[b]);
            for (uint32_t i = 0; !is_up && i < world->message_count;) {
                struct world_message *m = &world->message[i];
                if (m->from == b && m->to == a) {
                    free((void *)m->body.data);
                    memmove(m, m + 1, (--world->message_count - i) * sizeof *m);
                } else {
                    i++;
                }
            }
            if (node->core == NULL) {
                continue;
            }
            if (is_up) {
                node->heard_ms[b] = world->now_ms;
                struct frame_hello hello = hello_of(world, b);
                core_peer_up(node->core, &hello, node_now(node));
            } else {
                core_peer_down(node->core, b, other->core == NULL,
                               node_now(node));
            }
            node->next_turn_ms = world->now_ms;
        }
    }
    for (uint64_t a = 1; a <= NODE_MAX; a++) {
        memset(world->node[a].has_dropped, 0,
               sizeof world->node[a].has_dropped);
    }
}

void world_cut(struct world *world, uint64_t id, bool is_cut)
{
    for (uint64_t other = 1; other <= NODE_MAX; other++) {
        world->cut[id][other] = is_cut;
    }
    links_update(world);
}

/* --- Clients -------------------------------------------------------------- */

void client_open_as(struct world *world, uint64_t node, uint64_t conn,
                    const struct identity *identity)
{
    struct world_node *at = &world->node[node];
    char address[32];
    client_drop(&at->client[conn]);
    at->conn_end = conn < at->conn_end ? at->conn_end : conn + 1;
    at->client[conn].is_open = true;
    snprintf(address, sizeof address, "10.0.0.%d:%d", (int)node, (int)conn);
    core_client_opened(at->core, conn, address, identity, node_now(at));
    at->next_turn_ms = world->now_ms;
}

void client_open(struct world *world, uint64_t node, uint64_t conn)
{
    client_open_as(
        world, node, conn,
        &(struct identity){.way = IDENTITY_NONE, .is_private = true});
}

void client_close(struct world *world, uint64_t node, uint64_t conn)
{
    struct world_node *at = &world->node[node];
    core_client_closed(at->core, conn, node_now(at));
    at->client[conn].is_open = false;
    at->next_turn_ms = world->now_ms;
}

void client_feed(struct world_node *node, uint64_t conn)
{
    struct world_client *client = &node->client[conn];
    struct resp_parser parser = {0};
    while (client->is_open && !client->is_blocked && !client->was_closed &&
           client->waiting.size > 0) {
        struct resp_request request;
        size_t used;
        const char *why;
        struct buffer copy = {0};
        buffer_put_bytes(&copy, buffer_bytes(&client->waiting));
        assert_int_equal(
            resp_parse(&parser, buffer_bytes(&copy), &request, &used, &why), 0);
        buffer_consume(&client->waiting, used);
        core_client_request(node->core, conn, &request, node_now(node));
        node->next_turn_ms = node->world->now_ms;
        buffer_done(&copy);
    }
    resp_parser_done(&parser);
}

void client_send(struct world *world, uint64_t node, uint64_t conn,
                 const char *format, ...)
{
    char text[4096];
    struct bytes words[64];
    uint32_t count = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        words[count++] = strcmp(word, "''") == 0 ? BYTES_LITERAL("")
                                                 : bytes_of_text(word);
    }
    struct world_client *client = &world->node[node].client[conn];
    resp_request_begin(&client->waiting, count);
    for (uint32_t i = 0; i < count; i++) {
        resp_request_argument(&client->waiting, words[i]);
    }
    client_feed(&world->node[node], conn);
}

const char *client_text(struct world *world, uint64_t node, uint64_t conn)
{
    struct buffer *output = &world->node[node].client[conn].output;
    buffer_put_u8(output, 0);
    output->size--;
    return (const char *)output->data;
}

void client_clear(struct world *world, uint64_t node, uint64_t conn)
{
    buffer_clear(&world->node[node].client[conn].output);
}

/* --- Time ----------------------------------------------------------------- */

static void world_collect(struct world *world, struct world_node *node)
{
    for (uint64_t to = 1; to <= NODE_MAX; to++) {
        struct buffer *out = &node->out[to];
        size_t at = 0;
        while (at < out->size) {
            struct world_message message = {
                world->now_ms + world->latency_ms, node->id, to, 0, {0}};
            struct bytes body;
            size_t used;
            assert_int_equal(
                frame_parse(bytes_of(out->data + at, out->size - at),
                            FRAME_SIZE_MAX, &message.type, &body, &used),
                0);
            at += used;
            if (message.type == FRAME_RAFT) {
                check_rests_on_disk(node, to, body);
            }
            message.body = bytes_of(memory_copy(body.data, body.size),
                                    body.size);
            if (world->message_count == world->message_capacity) {
                world->message_capacity = 2 * world->message_capacity + 64;
                world->message = memory_resize(world->message,
                                               world->message_capacity *
                                                   sizeof *world->message);
            }
            world->message[world->message_count++] = message;
        }
        buffer_clear(out);
    }
}

static void world_deliver(struct world *world)
{
    uint32_t kept = 0, count = world->message_count;
    struct world_message *messages = memory_copy(world->message,
                                                 count * sizeof *messages);
    for (uint32_t i = 0; i < count; i++) {
        if (messages[i].due_ms > world->now_ms ||
            world->node[messages[i].to].is_paused) {
            world->message[kept++] = messages[i];
        }
    }
    world->message_count = kept;
    for (uint32_t i = 0; i < count; i++) {
        struct world_message *m = &messages[i];
        struct world_node *to = &world->node[m->to];
        if (m->due_ms > world->now_ms || to->is_paused) {
            continue;
        }
        if (to->core != NULL && to->link_up[m->from]) {
            to->heard_ms[m->from] = world->now_ms;
            int error = core_peer_frame(to->core, m->from, m->type, m->body,
                                        node_now(to), world_why);
            assert_true(error == 0 || world->node[m->from].may_fail);
            to->next_turn_ms = world->now_ms;
        }
        free((void *)m->body.data);
    }
    free(messages);
}

static void node_disk(struct world_node *node)
{
    struct world *world = node->world;
    if (node->vote_due_ms != 0 && node->vote_due_ms <= world->now_ms &&
        !node->is_disk_stuck) {
        node->vote_due_ms = 0;
        node->term = node->asked_term;
        node->voted_for = node->asked_vote;
        core_vote_saved(node->core, node->term, node->voted_for, WRITE_MS * MS,
                        node_now(node));
        node->next_turn_ms = world->now_ms;
    }
    if (node->durable_due_ms != 0 && node->durable_due_ms <= world->now_ms &&
        node->vote_due_ms == 0 && !node->is_disk_stuck) {
        node->durable_due_ms = 0;
        if (node->log.count > 0) {
            struct replica_entry *last = &node->log.entry[node->log.count - 1];
            core_persisted(node->core, last->term, last->log_index,
                           (WRITE_MS + node->flush_ms) * MS, node_now(node));
        }
        node->next_turn_ms = world->now_ms;
    }
    if (node->snapshot_due) {
        node->snapshot_due = false;
        core_snapshot_taken(node->core, node->snapshot_index, 0,
                            node_now(node));
        node->next_turn_ms = world->now_ms;
    }
    if (node->install_next != 0) {
        install(node);
        core_snapshot_installed(node->core, node_now(node));
        node->next_turn_ms = world->now_ms;
    }
    if (node->snapshot_adopt_due && !node->adopts_late) {
        struct snapshot_header header;
        char why[HASP_WHY_SIZE];
        node->snapshot_adopt_due = false;
        buffer_clear(&node->snapshot);
        buffer_put_bytes(&node->snapshot, buffer_bytes(&node->incoming));
        int error = snapshot_check(buffer_bytes(&node->snapshot), &header, why);
        assert_int_equal(error, 0);
        node->snapshot_index = header.last_index;
        node->snapshot_term = header.last_term;
        core_snapshot_received(node->core, &header, 0, node_now(node));
        node->next_turn_ms = world->now_ms;
    }
}

/* The state is sound, and the node knows whose it is. */
static void check_state(const struct world_node *node)
{
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    const char *wrong = lockfsm_check_basic(core_state(node->core));
    if (wrong != NULL) {
        fail_msg("invariant: %s", wrong);
    }
    lockfsm_cluster_id(core_state(node->core), cluster_id);
    if (!cluster_id_equal(cluster_id, node->cluster_id)) {
        fail_msg("node %d was not told of its cluster", (int)node->id);
    }
}

/* A node that runs and is not cut off is reachable at the address reported. */
static void node_probe(struct world_node *node)
{
    struct world *world = node->world;
    uint64_t number = node->probe_number, id = node->probe_id;
    if (number == 0) {
        return;
    }
    struct core_directory found = world_directory(node, id);
    bool is_there = found.incarnation != 0;
    node->probe_number = 0;
    core_address_probed(node->core, number, is_there ? 0 : HASP_ECONNECT,
                        &found, "connection refused", node_now(node));
    node->next_turn_ms = world->now_ms;
}

void world_step(struct world *world)
{
    if (world->drops_unnamed) {
        links_update(world);
    }
    world_deliver(world);
    if (world->now_ms % REDIAL_MS == 0) {
        links_update(world);
    }
    for (uint64_t id = 1; id <= NODE_MAX; id++) {
        struct world_node *node = &world->node[id];
        if (node->core == NULL || node->is_paused) {
            continue;
        }
        node_disk(node);
        node_probe(node);
        for (int round = 0; round < 8 && node->next_turn_ms <= world->now_ms;
             round++) {
            if (!node->has_unread) {
                node->read_ns = node_now(node);
            }
            node->stage_begin = progress_of(node);
            uint64_t next = core_turn(node->core, node->read_ns,
                                      node_now(node));
            CHECK(next >= node_now(node));
            assert_int_equal(node->stage_next, 0); /* The last one is over. */
            const char *wrong = core_check(node->core);
            if (wrong != NULL && node->fatal_code == 0) {
                fail_msg("node %llu: %s", (unsigned long long)id, wrong);
            }
            node->next_turn_ms = next == UINT64_MAX ? UINT64_MAX
                                                    : world_ms_at(node, next);
            for (uint64_t conn = 0; conn < node->conn_end; conn++) {
                client_feed(node, conn);
            }
        }
        assert_true(node->fatal_code == 0 || node->may_fail);
        check_state(node);
        world_collect(world, node);
    }
}

void world_run(struct world *world, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        world_step(world);
        world->now_ms++;
    }
    world_step(world);
}

uint64_t world_leader(struct world *world)
{
    uint64_t leader = 0;
    for (uint64_t id = 1; id <= NODE_MAX; id++) {
        struct core *core = world->node[id].core;
        if (core != NULL && core_is_serving(core)) {
            leader = leader == 0 ? id : 0;
        }
    }
    return leader;
}

uint64_t world_elect(struct world *world)
{
    for (int i = 0; i < 5000; i++) {
        world_run(world, 1);
        if (world_leader(world) != 0) {
            return world_leader(world);
        }
    }
    fail_msg("no leader was elected");
    return 0;
}

const char *client_ask(struct world *world, uint64_t node, uint64_t conn,
                       const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    client_clear(world, node, conn);
    client_send(world, node, conn, "%s", text);
    for (int i = 0; i < 10000; i++) {
        world_step(world);
        if (world->node[node].client[conn].output.size > 0) {
            break;
        }
        world->now_ms++;
    }
    return client_text(world, node, conn);
}

int64_t answer_number(struct world *world, uint64_t node, uint64_t conn,
                      const char *key)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s\r\n:", key);
    const char *at = strstr(client_text(world, node, conn), wanted);
    return at != NULL ? strtoll(at + strlen(wanted), NULL, 10) : -1;
}

struct credentials client_session(struct world *world, uint64_t node,
                                  uint64_t conn, const char *options)
{
    struct credentials credentials = {0};
    const char *text = client_ask(world, node, conn, "SESSION.OPEN %s",
                                  options);
    const char *secret = strstr(text, "secret\r\n$32\r\n");
    if (secret == NULL) {
        fail_msg("SESSION.OPEN answered %s", text);
        return credentials;
    }
    credentials.id = (uint64_t)answer_number(world, node, conn, "id");
    memcpy(credentials.secret, secret + 13, 32);
    return credentials;
}
