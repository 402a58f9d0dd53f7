/* SPDX-License-Identifier: MIT */

/* A node's connections to the other nodes, as net/peers.h has them: dialled by
 * the greater id, after a while by the smaller one, too; unlisted peers; up
 * when both HELLOs have been exchanged; PINGs; closed after three seconds of
 * silence; replaced by a second one of the same incarnation; everything queued
 * is lost when one closes. */

#ifndef HASP_TESTS_SIM_SIM_PEERS_H
#define HASP_TESTS_SIM_SIM_PEERS_H

#include "net/frame.h"
#include "raft/replica.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_net.h"

struct sim_node;
struct sim_peers;

struct sim_peers *sim_peers_new(struct sim *sim, struct sim_node *node);
void sim_peers_free(struct sim_peers *peers);
/* The process has ended. */
void sim_peers_clear(struct sim_peers *peers);
/* Before the core begins: the members of the configuration are wanted until the
 * log names some. */
void sim_peers_start(struct sim_peers *peers, bool is_joining);
void sim_peers_configure(struct sim_peers *peers,
                         const struct replica_members *members);
void sim_peers_want(struct sim_peers *peers,
                    const struct replica_members *members);
/* As peers_drop(): its directory is not that of the member. */
void sim_peers_drop(struct sim_peers *peers, uint64_t id);
/* Where to append frames; NULL if not up. */
struct buffer *sim_peers_output(struct sim_peers *peers, uint64_t id,
                                enum frame_type type);
/* The directory with which it is connected; 0: none. */
uint64_t sim_peers_linked(const struct sim_peers *peers, uint64_t id);
uint64_t sim_peers_silence_ms(const struct sim_peers *peers, uint64_t id);
void sim_peers_feed(struct sim_peers *peers, const struct sim_news *news,
                    uint64_t now_ns);
/* Dials, pings, closes. */
void sim_peers_work(struct sim_peers *peers, uint64_t now_ns);
/* When it next has work, in true time. */
uint64_t sim_peers_next(const struct sim_peers *peers);
void sim_peers_flush(struct sim_peers *peers, uint64_t after_ns);

#endif /* HASP_TESTS_SIM_SIM_PEERS_H */
