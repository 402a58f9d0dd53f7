/* SPDX-License-Identifier: MIT */

/* How a lock, a session or a fence looks to who asks for it: all that
 * LOCK.SHOW, SESSION.SHOW and FENCE.LIST tell of it, but for the times, as one
 * text; made of the state, and of what was told. The two texts are equal if
 * what was told is so. */

#ifndef HASP_TESTS_SIM_SIM_FACE_H
#define HASP_TESTS_SIM_SIM_FACE_H

#include "lockfsm/lockfsm.h"
#include "net/resp.h"

/* Who may see the addresses of holders depends on who asks: they are left to
 * him, unless all may. */
void sim_face_of_lock(struct buffer *out, const struct lock *lock,
                      bool with_addresses);
void sim_face_of_session(struct buffer *out, const struct lockfsm *fsm,
                         const struct session *session);
void sim_face_of_fence(struct buffer *out, const struct fence *fence);

/* Of the map reply->value[at]. */
void sim_face_of_told_lock(struct buffer *out, const struct resp_reply *reply,
                           uint32_t at, bool with_addresses);
void sim_face_of_told_session(struct buffer *out,
                              const struct resp_reply *reply, uint32_t at);

void sim_face_of_told_fence(struct buffer *out, const struct resp_reply *reply,
                            uint32_t at);

/* What is told under 'key' of the map reply->value[at]: a number, 0 if there is
 * none; a text; the place of the first of an array, which has '*ret_count'. */
uint64_t sim_face_number(const struct resp_reply *reply, uint32_t at,
                         const char *key);
bool sim_face_has_number(const struct resp_reply *reply, uint32_t at,
                         const char *key);
struct bytes sim_face_text(const struct resp_reply *reply, uint32_t at,
                           const char *key);
uint32_t sim_face_array(const struct resp_reply *reply, uint32_t at,
                        const char *key, uint32_t *ret_count);

/* What times of a lock depend on; of a version of it. */
struct face_hold {
    uint64_t session;
    uint64_t granted_index;
    uint64_t ttl_ms;
    uint64_t linger_ms;
    uint64_t hold_ms;
    uint64_t delay_ms;
    bool is_leased; /* Of a living session with an end, and not of Redis. */
    bool is_over;   /* Its session has ended. */
};

#endif /* HASP_TESTS_SIM_SIM_FACE_H */
