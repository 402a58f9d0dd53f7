/* SPDX-License-Identifier: MIT */

#include "net/frame.h"

#include "base/check.h"

/* The first version with frames of this type. */
static const uint8_t since[FRAME_TYPE_END] = {
    [FRAME_HELLO] = 1,        [FRAME_RAFT] = 1,    [FRAME_FORWARD] = 1,
    [FRAME_ANSWER] = 1,       [FRAME_CLOSED] = 1,  [FRAME_SNAPSHOT] = 1,
    [FRAME_SNAPSHOT_ACK] = 1, [FRAME_PING] = 1,    [FRAME_PONG] = 1,
    [FRAME_LOST] = 1,         [FRAME_DIGEST] = 1,  [FRAME_DIVERGED] = 1,
    [FRAME_MEMBERS] = 1,      [FRAME_ACCUSED] = 1, [FRAME_CLEARED] = 1,
    [FRAME_CLOCK] = 1,        [FRAME_REFUSED] = 1,
#ifdef HASP_FEATURE_LEVEL_EXTRA
    [FRAME_TRIAL] = 2,
#endif
};

const struct frame_versions frame_versions_spoken = {
    .oldest = FRAME_VERSION_OLDEST, .newest = FRAME_VERSION_NEWEST};

uint32_t frame_since(enum frame_type type)
{
    CHECK(type > 0 && type < FRAME_TYPE_END && since[type] != 0);
    return since[type];
}

uint32_t frame_common_version(const struct frame_versions *one,
                              const struct frame_versions *other)
{
    uint32_t oldest = one->oldest > other->oldest ? one->oldest : other->oldest;
    uint32_t newest = one->newest < other->newest ? one->newest : other->newest;
    return oldest <= newest ? newest : 0;
}

int frame_parse(struct bytes input, uint32_t size_max,
                enum frame_type *ret_type, struct bytes *ret_body,
                size_t *ret_used)
{
    if (input.size < FRAME_HEADER_SIZE) {
        return HASP_EMORE;
    }
    uint32_t size = load_u32(input.data);
    uint8_t type = input.data[4];
    if (type < FRAME_HELLO || type >= FRAME_TYPE_END || input.data[5] != 0 ||
        input.data[6] != 0 || input.data[7] != 0) {
        return HASP_EPROTO;
    }
    if (size > size_max || size > FRAME_SIZE_MAX) {
        return HASP_ETOOBIG;
    }
    /* Only a length within its bounds is waited for. */
    if (input.size - FRAME_HEADER_SIZE < size) {
        return HASP_EMORE;
    }
    *ret_type = (enum frame_type)type;
    *ret_body = bytes_of(input.data + FRAME_HEADER_SIZE, size);
    *ret_used = FRAME_HEADER_SIZE + (size_t)size;
    return 0;
}

size_t frame_begin(struct buffer *out, enum frame_type type)
{
    size_t start = out->size;
    uint8_t *header = buffer_reserve(out, FRAME_HEADER_SIZE);
    store_u32(header, 0);
    store_u32(header + 4, (uint32_t)type);
    out->size += FRAME_HEADER_SIZE;
    return start;
}

void frame_end(struct buffer *out, size_t start)
{
    CHECK(out->size >= start + FRAME_HEADER_SIZE);
    size_t size = out->size - start - FRAME_HEADER_SIZE;
    CHECK(size <= FRAME_SIZE_MAX);
    store_u32(out->data + start, (uint32_t)size);
}

static void frame_put_terms(struct buffer *out, const struct frame_terms *terms)
{
    CHECK(terms->limit_count <= FRAME_LIMIT_MAX);
    buffer_put_u32(out, terms->limit_count);
    for (uint32_t i = 0; i < terms->limit_count; i++) {
        buffer_put_u64(out, terms->limit[i]);
    }
    buffer_put(out, terms->members, sizeof terms->members);
    buffer_put_run(out, bytes_of_text(terms->name));
    buffer_put_u8(out, terms->is_access_required);
}

static bool get_terms(struct reader *reader, struct frame_terms *ret)
{
    struct frame_terms terms = {.limit_count = reader_u32(reader)};
    if (terms.limit_count > FRAME_LIMIT_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < terms.limit_count; i++) {
        terms.limit[i] = reader_u64(reader);
    }
    struct bytes members = reader_bytes(reader, sizeof terms.members);
    struct bytes name = reader_run(reader);
    uint8_t is_access_required = reader_u8(reader);
    /* The name becomes a C string: NUL would hide the rest of it from the
     * comparison. */
    if (!reader_ok(reader, false) || is_access_required > 1 ||
        name.size >= sizeof terms.name ||
        (name.size > 0 && memchr(name.data, 0, name.size) != NULL)) {
        return false;
    }
    memcpy(terms.members, members.data, members.size);
    memcpy(terms.name, name.data, name.size);
    terms.is_access_required = is_access_required == 1;
    *ret = terms;
    return true;
}

/* The HELLO of a newer node can be longer. */
void frame_put_hello(struct buffer *out, const struct frame_hello *hello)
{
    size_t start = frame_begin(out, FRAME_HELLO);
    buffer_put_u32(out, hello->versions.oldest);
    buffer_put_u32(out, hello->versions.newest);
    buffer_put_u64(out, hello->from);
    buffer_put_u64(out, hello->to);
    buffer_put_u32(out, hello->feature_level);
    buffer_put_u32(out, hello->cluster_level);
    buffer_put(out, hello->cluster_id, sizeof hello->cluster_id);
    buffer_put_u64(out, hello->incarnation);
    buffer_put_u64(out, hello->applied_index);
    buffer_put_u64(out, hello->members_index);
    buffer_put_u64(out, hello->term);
    buffer_put_u64(out, hello->last_index);
    buffer_put_u64(out, hello->last_term);
    frame_put_terms(out, &hello->terms);
    buffer_put_u8(out, hello->is_marked);
    /* The first byte of the frame, part of its size, must not look like TLS.
     * Readers ignore a byte at the end. */
    if ((out->size - start - FRAME_HEADER_SIZE) % 256 == FRAME_NOT_SIZE) {
        buffer_put_u8(out, 0);
    }
    frame_end(out, start);
}

int frame_get_hello(struct bytes body, struct frame_hello *ret)
{
    struct reader reader = reader_of(body);
    struct frame_hello hello = {0};
    hello.versions.oldest = reader_u32(&reader);
    hello.versions.newest = reader_u32(&reader);
    hello.from = reader_u64(&reader);
    hello.to = reader_u64(&reader);
    bool is_understood = frame_common_version(&hello.versions,
                                              &frame_versions_spoken) != 0;
    /* The layout of the rest is that of another version; the fields so far
     * suffice to refuse it with both versions named. */
    if (!is_understood && reader_ok(&reader, false)) {
        *ret = hello;
        return 0;
    }
    hello.feature_level = reader_u32(&reader);
    hello.cluster_level = reader_u32(&reader);
    struct bytes cluster_id = reader_bytes(&reader, sizeof hello.cluster_id);
    hello.incarnation = reader_u64(&reader);
    hello.applied_index = reader_u64(&reader);
    hello.members_index = reader_u64(&reader);
    hello.term = reader_u64(&reader);
    hello.last_index = reader_u64(&reader);
    hello.last_term = reader_u64(&reader);
    if (!get_terms(&reader, &hello.terms)) {
        return HASP_EPROTO;
    }
    uint8_t is_marked = reader_u8(&reader);
    if (!reader_ok(&reader, false) || is_marked > 1) {
        return HASP_EPROTO;
    }
    hello.is_marked = is_marked == 1;
    memcpy(hello.cluster_id, cluster_id.data, sizeof hello.cluster_id);
    *ret = hello;
    return 0;
}

enum frame_age frame_compare_levels(const struct frame_hello *self,
                                    const struct frame_hello *other)
{
    if (other->feature_level < self->cluster_level) {
        return FRAME_OTHER_TOO_OLD;
    }
    return self->feature_level < other->cluster_level ? FRAME_SELF_TOO_OLD
                                                      : FRAME_FITS;
}

/* From the term to the version. */
#define FORWARD_FIXED_SIZE 54u

static inline uint8_t *store_run(uint8_t *at, struct bytes *run)
{
    store_u32(at, (uint32_t)run->size);
    if (run->size > 0) { /* memcpy() from NULL is undefined. */
        memcpy(at + 4, run->data, run->size);
    }
    run->data = at + 4;
    return at + 4 + run->size;
}

/* Each request of a client passes here: room is made once, and each byte is
 * stored at its place. */
void frame_keep_forward(struct buffer *out, struct frame_forward *forward,
                        struct bytes *argument)
{
    CHECK(forward->count <= FRAME_ARGUMENT_MAX);
    size_t size = FORWARD_FIXED_SIZE + 4 + forward->address.size + 4 +
                  forward->client.size + 4 + (size_t)4 * forward->count;
    for (uint32_t i = 0; i < forward->count; i++) {
        argument[i] = forward->argument[i];
        size += argument[i].size;
    }
    CHECK(size <= FRAME_SIZE_MAX);
    uint8_t *at = buffer_reserve(out, FRAME_HEADER_SIZE + size);
    uint8_t *end = at + FRAME_HEADER_SIZE + size;
    store_u32(at, (uint32_t)size);
    store_u32(at + 4, FRAME_FORWARD);
    at += FRAME_HEADER_SIZE;
    store_u64(at, forward->term);
    at[8] = forward->may_be_done;
    store_u64(at + 9, forward->conn);
    store_u64(at + 17, forward->slot);
    store_u64(at + 25, forward->session);
    store_u32(at + 33, forward->sending);
    store_u64(at + 37, forward->user);
    store_u64(at + 45, forward->secret);
    at[53] = forward->version;
    at = store_run(at + FORWARD_FIXED_SIZE, &forward->address);
    at = store_run(at, &forward->client);
    store_u32(at, forward->count);
    at += 4;
    for (uint32_t i = 0; i < forward->count; i++) {
        at = store_run(at, &argument[i]);
    }
    CHECK(at == end);
    out->size += FRAME_HEADER_SIZE + size;
    forward->argument = argument;
}

void frame_put_forward(struct buffer *out, const struct frame_forward *forward)
{
    struct bytes argument[FRAME_ARGUMENT_MAX];
    struct frame_forward kept = *forward;
    frame_keep_forward(out, &kept, argument);
}

void frame_stamp_forward(uint8_t *frame, uint64_t term, bool may_be_done,
                         uint64_t session, uint32_t sending)
{
    store_u64(frame + FRAME_HEADER_SIZE, term);
    frame[FRAME_HEADER_SIZE + 8] = may_be_done;
    store_u64(frame + FRAME_HEADER_SIZE + 25, session); /* conn, slot. */
    store_u32(frame + FRAME_HEADER_SIZE + 33, sending);
}

int frame_get_forward(struct bytes body, struct frame_forward *ret_forward)
{
    struct reader reader = reader_of(body);
    struct frame_forward forward = {.argument = ret_forward->argument};
    forward.term = reader_u64(&reader);
    uint8_t may_be_done = reader_u8(&reader);
    forward.may_be_done = may_be_done == 1;
    forward.conn = reader_u64(&reader);
    forward.slot = reader_u64(&reader);
    forward.session = reader_u64(&reader);
    forward.sending = reader_u32(&reader);
    forward.user = reader_u64(&reader);
    forward.secret = reader_u64(&reader);
    forward.version = reader_u8(&reader);
    forward.address = reader_run(&reader);
    forward.client = reader_run(&reader);
    forward.count = reader_u32(&reader);
    if (forward.count > FRAME_ARGUMENT_MAX || may_be_done > 1 ||
        (forward.version != 2 && forward.version != 3)) {
        return HASP_EPROTO;
    }
    for (uint32_t i = 0; i < forward.count; i++) {
        struct bytes argument = reader_run(&reader);
        /* A first pass without arguments checks the frame and counts them,
         * before room for them is taken. */
        if (forward.argument != NULL) {
            forward.argument[i] = argument;
        }
    }
    if (!reader_ok(&reader, true)) {
        return HASP_EPROTO;
    }
    *ret_forward = forward;
    return 0;
}

void frame_put_answer(struct buffer *out, const struct frame_answer *answer)
{
    size_t start = frame_begin(out, FRAME_ANSWER);
    buffer_put_u64(out, answer->conn);
    buffer_put_u64(out, answer->slot);
    buffer_put_u32(out, answer->sending);
    buffer_put_u8(out, (uint8_t)answer->kind);
    buffer_put_u64(out, answer->session);
    buffer_put_u8(out, answer->word);
    buffer_put_u8(out, answer->has_changed);
    buffer_put_u32(out, answer->waited_ms);
    buffer_put_run(out, answer->reply);
    frame_end(out, start);
}

int frame_get_answer(struct bytes body, struct frame_answer *ret)
{
    struct reader reader = reader_of(body);
    struct frame_answer answer = {0};
    answer.conn = reader_u64(&reader);
    answer.slot = reader_u64(&reader);
    answer.sending = reader_u32(&reader);
    uint8_t kind = reader_u8(&reader);
    answer.session = reader_u64(&reader);
    answer.word = reader_u8(&reader);
    uint8_t has_changed = reader_u8(&reader);
    answer.waited_ms = reader_u32(&reader);
    answer.reply = reader_run(&reader);
    bool names_session = kind == ANSWER_ATTACHED || kind == ANSWER_ENDED;
    if (!reader_ok(&reader, true) || kind > ANSWER_ALLOWED || has_changed > 1 ||
        (names_session && answer.session == 0)) {
        return HASP_EPROTO;
    }
    answer.has_changed = has_changed == 1;
    answer.kind = (enum frame_answer_kind)kind;
    *ret = answer;
    return 0;
}

void frame_put_closed(struct buffer *out, uint64_t conn, bool is_quiet,
                      const uint64_t *sessions, uint32_t count)
{
    CHECK(count <= FRAME_SESSION_MAX);
    size_t start = frame_begin(out, FRAME_CLOSED);
    buffer_put_u64(out, conn);
    buffer_put_u8(out, is_quiet);
    buffer_put_u32(out, count);
    for (uint32_t i = 0; i < count; i++) {
        buffer_put_u64(out, sessions[i]);
    }
    frame_end(out, start);
}

int frame_get_closed(struct bytes body, uint64_t *ret_conn, bool *ret_is_quiet,
                     uint64_t sessions[FRAME_SESSION_MAX], uint32_t *ret_count)
{
    struct reader reader = reader_of(body);
    uint64_t conn = reader_u64(&reader);
    uint8_t is_quiet = reader_u8(&reader);
    uint32_t count = reader_u32(&reader);
    /* The count is compared with the bytes that are left before it is used. */
    if (!reader_ok(&reader, false) || is_quiet > 1 ||
        count > FRAME_SESSION_MAX ||
        reader_left(&reader) != (size_t)count * 8) {
        return HASP_EPROTO;
    }
    for (uint32_t i = 0; i < count; i++) {
        sessions[i] = reader_u64(&reader);
    }
    *ret_conn = conn;
    *ret_is_quiet = is_quiet == 1;
    *ret_count = count;
    return 0;
}

void frame_put_snapshot(struct buffer *out, const struct frame_snapshot *part)
{
    size_t start = frame_begin(out, FRAME_SNAPSHOT);
    buffer_put_u64(out, part->leader_term);
    buffer_put_u64(out, part->last_index);
    buffer_put_u64(out, part->last_term);
    buffer_put_u64(out, part->total_size);
    buffer_put_u64(out, part->offset);
    buffer_put_run(out, part->chunk);
    frame_end(out, start);
}

int frame_get_snapshot(struct bytes body, struct frame_snapshot *ret_part)
{
    struct reader reader = reader_of(body);
    struct frame_snapshot part = {0};
    part.leader_term = reader_u64(&reader);
    part.last_index = reader_u64(&reader);
    part.last_term = reader_u64(&reader);
    part.total_size = reader_u64(&reader);
    part.offset = reader_u64(&reader);
    part.chunk = reader_run(&reader);
    /* The chunk must be inside the snapshot. */
    if (!reader_ok(&reader, true) || part.offset > part.total_size ||
        part.chunk.size > part.total_size - part.offset) {
        return HASP_EPROTO;
    }
    *ret_part = part;
    return 0;
}

void frame_put_snapshot_ack(struct buffer *out,
                            const struct frame_snapshot_ack *ack)
{
    size_t start = frame_begin(out, FRAME_SNAPSHOT_ACK);
    buffer_put_u64(out, ack->leader_term);
    buffer_put_u64(out, ack->last_index);
    buffer_put_u64(out, ack->offset);
    buffer_put_u8(out, ack->is_done);
    frame_end(out, start);
}

int frame_get_snapshot_ack(struct bytes body,
                           struct frame_snapshot_ack *ret_ack)
{
    struct reader reader = reader_of(body);
    struct frame_snapshot_ack ack = {0};
    ack.leader_term = reader_u64(&reader);
    ack.last_index = reader_u64(&reader);
    ack.offset = reader_u64(&reader);
    uint8_t is_done = reader_u8(&reader);
    ack.is_done = is_done == 1;
    if (!reader_ok(&reader, true) || is_done > 1) {
        return HASP_EPROTO;
    }
    *ret_ack = ack;
    return 0;
}

void frame_put_lost(struct buffer *out, enum frame_type type,
                    const struct frame_lost *lost)
{
    size_t start = frame_begin(out, type);
    buffer_put_u64(out, lost->incarnation);
    buffer_put_u64(out, lost->term);
    buffer_put_u64(out, lost->last_index);
    buffer_put_u64(out, lost->log_end);
    frame_end(out, start);
}

int frame_get_lost(struct bytes body, struct frame_lost *ret_lost)
{
    struct reader reader = reader_of(body);
    struct frame_lost lost = {0};
    lost.incarnation = reader_u64(&reader);
    lost.term = reader_u64(&reader);
    lost.last_index = reader_u64(&reader);
    lost.log_end = reader_u64(&reader);
    if (!reader_ok(&reader, true)) {
        return HASP_EPROTO;
    }
    *ret_lost = lost;
    return 0;
}

void frame_put_digest(struct buffer *out, enum frame_type type,
                      const struct frame_digest *digest)
{
    size_t start = frame_begin(out, type);
    buffer_put_u64(out, digest->log_index);
    buffer_put_u64(out, digest->digest);
    frame_end(out, start);
}

int frame_get_digest(struct bytes body, struct frame_digest *ret_digest)
{
    struct reader reader = reader_of(body);
    struct frame_digest digest = {0};
    digest.log_index = reader_u64(&reader);
    digest.digest = reader_u64(&reader);
    if (!reader_ok(&reader, true)) {
        return HASP_EPROTO;
    }
    *ret_digest = digest;
    return 0;
}

void frame_put_refused(struct buffer *out, enum frame_refusal refusal,
                       struct bytes why)
{
    size_t start = frame_begin(out, FRAME_REFUSED);
    buffer_put_u8(out, (uint8_t)refusal);
    why.size = why.size <= FRAME_REFUSED_SIZE_MAX ? why.size
                                                  : FRAME_REFUSED_SIZE_MAX;
    buffer_put_run(out, why);
    frame_end(out, start);
}

int frame_get_refused(struct bytes body, enum frame_refusal *ret_refusal,
                      struct bytes *ret_why)
{
    struct reader reader = reader_of(body);
    uint8_t refusal = reader_u8(&reader);
    struct bytes why = reader_run(&reader);
    if (!reader_ok(&reader, true) || refusal > REFUSAL_CROSSED ||
        why.size > FRAME_REFUSED_SIZE_MAX) {
        return HASP_EPROTO;
    }
    *ret_refusal = (enum frame_refusal)refusal;
    *ret_why = why;
    return 0;
}

void frame_put_members(struct buffer *out, const struct frame_members *members)
{
    CHECK(members->count <= FRAME_MEMBER_MAX);
    size_t start = frame_begin(out, FRAME_MEMBERS);
    buffer_put_u64(out, members->log_index);
    buffer_put_u32(out, members->count);
    for (uint32_t i = 0; i < members->count; i++) {
        buffer_put_u64(out, members->id[i]);
        buffer_put_u64(out, members->incarnation[i]);
    }
    frame_end(out, start);
}

int frame_get_members(struct bytes body, struct frame_members *ret_members)
{
    struct reader reader = reader_of(body);
    struct frame_members members = {.log_index = reader_u64(&reader)};
    members.count = reader_u32(&reader);
    if (!reader_ok(&reader, false) || members.count > FRAME_MEMBER_MAX) {
        return HASP_EPROTO;
    }
    for (uint32_t i = 0; i < members.count; i++) {
        members.id[i] = reader_u64(&reader);
        members.incarnation[i] = reader_u64(&reader);
    }
    if (!reader_ok(&reader, true)) {
        return HASP_EPROTO;
    }
    *ret_members = members;
    return 0;
}

void frame_put_clock(struct buffer *out, const struct frame_clock *clock)
{
    size_t start = frame_begin(out, FRAME_CLOCK);
    buffer_put_u64(out, clock->time_ns);
    buffer_put_u64(out, clock->echo_ns);
    buffer_put_u64(out, clock->echo_received_ns);
    buffer_put_u32(out, clock->flush_us);
    buffer_put_u32(out, clock->flush_count);
    frame_end(out, start);
}

int frame_get_clock(struct bytes body, struct frame_clock *ret_clock)
{
    struct reader reader = reader_of(body);
    struct frame_clock clock = {.time_ns = reader_u64(&reader)};
    clock.echo_ns = reader_u64(&reader);
    clock.echo_received_ns = reader_u64(&reader);
    clock.flush_us = reader_u32(&reader);
    clock.flush_count = reader_u32(&reader);
    if (!reader_ok(&reader, true)) {
        return HASP_EPROTO;
    }
    *ret_clock = clock;
    return 0;
}

void frame_put_u64(struct buffer *out, enum frame_type type, uint64_t value)
{
    size_t start = frame_begin(out, type);
    buffer_put_u64(out, value);
    frame_end(out, start);
}

int frame_get_u64(struct bytes body, uint64_t *ret_value)
{
    if (body.size != 8) {
        return HASP_EPROTO;
    }
    *ret_value = load_u64(body.data);
    return 0;
}
