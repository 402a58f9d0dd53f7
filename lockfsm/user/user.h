/* SPDX-License-Identifier: MIT */

/* Users, access, quotas, the blacklist, administrative acts: what the files of
 * lockfsm/user/ offer to lockfsm/. Private to lockfsm/. */

#ifndef HASP_LOCKFSM_USER_USER_H
#define HASP_LOCKFSM_USER_USER_H

#include "lockfsm/session/session.h"
#include "lockfsm/state.h"

/* The number of sessions or waits that can be checked at the cost of removing
 * one place (lockfsm.slice). */
#define LOOKS_PER_PLACE 8

/* --- trail.c -------------------------------------------------------------- */
/* To be called before the command is applied. */
void trail_note(struct lockfsm *fsm, const struct entry *command);
/* There is none: the newest entry has no command. */
void trail_none(struct lockfsm *fsm);
/* True: the entry is logged, but is not an administrator's act. */
void trail_is_for_log(struct lockfsm *fsm, bool is_for_log);

/* --- access.c ------------------------------------------------------------- */
/* Refuses an unknown user (NULL), or one without any rights. */
void user_refuse(struct lockfsm *fsm, const struct user *user,
                 struct result *result);

/* True with the refusal if the entry's user lacks the right. */
bool access_refuses(struct lockfsm *fsm, const struct entry *command,
                    struct result *result);
/* True with the refusal if the acting session belongs to another user. */
bool access_hides_session(struct lockfsm *fsm, const struct entry *command,
                          struct result *result);
bool wait_is_allowed(const struct lockfsm *fsm, const struct wait *wait);
/* Ends the waits of the session that are no longer allowed, from SWEEP's
 * position (recheck_at) on, within about 'looks_max' checks, where ending a
 * wait costs LOOKS_PER_PLACE; false if there may be others. 'listed' is their
 * result if the session is blacklisted, otherwise NULL. */
bool access_recheck(struct lockfsm *fsm, struct session *session,
                    const struct result *listed, uint64_t looks_max,
                    uint64_t *ret_looks);
/* The rights of a session have changed: does the same now, or leaves it to
 * SWEEP if there are too many waits. */
void access_recheck_session(struct lockfsm *fsm, struct session *session,
                            const struct result *listed);
/* The rights of a user, or of all users with a role, have changed: ends their
 * waits that are no longer allowed. 'tells_sessions': the user was disabled or
 * enabled. */
void access_changed(struct lockfsm *fsm, struct user *user,
                    const struct role *role, bool tells_sessions);

/* --- users.c -------------------------------------------------------------- */
void users_init(struct lockfsm *fsm);
void users_done(struct lockfsm *fsm);
/* Creates the users and roles of a new cluster. */
void users_found(struct lockfsm *fsm, bool is_access_required);
/* As lockfsm_user(). */
static inline struct user *user_numbered(const struct lockfsm *fsm,
                                         uint64_t number)
{
    struct user *user = NULL;
    if (number == USER_ANYONE) {
        return (struct user *)&fsm->access.anyone;
    }
    if (number == USER_LOCAL) {
        return (struct user *)&fsm->access.local;
    }
    HASH_FIND(by_number, fsm->access.users_by_number, &number, sizeof number,
              user);
    return user;
}
struct user *user_new(struct lockfsm *fsm, struct bytes name);
/* Index a user by its number, a secret by its hash, once that is set. */
void user_number_in(struct lockfsm *fsm, struct user *user);
void secret_hash_in(struct lockfsm *fsm, struct user *user,
                    struct secret *secret);
/* Adds the user to the counts of its roles, or removes it from them. */
void user_count_roles(struct lockfsm *fsm, const struct user *user,
                      bool is_new);
struct role *role_new(struct lockfsm *fsm, struct bytes name);

/* --- revocations.c -------------------------------------------------------- */
/* The fingerprint must not be revoked yet. */
struct revocation *revocation_new(struct lockfsm *fsm,
                                  const uint8_t fingerprint[FINGERPRINT_SIZE]);

/* --- blacklist_match.c ---------------------------------------------------- */

struct blacklisting *blacklisting_new(struct lockfsm *fsm);
void blacklisting_free(struct lockfsm *fsm, struct blacklisting *entry);
/* Drops the entries that name a session which is ending. */
void blacklist_forget_session(struct lockfsm *fsm,
                              const struct session *session);
/* The first entry that matches a session with this id and name, or NULL. */
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

/* The sessions that a change concerns, within the bounds of one entry. */
struct relisting {
    struct session_array found;
    uint64_t looks_left;
    uint64_t room;
    bool is_cut; /* There are more: SWEEP visits all sessions. */
};
/* The caller must end it. */
struct relisting reevaluate_begin(const struct lockfsm *fsm);
/* Adds a session, which may be NULL if it is not concerned; false if the caller
 * can stop. */
bool reevaluate_look(struct relisting *relisting, struct session *session,
                     bool is_concerned);
/* After the change was made: updates the sessions found, or leaves them to
 * SWEEP. */
void reevaluate_end(struct lockfsm *fsm, struct relisting *relisting);
/* True if no SWEEP has yet to visit the session. */
bool reevaluate_has_reached(const struct lockfsm *fsm,
                            const struct session *session);
/* Updates a slice of all sessions; returns how many of the places are left. */
uint64_t reevaluate_sweep(struct lockfsm *fsm, uint64_t places);

/* --- audit.c -------------------------------------------------------------- */

/* Records an applied entry if it is an act. */
void audit_note(struct lockfsm *fsm, const struct entry *command,
                const struct result *result);
struct act *act_new(struct lockfsm *fsm, uint64_t number);
/* Recounts their bytes, after loading. They are not part of LIMIT_STATE_SIZE,
 * since they have their own bound. */
void audit_recount(struct lockfsm *fsm);
/* The error in the acts, or NULL. */
const char *audit_check(const struct lockfsm *fsm);

/* --- quota.c -------------------------------------------------------------- */

/* True, with the refusal, if 'more' would pass the quotas of the entry's user.
 * Never refuses the leader. */
bool user_growth_is_refused(struct lockfsm *fsm, const struct quota *more,
                            struct result *result);
/* True if the user has no room for another record; false for NULL. */
bool user_is_full(const struct user *user);
/* These update the user's use. */
typedef void user_count_fn(struct user *user, enum quota_key key,
                           uint64_t count);
user_count_fn user_takes, user_gives;
/* Counts what each user that still exists has left in a structure of that name
 * (LEFT_ in records.def). A caller that changes something there calls it with
 * user_gives before and user_takes after. */
void payers_count(const struct lockfsm *fsm, const struct stored *stored,
                  struct bytes name, user_count_fn *count);
/* True if any user has left something there. */
bool has_payer(const struct stored *stored);
/* False if something is there without its user, or the reverse. */
bool payers_are_right(const struct stored *stored);
/* Sizes that count for QUOTA_BYTES: a hold or wait; what is left at a name; a
 * result; spent numbers; a session with its results and numbers. */
uint64_t place_bytes(struct bytes lock, struct bytes owner, struct bytes value);
uint64_t left_bytes(struct bytes name, uint64_t text_size);
uint64_t kept_bytes(const struct kept_result *kept);
uint64_t numbers_bytes(const struct numbers *numbers);
uint64_t session_bytes(const struct session *session);
/* Recounts the use of all users. */
void quota_recount(struct lockfsm *fsm);
/* False if a recount would differ. */
bool quota_is_right(const struct lockfsm *fsm);

#endif /* HASP_LOCKFSM_USER_USER_H */
