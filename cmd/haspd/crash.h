/* SPDX-License-Identifier: MIT */

/* The report of a crash: when a CHECK fails or a fatal signal arrives, the last
 * lines of the log name the signal, the failed CHECK, what the thread was doing
 * (base/doing.h), and where: addresses relative to the program, with its build
 * id, for addr2line(1). The data directory gets the first of these lines, and
 * the next start logs it.
 *
 * The handler calls only what signal-safety(7) allows, and backtrace(3), whose
 * library is loaded beforehand. It runs on a stack of its own, so that it also
 * works after an overflow of the stack. */

#ifndef HASP_CMD_HASPD_CRASH_H
#define HASP_CMD_HASPD_CRASH_H

#include <signal.h>

#include "include/hasp/node.h"

/* Installs the handler, except for SIGBUS, which can be the fault of a file
 * (main.c). Call it before the node is opened. */
void crash_handle(uint64_t node_id);
/* The handler: reports, and ends the process by this signal. */
void crash_on_signal(int number, siginfo_t *info, void *context);
/* Sets the node whose directory gets the report; NULL: none. */
void crash_set_node(struct hasp_node *node);

#endif /* HASP_CMD_HASPD_CRASH_H */
