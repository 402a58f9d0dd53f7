/* SPDX-License-Identifier: MIT */

/* Faults: crashes, power cuts, pauses, partitions, slow links, slow and failing
 * disks, clean stops, dying and sleeping clients. Each run draws which kinds
 * happen and how often, so that some runs have faults of one kind only. */

#ifndef HASP_TESTS_SIM_SIM_FAULTS_H
#define HASP_TESTS_SIM_SIM_FAULTS_H

#include "tests/sim/sim.h"

struct sim_faults *sim_faults_new(struct sim *sim);
void sim_faults_free(struct sim_faults *faults);
/* Repairs everything; no further faults happen. */
void sim_faults_heal(struct sim *sim);

/* Blocked links between it and others open within this time. */
void sim_faults_open_later(struct sim *sim, uint32_t host, uint64_t high_ms);
/* A stopped node resumes within this time. */
void sim_faults_resume_later(struct sim *sim, uint32_t host, uint64_t high_ms);

#endif /* HASP_TESTS_SIM_SIM_FAULTS_H */
