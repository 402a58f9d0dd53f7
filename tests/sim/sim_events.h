/* SPDX-License-Identifier: MIT */

/* The events of the log, in order, as docs/protocol.md defines them, and the
 * entry from which each process of a node can know them. Events that watchers
 * get are checked against this. */

#ifndef HASP_TESTS_SIM_SIM_EVENTS_H
#define HASP_TESTS_SIM_SIM_EVENTS_H

#include "lockfsm/lockfsm.h"
#include "tests/sim/sim.h"

struct sim_events;
struct sim_node;

struct log_event {
    uint64_t life;  /* As in event ids. */
    uint64_t place; /* See sim_check.h. */
    uint64_t index;
    uint32_t ordinal;
    const char *kind;  /* Static. */
    struct bytes lock; /* Owned, as the message. */
    struct bytes message;
    uint64_t session;
    uint64_t token;
};

struct sim_events *sim_events_new(struct sim *sim);
void sim_events_free(struct sim_events *events);

/* An entry is applied for the first time anywhere. */
void sim_events_entry(struct sim_events *events, uint64_t place,
                      const struct effects *effects, const struct lockfsm *fsm);
/* A process of 'node' begins with the state after 'log_index'. */
void sim_events_started(struct sim_events *events, const struct sim_node *node,
                        uint64_t log_index);
/* It has applied an entry: an entry that does not follow the last one is the
 * first after a snapshot that it has installed. */
void sim_events_applied(struct sim_events *events, const struct sim_node *node,
                        uint64_t log_index);

/* A turn is over, and its state is that of 'log_index': if it has not applied
 * that entry it has installed a snapshot. */
void sim_events_stepped(struct sim_events *events, const struct sim_node *node,
                        uint64_t log_index);

/* Events have numbers from 0. */
uint64_t sim_events_count(const struct sim_events *events);
const struct log_event *sim_events_at(const struct sim_events *events,
                                      uint64_t number);
/* The first event of an entry after 'place', or the number of the next future
 * event. */
uint64_t sim_events_behind(const struct sim_events *events, uint64_t place);
/* False if no event has this id (life-index-ordinal). */
bool sim_events_find(const struct sim_events *events, struct bytes id,
                     uint64_t *ret_number);

/* A process of a node can know all events after this entry. */
uint64_t sim_events_known_from(const struct sim_events *events,
                               uint32_t node_number);
/* Which process of the node it is. */
uint64_t sim_events_process(const struct sim_events *events,
                            uint32_t node_number);

#endif /* HASP_TESTS_SIM_SIM_EVENTS_H */
