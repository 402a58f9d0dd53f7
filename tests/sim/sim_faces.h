/* SPDX-License-Identifier: MIT */

/* What there was to show: the view of each lock, session and fence after each
 * entry (sim_face.h), who served when, and when each node had applied what.
 * Answers to clients are checked against it (sim_shown.h).
 *
 * Oracle: what was shown of the future becomes true. A lease with time left
 * does not expire sooner by the fastest clock under the same leader, unless it
 * lingers. A limited hold is not over, under any leader, while the client that
 * was shown its remaining time can trust that. */

#ifndef HASP_TESTS_SIM_SIM_FACES_H
#define HASP_TESTS_SIM_SIM_FACES_H

#include "lockfsm/lockfsm.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_face.h"

struct sim_faces;
struct sim_node;

struct sim_faces *sim_faces_new(struct sim *sim);
void sim_faces_free(struct sim_faces *faces);

/* A new life begins at 'place' with this state. */
void sim_faces_begin_life(struct sim_faces *faces, uint64_t place,
                          const struct lockfsm *fsm);
/* An entry is applied for the first time anywhere. */
void sim_faces_entry(struct sim_faces *faces, uint64_t place,
                     const struct effects *effects, const struct lockfsm *fsm);
/* A node starts; has ended its turn, having applied everything up to 'place';
 * no longer runs. */
void sim_faces_started(struct sim_faces *faces, struct sim_node *node);
void sim_faces_stepped(struct sim_faces *faces, struct sim_node *node,
                       uint64_t place);
void sim_faces_stopped(struct sim_faces *faces, struct sim_node *node);
/* A heartbeat sent at 'sent_ns' was answered OK now. */
void sim_faces_beat(struct sim_faces *faces, uint64_t session,
                    uint64_t sent_ns);

/* --- What there was ------------------------------------------------------- */

enum face_kind { FACE_LOCK, FACE_SESSION, FACE_FENCE };

/* A version of one of them, from one entry on until another one. */
struct face_version {
    uint64_t from;
    uint64_t to; /* NEVER_SHOWN. */
    bool is_there;
    struct bytes face;
    /* For a lock: */
    const struct face_hold *holds;
    uint32_t hold_count;
    uint64_t delay_ms;
    uint64_t delay_index;
    bool has_free_slots;
    /* For a session, as if it held something. */
    struct face_hold session;
};
#define NEVER_SHOWN UINT64_MAX

/* Passes all versions between the two entries, both included, in order; none
 * before the first one. */
typedef void face_version_fn(void *data, const struct face_version *version);
void sim_faces_versions(const struct sim_faces *faces, enum face_kind kind,
                        struct bytes name, uint64_t id, uint64_t from,
                        uint64_t to, face_version_fn *each, void *data);
/* Passes the name and id (of a session; else 0) of everything that ever
 * existed. */
typedef void face_name_fn(void *data, struct bytes name, uint64_t id);
void sim_faces_names(const struct sim_faces *faces, enum face_kind kind,
                     face_name_fn *each, void *data);

/* True if there was a quarantine at or after 'place'. */
bool sim_faces_quarantined(const struct sim_faces *faces, uint64_t place);

/* --- Times, all of them true ---------------------------------------------- */

/* When the entry was applied for the first time; for an entry of a former life,
 * when the present one began. */
uint64_t sim_faces_first_ns(const struct sim_faces *faces, uint64_t place);
/* When all nodes that served at some moment since 'ns' had applied it; now, if
 * one of them has not. */
uint64_t sim_faces_last_ns(const struct sim_faces *faces, uint64_t place,
                           uint64_t ns);
/* When the newest leader of those began to serve; 0: nobody has served. */
uint64_t sim_faces_reign_ns(const struct sim_faces *faces, uint64_t ns);
/* When the newest heartbeat answered OK by 'ns' was sent; 0. */
uint64_t sim_faces_beat_ns(const struct sim_faces *faces, uint64_t session,
                           uint64_t ns);

/* --- Shown times in the future ---------------------------------------------
 */

/* An answer to a request sent at 'asked_ns' showed that the session does not
 * expire before 'ns'. Only the leader that answered guarantees that: it has
 * counted heartbeats that it has not answered, and that its successor does not
 * know (rule 9). */
void sim_faces_lease_told(struct sim_faces *faces, uint64_t session,
                          uint64_t asked_ns, uint64_t ns);
/* Likewise, the hold does not reach its limit before 'ns'. */
void sim_faces_hold_told(struct sim_faces *faces, struct bytes lock,
                         uint64_t session, struct bytes owner, uint64_t token,
                         uint64_t ns);

#endif /* HASP_TESTS_SIM_SIM_FACES_H */
