/* SPDX-License-Identifier: MIT */

/* Certificates of every kind, made in a folder of the test's own, and two ends
 * that talk through buffers. */

#ifndef HASP_TESTS_UNIT_TLS_WORLD_H
#define HASP_TESTS_UNIT_TLS_WORLD_H

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdint.h>

#include "net/tls.h"

/* One certificate with its key. */
struct tls_paper {
    EVP_PKEY *key;
    X509 *certificate;
    char certificate_path[128];
    char key_path[128];
};

/* Its contents. Zeros are usual: a day before and after now. */
struct tls_wish {
    const char *file;  /* Name of its files, without an ending. */
    const char *names; /* As OpenSSL's subjectAltName: "URI:hasp://..."; NULL:
                          none. */
    const char *usage; /* extendedKeyUsage; NULL: both. */
    int64_t from_s;    /* From now. */
    int64_t until_s;
    bool is_ca;
};

struct tls_world {
    char folder[64];
    struct tls_paper ca;
};

/* A folder, and in it the CA of cluster 'production' as "ca". */
void tls_world_init(struct tls_world *world);
void tls_world_done(struct tls_world *world);
/* 'ca' NULL: it signs itself. */
void tls_world_make(struct tls_world *world, const struct tls_wish *wish,
                    const struct tls_paper *ca, struct tls_paper *ret_paper);
void tls_paper_done(struct tls_paper *paper);
/* A node's or a user's, of the world's CA. */
void tls_world_node(struct tls_world *world, uint64_t id,
                    struct tls_paper *ret_paper);
void tls_world_user(struct tls_world *world, const char *name,
                    struct tls_paper *ret_paper);
/* The context of an end with this paper (NULL: none), which trusts the world's
 * CA. */
struct tls_context *tls_world_context(struct tls_world *world, enum tls_use use,
                                      const struct tls_paper *paper);
/* The same with any paper, even one that a context would refuse to show. */
struct tls_context *tls_world_liar(struct tls_world *world, enum tls_use use,
                                   const struct tls_paper *paper);

/* Carries the output of each end to the other, up to 'step' bytes at a time,
 * until both are silent or one has failed; 0, or the first error, with its end
 * in '*ret_failed'. */
int tls_world_talk(struct tls *client, struct tls *server, size_t step,
                   struct tls **ret_failed);

#endif /* HASP_TESTS_UNIT_TLS_WORLD_H */
