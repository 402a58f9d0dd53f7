/* SPDX-License-Identifier: MIT */

/* AUDIT.LIST: the newest administrative acts. AUDIT.DENIED: the requests that
 * the asked node has denied. AUDIT.LOGIN: an act that no other command
 * records. */

#include "lockfsm/user/audit.h"
#include "base/check.h"
#include "base/memory.h"
#include "core/commands/commands.h"
#include "core/commands/listing.h"
#include "core/propose.h"
#include "core/request.h"
#include "core/state.h"

/* The first act of the page: the oldest one after 'after', or without AFTER the
 * oldest of the newest 'count'. NULL if there is none. */
static const struct act *first_of_page(const struct core *core,
                                       const struct call *call, uint32_t count)
{
    uint64_t last = lockfsm_last_act(core->fsm);
    uint64_t after = call_number(call, OPTION_AFTER, 0);
    bool has_after = call_has(call, OPTION_AFTER);
    LIST_FOR (const struct act, act, lockfsm_acts(core->fsm), in_order) {
        if (has_after ? act->log_index > after : act->number + count > last) {
            return act;
        }
    }
    return NULL;
}

void core_act_put(const struct act *act, struct resp_writer *writer)
{
    AUTO(buffer_done) struct buffer outcome = {0};
    if (act->code == RESULT_OK) {
        buffer_put_text(&outcome, "OK");
    } else {
        buffer_printf(&outcome, "%s ", result_name(act->code));
        buffer_put_bytes(&outcome, act->why);
    }
    resp_map(writer, 9);
    resp_key_number(writer, "index", act->log_index);
    resp_key_number(writer, "number", act->number);
    resp_key_number(writer, "time_ms", act->wall_ms);
    resp_key_bulk(writer, "user", act->user);
    resp_key_bulk(writer, "from", act->from);
    resp_key_bulk(writer, "by", act->by);
    resp_key_bulk(writer, "command", act->command);
    resp_key_bulk(writer, "what", act->what);
    resp_key_bulk(writer, "outcome", buffer_bytes(&outcome));
}

void audit_list_read(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    uint32_t count = call_page(call);
    const struct list *acts = lockfsm_acts(core->fsm);
    const struct act *first = first_of_page(core, call, count);
    const struct list *at = first != NULL ? &first->in_order : acts;
    struct rows rows;
    rows_begin(&rows, request, count, ROWS_SIZE_MAX);
    for (; at != acts && rows_have_room(&rows); at = at->next) {
        core_act_put(LIST_ENTRY(at, const struct act, in_order), &rows.writer);
        (void)rows_keep(&rows);
    }
    listing_spend(core, rows.count);
    rows_put(core, &rows, request_reply(core, request));
    request_done(core, request);
}

void core_denial_put(const struct core_denial *denial, uint64_t count,
                     struct resp_writer *writer)
{
    resp_map(writer, 7);
    resp_key_text(writer, "user", denial->user);
    resp_key_text(writer, "from", denial->from);
    resp_key_text(writer, "command", denial->command);
    resp_key_bulk(writer, "why", bytes_of_text(denial->why));
    resp_key_number(writer, "count", count);
    resp_key_number(writer, "first_ms", denial->first_ms);
    resp_key_number(writer, "last_ms", denial->last_ms);
}

void audit_denied_run(struct core *core, struct request *request)
{
    const struct core_denial *denial;
    uint32_t count = 0;
    while ((denial = core_denial(core, count)) != NULL && denial->count > 0) {
        count++;
    }
    struct resp_writer *writer = request_reply(core, request);
    resp_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct core_denial *one = core_denial(core, i);
        core_denial_put(one, one->count, writer);
    }
    request_done(core, request);
}

/* The act names the node whose local socket was used. */
void audit_login_propose(struct core *core, struct request *request,
                         const struct call *call)
{
    (void)call;
    propose_act(
        core, request,
        &(struct act_command){.kind = ACT_LOGIN,
                              .member = request->peer != 0 ? request->peer
                                                           : core->options.id,
                              .wall_ms = core->port.wall_ms(core->port.data)});
}
