/* SPDX-License-Identifier: MIT */

/* The rights of each user, by users, roles, access and revoked certificates as
 * they were after one entry: the rules of lockfsm/user/access.h, written a
 * second time. */

#ifndef HASP_TESTS_SIM_SIM_MAY_H
#define HASP_TESTS_SIM_SIM_MAY_H

#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"

#define RIGHT_USER_MAX 8
#define RIGHT_ROLE_MAX 8
#define RIGHT_GRANT_MAX 8
#define RIGHT_REVOKED_MAX 256

struct right_grant {
    uint32_t verbs;
    bool is_prefix;
    char name[16];
};
struct right_role {
    bool is_there;
    char name[16];
    uint64_t changed;
    uint32_t grant_count;
    struct right_grant grant[RIGHT_GRANT_MAX];
};
struct right_secret {
    uint64_t number;
    uint8_t hash[PROOF_SIZE];
};
struct right_user {
    char name[16];   /* Empty: there is none. */
    uint64_t number; /* 0: the user was removed. */
    uint64_t changed;
    bool is_disabled;
    uint32_t role_count;
    char role[RIGHT_ROLE_MAX][16];
    uint64_t bound[QUOTA_COUNT];
    uint32_t secret_count;
    struct right_secret secret[SECRET_COUNT_MAX];
};
struct rights {
    uint64_t from; /* The entry since which it has been so. */
    bool is_required;
    struct right_user user[RIGHT_USER_MAX];
    struct right_role role[RIGHT_ROLE_MAX];
    uint32_t revoked_count;
    uint8_t revoked[RIGHT_REVOKED_MAX][FINGERPRINT_SIZE];
};

void right_name_set(char to[16], struct bytes from);
bool right_name_is(const char *name, struct bytes bytes);

/* NULL: there never was one. */
const struct right_user *rights_user(const struct rights *rights,
                                     const char *name);
const struct right_role *rights_role(const struct rights *rights,
                                     const char *name);
bool rights_are_revoked(const struct rights *rights,
                        const uint8_t fingerprint[FINGERPRINT_SIZE]);
/* By its SHA-256; 'user' may be NULL. */
bool right_has_secret(const struct right_user *user, const uint8_t *hash);
/* Number of the user of that name, "anyone" and "local" too; 0: there is
 * none. */
uint64_t rights_number(const struct rights *rights, const char *name);

/* NO_AUTH: no rights at all. */
enum verdict { MAY, NO_AUTH, NO_PERMISSION };
/* With VERB_COUNT: whether the user has any right. */
enum verdict rights_allow(const struct rights *rights, uint64_t number,
                          enum verb verb, struct bytes name,
                          enum extent extent);
/* Whether these rights allow the entry. */
enum verdict rights_judge(const struct rights *rights,
                          const struct entry *command);
/* Requests of the leader itself, or of a member of the cluster. */
bool rights_is_own(const struct entry *command);
bool rights_are_changed_by(const struct entry *command);
/* The right that a wait needs to stay in the queue. */
enum verb rights_verb_to_wait(const struct acquire_command *acquire);

/* Loads rights as a state has them, except 'from'; and compares two, except for
 * that. */
void rights_load(const struct lockfsm *fsm, struct rights *rights);
bool rights_are_same(const struct rights *a, const struct rights *b);

#endif /* HASP_TESTS_SIM_SIM_MAY_H */
