/* SPDX-License-Identifier: MIT */

/* The effects of the committed entries, kept apart from the state machine: who
 * held what from which entry to which, who waits, which session has ended, and
 * the answers of numbered requests. Recorded from the effects of each entry
 * when it is first applied anywhere; compared with the state machine's own
 * state each time, and with the answers that clients get. */

#ifndef HASP_TESTS_SIM_SIM_HISTORY_H
#define HASP_TESTS_SIM_SIM_HISTORY_H

#include "lockfsm/lockfsm.h"
#include "raft/replica.h"
#include "tests/sim/sim.h"

struct sim_history;
struct sim_promises;
struct sim_pushes;
struct sim_rights;
struct sim_silence;
struct sim_history *sim_history_new(struct sim *sim,
                                    struct sim_silence *silence);
void sim_history_free(struct sim_history *history);
/* 'place': see sim_check.h. */
void sim_history_write(struct sim_history *history, uint64_t place,
                       const struct replica_entry *entry,
                       const struct effects *effects,
                       const struct lockfsm *fsm);

/* A new life has begun at 'place' with this state: only durable sessions of the
 * former one are left, and their holds. */
void sim_history_begin_life(struct sim_history *history, uint64_t place,
                            const struct lockfsm *fsm);
/* From now on it reports to 'silence'. */
void sim_history_follow(struct sim_history *history,
                        struct sim_silence *silence);

/* The refusals that clients got. */
struct sim_promises *sim_history_promises(struct sim_history *history);
/* The rights of each user. */
struct sim_rights *sim_history_rights(const struct sim_history *history);
/* The ends of waits. */
struct sim_pushes *sim_history_pushes(struct sim_history *history);

/* The result of request 'req' of a session. */
struct past_result {
    enum result_code code;
    uint64_t token;
    uint64_t count;
    uint64_t first_index; /* Entry of the first request. */
};
/* False if no entry has the request, or it still waits. */
bool sim_history_result(const struct sim_history *history, uint64_t session,
                        uint64_t req, struct past_result *ret_result);

/* True if a hold of 'lock' with 'token' existed at some moment between entry
 * 'from' and entry 'to', or at every one of them. */
bool sim_history_held_sometime(const struct sim_history *history,
                               struct bytes lock, uint64_t token, uint64_t from,
                               uint64_t to);
bool sim_history_held_always(const struct sim_history *history,
                             struct bytes lock, uint64_t token, uint64_t from,
                             uint64_t to);
/* True if the lock was held at every moment between the two entries. */
bool sim_history_taken_always(const struct sim_history *history,
                              struct bytes lock, uint64_t from, uint64_t to);
/* True if (session, owner) was ever granted 'lock' with 'token'. */
bool sim_history_granted(const struct sim_history *history, struct bytes lock,
                         uint64_t session, struct bytes owner, uint64_t token);
/* Reports such a grant to its owner. Returns how many times it has been
 * reported by now; 0 if there is no such grant. */
uint32_t sim_history_tell_grant(struct sim_history *history, struct bytes lock,
                                uint64_t session, struct bytes owner,
                                uint64_t token);
/* True if the session holds 'lock' with 'token', and so do all its owners to
 * which one entry granted it. */
bool sim_history_holds(const struct sim_history *history, struct bytes lock,
                       uint64_t session, uint64_t token);
/* The entry by which an operator ended that hold, known by any token that it
 * has had, of an owner (NULL: any); 0: no operator did. */
uint64_t sim_history_taken(const struct sim_history *history, struct bytes lock,
                           uint64_t session, struct bytes owner,
                           uint64_t token);
/* The reason of that end, a constant text; "": no operator ended it. */
const char *sim_history_taken_by(const struct sim_history *history,
                                 struct bytes lock, uint64_t session,
                                 struct bytes owner, uint64_t token);
/* True if the session has ended since it was blacklisted. */
bool sim_history_was_blacklisted(const struct sim_history *history,
                                 uint64_t session);
/* The name of a lock that the session holds or waits for, as a text until the
 * next entry; NULL. */
const char *sim_history_left(struct sim_history *history, uint64_t session);
/* The entry that ended the session; 0 while it lives or is unknown. */
uint64_t sim_history_ended(const struct sim_history *history, uint64_t session);
bool sim_history_opened(const struct sim_history *history, uint64_t session);
/* True if a restore ended the session: its client may still trust it, until the
 * quarantine is over. */
bool sim_history_dropped(const struct sim_history *history, uint64_t session);

/* A session with a lease that lives although it was not heard since 'before_ns'
 * of true time: not opened, no heartbeat answered, and, if it holds a Redis
 * value, not renewed by an entry. 0 if there is none. */
uint64_t sim_history_overdue(const struct sim_history *history,
                             uint64_t before_ns);

/* A heartbeat that a client sent at 'sent_ns' of true time was answered OK. */
void sim_history_beat(struct sim_history *history, uint64_t session,
                      uint64_t sent_ns, uint64_t ttl_ms, uint64_t linger_ms);

#endif /* HASP_TESTS_SIM_SIM_HISTORY_H */
