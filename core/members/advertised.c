/* SPDX-License-Identifier: MIT */

/* Whether the addresses of a member fit those of the others, and its own. */

#include "core/members/advertised.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/log.h"
#include "core/state.h"

/* The part of "peer,client" before or after the comma; "" if there is none. */
static void advertised_part_of(const char *address, bool is_client, char *out)
{
    size_t size = strcspn(address, ",");
    if (is_client) {
        snprintf(out, MEMBER_ADDRESS_SIZE, "%s",
                 address[size] == ',' ? address + size + 1 : "");
    } else {
        snprintf(out, MEMBER_ADDRESS_SIZE, "%.*s", (int)size, address);
    }
}

/* False if the address does not identify a machine. */
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

bool advertised_fits(const struct core *core, uint64_t id, const char *address,
                     char why[HASP_WHY_SIZE])
{
    struct replica_members members;
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < 2 * members.count; i++) {
        const struct replica_member *other = &members.member[i / 2];
        char own[MEMBER_ADDRESS_SIZE], theirs[MEMBER_ADDRESS_SIZE];
        bool own_is, theirs_is;
        /* An address has a part for nodes and one for clients. */
        advertised_part_of(address, i % 2 == 1, own);
        advertised_part_of(other->address, i % 2 == 1, theirs);
        if (other->role != MEMBER_VOTER || other->id == id ||
            !is_loopback(own, &own_is) || !is_loopback(theirs, &theirs_is) ||
            own_is == theirs_is) {
            continue;
        }
        snprintf(why, HASP_WHY_SIZE,
                 "member %" PRIu64 " is at %.100s and member %" PRIu64
                 " at %.100s: other machines cannot reach a loopback address; "
                 "give all voters addresses of one network",
                 id, own, other->id, theirs);
        return false;
    }
    return true;
}

bool advertised_is_taken(const struct core *core, uint64_t id,
                         const char *address, char why[HASP_WHY_SIZE])
{
    struct replica_members members;
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < 4 * members.count; i++) {
        const struct replica_member *other = &members.member[i / 4];
        char own[MEMBER_ADDRESS_SIZE], theirs[MEMBER_ADDRESS_SIZE];
        advertised_part_of(address, i % 2 == 1, own);
        advertised_part_of(other->address, i / 2 % 2 == 1, theirs);
        if (other->id != id && own[0] != '\0' && strcmp(own, theirs) == 0) {
            snprintf(why, HASP_WHY_SIZE,
                     "address %.100s is that of member %" PRIu64
                     ": give member %" PRIu64 " one of its own",
                     own, other->id, id);
            return true;
        }
    }
    return false;
}

/* True if both are numeric and differ. */
static bool is_other_host(const char *own, const char *listed)
{
    static const char *const any[] = {"0.0.0.0", "::"};
    bool is_any = strcmp(own, any[0]) == 0 || strcmp(own, any[1]) == 0;
    return !is_any && address_is_number(own) && address_is_number(listed) &&
           strcmp(own, listed) != 0;
}

static bool advertised_differs(const char *own, const char *listed)
{
    char own_host[MEMBER_ADDRESS_SIZE], listed_host[MEMBER_ADDRESS_SIZE];
    uint16_t own_port, listed_port;
    if (own == NULL ||
        address_split(own, own_host, sizeof own_host, &own_port) != 0 ||
        address_split(listed, listed_host, sizeof listed_host, &listed_port) !=
            0) {
        return false;
    }
    /* Port 0 matches any. */
    return (own_port != 0 && own_port != listed_port) ||
           is_other_host(own_host, listed_host);
}

bool core_is_elsewhere(const struct core *core, char why[HASP_WHY_SIZE])
{
    const struct core_options *options = &core->options;
    struct replica_members members;
    replica_members(core->replica, &members);
    const struct replica_member *member = replica_members_find(&members,
                                                               options->id);
    for (int i = 0; i < 2 && member != NULL; i++) {
        const char *own = i == 0 ? options->listen_peer
                                 : options->listen_client;
        char listed[MEMBER_ADDRESS_SIZE];
        advertised_part_of(member->address, i == 1, listed);
        if (advertised_differs(own, listed)) {
            snprintf(
                why, HASP_WHY_SIZE,
                "it listens for %s at %.100s, but the member list says "
                "%.100s: unless that address leads here, change listen.%s "
                "back, or enter the new one with: hasp member update %" PRIu64
                " PEER,CLIENT",
                i == 0 ? "nodes" : "clients", own, listed,
                i == 0 ? "peer" : "client", options->id);
            return true;
        }
    }
    return false;
}

void advertised_follow(struct core *core)
{
    char why[HASP_WHY_SIZE];
    bool is_elsewhere = core_is_elsewhere(core, why);
    if (is_elsewhere && !core->members.is_elsewhere) {
        LOG_WARN("this node listens elsewhere than the member list says",
                 "reason=%s", log_quote(why));
    } else if (!is_elsewhere && core->members.is_elsewhere) {
        LOG_INFO("this node listens where the member list says", "id=%" PRIu64,
                 core->options.id);
    }
    core->members.is_elsewhere = is_elsewhere;
}
