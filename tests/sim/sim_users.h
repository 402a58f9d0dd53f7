/* SPDX-License-Identifier: MIT */

/* Users in the simulator: in one run of three there are some, and who clients
 * are.
 *
 * Each client speaks as one user in all that it does, or says nothing of
 * itself: by a certificate, which its connections show, or by a secret (AUTH).
 * What it shows may be revoked, removed, or not be known yet; it goes on with
 * what is there by then. Nothing is encrypted: what TLS has found out a
 * connection carries along (core/session/identity.h). Who makes users and takes
 * their rights away is sim_keeper.h. */

#ifndef HASP_TESTS_SIM_SIM_USERS_H
#define HASP_TESTS_SIM_SIM_USERS_H

#include "base/prng.h"
#include "base/sha.h"
#include "core/session/identity.h"
#include "tests/sim/sim.h"

/* What a connection shows. */
struct sim_identity {
    enum sim_way { WHO_ANYONE, WHO_SECRET, WHO_CERTIFICATE, WHO_LOCAL } way;
    char user[16]; /* "anyone", "local", or the name of a user. */
    char secret[80];
    uint32_t holder;             /* Of a certificate. */
    uint8_t digest[SHA256_SIZE]; /* Of the secret, or of the certificate. */
};

/* Of one lock, or of all that begin so. */
enum sim_reading { READS_LOCK, READS_PREFIX };

void sim_users_init(struct sim *sim);
/* True if clients are users in this run. */
bool sim_users_are_there(const struct sim *sim);
/* "ann" ...: the user of a client, by its number among clients. */
const char *sim_user_name(uint32_t client);
/* The digest of the certificate 'serial' of that client, and of a secret of
 * that user. */
void sim_user_secret(uint32_t user, uint32_t serial, struct sim_identity *who);

/* What a client shows, chosen anew of what is valid by now. */
void sim_identity_choose(struct sim *sim, uint32_t client,
                         struct sim_identity *who);
/* The holder of a certificate gets another one, if his was revoked. */
void sim_identity_renew(struct sim *sim, struct sim_identity *who);
/* Who comes through the local door. */
extern const struct sim_identity sim_identity_local;
/* What a node is told of who has connected; borrows from 'who'. */
struct identity sim_identity_shown(const struct sim_identity *who);
/* By the certificate of the user 'admin'. */
void sim_identity_admin(struct sim *sim, struct sim_identity *who);

/* The answer NOAUTH, WRONGPASS or NOPERM to what 'who' has asked when the log
 * went to 'asked', on a connection that was accepted when the node had applied
 * 'accepted': whether it is true; and that it has to be. */
bool sim_users_are_told(struct sim *sim, const struct sim_identity *who,
                        struct bytes text, uint64_t asked, uint64_t accepted);
void sim_users_told(struct sim *sim, const char *name,
                    const struct sim_identity *who, struct bytes text,
                    uint64_t asked, uint64_t accepted);
/* An answer to what was asked between two entries says what only those may know
 * who can read it. */
void sim_users_read(struct sim *sim, const char *name,
                    const struct sim_identity *who, struct bytes what,
                    enum sim_reading reading, uint64_t from, uint64_t to);
/* Likewise, that a session of 'user' has that address, or an empty one. */
void sim_users_shown(struct sim *sim, const char *name,
                     const struct sim_identity *who, struct bytes user,
                     struct bytes address, uint64_t from, uint64_t to);
/* A heartbeat was answered OK that was sent when the log went to 'from', and
 * the node had applied 'applied'. */
void sim_users_kept(struct sim *sim, const char *name,
                    const struct sim_identity *who, uint64_t from,
                    uint64_t applied);
/* True of these, and of NOTLS: the asked node is one of those whose links show
 * no certificate. */
bool sim_users_is_refusal(const char *word);
/* The place up to which node 'number' (from 0) has applied; 0: nothing, or it
 * does not run. */
uint64_t sim_users_has_applied(const struct sim *sim, uint32_t number);
/* The link between two nodes is one of certificates. */
bool sim_users_is_proven(const struct sim *sim, uint64_t id, uint64_t other);

#endif /* HASP_TESTS_SIM_SIM_USERS_H */
