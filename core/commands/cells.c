/* SPDX-License-Identifier: MIT */

/* The map of cells (lockfsm/cells.h): CELLS.SHOW and the changes.
 *
 * A receipt is one word of hex digits: the ids of giver and taker, epoch, index
 * and token (8 bytes each, big-endian), the prefix, and a checksum of all of it
 * against a word that was copied by half. It is not a secret and proves
 * nothing: only administrators may use one. */

#include "base/check.h"
#include "base/digest.h"
#include "core/commands/commands.h"
#include "core/propose.h"
#include "core/state.h"

#define RECEIPT_HEAD_SIZE ((size_t)2 * CLUSTER_ID_SIZE + 3 * 8)
#define RECEIPT_SUM_SIZE 8
#define RECEIPT_SIZE_MAX \
    (RECEIPT_HEAD_SIZE + CELL_PREFIX_SIZE_MAX + RECEIPT_SUM_SIZE)

/* --- Receipts ------------------------------------------------------------- */

static void put_receipt(const struct core *core, const struct cell *cell,
                        struct resp_writer *writer)
{
    uint8_t bytes[RECEIPT_SIZE_MAX];
    char digits[2 * RECEIPT_SIZE_MAX + 1];
    size_t size = RECEIPT_HEAD_SIZE;
    lockfsm_cluster_id(core->fsm, bytes);
    memcpy(bytes + CLUSTER_ID_SIZE, cell->cluster, CLUSTER_ID_SIZE);
    store_u64_be(bytes + size - 24, cell->epoch);
    store_u64_be(bytes + size - 16, cell->log_index);
    store_u64_be(bytes + size - 8, cell->token);
    CHECK(cell->prefix.size <= CELL_PREFIX_SIZE_MAX);
    if (cell->prefix.size > 0) {
        memcpy(bytes + size, cell->prefix.data, cell->prefix.size);
        size += cell->prefix.size;
    }
    store_u64_be(bytes + size, digest_short(0, bytes_of(bytes, size)));
    hex_put(digits, bytes_of(bytes, size + RECEIPT_SUM_SIZE));
    resp_key_text(writer, "receipt", digits);
}

/* Reads a receipt into 'memory', which the prefix borrows. */
static bool get_receipt(struct bytes text, uint8_t memory[RECEIPT_SIZE_MAX],
                        struct cells_command *ret_cells)
{
    size_t size = text.size / 2;
    if (text.size % 2 != 0 || size < RECEIPT_HEAD_SIZE + RECEIPT_SUM_SIZE ||
        size > RECEIPT_SIZE_MAX || !hex_get(text, memory, size)) {
        return false;
    }
    size -= RECEIPT_SUM_SIZE;
    if (load_u64_be(memory + size) != digest_short(0, bytes_of(memory, size))) {
        return false;
    }
    const uint8_t *numbers = memory + 2 * CLUSTER_ID_SIZE;
    memcpy(ret_cells->giver, memory, CLUSTER_ID_SIZE);
    memcpy(ret_cells->taker, memory + CLUSTER_ID_SIZE, CLUSTER_ID_SIZE);
    ret_cells->epoch = load_u64_be(numbers);
    ret_cells->given_index = load_u64_be(numbers + 8);
    ret_cells->token = load_u64_be(numbers + 16);
    ret_cells->prefix = bytes_of(memory + RECEIPT_HEAD_SIZE,
                                 size - RECEIPT_HEAD_SIZE);
    return true;
}

/* --- Changes -------------------------------------------------------------- */

bool cells_give_parse(struct call *call, struct resp_writer *writer)
{
    uint8_t id[CLUSTER_ID_SIZE];
    return (call->argument[2].size == 2 * CLUSTER_ID_SIZE &&
            hex_get(call->argument[2], id, CLUSTER_ID_SIZE)) ||
           call_fail(call, writer, "a cluster's id has 32 hex digits");
}

bool cells_take_parse(struct call *call, struct resp_writer *writer)
{
    uint8_t memory[RECEIPT_SIZE_MAX];
    struct cells_command cells;
    return get_receipt(call->argument[1], memory, &cells) ||
           call_fail(call, writer,
                     "not a receipt, or not all of one; CELLS.SHOW of the "
                     "giver has it");
}

void cells_join_propose(struct core *core, struct request *request,
                        const struct call *call)
{
    propose_cells(core, request,
                  &(struct cells_command){.kind = CELLS_JOIN,
                                          .endpoints = call->argument[1]});
}

void cells_give_propose(struct core *core, struct request *request,
                        const struct call *call)
{
    struct cells_command give = {.kind = CELLS_GIVE,
                                 .prefix = call->argument[1],
                                 .endpoints = call->argument[3]};
    bool is_good = hex_get(call->argument[2], give.taker, CLUSTER_ID_SIZE);
    CHECK(is_good); /* cells_give_parse() has read it. */
    propose_cells(core, request, &give);
}

void cells_take_propose(struct core *core, struct request *request,
                        const struct call *call)
{
    uint8_t memory[RECEIPT_SIZE_MAX];
    struct cells_command take = {.kind = CELLS_TAKE};
    bool is_good = get_receipt(call->argument[1], memory, &take);
    CHECK(is_good); /* cells_take_parse() has read it. */
    propose_cells(core, request, &take);
}

void cells_point_propose(struct core *core, struct request *request,
                         const struct call *call)
{
    propose_cells(core, request,
                  &(struct cells_command){.kind = CELLS_POINT,
                                          .prefix = call->argument[1],
                                          .endpoints = call->argument[2]});
}

void cells_vouch_propose(struct core *core, struct request *request,
                         const struct call *call)
{
    propose_cells(core, request,
                  &(struct cells_command){.kind = CELLS_VOUCH,
                                          .prefix = call->argument[1]});
}

void cells_confirm_propose(struct core *core, struct request *request,
                           const struct call *call)
{
    (void)call;
    propose_cells(core, request,
                  &(struct cells_command){.kind = CELLS_CONFIRM});
}

/* --- Reading -------------------------------------------------------------- */

static void cells_put_row(const struct core *core, const struct cell *cell,
                          struct resp_writer *writer)
{
    char id[CLUSTER_ID_TEXT_SIZE];
    bool is_given = !cell->is_own && cell->token != 0;
    cluster_id_format(cell->cluster, id);
    resp_map(writer, 6 + is_given);
    resp_key_bulk(writer, "prefix", cell->prefix);
    resp_key_bool(writer, "own", cell->is_own);
    resp_key_bulk(writer, "endpoints", cell->endpoints);
    resp_key_text(writer, "cluster", id);
    resp_key_number(writer, "epoch", cell->epoch);
    resp_key_number(writer, "index", cell->log_index);
    if (is_given) {
        put_receipt(core, cell, writer);
    }
}

void cells_show_read(struct core *core, struct request *request)
{
    uint8_t id[CLUSTER_ID_SIZE];
    char digits[CLUSTER_ID_TEXT_SIZE];
    struct resp_writer *writer = request_reply(core, request);
    lockfsm_cluster_id(core->fsm, id);
    cluster_id_format(id, digits);
    resp_map(writer, 5);
    resp_key_text(writer, "cluster", digits);
    resp_key_number(writer, "epoch", lockfsm_cell_epoch(core->fsm));
    resp_key_bool(writer, "doubtful", lockfsm_cells_are_doubtful(core->fsm));
    resp_key_number(writer, "token_base", lockfsm_token_base(core->fsm));
    resp_key_array(writer, "cells", lockfsm_cell_count(core->fsm));
    LIST_FOR (const struct cell, cell, lockfsm_cells(core->fsm), in_order) {
        cells_put_row(core, cell, writer);
    }
    request_done(core, request);
}
