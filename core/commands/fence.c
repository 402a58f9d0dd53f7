/* SPDX-License-Identifier: MIT */

/* FENCE.* */

#include "base/check.h"
#include "core/commands/listing.h"
#include "core/request.h"
#include "core/state.h"

void fence_admit_encode(struct core *core, struct request *request,
                        const struct call *call, struct buffer *out)
{
    struct origin origin = call_origin(request, call);
    (void)core;
    encode_fence_admit(out,
                       &(struct fence_admit_command){.origin = origin,
                                                     .resource = call->name,
                                                     .token = call->token});
}

void fence_remove_encode(struct core *core, struct request *request,
                         const struct call *call, struct buffer *out)
{
    struct origin origin = call_origin(request, call);
    (void)core;
    encode_fence_remove(out, &(struct fence_remove_command){
                                 .origin = origin, .resource = call->name});
}

void fence_show_read(struct core *core, struct request *request,
                     const struct call *call)
{
    const struct fence *fence = lockfsm_fence(core->fsm, call->name);
    request_answer_integer(core, request,
                           fence != NULL ? (int64_t)fence->token : 0);
}

static int by_resource(const void *a, const void *b)
{
    return bytes_compare((*(const struct fence *const *)a)->resource,
                         (*(const struct fence *const *)b)->resource);
}

void fence_list_read(struct core *core, struct request *request,
                     const struct call *call)
{
    struct listing listing;
    struct bytes after;
    if (!listing_after(core, request, call, &after)) {
        return;
    }
    listing_begin(&listing, call_page(call), by_resource);
    struct bytes prefix = call_text(call, OPTION_PREFIX);
    for (const struct fence *fence = lockfsm_fences(core->fsm); fence != NULL;
         fence = fence->by_resource.next) {
        if (bytes_has_prefix(fence->resource, prefix) &&
            bytes_compare(fence->resource, after) > 0) {
            listing_add(&listing, fence);
        }
    }
    listing_end(core, &listing, lockfsm_fence_count(core->fsm));
    struct resp_writer *writer = request_reply(core, request);
    const struct fence *last = listing.is_cut ? listing_last(&listing) : NULL;
    CHECK((last != NULL) == listing.is_cut);
    resp_array(writer, 2);
    listing_put_cursor(writer, last != NULL ? &last->resource : NULL);
    resp_array(writer, listing.count);
    for (uint32_t i = 0; i < listing.count; i++) {
        const struct fence *fence = listing.item[i];
        resp_map(writer, 2);
        resp_key_bulk(writer, "resource", fence->resource);
        resp_key_integer(writer, "token", (int64_t)fence->token);
    }
    listing_done(&listing);
    request_done(core, request);
}
