/* SPDX-License-Identifier: MIT */

/* A program's connection to the agent: lines in, lines out.
 *
 *     TIE id word START n [TTL ms]   OK tied | ERR reason
 *     UNTIE id word START n          OK untied | OK not tied
 *     DIED id word                   OK passed on
 *     STATUS                         lines "name value", then "."
 *
 * DIED is for a supervisor, which has seen a whole process tree end. Answers
 * come in the order of the requests. A line that is too long, or is none of
 * these, closes the connection; so does a passed descriptor. A TIE that is read
 * after the program has closed the connection is refused, as is such an UNTIE
 * if the program has another one: it can have asked for the opposite there. */

#ifndef HASP_CMD_HASP_AGENT_VISITOR_H
#define HASP_CMD_HASP_AGENT_VISITOR_H

#include "base/list.h"
#include "cmd/hasp/agent/agent.h"
#include "cmd/hasp/agent/proof.h"
#include "cmd/hasp/agent/ties.h"

#define VISITOR_LINE_MAX 4096
#define VISITOR_OUTPUT_MAX 8192
/* A connection without a tie, and without a question since. */
#define VISITOR_IDLE_MS 10000

struct visitor {
    struct watched watched;
    struct agent *agent;
    struct list in_agent;
    struct list in_process; /* If it has one. */
    int fd;
    struct proof proof;
    struct agent_ward *process; /* NULL: nothing is proved yet. */
    uint64_t heard_ns;
    bool is_doomed; /* Closed at the end of the turn. */
    size_t size;
    char input[VISITOR_LINE_MAX];
    size_t output_size;
    char output[VISITOR_OUTPUT_MAX];
};

/* Takes the accepted socket 'fd' of a user that ties_admit() has let in, or
 * closes it. */
void visitor_new(struct agent *agent, int fd, uid_t uid);
void visitor_free(struct visitor *visitor);
/* Its socket is ready. */
void visitor_ready(struct visitor *visitor, uint32_t events);

#endif /* HASP_CMD_HASP_AGENT_VISITOR_H */
