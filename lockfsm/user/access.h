/* SPDX-License-Identifier: MIT */

/* Users, roles, and who may do what.
 *
 * A role is a list of grants: verbs, and a name or all names that begin so. A
 * user has roles. What is not granted is refused. An entry carries the number
 * of the user whose it is; whether he may is decided when it is applied, on the
 * decoded entry, by what its row in entry.def demands, so that the names that
 * are checked are those that are used, and a right that was withdrawn at some
 * index is gone for everything behind it in the log.
 *
 *     number 0            the leader itself: EXPIRE, BEGIN and the like
 *     USER_ANYONE         who has not said who he is. While access is open he
 *                         may do all but administer users, set limits and read
 *                         backups; when it is required he is refused like a
 *                         user that is disabled
 *     USER_LOCAL          who came through the local door of a node: may do
 *                         everything, for ever
 *     above token_base    a user that was made, by the token of that entry. Who
 *                         is removed and made again has another number, and so
 *                         inherits no session, secret or connection
 *
 * Sessions belong to the user who opened them: to others they do not exist.
 *
 * A right that is withdrawn, a user that is disabled, ends waits, and never a
 * hold: a lock goes on to others when it is given back, or when its holder's
 * lease has run out, which the holder knows first (rule 17). What only gives
 * back (RELEASE, CLOSE, CANCEL, CONVERT SHARED) needs no right but the
 * session.
 *
 * The role ROLE_ADMIN has all verbs, and cannot be changed; VERB_ACCESS and
 * VERB_ADMIN are in no other role, so nobody can give himself more than he was
 * given. */

#ifndef HASP_LOCKFSM_USER_ACCESS_H
#define HASP_LOCKFSM_USER_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/model.h"

#define USER_ANYONE 1
#define USER_LOCAL 2

#define USER_NAME_SIZE_MAX 64 /* Of roles, too. */
#define USER_COUNT_MAX 100000 /* With those who were removed. */
#define USER_ROLE_COUNT_MAX 16
#define SECRET_COUNT_MAX 4 /* Of a user. */
#define ROLE_COUNT_MAX 1000
#define GRANT_COUNT_MAX 64 /* Of a role. */
/* The built-in role; a founded cluster has a user of this name with it. */
#define ROLE_ADMIN "admin"
/* Made at the founding; may be changed. */
#define ROLE_OBSERVER "observer"

/* Certificates that are refused. What has expired stays among them: whoever
 * needs more makes a new CA. */
#define REVOKED_COUNT_MAX 10000

/* Of a name everything; or all names that begin with it. */
enum extent { EXTENT_NAME, EXTENT_PREFIX };

/* Why somebody may: NULL where he needs no role. */
struct permission {
    const struct role *role;
    const struct grant *grant;
};

/* --- Asking the state ----------------------------------------------------- */

/* True if who does not say who he is may do nothing. */
bool lockfsm_access_is_required(const struct lockfsm *fsm);
/* Also the built-in ones; NULL: no such user (any more). */
const struct user *lockfsm_user(const struct lockfsm *fsm, uint64_t number);
/* NULL: never was one; number 0: he was removed. Not the built-in ones. */
const struct user *lockfsm_user_named(const struct lockfsm *fsm,
                                      struct bytes name);
/* Of users there are, without the built-in ones and 'admin', and of secrets. */
struct user_counts {
    uint64_t users;
    uint64_t secrets;
};
struct user_counts lockfsm_user_counts(const struct lockfsm *fsm);
/* Before a new life: disables all users, 'admin' too. The local door stays. */
void lockfsm_suspend_users(struct lockfsm *fsm);
/* The secret with this SHA-256, or NULL. */
const struct secret *lockfsm_secret(const struct lockfsm *fsm,
                                    const uint8_t hash[PROOF_SIZE]);
/* The secret 'number' of a user, or NULL. */
const struct secret *user_secret(const struct user *user, uint64_t number);
const struct role *lockfsm_role(const struct lockfsm *fsm, struct bytes name);
/* All but the built-in ones, by name: user.in_order, role.in_order. */
struct treap *lockfsm_user_order(struct lockfsm *fsm);
struct treap *lockfsm_role_order(struct lockfsm *fsm);

/* The revocation of the certificate with this SHA-256, or NULL. */
const struct revocation *
lockfsm_revocation(const struct lockfsm *fsm,
                   const uint8_t fingerprint[FINGERPRINT_SIZE]);
/* All of them, by their digits: revocation.in_order. */
struct treap *lockfsm_revocation_order(struct lockfsm *fsm);

/* True if the user, who may be NULL, has been granted that. Verbs of the
 * cluster take no name. 'ret_permission' may be NULL. O(his grants). */
bool lockfsm_may(const struct lockfsm *fsm, const struct user *user,
                 enum verb verb, struct bytes name, enum extent extent,
                 struct permission *ret_permission);
/* As applying 'command' now would refuse it: true with the refusal, borrowed
 * until the next question. */
bool lockfsm_refuses(struct lockfsm *fsm, struct bytes command,
                     struct result *ret_result);
/* The words in which lockfsm_may() is told to the user; borrowed likewise. */
struct bytes lockfsm_refusal(struct lockfsm *fsm, const struct user *user,
                             enum verb verb, struct bytes name);

/* --- Texts ---------------------------------------------------------------- */

/* "lock" ... */
const char *verb_name(enum verb verb);
bool verb_find(struct bytes name, enum verb *ret_verb);
/* 1 to 64 letters, digits, '.', '_', '-'. */
bool user_name_is_valid(struct bytes name);
/* "lock,read:billing/" and a star, "read:orders", "sessions,blacklist": NULL,
 * or a static text that says what is wrong. The name is borrowed. */
const char *grant_parse(struct bytes text, struct grant *ret_grant);
/* Appends that text. */
void grant_print(struct buffer *out, const struct grant *grant);
/* NULL, or what is wrong with the grant itself. */
const char *grant_check(const struct grant *grant);

#endif /* HASP_LOCKFSM_USER_ACCESS_H */
