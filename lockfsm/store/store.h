/* SPDX-License-Identifier: MIT */

/* What has changed since the last flush: what lockfsm/store/ offers to
 * lockfsm/ beside records.h. Private to lockfsm/. */

#ifndef HASP_LOCKFSM_STORE_STORE_H
#define HASP_LOCKFSM_STORE_STORE_H

#include "lockfsm/state.h"

/* --- dirty.c -------------------------------------------------------------- */

/* Zeroed memory becomes a structure that the table does not know. */
void stored_init(struct stored *stored, enum record_kind kind);
/* These note that the structure around 'stored' is new or has changed, or that
 * it goes. */
void record_changed(struct lockfsm *fsm, struct stored *stored);
void record_gone(struct lockfsm *fsm, struct stored *stored);

/* --- records.c ------------------------------------------------------------ */

/* Frees the structure around 'stored', whose record has gone, with all that its
 * stored members own. What its key is made of goes before. */
void structure_free(struct lockfsm *fsm, struct stored *stored);

#endif /* HASP_LOCKFSM_STORE_STORE_H */
