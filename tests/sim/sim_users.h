/* SPDX-License-Identifier: MIT */

/* Users in the simulator: in one run of three there are some, and clients have
 * users.
 *
 * Each client acts as one user in everything it does, or does not authenticate.
 * It uses a certificate, which its connections show, or a secret (AUTH). Its
 * credentials may be revoked, removed, or not be known yet; it continues with
 * those that exist by then. Nothing is encrypted: a connection carries what TLS
 * would have found out (core/session/identity.h). sim_keeper.h makes users and
 * revokes their rights. */

#ifndef HASP_TESTS_SIM_SIM_USERS_H
#define HASP_TESTS_SIM_SIM_USERS_H

#include "base/prng.h"
#include "base/sha.h"
#include "core/session/identity.h"
#include "tests/sim/sim.h"

/* The identity that a connection shows. */
struct sim_identity {
    enum sim_way { WHO_ANYONE, WHO_SECRET, WHO_CERTIFICATE, WHO_LOCAL } way;
    char user[16]; /* "anyone", "local", or the name of a user. */
    char secret[80];
    uint32_t holder; /* Holder of a certificate. */
    uint8_t
        digest[SHA256_SIZE]; /* Digest of the secret, or of the certificate. */
};

/* For one lock, or for all with this prefix. */
enum sim_reading { READS_LOCK, READS_PREFIX };

void sim_users_init(struct sim *sim);
/* True if clients are users in this run. */
bool sim_users_are_there(const struct sim *sim);
/* "ann" ...: the user of a client, by its number among clients. */
const char *sim_user_name(uint32_t client);
/* The digest of the certificate 'serial' of that client, and of a secret of
 * that user. */
void sim_user_secret(uint32_t user, uint32_t serial, struct sim_identity *who);

/* A client's identity, chosen again from what is valid by now. */
void sim_identity_choose(struct sim *sim, uint32_t client,
                         struct sim_identity *who);
/* The holder of a certificate gets another one, if the first was revoked. */
void sim_identity_renew(struct sim *sim, struct sim_identity *who);
/* Clients of the local door. */
extern const struct sim_identity sim_identity_local;
/* The identity that a node gets with a connection; borrows from 'who'. */
struct identity sim_identity_shown(const struct sim_identity *who);
/* By the certificate of the user 'admin'. */
void sim_identity_admin(struct sim *sim, struct sim_identity *who);

/* 'who' has sent a request when the log ended at 'asked', on a connection that
 * was accepted when the node had applied 'accepted', and got NOAUTH, WRONGPASS
 * or NOPERM. Checks that this is true, and, for other answers, that none of
 * them was due. */
bool sim_users_are_told(struct sim *sim, const struct sim_identity *who,
                        struct bytes text, uint64_t asked, uint64_t accepted);
void sim_users_told(struct sim *sim, const char *name,
                    const struct sim_identity *who, struct bytes text,
                    uint64_t asked, uint64_t accepted);
/* An answer to a request between two entries contains something that needs the
 * right to read it. */
void sim_users_read(struct sim *sim, const char *name,
                    const struct sim_identity *who, struct bytes what,
                    enum sim_reading reading, uint64_t from, uint64_t to);
/* Likewise, that a session of 'user' has that address, or an empty one. */
void sim_users_shown(struct sim *sim, const char *name,
                     const struct sim_identity *who, struct bytes user,
                     struct bytes address, uint64_t from, uint64_t to);
/* A heartbeat was answered OK. It was sent when the log ended at 'from', and
 * the node had applied 'applied'. */
void sim_users_kept(struct sim *sim, const char *name,
                    const struct sim_identity *who, uint64_t from,
                    uint64_t applied);
/* True for these, and for NOTLS: the links of the node that got the request
 * show no certificate. */
bool sim_users_is_refusal(const char *word);
/* The place up to which node 'number' (from 0) has applied; 0: nothing, or it
 * does not run. */
uint64_t sim_users_has_applied(const struct sim *sim, uint32_t number);
/* The link between two nodes uses certificates. */
bool sim_users_is_proven(const struct sim *sim, uint64_t id, uint64_t other);

#endif /* HASP_TESTS_SIM_SIM_USERS_H */
