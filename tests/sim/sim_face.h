/* SPDX-License-Identifier: MIT */

/* The view of a lock, a session or a fence that a client gets: everything that
 * LOCK.SHOW, SESSION.SHOW and FENCE.LIST show of it except times, as one text.
 * One text is made from the state, the other from an answer. They are equal if
 * the answer is true. */

#ifndef HASP_TESTS_SIM_SIM_FACE_H
#define HASP_TESTS_SIM_SIM_FACE_H

#include "lockfsm/lockfsm.h"
#include "net/resp.h"

/* Whether the addresses of holders are visible depends on the client. They are
 * left out, unless everybody can see them. */
void sim_face_of_lock(struct buffer *out, const struct lock *lock,
                      bool with_addresses);
void sim_face_of_session(struct buffer *out, const struct lockfsm *fsm,
                         const struct session *session);
void sim_face_of_fence(struct buffer *out, const struct fence *fence);

/* The text of the map reply->value[at]. */
void sim_face_of_told_lock(struct buffer *out, const struct resp_reply *reply,
                           uint32_t at, bool with_addresses);
void sim_face_of_told_session(struct buffer *out,
                              const struct resp_reply *reply, uint32_t at);

void sim_face_of_told_fence(struct buffer *out, const struct resp_reply *reply,
                            uint32_t at);

/* The value of 'key' in the map reply->value[at]: a number, 0 if there is none;
 * a text; the index of the first element of an array, which has
 * '*ret_count'. */
uint64_t sim_face_number(const struct resp_reply *reply, uint32_t at,
                         const char *key);
bool sim_face_has_number(const struct resp_reply *reply, uint32_t at,
                         const char *key);
struct bytes sim_face_text(const struct resp_reply *reply, uint32_t at,
                           const char *key);
uint32_t sim_face_array(const struct resp_reply *reply, uint32_t at,
                        const char *key, uint32_t *ret_count);

/* What times of one version of a lock depend on. */
struct face_hold {
    uint64_t session;
    uint64_t granted_index;
    uint64_t ttl_ms;
    uint64_t linger_ms;
    uint64_t hold_ms;
    uint64_t delay_ms;
    bool is_leased; /* Of a living session with an end that is not a Redis
                       session. */
    bool is_over;   /* Its session has ended. */
};

#endif /* HASP_TESTS_SIM_SIM_FACE_H */
