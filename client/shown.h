/* SPDX-License-Identifier: MIT */

/* What connections show and believe: a client's certificates and a user's
 * secret, from files that are read again before each connection is made.
 *
 * What is in the files may be half written, or belong to another user: then
 * what was good before is kept, and the reason is told once. Connections that
 * have the same files share one of these, so that a session can be opened while
 * the files of those that are open are being written.
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

/* Reads the files. 'folder' NULL: what the environment's HASP_TLS says,
 * 'secret' NULL: HASP_SECRET_FILE; "", or nothing there: none. 'cluster' NULL:
 * as the CA says. A reference. HASP_ECERT, HASP_ENOENT, HASP_EINVALID,
 * HASP_ENOMEM with a sentence. */
MUST_CHECK int shown_open(const char *folder, const char *cluster,
                          const char *secret, struct shown **ret_shown,
                          char why[HASP_WHY_SIZE]);
struct shown *shown_ref(struct shown *shown);
void shown_unref(struct shown *shown); /* NULL is fine. */

/* True if there is a file, which may change. */
bool shown_has_files(const struct shown *shown);
/* Reads the files again; true: they are others, and were taken into use. 'why':
 * they were not, for a reason that has not been told; or "". */
bool shown_renew(struct shown *shown, char why[HASP_WHY_SIZE]);

/* For one connection: a reference of the context, or NULL for plain, and the
 * secret, or "". */
struct tls_context *shown_context(struct shown *shown);
void shown_secret(struct shown *shown,
                  char ret_secret[CLIENT_USER_SECRET_SIZE]);

/* A node has done what was asked by a connection of these. */
void shown_let_in(struct shown *shown);
bool shown_was_let_in(struct shown *shown);

#endif /* HASP_CLIENT_SHOWN_H */
