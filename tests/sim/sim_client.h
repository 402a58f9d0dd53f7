/* SPDX-License-Identifier: MIT */

/* Clients: programs that hold locks, with the client library's own arithmetic
 * of leases (lease/lease) and its way of asking (numbered requests that are
 * asked again of another node until there is an answer).
 *
 * Each client has a session, a connection for heartbeats and some workers, each
 * an owner of its own with a connection and one request at a time. A client
 * believes in a hold from the answer until its RELEASE is sent, as long as its
 * lease is held by its own clock.
 *
 * The oracles here look at what clients are told and what they believe. */

#ifndef HASP_TESTS_SIM_SIM_CLIENT_H
#define HASP_TESTS_SIM_SIM_CLIENT_H

#include "tests/sim/sim.h"

struct sim_client;

struct sim_client *sim_client_new(struct sim *sim, uint32_t number);
void sim_client_free(struct sim_client *client);
struct sim_host *sim_client_host(struct sim_client *client);

/* The process starts (again), without a session. */
void sim_client_start(struct sim_client *client);
/* It dies; with 'is_os_down' nobody closes its connections. */
void sim_client_kill(struct sim_client *client, bool is_os_down);
/* Stopped, or with 'is_suspended' the whole machine: then CLOCK_MONOTONIC
 * stands still as well. */
void sim_client_pause(struct sim_client *client, bool is_paused,
                      bool is_suspended);
/* Drops its connections and makes new ones. */
void sim_client_reconnect(struct sim_client *client);
/* Begins to come to an end: gives everything back and closes its session. */
void sim_client_drain(struct sim_client *client);
/* True once it has nothing left. */
bool sim_client_is_done(const struct sim_client *client);
/* Operations answered since the start of the calm. */
uint64_t sim_client_progress(const struct sim_client *client);
void sim_client_reset_progress(struct sim_client *client);

/* True if 'session' is that of a running client. */
bool sim_clients_use(struct sim *sim, uint64_t session);
/* The name of a client that trusts its lease of 'session' at this moment; NULL
 * if none does. */
const char *sim_clients_believe_in(struct sim *sim, uint64_t session);

#endif /* HASP_TESTS_SIM_SIM_CLIENT_H */
