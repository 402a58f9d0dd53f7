/* SPDX-License-Identifier: MIT */

/* Clients: processes with their own clock that start, stop and die. Most run a
 * program that uses the client library (sim_program.h). Some are rogues, which
 * speak the protocol by hand (sim_worker.h) and are operators as well. Each
 * also has a Redis client (sim_redis.h). */

#ifndef HASP_TESTS_SIM_SIM_CLIENT_H
#define HASP_TESTS_SIM_SIM_CLIENT_H

#include "tests/sim/sim.h"
#include "tests/sim/sim_belief.h"

struct sim_client;
struct sim_identity;

/* The client of that host. */
struct sim_client *sim_client_of(struct sim *sim, const struct sim_host *host);
/* Identity of its connections, chosen again because the last one was not
 * sufficient. */
const struct sim_identity *sim_client_identity(const struct sim_client *client);
void sim_client_renew(struct sim_client *client);

struct sim_client *sim_client_new(struct sim *sim, uint32_t number);
void sim_client_free(struct sim_client *client);
struct sim_host *sim_client_host(struct sim_client *client);

/* The process starts (again), without a session. */
void sim_client_start(struct sim_client *client);
/* It dies; with 'is_os_down' nobody closes its connections. */
void sim_client_kill(struct sim_client *client, bool is_os_down);
/* Stopped, or with 'is_suspended' the whole machine: then CLOCK_MONOTONIC does
 * not advance either. */
void sim_client_pause(struct sim_client *client, bool is_paused,
                      bool is_suspended);
/* Drops its connections and makes new ones. */
void sim_client_reconnect(struct sim_client *client);
/* Starts to finish: gives everything back and closes its session. */
void sim_client_drain(struct sim_client *client);
/* True once it has nothing left. */
bool sim_client_is_done(const struct sim_client *client);
/* True if it has received all events that it watches. */
bool sim_client_is_told(const struct sim_client *client);
/* Operations answered since the start of the calm. */
uint64_t sim_client_progress(const struct sim_client *client);
/* The calm begins. */
void sim_client_reset_progress(struct sim_client *client);

/* Reports each belief that it has at this moment. */
void sim_client_beliefs(struct sim_client *client, sim_belief_fn *each,
                        void *data);
/* True if 'session' is one of the client's. */
bool sim_client_has(const struct sim_client *client, uint64_t session);
/* One of its programs has that session, and has received an answer to a
 * heartbeat since. */
bool sim_client_has_heard(const struct sim_client *client, uint64_t session,
                          uint64_t index);
/* A running program has it. */
bool sim_clients_run(struct sim *sim, uint64_t session);
/* True if 'session' is that of a running client. */
bool sim_clients_use(struct sim *sim, uint64_t session);
/* sim_witness_is_late() of any running client. */
bool sim_clients_report_late(const struct sim *sim);
/* sim_witness_check() of each running client. */
void sim_clients_check_deaths(struct sim *sim);
/* The name of a client that trusts its lease of 'session' at this moment; NULL
 * if none does. */
const char *sim_clients_believe_in(struct sim *sim, uint64_t session);

#endif /* HASP_TESTS_SIM_SIM_CLIENT_H */
