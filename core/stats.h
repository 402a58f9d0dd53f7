/* SPDX-License-Identifier: MIT */

/* Measurements of requests and entries, for the metrics (core_counts): errors
 * by their word, and durations. */

#ifndef HASP_CORE_STATS_H
#define HASP_CORE_STATS_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/histogram.h"
#include "core/core.h"
#include "core/name_classes.h"
#include "core/session/audit_denied.h"

struct core;
struct effect;
struct request;

/* Lives as long as the core. */
struct stats {
    struct core_counts counts;
    struct histogram *request;        /* By the command's place in the table. */
    struct audit_denied audit_denied; /* See audit_denied.h. */
    struct name_classes classes;
};

void stats_init(struct core *core);
void stats_done(struct core *core);
/* Counts by these classes from now on (name_classes_use()). */
void stats_use_classes(struct core *core, const char *text);
/* Counts a request of this node's client that was answered. 'reply' is copied
 * for people and decides nothing. */
void stats_answered(struct core *core, const struct request *request,
                    struct bytes reply);
/* Counts an error with this word, "-WORD text", which is the answer or a part
 * of it. */
void stats_refused(struct core *core, const struct request *request,
                   enum core_word word, struct bytes error);
/* Counts an effect of an entry, unless the entry is from before the start. */
void stats_effect(struct core *core, const struct effect *effect);

#endif /* HASP_CORE_STATS_H */
