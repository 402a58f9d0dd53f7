/* SPDX-License-Identifier: MIT */

/* A client's connection to some node: one request at a time, in RESP.
 *
 * An abandoned request closes its connection, so that a late answer is never
 * taken for that of the next. */

#ifndef HASP_TESTS_SIM_SIM_CHANNEL_H
#define HASP_TESTS_SIM_SIM_CHANNEL_H

#include "lease/lease.h"
#include "net/resp.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_net.h"

struct sim_channel {
    struct sim *sim;
    struct sim_host *host; /* The client's host. */
    struct sim_wire *wire; /* NULL: closed. */
    bool is_open;
    const struct sim_identity
        *who; /* Identity of the next connection; NULL: the client's. */
    bool is_authenticating; /* AUTH is in progress, not the owner's request. */
    bool is_authenticated;
    uint64_t attached; /* Session that it acts for; 0: none. */
    struct buffer input;
    struct buffer output;
    struct resp_reply reply;
    bool is_waiting;         /* A request is in progress. */
    uint64_t give_up_ns;     /* True time. */
    uint64_t not_before_ns;  /* Time of the next try. */
    struct lease_clock sent; /* Client's clock when it was sent ... */
    uint64_t sent_ns;        /* ... true time, ... */
    uint64_t sent_newest;    /* ... and the newest entry then. */
    uint64_t asked_newest;   /* The newest entry when it was first sent. */
    uint64_t sent_applied;   /* What the node had applied when it was sent. */
    uint32_t next_node;      /* From MOVED, + 1; 0: any. */
    /* Examines channel->reply: true if it was a push, not an answer; NULL:
     * pushes are ignored. */
    bool (*pushed)(struct sim_channel *channel);
};

void sim_channel_init(struct sim_channel *channel, struct sim *sim,
                      struct sim_host *host);
void sim_channel_done(struct sim_channel *channel);
void sim_channel_close(struct sim_channel *channel);
/* Connects if necessary; true if a request can be sent now. */
bool sim_channel_is_ready(struct sim_channel *channel);
/* Starts a request of 'count' arguments in channel->output. */
void sim_channel_begin(struct sim_channel *channel, uint64_t count);
void sim_channel_word(struct sim_channel *channel, const char *text);
void sim_channel_number(struct sim_channel *channel, uint64_t number);
/* Sends it at the client's clock 'now'; the answer is due within 'wait_ns'. */
void sim_channel_send(struct sim_channel *channel, struct lease_clock now,
                      uint64_t wait_ns);
/* Handles news of its wire; true if the news was for it. */
bool sim_channel_feed(struct sim_channel *channel, const struct sim_news *news);
/* Moves a complete reply from the input into channel->reply; true if there is
 * one. The next sim_channel_take() overwrites it. */
bool sim_channel_take(struct sim_channel *channel);
/* The error word of the reply; "" if it is not an error. */
const char *sim_channel_error(struct sim_channel *channel, char word[32]);
/* Changes to another node if the answer is late. */
void sim_channel_watch(struct sim_channel *channel);
/* Repeats the request later. */
void sim_channel_later(struct sim_channel *channel, uint64_t ns);
/* When it next has work, in true time. */
uint64_t sim_channel_next(const struct sim_channel *channel);

#endif /* HASP_TESTS_SIM_SIM_CHANNEL_H */
