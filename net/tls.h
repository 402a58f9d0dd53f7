/* SPDX-License-Identifier: MIT */

/* TLS 1.3 without a socket: takes the peer's bytes, and produces bytes for it.
 * Streams (net/stream) and clients (client/transport) put it between their
 * socket and their buffers.
 *
 * A CONTEXT has a certificate with its key, the trusted CAs, and the
 * requirements for the peer. It is immutable and reference-counted, so a new
 * set of files replaces it for future connections without affecting existing
 * ones. There are no session tickets, no resumption and no early data: each
 * connection is a full handshake, so nothing can be replayed.
 *
 * The identity is ONE URI among the subject's alternative names:
 *
 *     hasp://CLUSTER/node/3      a node: serves, and dials other nodes
 *     hasp://CLUSTER/user/app    a user: connects as a client
 *     hasp://CLUSTER             the CA of that cluster
 *
 * compared byte by byte. Other URIs and the common name are ignored; two URIs
 * of hasp are refused. Host names are not checked: a certificate of the
 * cluster's CA for a node is valid at any address.
 *
 * Errors are reported as a sentence for people (tls_why()): exact on the side
 * that sees the cause; on the other side only what the alert says.
 *
 * Threads: a context can be shared; a connection belongs to one thread at a
 * time. If memory runs out, the program ends, as elsewhere in buffers. */

#ifndef HASP_NET_TLS_H
#define HASP_NET_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define TLS_CLUSTER_SIZE 65 /* With its zero. */
#define TLS_USER_SIZE 65
#define TLS_FINGERPRINT_SIZE 32
/* The first byte of a TLS connection: a handshake record. Neither RESP nor a
 * HELLO begins with it. */
#define TLS_FIRST_BYTE 0x16
/* Bytes of a handshake, both flights. */
#define TLS_HANDSHAKE_SIZE_MAX (32u << 10)
/* Bytes of consecutive records without data (key updates, empty ones). */
#define TLS_SILENT_SIZE_MAX (64u << 10)

/* --- Identities ----------------------------------------------------------- */

enum tls_role {
    TLS_NOBODY, /* No certificate. */
    TLS_NODE,
    TLS_USER,
    TLS_CA
};

struct tls_name {
    enum tls_role role;
    char cluster[TLS_CLUSTER_SIZE];
    uint64_t node;            /* TLS_NODE, from 1. */
    char user[TLS_USER_SIZE]; /* TLS_USER. */
};

/* True for 1 to 64 letters, digits, '.', '_' and '-': a cluster or a user. */
bool tls_word_is_fine(struct bytes word);
/* Parses a URI; HASP_ENOENT: not a URI of hasp, HASP_EINVALID: malformed. */
MUST_CHECK int tls_name_parse(struct bytes uri, struct tls_name *ret_name);

/* The peer, after the handshake. */
struct tls_identity {
    struct tls_name name; /* TLS_NOBODY, TLS_NODE or TLS_USER. */
    uint8_t fingerprint[TLS_FINGERPRINT_SIZE]; /* SHA-256 of the certificate. */
    uint8_t ca[TLS_FINGERPRINT_SIZE]; /* SHA-256 of its CA's certificate. */
    int64_t until; /* When it expires, in seconds since 1970. */
};

/* --- Contexts ------------------------------------------------------------- */

struct tls_context;

enum tls_use {
    TLS_FOR_PEERS, /* Between nodes: both sides are nodes. */
    /* A node to clients: a certificate is requested but optional; it must be a
     * user's. */
    TLS_FOR_CLIENTS,
    TLS_FOR_ANYBODY, /* A node to clients, without a request. */
    TLS_AS_CLIENT    /* A client: the peer must be a node. */
};

struct tls_files {
    const char *ca; /* PEM, one or more certificates. */
    /* PEM, the own one first; NULL: TLS_AS_CLIENT only. */
    const char *certificate;
    const char *key; /* PEM, without a passphrase; as 'certificate'. */
    /* Contents of the files, if they were read already; otherwise 'data' is
     * NULL. */
    struct bytes ca_text;
    struct bytes certificate_text;
    struct bytes key_text;
};

/* Reads and checks the files: the key must match and be private; the
 * certificate must be from one of the CAs, for this use, this cluster and (if
 * 'node' is not 0) this node, and valid now. 'cluster' can be NULL for
 * TLS_AS_CLIENT: then the CA's certificate names it. HASP_ECERT with a
 * sentence. */
MUST_CHECK int tls_context_load(const struct tls_files *files, enum tls_use use,
                                const char *cluster, uint64_t node,
                                struct tls_context **ret_context,
                                char why[HASP_WHY_SIZE]);
/* Checks the mode of a key file: HASP_ECERT if other users can read it. */
MUST_CHECK int tls_check_key_mode(const char *path, unsigned mode,
                                  char why[HASP_WHY_SIZE]);
/* The user in its own certificate; "" if none, or if 'context' is NULL. */
const char *tls_context_user(const struct tls_context *context);
struct tls_context *tls_context_ref(struct tls_context *context);
void tls_context_unref(struct tls_context *context); /* NULL is fine. */

/* Expiry, in seconds since 1970: of its own certificate (0 if it has none), and
 * of the CA that expires first. */
int64_t tls_context_certificate_until(const struct tls_context *context);
int64_t tls_context_ca_until(const struct tls_context *context);
/* Whole days from now until 'when_s'; negative: in the past. */
int64_t tls_days_until(int64_t when_s);
/* Days before expiry from which on it is reported. */
#define TLS_SOON_DAYS 30

/* --- A connection --------------------------------------------------------- */

struct tls;

/* 'is_server': the connection was accepted. 'node': the only node whose
 * certificate is accepted; 0: any. Keeps a reference to the context. */
struct tls *tls_new(struct tls_context *context, bool is_server, uint64_t node);
void tls_free(struct tls *tls); /* NULL is fine. */

/* Passes bytes of the peer to the next calls; they are borrowed until one of
 * those returns HASP_EMORE. HASP_EPROTO: too many records without data. */
MUST_CHECK int tls_feed(struct tls *tls, struct bytes cipher);
/* Bytes for the peer, after each of the calls below. */
struct buffer *tls_output(struct tls *tls);

/* Continues the handshake: 0 when it is complete, HASP_EMORE, or an error:
 * HASP_ECERT, HASP_EPROTO; then the output (an alert) must still be sent. */
MUST_CHECK int tls_handshake(struct tls *tls);
bool tls_is_up(const struct tls *tls);
/* The peer's identity; after the handshake. */
const struct tls_identity *tls_identity(const struct tls *tls);

/* Reads plain bytes: 0 with at least one, HASP_EMORE, HASP_ECLOSED (the peer
 * has sent close_notify), or an error. */
MUST_CHECK int tls_read(struct tls *tls, uint8_t *to, size_t size,
                        size_t *ret_size);
/* Appends 'plain' as records to the output. */
MUST_CHECK int tls_write(struct tls *tls, struct bytes plain);
/* Appends close_notify to the output. */
void tls_end(struct tls *tls);

/* The last error; valid as long as the connection. */
const char *tls_why(const struct tls *tls);

#endif /* HASP_NET_TLS_H */
