/* SPDX-License-Identifier: MIT */

/* Certificates that are refused although they have not expired. They are
 * identified by their fingerprints, so a stolen one can be refused while its
 * owner continues with a new one. Like users, they outlive a new epoch of the
 * cluster. */

#include "lockfsm/store/store.h"
#include "lockfsm/user/user.h"

struct revocation *revocation_new(struct lockfsm *fsm,
                                  const uint8_t fingerprint[FINGERPRINT_SIZE])
{
    struct revocation *revocation = pool_take(&fsm->pool, sizeof *revocation);
    CHECK(lockfsm_revocation(fsm, fingerprint) == NULL);
    memcpy(revocation->fingerprint, fingerprint, FINGERPRINT_SIZE);
    stored_init(&revocation->stored, RECORD_REVOCATION);
    HASH_ADD(by_fingerprint, fsm->access.revocations, fingerprint,
             FINGERPRINT_SIZE, revocation);
    hex_put(revocation->digits, bytes_of(fingerprint, FINGERPRINT_SIZE));
    treap_add(&fsm->access.revocation_order, &revocation->in_order,
              bytes_of_text(revocation->digits), 0);
    return revocation;
}

const struct revocation *
lockfsm_revocation(const struct lockfsm *fsm,
                   const uint8_t fingerprint[FINGERPRINT_SIZE])
{
    struct revocation *revocation = NULL;
    HASH_FIND(by_fingerprint, fsm->access.revocations, fingerprint,
              FINGERPRINT_SIZE, revocation);
    return revocation;
}

struct treap *lockfsm_revocation_order(struct lockfsm *fsm)
{
    return &fsm->access.revocation_order;
}

/* Revoking removes a right, so no limit of the state's size refuses it. A
 * repetition succeeds. */
void apply_cert_revoke(struct lockfsm *fsm, const struct entry *command,
                       struct result *result)
{
    const struct cert_revoke_command *revoke = command->cert_revoke;
    static const uint8_t none[FINGERPRINT_SIZE];
    if (memcmp(revoke->fingerprint, none, sizeof none) == 0 ||
        revoke->subject.size > LABEL_SIZE_MAX) {
        entry_refuse(
            result, RESULT_BAD_ARGUMENT,
            "the SHA-256 of a certificate, and a name of at most 128 bytes");
        return;
    }
    if (lockfsm_revocation(fsm, revoke->fingerprint) != NULL) {
        return;
    }
    if (HASH_CNT(by_fingerprint, fsm->access.revocations) >=
        REVOKED_COUNT_MAX) {
        entry_refuse(result, RESULT_LIMIT,
                     "revoked certificates: at most 10000; create a new CA");
        return;
    }
    struct revocation *revocation = revocation_new(fsm, revoke->fingerprint);
    revocation->subject = pool_copy(&fsm->pool, revoke->subject);
    revocation->log_index = fsm->entry.log_index;
    record_changed(fsm, &revocation->stored);
    result->count = 1;
    /* The core closes open connections with this certificate. */
    effect_add(fsm, EFFECT_ACCESS_CHANGED);
}
