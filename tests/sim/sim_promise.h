/* SPDX-License-Identifier: MIT */

/* Refusals that say "nothing was done" (NOLEADER, BUSY, MOVED, LIMIT disk),
 * checked against the log: no entry may contain the refused request, and none
 * ever may if the client does not retry it.
 *
 * What is unique in the entry identifies a request: (session, number), or a
 * value that no other request has. A request counts as refused only if none of
 * its attempts ended without an answer. An entry that was refused with NOAUTH
 * did nothing, so a program that gives up after that may report so. */

#ifndef HASP_TESTS_SIM_SIM_PROMISE_H
#define HASP_TESTS_SIM_SIM_PROMISE_H

#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "tests/sim/sim.h"

struct sim_promises;

struct sim_request {
    char kind; /* 'n': by session and number; 'v': by value; 'd': the deletion
                  of a Redis value; 0: not identifiable. */
    uint64_t session;
    uint64_t req;
    const char *value;
};

struct sim_promises *sim_promises_new(struct sim *sim);
void sim_promises_free(struct sim_promises *promises);
/* An entry is applied for the first time anywhere. */
void sim_promises_entry(struct sim_promises *promises, uint64_t index,
                        const struct entry *command,
                        const struct origin *origin,
                        const struct effects *effects);
/* The first entry that has that request; 0: none. */
uint64_t sim_promises_entry_of(struct sim_promises *promises, uint64_t session,
                               uint64_t req);
/* 'client' got 'word' as the answer to its request. Returns true if it 'leaves'
 * the request, as it wants: it must not send it again. */
bool sim_promises_told(struct sim_promises *promises, const char *client,
                       const char *word, const struct sim_request *request,
                       bool leaves);

#endif /* HASP_TESTS_SIM_SIM_PROMISE_H */
