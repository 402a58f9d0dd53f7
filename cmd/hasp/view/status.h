/* SPDX-License-Identifier: MIT */

/* The state of a cluster in one line, for 'hasp status' and 'hasp top'. */

#ifndef HASP_CMD_HASP_VIEW_STATUS_H
#define HASP_CMD_HASP_VIEW_STATUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define STATUS_LINE_SIZE 200

/* "3 of 3 up, leader 2, can lose 1", from the answers of all members
 * (nodes_ask()). Returns false if no node names any member. '*ret_unheard' is
 * a member that answers although the leader does not hear it; 0: none. */
bool status_sum_up(json_t *nodes, char out[STATUS_LINE_SIZE],
                   uint64_t *ret_unheard);

#endif /* HASP_CMD_HASP_VIEW_STATUS_H */
