/* SPDX-License-Identifier: MIT */

/* Counts answers, and measures how long holds and waits took. */

#include "core/stats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/memory.h"
#include "core/command.h"
#include "core/state.h"

void stats_init(struct core *core)
{
    core->stats.request = memory_new(core->run.commands->count *
                                     sizeof *core->stats.request);
    stats_use_classes(core, core->options.classes);
}

void stats_use_classes(struct core *core, const char *text)
{
    name_classes_use(&core->stats.classes, text);
}

void stats_done(struct core *core)
{
    free(core->stats.request);
    name_classes_done(&core->stats.classes);
}

void stats_refused(struct core *core, const struct request *request,
                   enum core_word word, struct bytes error)
{
    CHECK(word > WORD_NONE && word < CORE_WORD_END);
    audit_denied_note(core, request, word, error);
    if (word == WORD_UNSUPPORTED) {
        core->stats.counts.unknown_scripts++;
        word = WORD_ERR;
    }
    if (word == WORD_QUOTA) {
        core->stats.counts.over_quota++;
        word = WORD_LIMIT;
    }
    core->stats.counts.refusals++;
    core->stats.counts.by_word[word]++;
}

void stats_answered(struct core *core, const struct request *request,
                    struct bytes reply)
{
    if (request->command != NULL) {
        CHECK(request->received_ns <= core->now_ns);
        uint64_t took_ns = core->now_ns - request->received_ns;
        uint32_t place = command_place(core, request->command);
        histogram_note(&core->stats.request[place], took_ns);
    }
    if (request->outcome.word != WORD_NONE) {
        stats_refused(core, request, request->outcome.word, reply);
    }
}

/* 'of_class' may be NULL. */
static void note_age(struct core *core, struct histogram *histogram,
                     struct histogram *of_class, uint64_t log_index)
{
    CHECK(log_index <= lockfsm_applied_index(core->fsm));
    if (log_index > core->run.replayed_index) {
        uint64_t age_ns = age_ms(core, log_index) * NS_PER_MS;
        histogram_note(histogram, age_ns);
        if (of_class != NULL) {
            histogram_note(of_class, age_ns);
        }
    }
}

/* Counts a grant, a wait or the end of a hold: in all, and in the class of the
 * lock's name if there are classes. */
static void stats_lock_effect(struct core *core, const struct effect *effect)
{
    struct core_counts *counts = &core->stats.counts;
    struct core_class *class = name_classes_find(&core->stats.classes,
                                                 effect->lock);
    struct histogram *wait = class != NULL ? &class->wait : NULL;
    struct histogram *hold = class != NULL ? &class->hold : NULL;
    bool is_grant = effect->type == EFFECT_GRANTED;
    bool is_unclean = effect->type == EFFECT_HOLD_EXPIRED;
    /* A repeated request keeps its place and is one wait. */
    bool is_wait = effect->type == EFFECT_QUEUED && effect->count == 0;
    counts->grants += is_grant;
    counts->unclean_ends += is_unclean;
    if (class != NULL) {
        class->grants += is_grant;
        class->unclean_ends += is_unclean;
        class->waits += is_wait;
    }
    if (is_grant && effect->wait_index != 0) {
        note_age(core, &counts->wait, wait, effect->wait_index);
    } else if (is_unclean || effect->type == EFFECT_RELEASED) {
        note_age(core, &counts->hold, hold, effect->granted_index);
    }
}

static void note_given_up(struct core *core, const struct effect *effect)
{
    uint32_t left_out;
    char name[BYTES_SHOWN_SIZE];
    core->stats.counts.searches_given_up++;
    if (log_limit_pass(&core->run.logged.searches, core->now_ns / NS_PER_MS,
                       &left_out)) {
        LOG_WARN("deadlock search given up",
                 "session=%" PRIu64
                 " lock=\"%s\" steps=%d left_out=%u hint=\"if it is a "
                 "deadlock, a WAIT or a lease ends it\"",
                 effect->session, bytes_shown(effect->lock, name),
                 DEADLOCK_STEP_MAX, left_out);
    }
}

void stats_effect(struct core *core, const struct effect *effect)
{
    switch (effect->type) {
    case EFFECT_GRANTED:
    case EFFECT_QUEUED:
    case EFFECT_RELEASED:
    case EFFECT_HOLD_EXPIRED:
        stats_lock_effect(core, effect);
        return;
    case EFFECT_SEARCH_GIVEN_UP:
        note_given_up(core, effect);
        return;
    case EFFECT_SESSION_ENDED:
        core->stats.counts.sessions_ended++;
        core->stats.counts.sessions_died += strcmp(effect->reason, "died") == 0;
        return;
    default:
        return;
    }
}

const struct histogram *core_request_times(const struct core *core,
                                           uint32_t place,
                                           const char **ret_name)
{
    if (place >= core->run.commands->count) {
        return NULL;
    }
    *ret_name = core->run.commands->row[place].name;
    return &core->stats.request[place];
}

const struct core_class *core_class(const struct core *core, uint32_t place)
{
    return place < core->stats.classes.count ? core->stats.classes.row[place]
                                             : NULL;
}

uint64_t core_oldest_wait_ms(const struct core *core)
{
    uint64_t index = lockfsm_oldest_wait(core->fsm);
    return index == 0 ? 0 : age_ms(core, index);
}
