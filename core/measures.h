/* SPDX-License-Identifier: MIT */

/* What is measured on the way of requests and entries, for the metrics
 * (core_counts): errors by their word, and how long things took. */

#ifndef HASP_CORE_MEASURES_H
#define HASP_CORE_MEASURES_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/histogram.h"
#include "core/core.h"
#include "core/session/denials.h"

struct core;
struct effect;
struct request;

/* Lives as long as the core. */
struct measures {
    struct core_counts counts;
    struct histogram *request; /* By the command's place in the table. */
    struct denials denials;    /* Of denials.h. */
};

void measures_init(struct core *core);
void measures_done(struct core *core);
/* A request of a client of this node has been answered; 'reply' is copied for
 * people, and decides nothing. */
void measures_answered(struct core *core, const struct request *request,
                       struct bytes reply);
/* An error with this word is part of an answer. */
void measures_refused(struct core *core, enum core_word word);
/* An effect of an entry; those from before the start are left out. */
void measures_effect(struct core *core, const struct effect *effect);

#endif /* HASP_CORE_MEASURES_H */
