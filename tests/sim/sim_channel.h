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
    struct sim_host *host; /* Of the client. */
    struct sim_wire *wire; /* NULL: closed. */
    bool is_open;
    const struct sim_identity *who; /* Shown by the next connection; NULL: what
                                       the client shows. */
    bool is_authenticating; /* AUTH is under way, not the owner's request. */
    bool is_authenticated;
    uint64_t attached; /* The session it acts for; 0. */
    struct buffer input;
    struct buffer output;
    struct resp_reply reply;
    bool is_waiting;         /* A request is under way. */
    uint64_t give_up_ns;     /* True time. */
    uint64_t not_before_ns;  /* Next try. */
    struct lease_clock sent; /* The client's clock when it was sent ... */
    uint64_t sent_ns;        /* ... true time, ... */
    uint64_t sent_newest;    /* ... and the newest entry then. */
    uint64_t asked_newest;   /* Likewise when it was sent first. */
    uint64_t sent_applied;   /* By the node, when it was sent. */
    uint32_t next_node;      /* Told by MOVED, + 1; 0: any. */
    /* Looks at channel->reply: true if that was no answer but a push; NULL:
     * what is pushed is passed over. */
    bool (*pushed)(struct sim_channel *channel);
};

void sim_channel_init(struct sim_channel *channel, struct sim *sim,
                      struct sim_host *host);
void sim_channel_done(struct sim_channel *channel);
void sim_channel_close(struct sim_channel *channel);
/* Connects if need be; true if a request can be sent now. */
bool sim_channel_is_ready(struct sim_channel *channel);
/* Begins a request of 'count' arguments in channel->output. */
void sim_channel_begin(struct sim_channel *channel, uint64_t count);
void sim_channel_word(struct sim_channel *channel, const char *text);
void sim_channel_number(struct sim_channel *channel, uint64_t number);
/* Sends it, at the client's clock 'now'; to be answered within 'wait_ns'. */
void sim_channel_send(struct sim_channel *channel, struct lease_clock now,
                      uint64_t wait_ns);
/* Takes news of its wire; true if it was for it. */
bool sim_channel_feed(struct sim_channel *channel, const struct sim_news *news);
/* Cuts a whole reply off the input into channel->reply; true if there is one.
 * It is gone with the next sim_channel_take(). */
bool sim_channel_take(struct sim_channel *channel);
/* The error word of the reply, "" if it is no error. */
const char *sim_channel_error(struct sim_channel *channel, char word[32]);
/* Goes elsewhere if the answer has not come in time. */
void sim_channel_watch(struct sim_channel *channel);
/* Asks again later. */
void sim_channel_later(struct sim_channel *channel, uint64_t ns);
/* When there is something to do, in true time. */
uint64_t sim_channel_next(const struct sim_channel *channel);

#endif /* HASP_TESTS_SIM_SIM_CHANNEL_H */
