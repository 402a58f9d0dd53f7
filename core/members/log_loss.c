/* SPDX-License-Identifier: MIT */

/* What members have acknowledged, reported to those that have lost it; and the
 * bar, from both sides. */

#include "core/members/log_loss.h"
#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "core/state.h"

void log_loss_begin(struct core *core, const struct core_accusation *accused)
{
    core->loss.accused = *accused;
}

void log_loss_update(struct core *core, uint64_t id)
{
    struct peer *peer = peer_find(core, id);
    if (peer == NULL || replica_role(core->replica) != REPLICA_LEADER ||
        standing_of(core, id) != STANDING_MEMBER) {
        return;
    }
    uint64_t match = replica_match(core->replica, id);
    if (match > 0) {
        peer->acked_term = replica_term(core->replica);
        peer->acked_index = match;
    }
}

static void log_loss_notify(struct core *core, const struct peer *peer,
                            uint64_t incarnation, uint64_t log_end)
{
    LOG_ERROR("a member has lost data",
              "member=%" PRIu64 " acknowledged=%" PRIu64 " term=%" PRIu64
              " last=%" PRIu64
              " hint=\"its directory is an old copy, or its disk lost writes: "
              "remove the member and add it again with an empty directory\"",
              peer->id, peer->acked_index, peer->acked_term, log_end);
    struct buffer *out = peer_output(core, peer->id, FRAME_LOST);
    if (out != NULL) {
        struct frame_lost lost = {.incarnation = incarnation,
                                  .term = peer->acked_term,
                                  .last_index = peer->acked_index,
                                  .log_end = log_end};
        frame_put_lost(out, FRAME_LOST, &lost);
    }
}

bool log_loss_seen(struct core *core, struct peer *peer,
                   const struct frame_hello *hello)
{
    CHECK(peer->id == hello->from);
    peer->has_asked = false;
    peer->has_lost = peer->acked_index > 0 && hello->term <= peer->acked_term &&
                     hello->last_index < peer->acked_index;
    if (peer->has_lost) {
        log_loss_notify(core, peer, hello->incarnation, hello->last_index);
    }
    return peer->has_lost;
}

/* Asks the leader, once for each leader that this node follows. */
static void log_loss_ask(struct core *core)
{
    uint64_t leader = replica_leader(core->replica);
    uint64_t term = replica_term(core->replica);
    if (!is_barred(core) || core->run.has_fatal || leader == 0 ||
        leader == core->options.id ||
        (leader == core->loss.asked_leader && term == core->loss.asked_term)) {
        return;
    }
    struct buffer *out = peer_output(core, leader, FRAME_ACCUSED);
    if (out != NULL) {
        struct frame_lost accused = {
            .incarnation = core->options.incarnation,
            .term = core->loss.accused.term,
            .last_index = core->loss.accused.last_index,
            .log_end = replica_last_index(core->replica)};
        frame_put_lost(out, FRAME_ACCUSED, &accused);
        /* Only a question that was sent counts; without a link it is asked
         * again. */
        core->loss.asked_leader = leader;
        core->loss.asked_term = term;
    }
}

/* True if this leader may answer. It knows about the terms up to its own;
 * whether there is a later leader it must find out after the question was
 * received. */
static bool may_answer(struct core *core, struct peer *peer)
{
    if (peer->asked.term <= core->leadership.term) {
        return true;
    }
    if (is_serving(core) && peer->question == 0) {
        peer->question = replica_next_question(core->replica);
        read_index_request(core);
    }
    return peer->question != 0 &&
           replica_confirmed(core->replica) >= peer->question;
}

static void log_loss_answer(struct core *core, struct peer *peer)
{
    struct buffer *out = peer_output(core, peer->id, FRAME_CLEARED);
    CHECK(is_leader(core) && peer->has_asked);
    peer->has_asked = false;
    if (out == NULL || peer->acked_index == 0) {
        return;
    }
    /* A later leader than that of acked_term may have shortened its log. */
    bool is_known = peer->acked_term == core->leadership.term;
    if (peer->has_lost ||
        (is_known && peer->asked.log_end < peer->acked_index)) {
        log_loss_notify(core, peer, peer->asked.incarnation,
                        peer->asked.log_end);
    } else if (is_known) {
        frame_put_lost(out, FRAME_CLEARED, &peer->asked);
    }
}

void log_loss_turn(struct core *core)
{
    log_loss_ask(core);
    for (int i = 0; i < PEER_COUNT_MAX && is_leader(core); i++) {
        struct peer *peer = &core->peers[i];
        if (peer->has_asked && may_answer(core, peer)) {
            log_loss_answer(core, peer);
        }
    }
}

void log_loss_peer_lost(struct core *core, uint64_t id)
{
    struct peer *peer = peer_find(core, id);
    if (core->loss.asked_leader == id) {
        core->loss.asked_leader = 0;
    }
    if (peer != NULL) {
        peer->has_asked = false;
    }
}

static void put_why(const struct core *core, uint64_t from,
                    const struct frame_lost *lost, char why[HASP_WHY_SIZE])
{
    snprintf(why, HASP_WHY_SIZE,
             "this node has acknowledged entry %" PRIu64 " to member %" PRIu64
             ", and its log ends at %" PRIu64
             ": its data directory is an old copy, or the disk lost writes. "
             "Remove this member from the cluster and add it again with an "
             "empty directory",
             lost->last_index, from, replica_last_index(core->replica));
}

static void log_loss_bar(struct core *core, uint64_t from,
                         const struct frame_lost *lost)
{
    char why[HASP_WHY_SIZE];
    CHECK(!is_barred(core) && lost->term != 0);
    put_why(core, from, lost, why);
    core->loss.accused = (struct core_accusation){
        .term = lost->term, .last_index = lost->last_index};
    core->loss.asked_leader = 0;
    core->port.bar(core->port.data, &core->loss.accused, why);
    LOG_ERROR(
        "this node is barred",
        "by=%" PRIu64 " acknowledged=%" PRIu64 " term=%" PRIu64 " last=%" PRIu64
        " hint=\"it does not vote and acknowledges nothing until the leader "
        "has checked this; if the other member is wrong, run: haspd "
        "--uncondemn\"",
        from, lost->last_index, lost->term, replica_last_index(core->replica));
}

static void log_loss_condemn(struct core *core, uint64_t from,
                             const struct frame_lost *lost)
{
    char why[HASP_WHY_SIZE];
    /* Only a barred node is condemned, after two have said so. */
    CHECK(is_barred(core) && !core->run.has_fatal);
    put_why(core, from, lost, why);
    core_condemn(core, why);
}

int log_loss_received(struct core *core, uint64_t from, struct bytes body)
{
    struct frame_lost lost;
    int error = frame_get_lost(body, &lost);
    if (error == 0 && !replica_is_near_term(core->replica, lost.term)) {
        error = HASP_ETOOBIG;
    }
    if (error != 0) {
        return error;
    }
    /* Nobody has led in term 0. */
    if (lost.term == 0 || lost.incarnation != core->options.incarnation ||
        lost.last_index <= replica_last_index(core->replica) ||
        core->run.has_fatal) {
        return 0;
    }
    if (is_barred(core) && from == replica_leader(core->replica)) {
        log_loss_condemn(core, from, &lost);
    } else if (!is_barred(core) && lost.term >= replica_term(core->replica)) {
        log_loss_bar(core, from, &lost);
    }
    return 0;
}

int log_loss_asked(struct core *core, uint64_t from, struct bytes body)
{
    struct frame_lost asked;
    struct peer *peer = peer_find(core, from);
    int error = frame_get_lost(body, &asked);
    if (error == 0 && peer != NULL && asked.incarnation == peer->incarnation) {
        peer->has_asked = true;
        peer->asked = asked;
        peer->question = 0;
    }
    return error;
}

int log_loss_cleared(struct core *core, uint64_t from, struct bytes body)
{
    struct frame_lost cleared;
    int error = frame_get_lost(body, &cleared);
    if (error != 0 || !is_barred(core) || core->run.has_fatal ||
        from != replica_leader(core->replica) ||
        cleared.incarnation != core->options.incarnation ||
        cleared.term != core->loss.accused.term ||
        cleared.last_index != core->loss.accused.last_index) {
        return error;
    }
    LOG_INFO("bar lifted", "by=%" PRIu64, from);
    core->loss.accused = (struct core_accusation){0};
    core->port.unbar(core->port.data);
    return 0;
}
