/* SPDX-License-Identifier: MIT */

/* A connection that programs of one process share: the library's own asker
 * (client/cluster_conn.h), and this is a driver of it, as those of hasp_link.h
 * are. It gives the asker what a connection brings, the client's own clock, and
 * the end of connections; it sends what the asker writes, and connects where
 * the asker says. It exists as long as a program is on it. */

#ifndef HASP_TESTS_SIM_SIM_LINE_H
#define HASP_TESTS_SIM_SIM_LINE_H

#include "client/cluster_conn.h"
#include "tests/sim/sim_net.h"
#include "tests/sim/sim_users.h"

#define LINE_PROGRAM_MAX 4

struct sim_client;
struct sim_program;

struct sim_line {
    struct sim_client *client;
    struct cluster_conn asker; /* If somebody is on it. */
    struct sim_program *program[LINE_PROGRAM_MAX];
    uint32_t program_count;
    bool is_durable;       /* Its sessions have no end. */
    uint32_t ttl_ms;       /* Of the sessions on it, as they ask for it. */
    struct sim_wire *wire; /* NULL: closed. */
    struct sim_identity who;
    uint64_t accepted; /* What the node had applied then. */
    /* Of the connection before: some calls are told of its end only now. */
    struct sim_identity was;
    uint64_t was_accepted;
    bool is_connected;
    uint32_t number; /* The asker's connection that it carries. */
};

/* The program has its session on the line, from now on. */
void sim_line_join(struct sim_line *line, struct sim_program *program);
/* Its machine has gone; so does the line with the last one. */
void sim_line_leave(struct sim_line *line, struct sim_program *program);
/* What the asker wants, until it wants nothing more at this moment. */
void sim_line_turn(struct sim_line *line);
/* When it wants something, in true time. */
uint64_t sim_line_next(const struct sim_line *line);
/* Takes news of its wire; true if it was for it. */
bool sim_line_feed(struct sim_line *line, const struct sim_news *news);
/* Its connection breaks. */
void sim_line_reconnect(struct sim_line *line);
/* Its process is dead, and its wire is the kernel's matter. */
void sim_line_die(struct sim_line *line);

#endif /* HASP_TESTS_SIM_SIM_LINE_H */
