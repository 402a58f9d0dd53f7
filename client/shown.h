/* SPDX-License-Identifier: MIT */

/* Credentials of connections: a client's certificates, its CA and a user's
 * secret, from files that are read again before each connection.
 *
 * The files can be partly written, or belong to another user: then the last
 * good credentials are kept, and the reason is reported once. Connections with
 * the same files share this object, so that a session can be opened while the
 * files are being written.
 *
 * Threads: any may call any of these. Files are read inside of shown_open() and
 * shown_renew(). */

#ifndef HASP_CLIENT_SHOWN_H
#define HASP_CLIENT_SHOWN_H

#include <stdbool.h>

#include "base/err.h"
#include "client/secret.h"
#include "net/tls.h"

struct shown;

/* Reads the files. 'folder' NULL: the environment's HASP_TLS; 'secret' NULL:
 * HASP_SECRET_FILE; "" or an unset variable: none. 'cluster' NULL: from the CA.
 * Returns a reference. HASP_ECERT, HASP_ENOENT, HASP_EINVALID, HASP_ENOMEM with
 * a sentence. */
MUST_CHECK int shown_open(const char *folder, const char *cluster,
                          const char *secret, struct shown **ret_shown,
                          char why[HASP_WHY_SIZE]);
struct shown *shown_ref(struct shown *shown);
void shown_unref(struct shown *shown); /* NULL is ignored. */

/* True if there is a file that can change. */
bool shown_has_files(const struct shown *shown);
/* Reads the files again; true: they have changed and are used now. 'why': the
 * reason for which they were rejected, if it was not reported yet; or "". */
bool shown_renew(struct shown *shown, char why[HASP_WHY_SIZE]);

/* For one connection: a reference to the context, or NULL without TLS; and the
 * secret, or "". */
struct tls_context *shown_context(struct shown *shown);
void shown_secret(struct shown *shown,
                  char ret_secret[CLIENT_USER_SECRET_SIZE]);

/* Records that a node has accepted a connection with these credentials. */
void shown_let_in(struct shown *shown);
bool shown_was_let_in(struct shown *shown);

#endif /* HASP_CLIENT_SHOWN_H */
