/* SPDX-License-Identifier: MIT */

/* The operations of a script as entries. */

#include "tests/property/operations.h"

#include <stdlib.h>
#include <string.h>

#include "lockfsm/entry.h"
#include "lockfsm/user/access.h"
#include "tests/property/words.h"

/* The buffer for the entry that is being written, and whether the entry has
 * REQ. */
static struct buffer *out;
static bool is_numbered;

static struct origin origin(void)
{
    static uint64_t also[2];
    struct origin origin = {.session = word_number(2),
                            .owner = word_bytes(3),
                            .req = word_number(4),
                            .acked = strtoull(word_text(5), NULL, 10),
                            .also_acked = also};
    is_numbered = origin.req != 0;
    const char *comma = strchr(word_text(5), ','); /* "2,5-9" */
    if (comma != NULL) {
        char *end;
        also[0] = strtoull(comma + 1, &end, 10);
        also[1] = strtoull(end + 1, NULL, 10);
        origin.also_acked_count = 1;
    }
    return origin;
}

static uint32_t names_from(uint32_t at, struct bytes *ret_names)
{
    uint32_t count = 0;
    while (at + count < word_count) {
        ret_names[count] = word_bytes(at + count);
        count++;
    }
    return count;
}

static void run_begin(void)
{
    uint8_t id[16] = {1};
    encode_begin(out, &(struct begin_command){
                          .node = word_number(2),
                          .cluster_id = bytes_of(
                              id, word_number(3) != 0 ? sizeof id : 0),
                          .token_base = word_number(4),
                          .base_index = word_number(5),
                          .elapsed_ms = (uint32_t)word_number(6)});
}

static void run_act(void)
{
    encode_act(out, &(struct act_command){.kind = (enum act_kind)word_number(2),
                                          .member = word_number(3),
                                          .address = word_bytes(6),
                                          .wall_ms = word_number(4)});
    entry_put(out, &(struct entry){.from = word_bytes(6), .by = word_bytes(5)});
}

static void run_feature(void)
{
    encode_set_feature(
        out, &(struct set_feature_command){.level = (uint32_t)word_number(2)});
}

static void run_quarantine_over(void)
{
    encode_quarantine_over(
        out, &(struct quarantine_over_command){.since_index = word_number(2)});
}

static void run_open(void)
{
    struct label labels[LABEL_COUNT_MAX];
    struct open_command c = {.ttl_ms = (uint32_t)word_number(2),
                             .linger_ms = (uint32_t)word_number(3),
                             .name = word_bytes(4),
                             .address = word_bytes(5),
                             .labels = labels,
                             .label_count = (uint32_t)word_number(6),
                             .is_durable = word_number(7) != 0,
                             .wall_ms = word_number(8)};
    memset(c.will, (int)word_number(9), sizeof c.will);
    for (uint32_t i = 0; i < c.label_count; i++) {
        labels[i] = (struct label){BYTES_LITERAL("key"), bytes_of_text("v")};
    }
    encode_open(out, &c);
}

static void run_close(void)
{
    struct origin from = origin();
    encode_close(out, &(struct close_command){.origin = from});
}

static void run_expire(void)
{
    uint64_t sessions[WORD_MAX];
    for (uint32_t i = 2; i < word_count; i++) {
        sessions[i - 2] = word_number(i);
    }
    encode_expire(out,
                  &(struct expire_command){.sessions = sessions,
                                           .session_count = word_count - 2});
}

static void run_died(void)
{
    struct testimony testimonies[WORD_MAX];
    struct died_command c = {.testimonies = testimonies};
    for (uint32_t i = 2; i + 1 < word_count; i += 2) {
        struct testimony *one = &testimonies[c.testimony_count++];
        one->session = word_number(i);
        memset(one->will, (int)word_number(i + 1), sizeof one->will);
    }
    encode_died(out, &c);
}

static void run_time(void)
{
    struct session_mark marks[WORD_MAX];
    struct time_command time = {.base_index = word_number(2),
                                .elapsed_ms = (uint32_t)word_number(3),
                                .marks = marks};
    for (uint32_t i = 4; i + 1 < word_count; i += 2) {
        marks[time.mark_count++] = (struct session_mark){
            word_number(i), (uint32_t)word_number(i + 1)};
    }
    encode_time(out, &time);
}

static void run_heard(void)
{
    uint64_t sessions[WORD_MAX];
    for (uint32_t i = 2; i < word_count; i++) {
        sessions[i - 2] = word_number(i);
    }
    encode_heard(out, &(struct heard_command){.sessions = sessions,
                                              .session_count = word_count - 2});
}

static void run_acquire(void)
{
    struct bytes names[WORD_MAX];
    encode_acquire(
        out, &(struct acquire_command){.origin = origin(),
                                       .mode = (enum lock_mode)word_number(6),
                                       .slots = (uint32_t)word_number(7),
                                       .is_waiting = word_number(8) != 0,
                                       .wait_ms = word_number(9),
                                       .is_barging = word_number(10) != 0,
                                       .value = word_bytes(11),
                                       .delay_ms = word_number(12),
                                       .hold_ms = word_number(13),
                                       .names = names,
                                       .name_count = names_from(14, names)});
}

/* "7,9"; none: "0". */
static uint32_t word_tokens(uint32_t at, uint64_t *ret_tokens)
{
    uint32_t count = 0;
    const char *text = word_text(at);
    while (text != NULL && count < WORD_MAX) {
        ret_tokens[count++] = strtoull(text, NULL, 10);
        text = strchr(text, ',');
        text = text != NULL ? text + 1 : NULL;
    }
    return count == 1 && ret_tokens[0] == 0 ? 0 : count;
}

static void run_release(void)
{
    struct bytes names[WORD_MAX];
    uint64_t tokens[WORD_MAX];
    encode_release(
        out, &(struct release_command){.origin = origin(),
                                       .tokens = tokens,
                                       .token_count = word_tokens(6, tokens),
                                       .is_counting = word_number(7) != 0,
                                       .names = names,
                                       .name_count = names_from(8, names)});
}

static void run_release_if(void)
{
    encode_release_if(out,
                      &(struct release_if_command){.origin = origin(),
                                                   .name = word_bytes(6),
                                                   .session = word_number(7),
                                                   .owner = word_bytes(8),
                                                   .token = word_number(9)});
}

static void run_convert(void)
{
    encode_convert(
        out, &(struct convert_command){.origin = origin(),
                                       .name = word_bytes(6),
                                       .to = (enum lock_mode)word_number(7),
                                       .is_waiting = word_number(8) != 0,
                                       .wait_ms = word_number(9),
                                       .token = word_number(10)});
}

static void run_cancel(void)
{
    struct origin from = origin();
    encode_cancel(
        out, &(struct cancel_command){.origin = from, .name = word_bytes(6)});
}

static void run_note(void)
{
    struct note_command c = {.origin = origin(),
                             .name = word_bytes(6),
                             .token = word_number(7),
                             .text = word_bytes(8)};
    encode_note(out, &c);
}

static void run_please(void)
{
    struct origin from = origin();
    encode_please(out, &(struct please_command){.origin = from,
                                                .name = word_bytes(6),
                                                .message = word_bytes(7)});
}

static void run_wait_over(void)
{
    encode_wait_timeout(
        out, &(struct wait_timeout_command){word_number(2), word_bytes(3),
                                            word_number(4), word_number(5)});
}

static void run_delay_over(void)
{
    encode_delay_over(
        out, &(struct delay_over_command){.name = word_bytes(2),
                                          .since_index = word_number(3)});
}

static struct hold_over_command hold_key(void)
{
    return (struct hold_over_command){word_bytes(2), word_number(3),
                                      word_bytes(4), word_number(5)};
}

static void run_hold_over(void)
{
    struct hold_over_command key = hold_key();
    encode_hold_over(out, &key);
}

static void run_break(void)
{
    encode_break_holds(out,
                       &(struct break_holds_command){.origin = origin(),
                                                     .name = word_bytes(6),
                                                     .after_ms = word_number(7),
                                                     .session = word_number(8),
                                                     .reason = word_bytes(9),
                                                     .by = word_bytes(10)});
}

static void run_object(void)
{
    struct object_command c = {.origin = origin(),
                               .name = word_bytes(6),
                               .message = word_bytes(7),
                               .token = word_number(8)};
    encode_object(out, &c);
}

static void run_break_over(void)
{
    struct break_over_command c = {word_bytes(2), word_number(3), word_bytes(4),
                                   word_number(5)};
    encode_break_over(out, &c);
}

static void run_blacklist_add(void)
{
    encode_blacklist_add(
        out, &(struct blacklist_add_command){.origin = origin(),
                                             .session = word_number(6),
                                             .client = word_bytes(7),
                                             .reason = word_bytes(8),
                                             .by = word_bytes(9),
                                             .for_ms = word_number(10)});
}

static void run_blacklist_remove(void)
{
    encode_blacklist_remove(
        out, &(struct blacklist_remove_command){.origin = origin(),
                                                .session = word_number(6),
                                                .client = word_bytes(7)});
}

static void run_blacklist_over(void)
{
    encode_blacklist_over(
        out, &(struct blacklist_over_command){.since_index = word_number(2)});
}

static void run_fence(void)
{
    struct origin from = origin();
    encode_fence_admit(out,
                       &(struct fence_admit_command){.origin = from,
                                                     .resource = word_bytes(6),
                                                     .token = word_number(7)});
}

static void run_limit(void)
{
    struct origin from = origin();
    encode_set_limit(
        out, &(struct set_limit_command){.origin = from,
                                         .key = (enum limit_key)word_number(6),
                                         .value = word_number(7)});
}

static void run_unfence(void)
{
    struct origin from = origin();
    encode_fence_remove(out, &(struct fence_remove_command){
                                 .origin = from, .resource = word_bytes(6)});
}

/* "user ORIGIN NAME CHANGED DISABLED REUSED ROLE,ROLE BOUND ..." */
static void run_user(void)
{
    struct role_name roles[WORD_MAX];
    uint64_t bounds[WORD_MAX];
    struct user_set_command c = {.origin = origin(),
                                 .name = word_bytes(6),
                                 .if_changed = word_number(7),
                                 .is_disabled = word_number(8) != 0,
                                 .is_reused = word_number(9) != 0,
                                 .roles = roles,
                                 .bounds = bounds};
    char *rest = NULL;
    for (char *name = strtok_r(word[10], ",", &rest);
         name != NULL && strcmp(name, "-") != 0;
         name = strtok_r(NULL, ",", &rest)) {
        roles[c.role_count++].name = bytes_of_text(name);
    }
    while (11 + c.bound_count < word_count) {
        bounds[c.bound_count] = word_number(11 + c.bound_count);
        c.bound_count++;
    }
    encode_user_set(out, &c);
}

static void run_unuser(void)
{
    struct user_remove_command c = {.origin = origin(), .name = word_bytes(6)};
    encode_user_remove(out, &c);
}

static void run_secret(void)
{
    encode_secret_add(
        out, &(struct secret_add_command){.origin = origin(),
                                          .name = word_bytes(6),
                                          .hash = {(uint8_t)word_number(7)},
                                          .label = word_bytes(8)});
}

static void run_unsecret(void)
{
    encode_secret_remove(
        out, &(struct secret_remove_command){.origin = origin(),
                                             .name = word_bytes(6),
                                             .number = word_number(7)});
}

/* "role ORIGIN NAME CHANGED GRANT ..." */
static void run_role(void)
{
    struct grant grants[WORD_MAX];
    struct role_set_command c = {.origin = origin(),
                                 .name = word_bytes(6),
                                 .if_changed = word_number(7),
                                 .grants = grants};
    while (8 + c.grant_count < word_count) {
        struct bytes grant = bytes_of_text(word_text(8 + c.grant_count));
        (void)grant_parse(grant, &grants[c.grant_count++]);
    }
    encode_role_set(out, &c);
}

static void run_unrole(void)
{
    struct role_remove_command c = {.origin = origin(), .name = word_bytes(6)};
    encode_role_remove(out, &c);
}

static void run_access(void)
{
    encode_access_set(
        out, &(struct access_set_command){.origin = origin(),
                                          .is_required = word_number(6) != 0,
                                          .is_forced = word_number(7) != 0});
}

static void run_revoke(void)
{
    struct cert_revoke_command c = {.origin = origin(),
                                    .fingerprint = {(uint8_t)word_number(6)},
                                    .subject = word_bytes(7)};
    encode_cert_revoke(out, &c);
}

/* "redis CLIENT", then per key: name, was, value, change, new value, ttl, px.
 */
static void run_redis(void)
{
    static struct redis_key keys[MULTI_COUNT_MAX];
    struct redis_command redis = {.keys = keys,
                                  .client = word_bytes(2),
                                  .address = BYTES_LITERAL("host:1")};
    redis.wall_ms = word_number(3);
    for (size_t i = 4; i < word_count; i += 8) {
        keys[redis.key_count++] = (struct redis_key){
            .name = word_bytes(i),
            .was = (enum redis_state)word_number(i + 1),
            .value = word_bytes(i + 2),
            .change = (enum redis_change)word_number(i + 3),
            .new_value = word_bytes(i + 4),
            .ttl_ms = (uint32_t)word_number(i + 5),
            .px_ms = word_number(i + 6),
            .is_durable = word_number(i + 7) != 0};
    }
    encode_redis(out, &redis);
}

static const struct {
    const char *name;
    void (*run)(void);
} operations[] = {
    {"acq", run_acquire},
    {"rel", run_release},
    {"open", run_open},
    {"conv", run_convert},
    {"cancel", run_cancel},
    {"close", run_close},
    {"expire", run_expire},
    {"died", run_died},
    {"time", run_time},
    {"heard", run_heard},
    {"relif", run_release_if},
    {"note", run_note},
    {"please", run_please},
    {"waitover", run_wait_over},
    {"delayover", run_delay_over},
    {"holdover", run_hold_over},
    {"break", run_break},
    {"object", run_object},
    {"breakover", run_break_over},
    {"bladd", run_blacklist_add},
    {"blrem", run_blacklist_remove},
    {"blover", run_blacklist_over},
    {"fence", run_fence},
    {"unfence", run_unfence},
    {"redis", run_redis},
    {"begin", run_begin},
    {"act", run_act},
    {"feature", run_feature},
    {"quarover", run_quarantine_over},
    {"limit", run_limit},
    {"user", run_user},
    {"unuser", run_unuser},
    {"secret", run_secret},
    {"unsecret", run_unsecret},
    {"role", run_role},
    {"unrole", run_unrole},
    {"access", run_access},
    {"revoke", run_revoke},
};

bool operation_write(struct buffer *command, const char *name, uint64_t user)
{
    size_t i = 0;
    while (strcmp(name, operations[i].name) != 0) {
        i++;
        if (i == sizeof operations / sizeof *operations) {
            wrong("unknown operation");
        }
    }
    out = command;
    is_numbered = false;
    operations[i].run();
    if (operations[i].run != run_act) { /* The leader makes it. */
        encode_user(out, user);
    }
    return is_numbered;
}
