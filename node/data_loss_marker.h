/* SPDX-License-Identifier: MIT */

/* Marks a data directory that may have lost, or has lost, entries that this
 * node acknowledged (core/members/log_loss.h), so that no later start trusts it
 * when no other node knows of the loss any longer:
 *
 *     DIR/barred      a member says so: the node starts, and does not count
 *     DIR/condemned   it is so: the node does not start
 *
 * The first line of each is the reason. */

#ifndef HASP_NODE_DATA_LOSS_MARKER_H
#define HASP_NODE_DATA_LOSS_MARKER_H

#include "base/err.h"
#include "core/core.h"

/* Durable on return. */
MUST_CHECK int data_loss_marker_write(const char *folder, const char *reason,
                                      char why[HASP_WHY_SIZE]);
/* 0 if the directory can be used; otherwise HASP_ECORRUPT and the reason. */
MUST_CHECK int data_loss_marker_check(const char *folder,
                                      char why[HASP_WHY_SIZE]);

/* Durable on return. */
MUST_CHECK int data_loss_marker_bar(const char *folder,
                                    const struct core_accusation *accusation,
                                    const char *reason,
                                    char why[HASP_WHY_SIZE]);
MUST_CHECK int data_loss_marker_unbar(const char *folder,
                                      char why[HASP_WHY_SIZE]);
/* Term 0 if it is not barred; otherwise 'why' is the reason. */
MUST_CHECK int data_loss_marker_load_bar(const char *folder,
                                         struct core_accusation *ret_accusation,
                                         char why[HASP_WHY_SIZE]);

#endif /* HASP_NODE_DATA_LOSS_MARKER_H */
