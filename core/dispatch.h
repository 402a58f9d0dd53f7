/* SPDX-License-Identifier: MIT */

/* The way of a request from the client's connection to the handler that
 * decides, and from the entry or the confirmed question to its answer. Which
 * way it takes its command's flags say (core/command.h). */

#ifndef HASP_CORE_DISPATCH_H
#define HASP_CORE_DISPATCH_H

#include <stdint.h>

#include "base/bytes.h"

struct conn;
struct core;
struct request;
struct result;

/* To a change that takes something while the leader's disk is not well. */
void dispatch_refuse_for_disk(struct core *core, struct request *request);

/* A request of a client of this node. */
void dispatch_received(struct core *core, struct conn *conn,
                       const struct bytes *argument, uint32_t count);
/* The serving leader deals with a request whose arguments are understood. */
void dispatch_decide(struct core *core, struct request *request);
/* Deals with what is resumed, then with what is ready. */
void dispatch_run_ready(struct core *core);
/* Reads the state for a request whose leadership is confirmed. */
void dispatch_read(struct core *core, struct request *request);
/* Answers with the result of its entry. */
void dispatch_result(struct core *core, struct request *request,
                     const struct result *result);

#endif /* HASP_CORE_DISPATCH_H */
