/* SPDX-License-Identifier: MIT */

/* The node's certificate, its key and the CAs: read at the start, and again
 * when the host requests it (SIGHUP) or when the files have changed, which is
 * checked each minute. A worker reads and checks them. A valid set is used for
 * new connections; existing ones are not affected. An invalid set is logged,
 * and the old one stays.
 *
 * Threads: the loop's; the worker has its part while it works. */

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

/* The contexts made from one reading of the files. */
struct certificate_set {
    struct tls_context *peers;   /* NULL: tls.peer is off. */
    struct tls_context *clients; /* NULL: tls.client is off. */
    /* This node as a client of others; as 'peers'. */
    struct tls_context *asking;
    struct tls_context *web; /* NULL: tls.http is off. */
};

struct certificates {
    struct hasp_node *node;
    struct certificate_set now;
    /* Change times of the files when they were last read. */
    struct timespec changed[3];
    uint64_t look_ns;      /* Time of the next check. */
    uint64_t warned_day;   /* Day of the last warning about expiry. */
    uint64_t failed_count; /* Invalid sets. */
    /* The worker's, while it works: */
    uv_work_t work;
    bool is_busy;
    bool must_read; /* Read even if no file has changed. */
    bool must_read_again;
    bool was_read;
    int error;
    struct certificate_set next;
    struct timespec next_changed[3];
    char why[HASP_WHY_SIZE];
};

/* Reads them for the first time, if the options require TLS; HASP_ECERT and the
 * reason. */
MUST_CHECK int certificates_open(struct certificates *certificates,
                                 struct hasp_node *node,
                                 char why[HASP_WHY_SIZE]);
/* Only checks whether a node with these options could start: as
 * certificates_open(). The days are as those of certificates_days_left(), or
 * INT64_MAX without TLS. */
MUST_CHECK int certificates_check(const struct hasp_node_options *options,
                                  int64_t *ret_node_days, int64_t *ret_ca_days,
                                  char why[HASP_WHY_SIZE]);
/* Passes them to the listeners. */
void certificates_use(struct certificates *certificates);
/* Reads them again soon. */
void certificates_reload(struct certificates *certificates);
/* Housekeeping: reads the files again if one has changed. */
void certificates_tick(struct certificates *certificates, uint64_t now_ns);
void certificates_done(struct certificates *certificates);

/* Whole days until the node's certificate and its CA expire; false: no TLS. */
bool certificates_days_left(const struct certificates *certificates,
                            int64_t *ret_node, int64_t *ret_ca);

#endif /* HASP_NODE_CERTIFICATES_H */
