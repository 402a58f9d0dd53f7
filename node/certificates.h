/* SPDX-License-Identifier: MIT */

/* The node's certificate, its key and the CAs: read at the start, and again
 * when the host says so (SIGHUP) or when the files have changed, which is
 * looked at each minute. A worker reads and checks them. A good set is used for
 * the connections to come, and those that stand stay as they are; a bad one
 * leaves the old one in place, and says why.
 *
 * Threads: the loop's, but for what the worker reads. */

#ifndef HASP_NODE_CERTIFICATES_H
#define HASP_NODE_CERTIFICATES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <uv.h>

#include "base/err.h"
#include "net/tls.h"

#define CERTIFICATES_LOOK_NS (60 * NS_PER_S)

struct hasp_node;
struct hasp_node_options;

/* What one reading of the files has given. */
struct certificate_set {
    struct tls_context *peers;   /* NULL: tls.peer is off. */
    struct tls_context *clients; /* NULL: tls.client is off. */
    struct tls_context *asking;  /* This node as a client, likewise. */
    struct tls_context *web;     /* NULL: tls.http is off. */
};

struct certificates {
    struct hasp_node *node;
    struct certificate_set now;
    struct timespec changed[3]; /* Of the files, when they were last read. */
    uint64_t look_ns;           /* When to look at them next. */
    uint64_t told_day;          /* When it was last said what expires soon. */
    uint64_t failed_count;      /* Sets that were bad. */
    /* The worker's, while it works: */
    uv_work_t work;
    bool is_busy;
    bool must_read; /* Even if no file has changed. */
    bool must_read_again;
    bool was_read;
    int error;
    struct certificate_set next;
    struct timespec next_changed[3];
    char why[HASP_WHY_SIZE];
};

/* Reads them for the first time, if the options want TLS at all; HASP_ECERT
 * with the reason. */
MUST_CHECK int certificates_open(struct certificates *certificates,
                                 struct hasp_node *node,
                                 char why[HASP_WHY_SIZE]);
/* The same, for nothing but the reason why a node would not start. */
MUST_CHECK int certificates_check(const struct hasp_node_options *options,
                                  char why[HASP_WHY_SIZE]);
/* Hands them to the listeners. */
void certificates_use(struct certificates *certificates);
/* Reads them again, soon. */
void certificates_reload(struct certificates *certificates);
/* Housekeeping: has a file changed? */
void certificates_tick(struct certificates *certificates, uint64_t now_ns);
void certificates_done(struct certificates *certificates);

/* Whole days until the node's certificate, and its CA, expire; false: there is
 * none. */
bool certificates_days_left(const struct certificates *certificates,
                            int64_t *ret_node, int64_t *ret_ca);

#endif /* HASP_NODE_CERTIFICATES_H */
