/* SPDX-License-Identifier: MIT */

/* Changes since the last flush: what lockfsm/store/ offers to lockfsm/ besides
 * records.h. Private to lockfsm/. */

#ifndef HASP_LOCKFSM_STORE_STORE_H
#define HASP_LOCKFSM_STORE_STORE_H

#include "lockfsm/state.h"

/* --- dirty.c -------------------------------------------------------------- */

/* Initializes zeroed memory as a structure that the table does not have. */
void stored_init(struct stored *stored, enum record_kind kind);
/* These record that the structure around 'stored' is new or has changed, or is
 * about to be freed. */
void record_changed(struct lockfsm *fsm, struct stored *stored);
void record_gone(struct lockfsm *fsm, struct stored *stored);

/* --- records.c ------------------------------------------------------------ */

/* Frees the structure around 'stored', whose record was removed, with
 * everything that its stored members own. The caller frees the members of its
 * key first. */
void structure_free(struct lockfsm *fsm, struct stored *stored);

#endif /* HASP_LOCKFSM_STORE_STORE_H */
