/* SPDX-License-Identifier: MIT */

/* Replicas' messages: what decodes encodes to the same bytes, and
 * configurations likewise; a replica that receives it survives. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "raft/message.h"
#include "raft/replica.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(struct bytes input)
{
    struct message message;
    struct buffer again = {0};
    if (message_decode(input, &message) != 0) {
        return;
    }
    struct replica_entry *entries = NULL;
    if (message.kind == MESSAGE_APPEND) {
        entries = memory_new(message.append.count * sizeof *entries);
        message_entries(&message.append, entries);
        message.append.entries = entries;
    }
    message_encode(&message, &again);
    CHECK(bytes_equal(buffer_bytes(&again), input));
    buffer_done(&again);
    free(entries);
}

static void round_trip_members(struct bytes input)
{
    struct replica_members members;
    struct buffer again = {0};
    if (replica_members_decode(input, &members) == 0) {
        replica_members_encode(&members, &again);
        CHECK(bytes_equal(buffer_bytes(&again), input));
        buffer_done(&again);
    }
}

/* A follower of three, with a log of three entries, two of them committed. */
static struct replica *make_replica(void)
{
    struct replica_options options = {.id = 1,
                                      .incarnation = 1,
                                      .seed = 1,
                                      .election_ms = 300,
                                      .heartbeat_ms = 50};
    struct replica_members members = {.count = 3};
    struct buffer encoded = {0};
    struct replica_update update;
    char why[HASP_WHY_SIZE];
    for (uint32_t i = 0; i < 3; i++) {
        members.member[i].id = i + 1;
        members.member[i].incarnation = i + 1;
        members.member[i].role = MEMBER_VOTER;
        members.member[i].address[0] = (char)('a' + i);
    }
    replica_members_encode(&members, &encoded);
    struct replica_entry entries[3] = {
        {1, 1, ENTRY_CHANGE, buffer_bytes(&encoded)},
        {1, 2, ENTRY_COMMAND, BYTES_LITERAL("one")},
        {2, 3, ENTRY_COMMAND, BYTES_LITERAL("two")},
    };
    struct replica_start start = {
        .term = 2, .entries = entries, .entry_count = 3, .applied_index = 2};
    struct replica *replica = replica_new(&options);
    int error = replica_begin(replica, &start, 1000, &update, why);
    CHECK(error == 0);
    buffer_done(&encoded);
    return replica;
}

/* Every message is preceded by its sender and its length. */
static void receive_all(struct bytes input)
{
    struct replica *replica = make_replica();
    struct replica_update update;
    struct reader reader = reader_of(input);
    uint64_t now_ms = 1000;
    while (reader_ok(&reader, false) && reader_left(&reader) > 0) {
        uint64_t from = reader_u8(&reader) % 5;
        struct bytes message = reader_bytes(&reader, reader_u8(&reader));
        int error = replica_receive(replica, from, from, message, now_ms,
                                    &update);
        CHECK(error == 0 || error == HASP_EPROTO || error == HASP_ETOOBIG);
        if (update.entry_count > 0) {
            const struct replica_entry
                *last = &update.entries[update.entry_count - 1];
            replica_persisted(replica, last->term, last->log_index, 1, now_ms,
                              &update);
        }
        if (!replica_vote_is_saved(replica) && now_ms % 60 == 0) {
            replica_vote_saved(replica, replica_term(replica),
                               replica_voted_for(replica), 1, now_ms, &update);
        }
        now_ms += 20;
        replica_tick(replica, now_ms, &update);
    }
    replica_free(replica);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    round_trip(input);
    round_trip_members(input);
    receive_all(input);
    return 0;
}
