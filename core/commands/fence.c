/* SPDX-License-Identifier: MIT */

/* FENCE.* */

#include "core/commands/listing.h"
#include "core/request.h"
#include "core/state.h"

void fence_show_read(struct core *core, struct request *request)
{
    const struct fence *fence = lockfsm_fence(core->fsm, request->call->name);
    request_answer_integer(core, request,
                           fence != NULL ? (int64_t)fence->token : 0);
}

static void fence_put(struct core *core, const struct request *request,
                      const struct treap_node *node, struct resp_writer *writer)
{
    const struct fence *fence = LIST_ENTRY(node, const struct fence, in_order);
    (void)core;
    (void)request;
    resp_map(writer, 2);
    resp_key_bulk(writer, "resource", fence->resource);
    resp_key_number(writer, "token", fence->token);
}

void fence_list_read(struct core *core, struct request *request)
{
    listing_answer(core, request, lockfsm_fence_order(core->fsm), false,
                   fence_put);
}
