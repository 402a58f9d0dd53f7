/* SPDX-License-Identifier: MIT */

/* The machines of a new cluster, as 'hasp setup' is given them:
 *
 *     lock1=10.0.0.1,lock1.lan    a name, and where it is reached
 *     lock1                       its address is looked up
 *
 * Machine i becomes node i. Functions explain errors on stderr and return an
 * exit code, or 0. */

#ifndef HASP_CMD_HASP_SETUP_MACHINES_H
#define HASP_CMD_HASP_SETUP_MACHINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

#define MACHINES_MAX 9
#define MACHINE_NAME_SIZE 65

#define PORT_CLIENT 7420
#define PORT_PEER 7421
#define PORT_HTTP 7422

struct tool;

struct machine {
    char name[MACHINE_NAME_SIZE];
    char address[256]; /* Address where it listens and is reached, without a
                          port. */
    char hosts[1024];  /* Its address, its name and further hosts, for
                          certificates. */
    bool is_here;      /* This program runs on it. */
};

struct machines {
    struct machine machine[MACHINES_MAX];
    size_t count;
};

/* Reads the operands 'words', up to a NULL. */
int machines_read(const struct tool *tool, char *const *words,
                  struct machines *ret_machines);
/* "[host]:port" for an IPv6 address, otherwise "host:port". */
void machine_put_address(struct buffer *out, const struct machine *machine,
                         unsigned port);

#endif /* HASP_CMD_HASP_SETUP_MACHINES_H */
