/* SPDX-License-Identifier: MIT */

/* Somebody who lists: LOCK.LIST, page by page, each at whichever node.
 *
 * Oracle: pages are in the order of the names, and none comes twice; a lock
 * that is shown was there while its page was asked; one that was there during
 * the whole listing is shown. */

#ifndef HASP_TESTS_SIM_SIM_LISTER_H
#define HASP_TESTS_SIM_SIM_LISTER_H

#include "tests/sim/sim_channel.h"

struct sim_client;

struct sim_lister {
    struct sim_client *client;
    struct sim_channel channel;
    bool is_listing;
    bool is_asking;
    uint64_t think_until_ns;
    const char *prefix;
    uint64_t page;        /* So many names, at most. */
    uint64_t from;        /* The newest entry when the first page was asked. */
    struct buffer cursor; /* Empty: the first page. */
    struct buffer names;  /* All that were shown: a byte of size, the name. */
    size_t last;          /* Where the last of them stands. */
};

void sim_lister_init(struct sim_lister *lister, struct sim_client *client);
/* The process is there no more. */
void sim_lister_done(struct sim_lister *lister);
void sim_lister_work(struct sim_lister *lister);
/* When there is something to do, in true time. */
uint64_t sim_lister_next(const struct sim_lister *lister);

#endif /* HASP_TESTS_SIM_SIM_LISTER_H */
