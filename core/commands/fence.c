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

void fence_list_read(struct core *core, struct request *request)
{
    struct listing listing;
    struct treap *set = lockfsm_fence_order(core->fsm);
    if (!listing_begin(core, request, request->call, set, false, &listing)) {
        return;
    }
    struct resp_writer *writer = request_reply(core, request);
    listing_put_head(writer, &listing, listing.count);
    for (uint32_t i = 0; i < listing.count; i++) {
        const struct fence *fence = LISTED(&listing, i, struct fence, in_order);
        resp_map(writer, 2);
        resp_key_bulk(writer, "resource", fence->resource);
        resp_key_number(writer, "token", fence->token);
    }
    listing_done(&listing);
    request_done(core, request);
}
