/* SPDX-License-Identifier: MIT */

/* Users, roles and their rights.
 *
 * A role is a list of grants: verbs, and a name or a prefix of names. A user
 * has roles. Everything that is not granted is refused. An entry carries the
 * number of its user. Its right is checked when it is applied, on the decoded
 * entry, by its row in entry.def. So the names that are checked are those that
 * are used, and a right that was withdrawn at some index is gone for all later
 * entries.
 *
 *     number 0            the leader itself: EXPIRE, BEGIN and the like
 *     USER_ANYONE         not authenticated. While access is open it may do
 *                         everything but administer users, set limits and read
 *                         backups; while access is required it is refused like
 *                         a disabled user
 *     USER_LOCAL          a client of a node's local admin socket: may do
 *                         everything, always
 *     above token_base    a created user: the token of that entry. A user that
 *                         is removed and created again has another number, and
 *                         inherits no session, secret or connection
 *
 * Sessions belong to the user that opened them; for others they do not exist.
 *
 * Withdrawing a right or disabling a user ends waits, but never a hold: a lock
 * passes to others when it is released, or when its holder's lease has run out,
 * which the holder knows first (rule 17). Commands that only give back
 * (RELEASE, CLOSE, CANCEL, CONVERT SHARED) need no right except the session.
 *
 * The role ROLE_ADMIN has all verbs and cannot be changed. No other role can
 * have VERB_ACCESS or VERB_ADMIN, so a user cannot extend its own rights. */

#ifndef HASP_LOCKFSM_USER_ACCESS_H
#define HASP_LOCKFSM_USER_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/model.h"

#define USER_ANYONE 1
#define USER_LOCAL 2

#define USER_NAME_SIZE_MAX 64
#define USER_COUNT_MAX 100000 /* Including removed ones. */
#define USER_ROLE_COUNT_MAX 16
#define SECRET_COUNT_MAX 4 /* Of a user. */
#define ROLE_COUNT_MAX 1000
#define GRANT_COUNT_MAX 64 /* Of a role. */
/* The built-in role; a new cluster has a user of this name with it. */
#define ROLE_ADMIN "admin"
/* Created with the cluster; can be changed. */
#define ROLE_OBSERVER "observer"

/* The most revoked certificates. Expired ones are not removed: an operator who
 * needs more creates a new CA. */
#define REVOKED_COUNT_MAX 10000

/* Exactly this name, or all names with this prefix. */
enum extent { EXTENT_NAME, EXTENT_PREFIX };

/* The role and grant that give a right; NULL if none is needed. */
struct permission {
    const struct role *role;
    const struct grant *grant;
};

struct entry;

/* --- Reading the state -----------------------------------------------------
 */

/* True if unauthenticated clients may do nothing. */
bool lockfsm_access_is_required(const struct lockfsm *fsm);
/* Includes the built-in ones; NULL if the user does not exist (any longer). */
const struct user *lockfsm_user(const struct lockfsm *fsm, uint64_t number);
/* NULL if it never existed; number 0 if it was removed. Excludes the built-in
 * ones. */
const struct user *lockfsm_user_named(const struct lockfsm *fsm,
                                      struct bytes name);
/* Counts of users, without the built-in ones and 'admin', and of secrets. */
struct user_counts {
    uint64_t users;
    uint64_t secrets;
};
struct user_counts lockfsm_user_counts(const struct lockfsm *fsm);
/* Before a new epoch: disables all users including 'admin'. The admin socket
 * still works. */
void lockfsm_suspend_users(struct lockfsm *fsm);
/* The secret with this SHA-256, or NULL. */
const struct secret *lockfsm_secret(const struct lockfsm *fsm,
                                    const uint8_t hash[PROOF_SIZE]);
/* The secret 'number' of a user, or NULL. */
const struct secret *user_secret(const struct user *user, uint64_t number);
const struct role *lockfsm_role(const struct lockfsm *fsm, struct bytes name);
/* All except the built-in ones, by name: user.in_order, role.in_order. */
struct treap *lockfsm_user_order(struct lockfsm *fsm);
struct treap *lockfsm_role_order(struct lockfsm *fsm);

/* The revocation of the certificate with this SHA-256, or NULL. */
const struct revocation *
lockfsm_revocation(const struct lockfsm *fsm,
                   const uint8_t fingerprint[FINGERPRINT_SIZE]);
/* All revocations, by their digits: revocation.in_order. */
struct treap *lockfsm_revocation_order(struct lockfsm *fsm);

/* True if the user, which may be NULL, has that right. Verbs of the cluster
 * take no name. 'ret_permission' may be NULL. O(grants of the user). */
bool lockfsm_may(const struct lockfsm *fsm, const struct user *user,
                 enum verb verb, struct bytes name, enum extent extent,
                 struct permission *ret_permission);
/* True if applying 'entry' now would refuse it, with the refusal, borrowed
 * until the next call. */
bool lockfsm_refuses(struct lockfsm *fsm, const struct entry *entry,
                     struct result *ret_result);
/* The text of a refusal by lockfsm_may(); borrowed until the next call. */
struct bytes lockfsm_refusal(struct lockfsm *fsm, const struct user *user,
                             enum verb verb, struct bytes name);

/* --- Texts ---------------------------------------------------------------- */

/* "lock" ... */
const char *verb_name(enum verb verb);
bool verb_find(struct bytes name, enum verb *ret_verb);
/* 1 to 64 letters, digits, '.', '_', '-'. */
bool user_name_is_valid(struct bytes name);
/* "lock,read:billing/" and a star, "read:orders", "sessions,blacklist": NULL,
 * or a static text that names the error. The name is borrowed. */
const char *grant_parse(struct bytes text, struct grant *ret_grant);
/* Appends the text of a grant. */
void grant_print(struct buffer *out, const struct grant *grant);
/* NULL, or the error in the grant itself. */
const char *grant_check(const struct grant *grant);

#endif /* HASP_LOCKFSM_USER_ACCESS_H */
