/* SPDX-License-Identifier: MIT */

/* A reader: LOCK.SHOW and SESSION.SHOW; LOCK.LIST, SESSION.LIST and FENCE.LIST
 * page by page, each at any node. sim_shown.h judges the answers. */

#ifndef HASP_TESTS_SIM_SIM_LISTER_H
#define HASP_TESTS_SIM_SIM_LISTER_H

#include "tests/sim/sim_channel.h"
#include "tests/sim/sim_shown.h"

struct sim_client;

struct sim_lister {
    struct sim_client *client;
    struct sim_channel channel;
    bool is_listing;
    bool is_asking;
    uint64_t think_until_ns;
    bool is_about_one; /* SHOW of this session or lock; else a listing. */
    uint64_t session;  /* 0: the lock. */
    uint32_t lock;
    struct shown_listing listing;
    uint64_t page;        /* Most names of a page. */
    struct buffer cursor; /* Empty: the first page. */
};

void sim_lister_init(struct sim_lister *lister, struct sim_client *client);
/* The process is gone. */
void sim_lister_done(struct sim_lister *lister);
void sim_lister_work(struct sim_lister *lister);
/* When it next has work, in true time. */
uint64_t sim_lister_next(const struct sim_lister *lister);

#endif /* HASP_TESTS_SIM_SIM_LISTER_H */
