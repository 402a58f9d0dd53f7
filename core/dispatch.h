/* SPDX-License-Identifier: MIT */

/* The path of a request: from the client's connection to the handler that
 * decides, and from the entry or the confirmed question to the answer. The
 * command's flags determine it (core/command.h). */

#ifndef HASP_CORE_DISPATCH_H
#define HASP_CORE_DISPATCH_H

#include <stdint.h>

#include "base/bytes.h"

struct conn;
struct core;
struct request;
struct result;

/* Refuses a change that acquires something while the leader's disk is full or
 * slow. */
void dispatch_refuse_for_disk(struct core *core, struct request *request);

/* Starts a request of a client of this node. */
void dispatch_received(struct core *core, struct conn *conn,
                       const struct bytes *argument, uint32_t count);
/* Decides on a parsed request, at the serving leader. */
void dispatch_decide(struct core *core, struct request *request);
/* Serves the resumed requests, then the ready ones. */
void dispatch_run_ready(struct core *core);
/* Reads the state for a request for which leadership is confirmed. */
void dispatch_read(struct core *core, struct request *request);
/* Answers a request with the result of its entry. */
void dispatch_result(struct core *core, struct request *request,
                     const struct result *result);

#endif /* HASP_CORE_DISPATCH_H */
