/* SPDX-License-Identifier: MIT */

/* Whether the addresses of a new voter fit those of the others. */

#include "core/members/announced.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "core/state.h"

/* The part of "peer,client" before or behind the comma; "" if there is none. */
static void part_of(const char *address, bool is_client, char *out)
{
    size_t size = strcspn(address, ",");
    if (is_client) {
        snprintf(out, MEMBER_ADDRESS_SIZE, "%s",
                 address[size] == ',' ? address + size + 1 : "");
    } else {
        snprintf(out, MEMBER_ADDRESS_SIZE, "%.*s", (int)size, address);
    }
}

/* False if the address does not tell on which machine it is. */
static bool is_loopback(const char *address, bool *ret_loopback)
{
    char host[MEMBER_ADDRESS_SIZE];
    uint16_t port;
    if (address_split(address, host, sizeof host, &port) != 0) {
        return false;
    }
    *ret_loopback = address_is_loopback(host);
    return true;
}

bool announced_fits(const struct core *core, uint64_t id, const char *address,
                    char why[HASP_WHY_SIZE])
{
    struct replica_members members;
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < 2 * members.count; i++) {
        const struct replica_member *other = &members.member[i / 2];
        char own[MEMBER_ADDRESS_SIZE], theirs[MEMBER_ADDRESS_SIZE];
        bool own_is, theirs_is;
        part_of(address, i % 2 == 1, own);
        part_of(other->address, i % 2 == 1, theirs);
        if (other->role != MEMBER_VOTER || other->id == id ||
            !is_loopback(own, &own_is) || !is_loopback(theirs, &theirs_is) ||
            own_is == theirs_is) {
            continue;
        }
        snprintf(why, HASP_WHY_SIZE,
                 "member %" PRIu64 " is at %.100s and member %" PRIu64
                 " at %.100s: a loopback address is reached from its own "
                 "machine alone; give all voters addresses of one network",
                 id, own, other->id, theirs);
        return false;
    }
    return true;
}
