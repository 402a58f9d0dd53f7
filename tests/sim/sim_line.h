/* SPDX-License-Identifier: MIT */

/* A connection that programs of one process share: the library's own asker
 * (client/cluster_conn.h), driven by this file as by the drivers of
 * hasp_link.h. It passes to the asker received bytes, the client's own clock,
 * and the end of connections. It sends what the asker writes, and connects
 * where the asker says. It exists as long as a program uses it. */

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
    struct cluster_conn asker; /* If a program uses it. */
    struct sim_program *program[LINE_PROGRAM_MAX];
    uint32_t program_count;
    bool is_durable;       /* Its sessions have no end. */
    uint32_t ttl_ms;       /* Lease that the sessions on it request. */
    struct sim_wire *wire; /* NULL: closed. */
    struct sim_identity who;
    uint64_t accepted; /* What the node had applied then. */
    /* Identity of the connection before: some calls learn of its end only
     * now. */
    struct sim_identity was;
    uint64_t was_accepted;
    bool is_connected;
    uint32_t number; /* The asker's number of the connection that it carries. */
};

/* Adds the program: its session is on the line from now on. */
void sim_line_join(struct sim_line *line, struct sim_program *program);
/* Its machine is gone; the line goes with the last one. */
void sim_line_leave(struct sim_line *line, struct sim_program *program);
/* Carries out what the asker wants, until it wants nothing more at this
 * moment. */
void sim_line_turn(struct sim_line *line);
/* When the asker next wants something, in true time. */
uint64_t sim_line_next(const struct sim_line *line);
/* Handles news of its wire; true if the news was for it. */
bool sim_line_feed(struct sim_line *line, const struct sim_news *news);
/* Its connection breaks. */
void sim_line_reconnect(struct sim_line *line);
/* Its process is dead; the kernel handles its wire. */
void sim_line_die(struct sim_line *line);

#endif /* HASP_TESTS_SIM_SIM_LINE_H */
