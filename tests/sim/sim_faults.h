/* SPDX-License-Identifier: MIT */

/* What goes wrong: crashes, power cuts, pauses, partitions, slow links, slow
 * and failing disks, clean stops, dying and sleeping clients. Each run draws
 * which kinds happen and how often, so that some runs are all of one kind. */

#ifndef HASP_TESTS_SIM_SIM_FAULTS_H
#define HASP_TESTS_SIM_SIM_FAULTS_H

#include "tests/sim/sim.h"

struct sim_faults *sim_faults_new(struct sim *sim);
void sim_faults_free(struct sim_faults *faults);
/* Repairs everything; nothing goes wrong any more. */
void sim_faults_heal(struct sim *sim);

/* What is blocked between it and others opens within so long. */
void sim_faults_open_later(struct sim *sim, uint32_t host, uint64_t high_ms);
/* A node that is stopped goes on within so long. */
void sim_faults_resume_later(struct sim *sim, uint32_t host, uint64_t high_ms);

#endif /* HASP_TESTS_SIM_SIM_FAULTS_H */
