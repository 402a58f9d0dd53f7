/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_saver.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "client/reply.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_restore.h"
#include "tests/sim/sim_worker.h"

#define ANSWER_NS (4 * SIM_S)

static struct sim *sim_of(const struct sim_saver *saver)
{
    return saver->client->sim;
}

static struct sim_node *node_of(const struct sim_saver *saver)
{
    return sim_of(saver)->node[saver->channel.wire->host[1]];
}

static uint64_t applied_by(struct sim_node *node)
{
    struct core *core = sim_node_core(node);
    return core != NULL ? lockfsm_applied_index(core_state(core)) : 0;
}

static void rest(struct sim_saver *saver, uint64_t low_ms, uint64_t high_ms)
{
    struct sim *sim = sim_of(saver);
    saver->stage = SAVER_REST;
    saver->rest_until_ns = sim->now_ns +
                           sim_between(sim, low_ms, high_ms) * SIM_MS;
}

/* --- Asking --------------------------------------------------------------- */

static void choose(struct sim_saver *saver)
{
    struct sim *sim = sim_of(saver);
    if (sim_restore_wants_member(sim, &saver->node)) {
        saver->stage = SAVER_ADD;
    } else if (sim_voter_choose(sim, &saver->vote)) {
        saver->stage = SAVER_VOTE;
    } else if (!sim_restore_is_saved(sim)) {
        rest(saver, 100, 1000);
    } else if (sim->life > 0 && sim_chance(sim, 0.5)) {
        saver->lock = (uint32_t)prng_below(&sim->prng, LOCK_COUNT_MAX);
        saver->stage = SAVER_ADMIT;
    } else {
        saver->stage = SAVER_TAKE;
    }
}

static void put_add(struct sim_saver *saver)
{
    char address[MEMBER_ADDRESS_SIZE];
    sim_node_address(saver->node, address);
    sim_channel_begin(&saver->channel, 3);
    sim_channel_word(&saver->channel, "RAFT.ADD");
    sim_channel_number(&saver->channel, sim_node_id(saver->node));
    sim_channel_word(&saver->channel, address);
}

static void ask(struct sim_saver *saver)
{
    struct sim_channel *channel = &saver->channel;
    switch (saver->stage) {
    case SAVER_ADD:
        put_add(saver);
        break;
    case SAVER_VOTE:
        sim_voter_put(channel, &saver->vote);
        break;
    case SAVER_ADMIT:
        sim_channel_begin(channel, 3);
        sim_channel_word(channel, "FENCE.ADMIT");
        sim_channel_word(channel, sim_lock_name(saver->lock));
        sim_channel_number(channel, sim_restore_late_token(sim_of(saver)));
        break;
    case SAVER_READ:
        sim_channel_begin(channel, 4);
        sim_channel_word(channel, "RAFT.PART");
        sim_channel_number(channel, saver->backup.log_index);
        sim_channel_number(channel, saver->backup.term);
        sim_channel_number(channel, saver->backup.bytes.size);
        break;
    default:
        saver->applied = applied_by(node_of(saver));
        sim_channel_begin(channel, 1);
        sim_channel_word(channel, "RAFT.BACKUP");
        break;
    }
    sim_channel_send(channel, sim_client_clock(saver->client), ANSWER_NS);
    if (saver->stage == SAVER_READ) {
        channel->asked_newest = channel->sent_applied; /* It answers without the
                                                          others. */
    }
}

/* --- Answers -------------------------------------------------------------- */

static void take_begun(struct sim_saver *saver)
{
    const struct resp_reply *reply = &saver->channel.reply;
    buffer_clear(&saver->backup.bytes);
    saver->backup.life = sim_node_life(node_of(saver));
    saver->backup.log_index = reply_number(reply, 0, "index");
    saver->backup.term = reply_number(reply, 0, "term");
    saver->size = reply_number(reply, 0, "size");
    saver->stage = SAVER_READ;
    if (saver->backup.log_index < saver->applied) {
        sim_fail(sim_of(saver), ORACLE_BACKUPS,
                 "a backup has everything applied before the request: %s gets "
                 "entry %" PRIu64 ", and the node had %" PRIu64,
                 saver->client->host.name, saver->backup.log_index,
                 saver->applied);
    }
    struct sim *sim = sim_of(saver);
    uint64_t place = sim_check_place_in(sim, saver->backup.life,
                                        saver->backup.log_index);
    if (reply_number(reply, 0, "leader") != 0 &&
        saver->backup.life == sim->life &&
        place < saver->channel.asked_newest) {
        sim_fail(sim, ORACLE_BACKUPS,
                 "with a leader, a backup has everything committed when it was "
                 "asked for: %s gets place %" PRIu64 ", and %" PRIu64
                 " was committed",
                 saver->client->host.name, place, saver->channel.asked_newest);
    }
}

static void take_part(struct sim_saver *saver)
{
    struct sim *sim = sim_of(saver);
    struct sim_backup *backup = &saver->backup;
    const struct resp_value *value = &saver->channel.reply.value[0];
    if (value->type != RESP_BULK || value->bytes.size == 0 ||
        value->bytes.size > saver->size - backup->bytes.size) {
        sim_fail(sim, ORACLE_BACKUPS,
                 "a backup has the announced size: %s gets %zu bytes after %zu "
                 "of %" PRIu64,
                 saver->client->host.name, value->bytes.size,
                 backup->bytes.size, saver->size);
        rest(saver, 100, 1000);
        return;
    }
    buffer_put_bytes(&backup->bytes, value->bytes);
    if (backup->bytes.size == saver->size) {
        sim_note(sim, &saver->client->host, "has a backup", backup->log_index,
                 backup->term, saver->size);
        sim_backup_check(sim, saver->client->host.name, backup);
        sim_restore_keep(sim, backup);
        rest(saver, 500, 6000);
    }
}

static void take_admitted(struct sim_saver *saver)
{
    struct sim *sim = sim_of(saver);
    const struct resp_value *value = &saver->channel.reply.value[0];
    if (value->type != RESP_INTEGER || value->integer != 0) {
        sim_fail(sim, ORACLE_LIVES,
                 "tokens of a former life are not admitted: %s was let in at "
                 "'%s' with %" PRIu64,
                 saver->client->host.name, sim_lock_name(saver->lock),
                 sim_restore_late_token(sim));
    }
    rest(saver, 100, 2000);
}

static void take(struct sim_saver *saver)
{
    char word[32];
    sim_channel_error(&saver->channel, word);
    if (saver->stage == SAVER_VOTE) {
        sim_voter_take(&saver->channel, &saver->vote, word);
    }
    if (word[0] != '\0') {
        sim_say(sim_of(saver), &saver->client->host, "the saver gets %s", word);
        sim_channel_close(&saver->channel);
        rest(saver, 20, 500);
        return;
    }
    sim_of(saver)->stats.operations++;
    switch (saver->stage) {
    case SAVER_TAKE:
        take_begun(saver);
        break;
    case SAVER_READ:
        take_part(saver);
        break;
    case SAVER_ADMIT:
        take_admitted(saver);
        break;
    default:
        rest(saver, 50, 1000);
        break;
    }
}

/* --- Life ----------------------------------------------------------------- */

void sim_saver_init(struct sim_saver *saver, struct sim_client *client)
{
    struct sim *sim = client->sim;
    *saver = (struct sim_saver){.client = client};
    sim_channel_init(&saver->channel, sim, &client->host);
    saver->is_there = client->host.number == sim->node_count &&
                      (sim_restore_is_saved(sim) || sim_voter_is_there(sim));
    if (saver->is_there) {
        rest(saver, 500, 4000);
    }
}

void sim_saver_done(struct sim_saver *saver)
{
    sim_channel_done(&saver->channel);
    sim_backup_done(&saver->backup);
}

void sim_saver_work(struct sim_saver *saver)
{
    struct sim_channel *channel = &saver->channel;
    if (!saver->is_there) {
        return;
    }
    if (channel->is_waiting && sim_channel_take(channel)) {
        take(saver);
    }
    sim_channel_watch(channel);
    /* In the end the operator that adds nodes is not refused. */
    channel->who = sim_of(saver)->phase != SIM_CHAOS &&
                           sim_users_are_there(sim_of(saver))
                       ? &sim_identity_local
                       : NULL;
    if (channel->wire == NULL && saver->stage != SAVER_REST) {
        rest(saver, 20, 500); /* The part received so far is discarded. */
    }
    if (saver->client->is_draining || !sim_channel_is_ready(channel)) {
        return;
    }
    if (saver->stage == SAVER_REST &&
        sim_of(saver)->now_ns >= saver->rest_until_ns) {
        choose(saver);
    }
    if (saver->stage != SAVER_REST) {
        ask(saver);
    }
}

uint64_t sim_saver_next(const struct sim_saver *saver)
{
    uint64_t at_ns = sim_channel_next(&saver->channel);
    if (!saver->is_there || saver->client->is_draining) {
        return UINT64_MAX;
    }
    return saver->stage == SAVER_REST && saver->rest_until_ns > at_ns
               ? saver->rest_until_ns
               : at_ns;
}
