/* SPDX-License-Identifier: MIT */

/* TLS 1.3 without a socket: bytes of the other end go in, bytes for it come
 * out. Streams (net/stream) and clients (client/transport) put it between their
 * socket and their buffers.
 *
 * A CONTEXT is a certificate with its key, the CAs that are believed, and what
 * is demanded of the other end. It is immutable and counted, so that a new set
 * of files replaces it for the connections to come and touches none that
 * stands. There are no session tickets, no resumption and no early data: each
 * connection is a full handshake, and nothing of it can be played again.
 *
 * Who one is stands in ONE URI among the subject's alternative names:
 *
 *     hasp://CLUSTER/node/3      a node: serves, and dials other nodes
 *     hasp://CLUSTER/user/app    a user: connects as a client
 *     hasp://CLUSTER             the CA of that cluster
 *
 * compared byte by byte; other URIs are ignored, two of ours are refused, and
 * the common name means nothing. Host names are not looked at: a certificate of
 * the cluster's CA that says "node" is one, at whatever address it answers.
 *
 * Errors are told in a sentence for people (tls_why()): on the side that sees
 * the cause, exactly; on the other, as far as the alert says.
 *
 * Threads: a context may be shared; a connection belongs to one thread at a
 * time. Memory that runs out ends the program, as elsewhere in buffers. */

#ifndef HASP_NET_TLS_H
#define HASP_NET_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define TLS_CLUSTER_SIZE 65 /* With its zero. */
#define TLS_USER_SIZE 65
#define TLS_FINGERPRINT_SIZE 32
/* The first byte of a connection that speaks TLS: a handshake record. Neither
 * RESP nor a HELLO begins so. */
#define TLS_FIRST_BYTE 0x16
/* Of a handshake, both flights. */
#define TLS_HANDSHAKE_SIZE_MAX (32u << 10)
/* Of records without data (key updates, empty ones) in a row. */
#define TLS_SILENT_SIZE_MAX (64u << 10)

/* --- Who one is ----------------------------------------------------------- */

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
/* Reads a URI; HASP_ENOENT: it is not of hasp, HASP_EINVALID: it is, and
 * malformed. */
MUST_CHECK int tls_name_parse(struct bytes uri, struct tls_name *ret_name);

/* The other end, after the handshake. */
struct tls_identity {
    struct tls_name name; /* TLS_NOBODY, TLS_NODE or TLS_USER. */
    uint8_t fingerprint[TLS_FINGERPRINT_SIZE]; /* SHA-256 of the certificate. */
    uint8_t ca[TLS_FINGERPRINT_SIZE]; /* Likewise of the CA that has made it. */
    int64_t until; /* When that expires, in seconds of the wall clock. */
};

/* --- Contexts ------------------------------------------------------------- */

struct tls_context;

enum tls_use {
    TLS_FOR_PEERS,   /* Between nodes: both ends are nodes of the cluster. */
    TLS_FOR_CLIENTS, /* A node to its clients: a certificate is asked for, not
                        demanded; if one comes it is a user's. */
    TLS_FOR_ANYBODY, /* Likewise, and none is asked for. */
    TLS_AS_CLIENT    /* A client: the other end is a node. */
};

struct tls_files {
    const char *ca;          /* PEM, one or more. */
    const char *certificate; /* PEM, its own first; TLS_AS_CLIENT: or NULL. */
    const char *key;         /* PEM, without a passphrase; likewise. */
    /* What is in them, if they were read already; else no 'data'. */
    struct bytes ca_text;
    struct bytes certificate_text;
    struct bytes key_text;
};

/* Reads and checks the files: that the key fits and nobody else may read it,
 * that the certificate is of one of the CAs, for this use, this cluster and (if
 * 'node' is not 0) this node, and valid now. 'cluster' may be NULL for
 * TLS_AS_CLIENT: then the CA says it. HASP_ECERT with a sentence. */
MUST_CHECK int tls_context_load(const struct tls_files *files, enum tls_use use,
                                const char *cluster, uint64_t node,
                                struct tls_context **ret_context,
                                char why[HASP_WHY_SIZE]);
/* Of a key's file, whose mode this is: HASP_ECERT if too many may read it. */
MUST_CHECK int tls_check_key_mode(const char *path, unsigned mode,
                                  char why[HASP_WHY_SIZE]);
/* The user whom its own certificate names; "", also of NULL. */
const char *tls_context_user(const struct tls_context *context);
struct tls_context *tls_context_ref(struct tls_context *context);
void tls_context_unref(struct tls_context *context); /* NULL is fine. */

/* Until when, in seconds of the wall clock: its own certificate (0 if it has
 * none), and the CA that expires first. */
int64_t tls_context_certificate_until(const struct tls_context *context);
int64_t tls_context_ca_until(const struct tls_context *context);
/* Whole days from now until then; below 0: it is over. */
int64_t tls_days_until(int64_t when_s);
/* From so many days on it is worth telling. */
#define TLS_SOON_DAYS 30

/* --- A connection --------------------------------------------------------- */

struct tls;

/* 'is_server': it was accepted. 'node': the only one whose certificate is
 * taken; 0: any. Keeps a reference of the context. */
struct tls *tls_new(struct tls_context *context, bool is_server, uint64_t node);
void tls_free(struct tls *tls); /* NULL is fine. */

/* What has come from the other end, to be dealt with by the next calls; it is
 * borrowed until one of them says HASP_EMORE. HASP_EPROTO: it says too much
 * without saying anything. */
MUST_CHECK int tls_feed(struct tls *tls, struct bytes cipher);
/* Where bytes for the other end gather, after each call of those below. */
struct buffer *tls_output(struct tls *tls);

/* Goes on with the handshake: 0 when it is done, HASP_EMORE, or an error:
 * HASP_ECERT, HASP_EPROTO; then what is in the output is still to be sent. */
MUST_CHECK int tls_handshake(struct tls *tls);
bool tls_is_up(const struct tls *tls);
/* Who is at the other end; after the handshake. */
const struct tls_identity *tls_identity(const struct tls *tls);

/* The next plain bytes: 0 with at least one, HASP_EMORE, HASP_ECLOSED (the
 * other end has said that it is done), or an error. */
MUST_CHECK int tls_read(struct tls *tls, uint8_t *to, size_t size,
                        size_t *ret_size);
/* Appends 'plain' as records to the output. */
MUST_CHECK int tls_write(struct tls *tls, struct bytes plain);
/* Appends that nothing more will come. */
void tls_end(struct tls *tls);

/* After an error: what went wrong; lives as long as the connection. */
const char *tls_why(const struct tls *tls);

#endif /* HASP_NET_TLS_H */
