/* SPDX-License-Identifier: MIT */

/* A state with edited records, checksum and digest included: a crafted backup,
 * or a table that decayed. It is refused, or it is a sound state: one from
 * which a new life can begin, or in which all sessions end and their remains
 * are swept away, and that is the same again after it was flushed and loaded.
 * No CHECK fails.
 *
 * The records are those of a node that has seen a little of everything. The
 * input is a row of edits: which record, the kind of edit, and bytes. */

#include "lockfsm/entry.h"
#include "lockfsm/store/records.h"
#include "lockfsm/user/access.h"
#include "tests/unit/core_world.h"

#define RECORD_COUNT_MAX 400
#define EDIT_COUNT_MAX 40
#define SESSION_COUNT_MAX 64

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct row {
    enum table_map map;
    struct bytes key, value; /* Owned. */
};

struct rows {
    struct row row[RECORD_COUNT_MAX];
    uint32_t count;
    enum table_map map; /* That is walked. */
};

static struct rows base;

static void add_row(struct rows *rows, enum table_map map, struct bytes key,
                    struct bytes value)
{
    if (rows->count < RECORD_COUNT_MAX) {
        rows->row[rows->count++] = (struct row){
            map, bytes_of(memory_copy(key.data, key.size), key.size),
            bytes_of(memory_copy(value.data, value.size), value.size)};
    }
}

static int visit(void *data, struct bytes key, struct bytes value)
{
    struct rows *rows = data;
    add_row(rows, rows->map, key, value);
    return 0;
}

static void free_rows(struct rows *rows)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        free((void *)rows->row[i].key.data);
        free((void *)rows->row[i].value.data);
    }
    rows->count = 0;
}

/* --- The state that is edited --------------------------------------------- */

static const char *const requests[] = {
    "2 HELLO 3",
    "4 HELLO 3",
    "1 SESSION.OPEN TTL 60000 NAME first LABEL k v",
    "1 LOCK.ACQUIRE a REQ 1 VALUE v HOLD 50000",
    "1 LOCK.ACQUIRE b SHARED OWNER x REQ 2 DELAY 100",
    "1 LOCK.ACQUIRE c SLOTS 2 REQ 3 ACKED 1",
    "1 LOCK.MACQUIRE 2 d e REQ 5",
    "1 FENCE.ADMIT r 7",
    "2 SESSION.OPEN TTL NONE NAME second",
    "2 LOCK.ACQUIRE b SHARED REQ 1",
    "2 LOCK.ACQUIRE a WAIT 40000 REQ 2 PUSH",
    "3 SET k v NX PX 50000",
    "3 LOCK.PLEASE a MESSAGE m",
    "4 SESSION.OPEN TTL 9000",
    "4 LOCK.ACQUIRE c SLOTS 2 REQ 1",
    "4 LOCK.MACQUIRE 2 a g WAIT 30000 REQ 2 PUSH",
    "5 BLACKLIST.ADD CLIENT x* FOR 30000 REASON r",
    "5 LIMITS.SET locks 1000",
    "5 ROLE.SET r IF 0 GRANTS lock:a/* read:b/*",
    "5 USER.SET u IF 0 ROLES r",
    "5 SECRET.ADD u "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "5 CERT.REVOKE "
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
};

static void ask(struct world *world, uint64_t conn, const char *request)
{
    client_send(world, 1, conn, "%s", request);
    world_run(world, 5);
    const char *answer = client_text(world, 1, conn);
    if (answer[0] == '-') {
        fprintf(stderr, "%s: %s", request, answer);
        abort();
    }
    client_clear(world, 1, conn);
}

static void make_base(void)
{
    struct world *world = world_new(1);
    struct table_txn *txn;
    world->allows_no_ttl = true;
    world_found(world);
    (void)world_elect(world);
    for (uint64_t conn = 1; conn <= 5; conn++) {
        client_open_as(world, 1, conn,
                       &(struct identity){.way = conn == 5 ? IDENTITY_LOCAL
                                                           : IDENTITY_NONE,
                                          .is_private = true});
    }
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        ask(world, (uint64_t)(requests[i][0] - '0'), requests[i] + 2);
    }
    world_run(world, 1500); /* Until it is flushed. */
    CHECK(table_begin_read(world->node[1].table, &txn) == 0);
    for (int map = 0; map < TABLE_MAP_COUNT; map++) {
        base.map = (enum table_map)map;
        CHECK(table_walk(txn, base.map, (struct bytes){NULL, 0}, visit,
                         &base) == 0);
    }
    table_abort(txn);
    CHECK(base.count > 20);
    world_free(world);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    make_base();
    return 0;
}

/* --- Edits ---------------------------------------------------------------- */

static void replace(struct bytes *bytes, struct buffer *by)
{
    free((void *)bytes->data);
    *bytes = bytes_of(memory_copy(by->data, by->size), by->size);
    buffer_done(by);
}

/* Bytes in the place of one of the key's or the value's. */
static void edit_bytes(struct bytes *bytes, uint8_t at, bool is_inserted,
                       struct bytes by)
{
    struct buffer out = {0};
    size_t from = bytes->size > 0 ? at % bytes->size : 0;
    size_t skipped = is_inserted || bytes->size == 0 ? 0 : 1;
    buffer_put_bytes(&out, bytes_of(bytes->data, from));
    buffer_put_bytes(&out, by);
    buffer_put_bytes(&out, bytes_of(bytes->data + from + skipped,
                                    bytes->size - from - skipped));
    replace(bytes, &out);
}

static void edit(struct rows *rows, struct reader *reader)
{
    struct row *row = &rows->row[reader_u8(reader) % rows->count];
    uint8_t what = reader_u8(reader), at = reader_u8(reader);
    struct buffer other = {0};
    struct bytes by = reader_bytes(reader, what / 8 < reader_left(reader)
                                               ? what / 8
                                               : reader_left(reader));
    switch (what % 8) {
    case 0: /* It is not there. */
        row->key.size = 0;
        break;
    case 1: /* It is there twice, under two keys. */
        add_row(rows, row->map, row->key, row->value);
        edit_bytes(&rows->row[rows->count - 1].key, at, false, by);
        break;
    case 2: /* It has the value of another. */
        buffer_put_bytes(&other, rows->row[at % rows->count].value);
        replace(&row->value, &other);
        break;
    case 3:
        edit_bytes(&row->key, at, false, by);
        break;
    case 4:
    case 5:
        edit_bytes(&row->value, at, true, by);
        break;
    default:
        edit_bytes(&row->value, at, false, by);
    }
}

/* Puts the rows, and the digest that they add up to. */
static void fill(const struct rows *rows, struct table *table)
{
    struct table_txn *txn;
    uint8_t digest[8];
    uint64_t sum = 0;
    CHECK(table_begin_write(table, &txn) == 0);
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->row[i];
        if (row->key.size > 0 && row->key.size <= TABLE_KEY_SIZE_MAX) {
            CHECK(table_put(txn, row->map, row->key, row->value) == 0);
        }
    }
    CHECK(table_commit(txn) == 0);
    CHECK(table_begin_read(table, &txn) == 0);
    struct rows there = {.count = 0};
    for (int map = 0; map < TABLE_MAP_COUNT; map++) {
        there.map = (enum table_map)map;
        CHECK(table_walk(txn, there.map, (struct bytes){NULL, 0}, visit,
                         &there) == 0);
    }
    table_abort(txn);
    for (uint32_t i = 0; i < there.count; i++) {
        const struct row *row = &there.row[i];
        bool is_counted = row->map != TABLE_META ||
                          bytes_equal(row->key, bytes_of_text(META_STATE_KEY));
        sum += is_counted ? bytes_share(row->map, row->key, row->value) : 0;
    }
    free_rows(&there);
    store_u64_be(digest, sum);
    CHECK(table_begin_write(table, &txn) == 0);
    CHECK(table_put(txn, TABLE_META, bytes_of_text(META_DIGEST_KEY),
                    bytes_of(digest, sizeof digest)) == 0);
    CHECK(table_commit(txn) == 0);
}

/* --- Checks of the result ------------------------------------------------- */

static void apply(struct lockfsm *fsm, struct buffer *command)
{
    struct effects effects = {0};
    uint64_t index = lockfsm_applied_index(fsm) + 1;
    CHECK(lockfsm_apply(fsm, index, lockfsm_applied_term(fsm),
                        buffer_bytes(command), &effects) == 0);
    effects_done(&effects);
    buffer_done(command);
    CHECK(lockfsm_check_basic(fsm) == NULL);
}

static void end_sessions(struct lockfsm *fsm)
{
    uint64_t session[SESSION_COUNT_MAX];
    uint32_t count = 0, places;
    struct buffer command = {0};
    for (const struct session *s = lockfsm_sessions(fsm);
         s != NULL && count < SESSION_COUNT_MAX; s = s->by_id.next) {
        session[count++] = s->id;
    }
    encode_expire(&command, &(struct expire_command){.sessions = session,
                                                     .session_count = count});
    apply(fsm, &command);
    for (int i = 0; i < 1000 && lockfsm_has_left_over(fsm, &places); i++) {
        encode_sweep(&command, &(struct sweep_command){.places = places});
        apply(fsm, &command);
    }
    CHECK(!lockfsm_has_left_over(fsm, &places));
}

/* Into the table that it comes from: only what has changed is written. */
static void check_reloading(struct lockfsm *fsm, struct table *table)
{
    struct lockfsm *other = lockfsm_new();
    char why[HASP_WHY_SIZE] = "";
    uint64_t hash = lockfsm_hash(fsm);
    CHECK(lockfsm_flush(fsm, table) == 0);
    CHECK(lockfsm_load(other, table, why) == 0);
    CHECK(lockfsm_hash(other) == hash);
    lockfsm_free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader reader = reader_of(bytes_of(data, size));
    static struct rows rows;
    struct table *table = table_new_memory();
    struct lockfsm *fsm = lockfsm_new();
    char why[HASP_WHY_SIZE] = "";
    bool is_restored = reader_u8(&reader) % 2 == 0;
    rows.count = 0;
    for (uint32_t i = 0; i < base.count; i++) {
        add_row(&rows, base.row[i].map, base.row[i].key, base.row[i].value);
    }
    for (int i = 0; i < EDIT_COUNT_MAX && reader_left(&reader) > 0; i++) {
        edit(&rows, &reader);
    }
    fill(&rows, table);
    int error = lockfsm_load(fsm, table, why);
    CHECK(error == 0 || why[0] != '\0');
    if (error == 0) {
        CHECK(lockfsm_check_basic(fsm) == NULL);
        if (is_restored) {
            lockfsm_suspend_users(fsm);
            lockfsm_new_life(fsm, 1000);
            CHECK(lockfsm_check_basic(fsm) == NULL);
        } else {
            end_sessions(fsm);
        }
        check_reloading(fsm, table);
    }
    CHECK(size > 0 || error == 0);
    free_rows(&rows);
    lockfsm_free(fsm);
    table_close(table);
    return 0;
}
