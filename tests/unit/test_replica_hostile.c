/* SPDX-License-Identifier: MIT */

/* Messages that no honest member sends. */

#include "base/prng.h"
#include "tests/unit/replica_lone.h"

/* --- Hostile messages ----------------------------------------------------- */

struct fingerprint {
    uint64_t numbers[8];
};

static struct fingerprint fingerprint_of(const struct lone *lone)
{
    const struct replica *r = lone->replica;
    return (struct fingerprint){
        {replica_term(r), replica_voted_for(r), replica_last_index(r),
         replica_commit_index(r), replica_leader(r), replica_appliable(r),
         (uint64_t)replica_role(r), replica_confirmed(r)}};
}

/* Feeds bytes and expects that a refused message changed nothing. */
static int feed_bytes(struct lone *lone, uint64_t from, struct bytes bytes)
{
    struct fingerprint before = fingerprint_of(lone);
    int error = replica_receive(lone->replica, from, DIRECTORY(from), bytes,
                                lone->now_ms, &lone->update);
    if (error != 0) {
        struct fingerprint after = fingerprint_of(lone);
        assert_true(error == HASP_EPROTO || error == HASP_ETOOBIG);
        assert_memory_equal(&before, &after, sizeof before);
        assert_int_equal(lone->update.message_count, 0);
        assert_int_equal(lone->update.entry_count, 0);
        assert_false(lone->update.save_vote);
    }
    return error;
}

static void put_in_a_state(struct lone *lone, struct prng *prng)
{
    found(lone, 3, 1);
    for (uint32_t i = 0; i < 38; i++) {
        add_entry(lone, 1 + i / 10, NULL);
    }
    uint64_t kind = prng_below(prng, 5);
    if (kind > 0) {
        assert_int_equal(append(lone, 5, 1, 38, 30), 0);
        persist(lone, 4, 35 + prng_below(prng, 5));
    }
    if (kind > 1) {
        take_snapshot(lone, 25);
    }
    if (kind > 2) {
        persist(lone, 4, 39);
        tick(lone);
    }
    if (kind > 3) {
        lone->now_ms += 600;
        serve(lone);
        (void)submit(lone);
    }
}

/* A message as an honest member could send it, with one number changed now and
 * then. */
static void make_message(struct lone *lone, struct prng *prng,
                         struct buffer *out)
{
    struct message m = {.term = 1 + prng_below(prng, 9)};
    static const enum message_kind kinds[] = {
        MESSAGE_APPEND,  MESSAGE_APPEND,      MESSAGE_APPEND_RESULT,
        MESSAGE_VOTE,    MESSAGE_VOTE_RESULT, MESSAGE_TIMEOUT_NOW,
        MESSAGE_CONFIRM, MESSAGE_CONFIRMED};
    m.kind = kinds[prng_below(prng, 8)];
    uint64_t a = prng_below(prng, 45);
    uint64_t b = prng_below(prng, 6);
    switch (m.kind) {
    case MESSAGE_APPEND:
        m.append.prev_index = a > 39 ? 39 : a;
        m.append.prev_term = m.append.prev_index > 0
                                 ? lone->entries[m.append.prev_index - 1].term
                                 : 0;
        m.append.commit_index = prng_below(prng, 45);
        m.append.count = (uint32_t)prng_below(prng, 40 - m.append.prev_index);
        m.append.entries = &lone->entries[m.append.prev_index];
        break;
    case MESSAGE_APPEND_RESULT:
        m.append_result.rejected_index = prng_below(prng, 2) == 0 ? 0 : a;
        m.append_result.last_index = prng_below(prng, 50);
        break;
    case MESSAGE_VOTE:
        m.vote.candidate = 2 + prng_below(prng, 2);
        m.vote.last_index = a;
        m.vote.last_term = b;
        m.vote.is_disrupting = prng_below(prng, 2) == 0;
        m.vote.is_pre_vote = prng_below(prng, 2) == 0;
        m.vote.is_standing = prng_below(prng, 4) == 0;
        m.vote.flush_ms = (uint32_t)prng_below(prng, 5000);
        break;
    case MESSAGE_VOTE_RESULT:
        m.vote_result.is_granted = prng_below(prng, 2) == 0;
        m.vote_result.is_pre_vote = prng_below(prng, 2) == 0;
        m.vote_result.flush_ms = (uint32_t)prng_below(prng, 5000);
        break;
    case MESSAGE_TIMEOUT_NOW:
        m.timeout_now.last_index = a;
        m.timeout_now.last_term = b;
        break;
    default:
        m.number = a;
    }
    buffer_clear(out);
    message_encode(&m, out);
}

static void mutate(struct prng *prng, struct buffer *out)
{
    for (uint64_t n = prng_below(prng, 4); n > 0 && out->size > 0; n--) {
        uint8_t *at = &out->data[prng_below(prng, out->size)];
        switch (prng_below(prng, 4)) {
        case 0:
            *at ^= (uint8_t)(1u << prng_below(prng, 8));
            break;
        case 1:
            *at = (uint8_t)prng_next(prng);
            break;
        case 2:
            out->size = prng_below(prng, out->size + 1);
            break;
        default:
            buffer_put_u8(out, (uint8_t)prng_next(prng));
        }
    }
}

static void hostile_messages_change_nothing_or_are_survived(void **state)
{
    struct buffer bytes = {0};
    uint32_t refused = 0;
    uint32_t taken = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct prng prng = {.state = seed};
        struct lone lone;
        put_in_a_state(&lone, &prng);
        for (uint32_t i = 0; i < 150; i++) {
            make_message(&lone, &prng, &bytes);
            mutate(&prng, &bytes);
            uint64_t from = prng_below(&prng, 6);
            if (feed_bytes(&lone, from, buffer_bytes(&bytes)) != 0) {
                refused++;
            } else {
                taken++;
            }
            if (lone.update.entry_count > 0 && prng_below(&prng, 2) == 0) {
                const struct replica_entry
                    *last = &lone.update.entries[lone.update.entry_count - 1];
                persist(&lone, last->term, last->log_index);
            }
            if (prng_below(&prng, 20) == 0) {
                tick(&lone);
            }
        }
        done(&lone);
    }
    assert_true(refused > 5000 && taken > 5000);
    buffer_done(&bytes);
}

static void random_bytes_are_refused(void **state)
{
    struct prng prng = {.state = 99};
    struct lone lone;
    uint8_t bytes[200];
    (void)state;
    put_in_a_state(&lone, &prng);
    for (uint32_t i = 0; i < 20000; i++) {
        size_t size = prng_below(&prng, sizeof bytes);
        for (size_t j = 0; j < size; j++) {
            bytes[j] = (uint8_t)prng_next(&prng);
        }
        if (size > 1 && prng_below(&prng, 2) == 0) {
            bytes[0] = (uint8_t)(1 + prng_below(&prng, 8));
            bytes[1] = 0;
        }
        (void)feed_bytes(&lone, 2, bytes_of(bytes, size));
    }
    done(&lone);
}

static void two_leaders_of_one_term_are_not_believed(void **state)
{
    struct lone lone;
    struct message message = {.kind = MESSAGE_APPEND};
    struct buffer encoded = {0};
    (void)state;
    found(&lone, 3, 0);
    serve(&lone);
    message.term = replica_term(lone.replica);
    message.append.prev_index = 1;
    message.append.prev_term = 1;
    message_encode(&message, &encoded);
    assert_int_equal(feed_bytes(&lone, 2, buffer_bytes(&encoded)), HASP_EPROTO);
    assert_int_equal(replica_role(lone.replica), REPLICA_LEADER);
    /* Nor is a peer that contradicts the committed prefix. */
    message.term++;
    message.append.prev_term = 2;
    message.append.prev_index = 2;
    buffer_clear(&encoded);
    message.append.prev_term = message.term;
    message_encode(&message, &encoded);
    assert_int_equal(feed_bytes(&lone, 2, buffer_bytes(&encoded)), HASP_EPROTO);
    assert_int_equal(feed_bytes(&lone, 0, buffer_bytes(&encoded)), HASP_EPROTO);
    assert_int_equal(feed_bytes(&lone, 1, buffer_bytes(&encoded)), HASP_EPROTO);
    buffer_done(&encoded);
    done(&lone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_messages_change_nothing_or_are_survived),
        cmocka_unit_test(random_bytes_are_refused),
        cmocka_unit_test(two_leaders_of_one_term_are_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
