/* SPDX-License-Identifier: MIT */

/* What is measured on the way of requests and entries, for the metrics
 * (core_counts): errors by their word, and how long things took. */

#ifndef HASP_CORE_STATS_H
#define HASP_CORE_STATS_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/histogram.h"
#include "core/core.h"
#include "core/session/audit_denied.h"

struct core;
struct effect;
struct request;

/* Lives as long as the core. */
struct stats {
    struct core_counts counts;
    struct histogram *request;        /* By the command's place in the table. */
    struct audit_denied audit_denied; /* Of audit_denied.h. */
};

void stats_init(struct core *core);
void stats_done(struct core *core);
/* A request of a client of this node has been answered; 'reply' is copied for
 * people, and decides nothing. */
void stats_answered(struct core *core, const struct request *request,
                    struct bytes reply);
/* An error with this word is part of an answer. */
void stats_refused(struct core *core, enum core_word word);
/* An effect of an entry; those from before the start are left out. */
void stats_effect(struct core *core, const struct effect *effect);

#endif /* HASP_CORE_STATS_H */
