/* SPDX-License-Identifier: MIT */

#include "core/transaction.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/command.h"
#include "core/conn.h"
#include "core/request.h"
#include "core/state.h"

struct transaction {
    bool is_open;
    bool is_broken;      /* A command was refused since MULTI. */
    bool has_lost_watch; /* A WATCH was refused. */
    struct transaction_key {
        struct bytes name; /* Owned. */
        bool is_watched;
        bool is_known; /* The version is known. */
        uint64_t version;
    } key[MULTI_COUNT_MAX];
    uint32_t key_count;
    /* For each command the number of its words, as u32, and the words as
     * runs. */
    struct buffer queue;
    uint32_t command_count;
    uint32_t word_count;
};

static struct transaction *transaction_of(struct conn *conn)
{
    if (conn->transaction == NULL) {
        conn->transaction = memory_new(sizeof *conn->transaction);
    }
    return conn->transaction;
}

void transaction_open(struct conn *conn)
{
    transaction_of(conn)->is_open = true;
}

bool transaction_is_open(const struct conn *conn)
{
    return conn->transaction != NULL && conn->transaction->is_open;
}

int transaction_length(const struct conn *conn)
{
    return transaction_is_open(conn) ? (int)conn->transaction->command_count
                                     : -1;
}

uint64_t transaction_size(const struct conn *conn)
{
    return conn->transaction != NULL ? conn->transaction->queue.size : 0;
}

void transaction_break(struct conn *conn)
{
    if (transaction_is_open(conn)) {
        conn->transaction->is_broken = true;
    }
}

void transaction_forget(struct core *core, struct conn *conn)
{
    struct transaction *transaction = conn->transaction;
    if (transaction == NULL) {
        return;
    }
    conn_give_back(core, conn, transaction->queue.size);
    for (uint32_t i = 0; i < transaction->key_count; i++) {
        free((void *)transaction->key[i].name.data);
    }
    buffer_done(&transaction->queue);
    free(transaction);
    conn->transaction = NULL;
}

static struct transaction_key *transaction_find(struct transaction *transaction,
                                                struct bytes name)
{
    for (uint32_t i = 0; i < transaction->key_count; i++) {
        if (bytes_equal(transaction->key[i].name, name)) {
            return &transaction->key[i];
        }
    }
    return NULL;
}

/* Adds the keys of the command; false if there is no space for all of them,
 * after which EXEC does nothing. */
static bool add_keys(struct transaction *transaction, const struct call *call)
{
    for (uint32_t i = 0; i < call->name_count; i++) {
        struct bytes name = call->names[i];
        if (transaction_find(transaction, name) != NULL) {
            continue;
        }
        if (transaction->key_count == MULTI_COUNT_MAX) {
            return false;
        }
        transaction->key[transaction->key_count++] = (struct transaction_key){
            .name = bytes_of(memory_copy(name.data, name.size), name.size)};
    }
    CHECK(transaction->key_count <= MULTI_COUNT_MAX);
    return true;
}

/* --- The queue ------------------------------------------------------------ */

void transaction_queue(struct core *core, struct request *request,
                       const struct call *call)
{
    struct transaction *transaction = request->conn->transaction;
    CHECK(transaction != NULL && transaction->is_open);
    size_t size = sizeof(uint32_t) * (call->count + 1);
    for (uint32_t i = 0; i < call->count; i++) {
        size += call->argument[i].size;
    }
    if (transaction->word_count + call->count > TRANSACTION_WORDS_MAX ||
        transaction->queue.size + size > TRANSACTION_SIZE_MAX) {
        transaction->is_broken = true;
        request_refuse(core, request, WORD_LIMIT, "size of a transaction");
        return;
    }
    if (!add_keys(transaction, call)) {
        transaction->is_broken = true;
        request_refuse(core, request, WORD_LIMIT, "keys of a transaction");
        return;
    }
    buffer_put_u32(&transaction->queue, call->count);
    for (uint32_t i = 0; i < call->count; i++) {
        buffer_put_run(&transaction->queue, call->argument[i]);
    }
    /* Queued bytes count like those of unanswered requests, so MULTI is not a
     * way around bytes_per_conn. */
    conn_hold(core, request->conn, size);
    transaction->command_count++;
    transaction->word_count += call->count;
    resp_simple(request_reply(core, request), "QUEUED");
    request_done(core, request);
}

/* Why an open transaction is not executed; NULL: it is. */
static const char *transaction_why_not(const struct transaction *transaction)
{
    if (transaction->is_broken) {
        return "Transaction discarded because of previous errors.";
    }
    bool is_lost = transaction->has_lost_watch;
    for (uint32_t i = 0; i < transaction->key_count; i++) {
        const struct transaction_key *key = &transaction->key[i];
        is_lost |= key->is_watched && !key->is_known;
    }
    return is_lost ? "Transaction discarded because of: WATCH was refused"
                   : NULL;
}

/* Writes a number as a word into 'room', which has space for it. */
static struct bytes transaction_put_number(struct buffer *room, uint64_t number)
{
    size_t start = room->size;
    buffer_printf(room, "%" PRIu64, number);
    return bytes_of(room->data + start, room->size - start);
}

/* Copies into 'room', which has space for it. */
static struct bytes put_bytes(struct buffer *room, struct bytes bytes)
{
    size_t start = room->size;
    buffer_put_bytes(room, bytes);
    return bytes_of(room->data + start, bytes.size);
}

/* See transaction.h. */
static struct bytes *make_exec(const struct transaction *transaction,
                               struct buffer *room, uint32_t *ret_count)
{
    uint32_t count = 2 + 2 * transaction->key_count +
                     transaction->command_count + transaction->word_count;
    struct bytes *word = memory_new(count * sizeof *word);
    struct reader queue = reader_of(buffer_bytes(&transaction->queue));
    size_t size = transaction->queue.size + 24 * (size_t)count;
    for (uint32_t i = 0; i < transaction->key_count; i++) {
        size += transaction->key[i].name.size;
    }
    (void)buffer_reserve(room, size); /* The words point into it. */
    uint32_t at = 0;
    word[at++] = BYTES_LITERAL("EXEC");
    word[at++] = transaction_put_number(room, transaction->key_count);
    for (uint32_t i = 0; i < transaction->key_count; i++) {
        const struct transaction_key *key = &transaction->key[i];
        word[at + i] = put_bytes(room, key->name);
        word[at + transaction->key_count + i] = key->is_watched
                                                    ? transaction_put_number(
                                                          room, key->version)
                                                    : BYTES_LITERAL("");
    }
    at += 2 * transaction->key_count;
    for (uint32_t i = 0; i < transaction->command_count; i++) {
        uint32_t words = reader_u32(&queue);
        word[at++] = transaction_put_number(room, words);
        for (uint32_t j = 0; j < words; j++) {
            word[at++] = put_bytes(room, reader_run(&queue));
        }
    }
    CHECK(at == count && reader_ok(&queue, true) && room->size <= size);
    *ret_count = count;
    return word;
}

struct bytes *transaction_end(struct core *core, struct request *request,
                              uint32_t count, struct buffer *room,
                              uint32_t *ret_count)
{
    struct conn *conn = request->conn;
    struct bytes *words = NULL;
    const char *why = count > 1 ? "Transaction discarded because of: wrong "
                                  "number of arguments for 'exec' command"
                                : NULL;
    if (why == NULL && !transaction_is_open(conn)) {
        request_refuse(core, request, WORD_ERR, "EXEC without MULTI");
        return NULL; /* Watched keys stay watched. */
    }
    why = why == NULL ? transaction_why_not(conn->transaction) : why;
    if (why != NULL) {
        request_refuse(core, request, WORD_EXECABORT, why);
    } else if (conn->transaction->key_count == 0) {
        CHECK(conn->transaction->command_count == 0); /* Each has a key. */
        resp_array(request_reply(core, request), 0);
        request_done(core, request);
    } else {
        words = make_exec(conn->transaction, room, ret_count);
    }
    transaction_forget(core, conn);
    return words;
}

/* --- WATCH ---------------------------------------------------------------- */

bool transaction_watch(struct core *core, struct request *request,
                       const struct call *call)
{
    struct transaction *transaction = transaction_of(request->conn);
    if (transaction->is_open) {
        return request_refuse(core, request, WORD_ERR,
                              "WATCH inside MULTI is not allowed");
    }
    if (!add_keys(transaction, call)) {
        transaction->has_lost_watch = true;
        return request_refuse(core, request, WORD_LIMIT,
                              "keys of a transaction");
    }
    for (uint32_t i = 0; i < call->name_count; i++) {
        struct transaction_key *key = transaction_find(transaction,
                                                       call->names[i]);
        CHECK(key != NULL); /* add_keys() has made it, or it existed before. */
        key->is_watched = true;
    }
    return true;
}

void transaction_watched(struct conn *conn, struct bytes versions)
{
    struct reader reader = reader_of(versions);
    while (conn->transaction != NULL && reader_left(&reader) > 0) {
        struct bytes name = reader_run(&reader);
        uint64_t version = reader_u64(&reader);
        struct transaction_key *key = transaction_find(conn->transaction, name);
        /* A key that is watched already counts from its first WATCH. */
        if (!reader.is_bad && key != NULL && !key->is_known) {
            key->is_known = true;
            key->version = version;
        }
    }
}
