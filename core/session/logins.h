/* SPDX-License-Identifier: MIT */

/* How the clients of this node have authenticated: an operator who replaces a
 * secret or a CA waits until no client uses the old one. */

#ifndef HASP_CORE_SESSION_LOGINS_H
#define HASP_CORE_SESSION_LOGINS_H

#include "base/bytes.h"
#include "core/session/identity.h"
#include "lockfsm/model.h"
#include "lockfsm/user/access.h"

/* Connections that authenticated alike: with the same secret of a user, or with
 * certificates of the same CA. */
struct core_login {
    const char *by; /* "secret", "certificate", "socket", "none" */
    char user[USER_NAME_SIZE_MAX + 1]; /* "": all users of a CA. */
    uint64_t secret;                   /* Its number, or 0. */
    uint8_t ca[FINGERPRINT_SIZE];
    uint32_t count;
};

/* Calls 'each' with the rows of all connections; rows beyond CORE_LOGINS_MAX
 * are omitted, and it returns false. */
#define CORE_LOGINS_MAX 1000
typedef void core_login_fn(void *data, const struct core_login *login);
struct core;
bool core_logins(const struct core *core, core_login_fn *each, void *data);

#endif /* HASP_CORE_SESSION_LOGINS_H */
