/* SPDX-License-Identifier: MIT */

/* Users, access, quotas, the blacklist, administrative acts: what the files of
 * lockfsm/user/ offer to lockfsm/. Private to lockfsm/. */

#ifndef HASP_LOCKFSM_USER_USER_H
#define HASP_LOCKFSM_USER_USER_H

#include "lockfsm/session/session.h"
#include "lockfsm/state.h"

/* How many sessions or waits are looked at for the price of taking one place
 * away (lockfsm.slice). */
#define LOOKS_PER_PLACE 8

/* --- trail.c -------------------------------------------------------------- */
/* Before the command is applied. */
void trail_note(struct lockfsm *fsm, const struct entry *command);

/* --- access.c ------------------------------------------------------------- */
/* The refusal of nobody (NULL), or of one who may do nothing. */
void user_refuse(struct lockfsm *fsm, const struct user *user,
                 struct result *result);

/* True with the refusal if the entry's user may not do it. */
bool access_refuses(struct lockfsm *fsm, const struct entry *command,
                    struct result *result);
/* True with the refusal if the session that acts is another user's. */
bool access_hides_session(struct lockfsm *fsm, const struct entry *command,
                          struct result *result);
bool wait_is_allowed(const struct lockfsm *fsm, const struct wait *wait);
/* Ends those waits of the session that may not stand any more, from where SWEEP
 * has come to (recheck_at) on, for about 'looks_max' looks, of which there are
 * LOOKS_PER_PLACE for each wait that ends; false if there may be others.
 * 'listed' is what they are told if the session is blacklisted, else NULL. */
bool access_recheck(struct lockfsm *fsm, struct session *session,
                    const struct result *listed, uint64_t looks_max,
                    uint64_t *ret_looks);
/* What a session may do has changed: the same, now, or by SWEEP if there are
 * too many. */
void access_recheck_session(struct lockfsm *fsm, struct session *session,
                            const struct result *listed);
/* What a user, or all with a role, may do has changed: ends their waits that
 * are not allowed any more. 'tells_sessions': the user may do nothing any more,
 * or something again. */
void access_changed(struct lockfsm *fsm, struct user *user,
                    const struct role *role, bool tells_sessions);

/* --- users.c -------------------------------------------------------------- */
void users_init(struct lockfsm *fsm);
void users_done(struct lockfsm *fsm);
/* What a cluster has from its founding on. */
void users_found(struct lockfsm *fsm, bool is_access_required);
/* As lockfsm_user(). */
static inline struct user *user_numbered(const struct lockfsm *fsm,
                                         uint64_t number)
{
    struct user *user = NULL;
    if (number == USER_ANYONE) {
        return (struct user *)&fsm->anyone;
    }
    if (number == USER_LOCAL) {
        return (struct user *)&fsm->local;
    }
    HASH_FIND(by_number, fsm->users_by_number, &number, sizeof number, user);
    return user;
}
struct user *user_new(struct lockfsm *fsm, struct bytes name);
/* He has a number now; his secret has its hash. */
void user_number_in(struct lockfsm *fsm, struct user *user);
void secret_hash_in(struct lockfsm *fsm, struct user *user,
                    struct secret *secret);
/* He has his roles from now on, or gives them up: they count who have them. */
void user_count_roles(struct lockfsm *fsm, const struct user *user,
                      bool is_new);
struct role *role_new(struct lockfsm *fsm, struct bytes name);

/* --- revocations.c -------------------------------------------------------- */
/* Its fingerprint must not be there yet. */
struct revocation *revocation_new(struct lockfsm *fsm,
                                  const uint8_t fingerprint[FINGERPRINT_SIZE]);

/* --- blacklist_match.c ---------------------------------------------------- */

struct blacklisting *blacklisting_new(struct lockfsm *fsm);
void blacklisting_free(struct lockfsm *fsm, struct blacklisting *entry);
/* Drops the entries that name a session which ends. */
void blacklist_forget_session(struct lockfsm *fsm,
                              const struct session *session);
/* The first entry that hits a session of this id and name, or NULL. */
struct blacklisting *blacklist_hit(const struct lockfsm *fsm, uint64_t session,
                                   struct bytes client);
struct blacklisting *blacklist_find(const struct lockfsm *fsm,
                                    uint64_t since_index);
/* True with the refusal in 'result' if the session is blacklisted. */
bool blacklist_refuses(struct lockfsm *fsm, const struct session *session,
                       struct result *result);
void blacklist_refuse(struct lockfsm *fsm, const struct blacklisting *entry,
                      struct result *result);

/* --- reevaluate.c --------------------------------------------------------- */

/* The sessions that a change concerns, as far as one entry may take them. */
struct relisting {
    struct session_array found;
    uint64_t looks_left;
    uint64_t room;
    bool is_cut; /* There are more: SWEEP goes through all there are. */
};
/* Whoever has begun one ends it. */
struct relisting reevaluate_begin(const struct lockfsm *fsm);
/* Looks at one, which may be NULL if it is not concerned; false: there is no
 * need to look at any other. */
bool reevaluate_look(struct relisting *relisting, struct session *session,
                     bool is_concerned);
/* The change is made: brings what was found up to date with it, or leaves that
 * to SWEEP. */
void reevaluate_end(struct lockfsm *fsm, struct relisting *relisting);
/* The same of all sessions, a slice of them; returns how many of the places are
 * left. */
uint64_t reevaluate_sweep(struct lockfsm *fsm, uint64_t places);

/* --- audit.c -------------------------------------------------------------- */

/* The entry has been applied: keeps it, if it is an act. */
void audit_note(struct lockfsm *fsm, const struct entry *command,
                const struct result *result);
struct act *act_new(struct lockfsm *fsm, uint64_t number);
/* Counts their bytes anew, after loading. They are no part of LIMIT_STATE_SIZE,
 * since they have a bound of their own. */
void audit_recount(struct lockfsm *fsm);
/* What is wrong with the acts, or NULL. */
const char *audit_check(const struct lockfsm *fsm);

/* --- quota.c -------------------------------------------------------------- */

/* True, with the refusal, if the user of the entry may not have so much more.
 * Nobody but a user is refused so. */
bool user_growth_is_refused(struct lockfsm *fsm, const struct quota *more,
                            struct result *result);
/* True if he has no room for another record; of NULL, false. */
bool user_is_full(const struct user *user);
/* These keep his use. */
typedef void user_count_fn(struct user *user, enum quota_key key,
                           uint64_t count);
user_count_fn user_takes, user_gives;
/* Counts for each user what he has left in a structure of that name (LEFT_ in
 * records.def), if he has not been removed. Whoever changes something there
 * gives it before and takes it after. */
void payers_count(const struct lockfsm *fsm, const struct stored *stored,
                  struct bytes name, user_count_fn *count);
/* True if somebody has left something there. */
bool has_payer(const struct stored *stored);
/* False if something is there that nobody has left, or the reverse. */
bool payers_are_right(const struct stored *stored);
/* What counts for QUOTA_BYTES: a hold or wait; what is left at a name; a
 * result; spent numbers; a session with its results and numbers. */
uint64_t place_bytes(struct bytes lock, struct bytes owner, struct bytes value);
uint64_t left_bytes(struct bytes name, uint64_t text_size);
uint64_t kept_bytes(const struct kept_result *kept);
uint64_t numbers_bytes(const struct numbers *numbers);
uint64_t session_bytes(const struct session *session);
/* Counts the use of all users anew. */
void quota_recount(struct lockfsm *fsm);
/* False if that would find something else. */
bool quota_is_right(const struct lockfsm *fsm);

#endif /* HASP_LOCKFSM_USER_USER_H */
