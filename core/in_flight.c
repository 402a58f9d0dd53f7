/* SPDX-License-Identifier: MIT */

#include "core/in_flight.h"

#include <stdlib.h>
#include <string.h>

#include "base/account.h"
#include "base/address.h"
#include "base/check.h"
#include "base/memory.h"
#include "core/command.h"
#include "core/request.h"
#include "core/state.h"

struct in_flight_payer {
    UT_hash_handle by_key;
    uint64_t key;
    uint32_t count;
};

static struct in_flight_payer *in_flight_find(const struct core *core,
                                              uint64_t key)
{
    struct in_flight_payer *payer;
    HASH_FIND(by_key, core->requests.in_flight.payers, &key, sizeof key, payer);
    return payer;
}

uint64_t in_flight_stranger(struct bytes from)
{
    char address[ADDRESS_SIZE], origin[ADDRESS_SIZE];
    size_t size = from.size < sizeof address - 1 ? from.size
                                                 : sizeof address - 1;
    if (size > 0) {
        memcpy(address, from.data, size);
    }
    address[size] = '\0';
    address_origin(address, origin);
    return account_key_of_origin(origin);
}

void in_flight_add(struct core *core, struct request *request)
{
    struct in_flight *in_flight = &core->requests.in_flight;
    struct in_flight_payer *payer = in_flight_find(core, request->payer);
    CHECK(request->counted == NULL);
    if (payer == NULL) {
        payer = memory_new(sizeof *payer);
        payer->key = request->payer;
        HASH_ADD(by_key, in_flight->payers, key, sizeof payer->key, payer);
    }
    payer->count++;
    in_flight->count++;
    request->counted = payer;
}

void in_flight_remove(struct core *core, struct request *request)
{
    struct in_flight *in_flight = &core->requests.in_flight;
    struct in_flight_payer *payer = request->counted;
    CHECK(payer != NULL && payer->count > 0 && in_flight->count > 0);
    in_flight->count--;
    request->counted = NULL;
    if (--payer->count == 0) {
        HASH_DELETE(by_key, in_flight->payers, payer);
        free(payer);
    }
}

bool in_flight_is_over(const struct core *core, const struct request *request)
{
    uint64_t max = core->options.limits.requests_in_flight;
    const struct in_flight_payer *payer = request->counted;
    CHECK(payer != NULL && payer->count > 0);
    /* Without the request itself. */
    uint64_t others = core->requests.in_flight.count - 1;
    return others >= max || payer->count - 1 > IN_FLIGHT_PART * (max - others);
}

uint32_t in_flight_of_payers(const struct core *core)
{
    uint32_t count = 0;
    HASH_FOR (const struct in_flight_payer, payer,
              core->requests.in_flight.payers, by_key) {
        count += payer->count;
    }
    return count;
}
