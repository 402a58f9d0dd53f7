/* SPDX-License-Identifier: MIT */

/* A hoard: more holds of one session than the cluster keeps notices of (64), or
 * results (1,024). A program acquires them all, has most of them ended by
 * RELEASEIF, many requests at once, so that they end between two heartbeats,
 * and releases the rest. Only some runs have one.
 *
 * Oracle: after the answer to a heartbeat that was sent after a hold was ended,
 * and after a request for any missing notices, the program does not believe in
 * that hold. It continues to believe in the holds that nobody has ended. */

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
        HOARD_DWELL, /* Until heartbeats have reported the ends. */
        HOARD_GIVE
    } stage;
    char tag[OWNER_TAG_SIZE]; /* "": each hold has its own owner. */
    struct hoard_item *item;
    uint32_t count;
    uint32_t next;     /* The first one not requested in this stage. */
    uint32_t asked;    /* Calls in progress, ... */
    uint32_t told;     /* ... and those of them that have ended. */
    uint64_t until_ns; /* End of REST or DWELL. */
    uint64_t seen;     /* The newest entry that heartbeats have reported. */
};

/* The runs that have them; their sessions have long leases. */
bool sim_hoards_are_there(const struct sim *sim);
/* A session begins. */
void sim_hoard_reset(struct sim_hoard *hoard, struct sim_program *program);
/* The session is over: its content is forgotten. */
void sim_hoard_done(struct sim_hoard *hoard);
void sim_hoard_work(struct sim_hoard *hoard);
/* When it next has work, in true time. */
uint64_t sim_hoard_next(const struct sim_hoard *hoard);
bool sim_hoard_is_idle(const struct sim_hoard *hoard);
/* A heartbeat was answered. */
void sim_hoard_kept(struct sim_hoard *hoard);

#endif /* HASP_TESTS_SIM_SIM_HOARD_H */
