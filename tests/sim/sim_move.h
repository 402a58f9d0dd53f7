/* SPDX-License-Identifier: MIT */

/* Members that change their addresses: an operator restarts a member with
 * another port for the other nodes, and enters the new address with
 * RAFT.UPDATE, in either order. What is sent to the address that it has left is
 * lost: nobody accepts there. Only some runs have such moves.
 *
 * Some updates arrive late, after the member has moved again, and no operator
 * is left in the calm. So from then on a node also listens at the address that
 * the members list says; by then it has to be the only other one. */

#ifndef HASP_TESTS_SIM_SIM_MOVE_H
#define HASP_TESTS_SIM_SIM_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "raft/replica.h"

struct op;
struct sim;
struct sim_node;

bool sim_moves_are_there(const struct sim *sim);
/* Chooses a member and its address, and perhaps moves it at once. False: none
 * is to be moved now. */
bool sim_move_choose(struct sim *sim, const struct replica_members *members,
                     struct op *op);
/* The address that the request names. */
void sim_move_address(const struct sim *sim, const struct op *op,
                      char address[MEMBER_ADDRESS_SIZE]);
/* It was answered OK: the member moves, if it has not yet. */
void sim_move_done(struct sim *sim, const struct op *op);
/* True if a node that dials 'port' of this one's machine reaches it. */
bool sim_move_listens(struct sim *sim, const struct sim_node *node,
                      uint32_t port);

#endif /* HASP_TESTS_SIM_SIM_MOVE_H */
