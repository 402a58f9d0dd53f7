/* SPDX-License-Identifier: MIT */

/* A hoard: more holds of one session than the cluster keeps notices of (64), or
 * results (1,024). A program acquires them all, has most of them taken away by
 * RELEASEIF, many requests at once, so that they end between two heartbeats,
 * and gives the rest back. Only some runs have one.
 *
 * Oracle: once a heartbeat is answered that left after a hold was taken, and
 * what notices are missing was asked for, nobody believes in that hold; and in
 * those that nobody has taken the program goes on believing. */

#ifndef HASP_TESTS_SIM_SIM_HOARD_H
#define HASP_TESTS_SIM_SIM_HOARD_H

#include "client/session_fsm.h"
#include "tests/sim/sim.h"

struct sim_program;
struct hoard_item;

struct sim_hoard {
    struct sim_program *program;
    enum {
        HOARD_REST,
        HOARD_FILL,
        HOARD_TAKE,
        HOARD_DWELL, /* Until heartbeats have told. */
        HOARD_GIVE
    } stage;
    char tag[OWNER_TAG_SIZE]; /* "": each hold has an owner of its own. */
    struct hoard_item *item;
    uint32_t count;
    uint32_t next;     /* The first that was not asked in this stage. */
    uint32_t asked;    /* Calls that are under way, ... */
    uint32_t told;     /* ... and those of them that have ended. */
    uint64_t until_ns; /* Of REST and DWELL. */
    uint64_t seen;     /* The newest entry that heartbeats have told of. */
};

/* The runs that have them; their sessions have long leases. */
bool sim_hoards_are_there(const struct sim *sim);
/* A session begins. */
void sim_hoard_reset(struct sim_hoard *hoard, struct sim_program *program);
/* It is over: what there was is forgotten. */
void sim_hoard_done(struct sim_hoard *hoard);
void sim_hoard_work(struct sim_hoard *hoard);
/* When there is something to do, in true time. */
uint64_t sim_hoard_next(const struct sim_hoard *hoard);
bool sim_hoard_is_idle(const struct sim_hoard *hoard);
/* A heartbeat was answered. */
void sim_hoard_kept(struct sim_hoard *hoard);

#endif /* HASP_TESTS_SIM_SIM_HOARD_H */
