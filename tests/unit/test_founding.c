/* SPDX-License-Identifier: MIT */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/founding.h"

#define S UINT64_C(1000000000)

static const uint8_t none[CLUSTER_ID_SIZE];
static const struct lockfsm_limits limits = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};

static struct replica_members members_of(uint32_t count)
{
    struct replica_members members = {.count = count};
    for (uint32_t i = 0; i < count; i++) {
        members.member[i].id = i + 1;
        members.member[i].role = MEMBER_VOTER;
        snprintf(members.member[i].address, sizeof members.member[i].address,
                 "127.0.0.1:%u,127.0.0.1:%u", 7000 + i, 8000 + i);
    }
    return members;
}

/* Node 'id' of three, whose incarnation is 100 + id. */
static struct founding begin(uint64_t id)
{
    struct founding founding;
    struct replica_members members = members_of(3);
    founding_init(&founding, id, 100 + id, "test", &members, &limits);
    return founding;
}

static void a_node_alone_founds_at_once(void **state)
{
    struct founding founding;
    struct replica_members members = members_of(1);
    (void)state;
    founding_init(&founding, 1, 101, "test", &members, &limits);
    assert_int_equal(founding_decide(&founding, 0), FOUNDING_FOUND);
}

static void a_founder_waits_for_every_other_one(void **state)
{
    struct founding founding = begin(1);
    char missing[64];
    (void)state;
    assert_int_equal(founding_decide(&founding, 0), FOUNDING_WAIT);
    founding_heard(&founding, 2, 102, none, 0);
    assert_int_equal(founding_decide(&founding, 3600 * S), FOUNDING_WAIT);
    founding_missing(&founding, missing, sizeof missing);
    assert_string_equal(missing, "3");
    founding_heard(&founding, 3, 103, none, 0);
    assert_int_equal(founding_decide(&founding, 0), FOUNDING_FOUND);
}

static void founders_compute_the_same_id(void **state)
{
    struct founding one = begin(1), two = begin(2);
    uint8_t id_of_one[CLUSTER_ID_SIZE], id_of_two[CLUSTER_ID_SIZE];
    (void)state;
    founding_heard(&one, 2, 102, none, 0);
    founding_heard(&one, 3, 103, none, 0);
    founding_heard(&two, 3, 103, none, 0);
    founding_heard(&two, 1, 101, none, 0);
    founding_cluster_id(&one, id_of_one);
    founding_cluster_id(&two, id_of_two);
    assert_memory_equal(id_of_one, id_of_two, CLUSTER_ID_SIZE);
}

static void another_configuration_or_name_gives_another_id(void **state)
{
    struct replica_members moved = members_of(3);
    struct founding one = begin(1), other, named;
    uint8_t id[CLUSTER_ID_SIZE], changed[CLUSTER_ID_SIZE];
    (void)state;
    moved.member[2].address[0] = '9';
    founding_init(&other, 1, 101, "test", &moved, &limits);
    moved = members_of(3);
    founding_init(&named, 1, 101, "prod", &moved, &limits);
    struct founding *all[] = {&one, &other, &named};
    for (int i = 0; i < 3; i++) {
        founding_heard(all[i], 2, 102, none, 0);
        founding_heard(all[i], 3, 103, none, 0);
    }
    founding_cluster_id(&one, id);
    founding_cluster_id(&other, changed);
    assert_memory_not_equal(id, changed, CLUSTER_ID_SIZE);
    founding_cluster_id(&named, changed);
    assert_memory_not_equal(id, changed, CLUSTER_ID_SIZE);
}

/* A node whose greeting shows other terms is refused, by both sides, with an
 * error that names the setting to check. */
static void founders_agree_on_their_terms(void **state)
{
    (void)state;
    struct founding one = begin(1), two;
    struct replica_members members = members_of(3), moved = members_of(3);
    struct lockfsm_limits changed = limits, given = limits;
    struct frame_terms terms, none_shown = {.limit_count = 0};
    char why[HASP_WHY_SIZE];
    moved.member[2].address[0] = '9';
    changed.of[LIMIT_LOCKS] = 77;
    given.of[LIMIT_STATE_SIZE] = lockfsm_default_limits.of[LIMIT_STATE_SIZE];
    const struct {
        const char *name;
        const struct replica_members *members;
        const struct lockfsm_limits *limits;
        const char *says;
        bool is_required;
    } cases[] = {
        {"test", &members, &limits, NULL, false},
        {"test", &members, &given, NULL,
         false}, /* The default, written explicitly. */
        {"prod", &members, &limits,
         "cluster.name is 'prod' at node 2 and 'test' at node 1", false},
        {"test", &members, &changed,
         "limits.locks is 77 at node 2 and 2 at node 1", false},
        {"test", &moved, &limits,
         "nodes 2 and 1 have different cluster.member lines", false},
        {"test", &members, &limits, "security.access", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        founding_init(&two, 2, 102, cases[i].name, cases[i].members,
                      cases[i].limits);
        two.is_access_required = cases[i].is_required;
        founding_show(&two, &terms);
        int error = founding_compare(&one, 2, &terms, why);
        assert_int_equal(error, cases[i].says == NULL ? 0 : HASP_EREFUSED);
        assert_true(error == 0 || strstr(why, cases[i].says) != NULL);
        founding_show(&one, &terms);
        assert_int_equal(founding_compare(&two, 1, &terms, why), error);
    }
    assert_int_equal(founding_compare(&one, 2, &none_shown, why), 0);
    terms.limit_count--; /* An older version's, with fewer limits. */
    assert_int_equal(founding_compare(&one, 2, &terms, why), 0);
}

static void two_founders_have_two_directories(void **state)
{
    struct founding one = begin(1);
    (void)state;
    founding_heard(&one, 2, 102, none, 0);
    founding_heard(&one, 3, 102, none, 0);
    assert_int_equal(founding_decide(&one, 0), FOUNDING_WAIT);
    founding_heard(&one, 3, 101, none, 0);
    assert_int_equal(founding_decide(&one, 0), FOUNDING_WAIT);
    founding_heard(&one, 3, 103, none, 0);
    assert_int_equal(founding_decide(&one, 0), FOUNDING_FOUND);
}

static void a_late_founder_recognises_its_own_cluster(void **state)
{
    struct founding one = begin(1), late = begin(3);
    (void)state;
    founding_heard(&one, 2, 102, none, 0);
    founding_heard(&one, 3, 103, none, 0);
    founding_found(&one);
    founding_heard(&late, 1, 101, one.seen_id, 0);
    assert_int_equal(founding_decide(&late, S), FOUNDING_WAIT);
    founding_heard(&late, 2, 102, one.seen_id, S);
    assert_int_equal(founding_decide(&late, S), FOUNDING_FOUND);
}

static void a_wiped_founder_does_not_found_again(void **state)
{
    struct founding one = begin(1), wiped;
    struct replica_members members = members_of(3);
    (void)state;
    founding_heard(&one, 2, 102, none, 0);
    founding_heard(&one, 3, 103, none, 0);
    founding_found(&one);
    founding_init(&wiped, 3, 999, "test", &members, &limits);
    founding_heard(&wiped, 1, 101, one.seen_id, 0);
    founding_heard(&wiped, 2, 102, one.seen_id, 0);
    assert_int_equal(founding_decide(&wiped, 0), FOUNDING_JOIN);
    /* And the others' log names its former directory. */
    struct buffer first = {0};
    founding_first_entry(&one, &first);
    assert_int_equal(replica_members_decode(buffer_bytes(&first), &members), 0);
    assert_true(replica_members_name(&members, 3, 103));
    assert_false(replica_members_name(&members, 3, 999));
    buffer_done(&first);
}

static void a_wiped_founder_joins_though_one_member_is_silent(void **state)
{
    struct founding wiped = begin(3);
    uint8_t existing[CLUSTER_ID_SIZE] = {1};
    (void)state;
    founding_heard(&wiped, 1, 101, existing, 10 * S);
    assert_int_equal(founding_decide(&wiped, 14 * S), FOUNDING_WAIT);
    assert_int_equal(founding_decide(&wiped, 15 * S), FOUNDING_JOIN);
}

static void a_stranger_to_the_configuration_joins(void **state)
{
    struct founding founding;
    struct replica_members members = members_of(3);
    (void)state;
    founding_init(&founding, 4, 104, "test", &members, &limits);
    assert_int_equal(founding_decide(&founding, 0), FOUNDING_JOIN);
}

static void the_record_survives(void **state)
{
    const char *above = getenv("TMPDIR");
    char folder[256], why[HASP_WHY_SIZE], path[300];
    struct founding one = begin(1), again = begin(1);
    (void)state;
    snprintf(folder, sizeof folder, "%s/hasp-founding-XXXXXX",
             above != NULL ? above : "/tmp");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(founding_load(&again, folder, why), HASP_ENOENT);
    founding_heard(&one, 2, 102, none, 0);
    founding_heard(&one, 3, 103, none, 0);
    founding_found(&one);
    assert_int_equal(founding_save(&one, folder, why), 0);
    assert_int_equal(founding_load(&again, folder, why), 0);
    assert_memory_equal(again.seen_id, one.seen_id, CLUSTER_ID_SIZE);
    assert_true(founding_is_same(&again));
    for (uint32_t count = 0; count <= 4; count++) {
        struct replica_members members = members_of(count);
        struct founding other;
        founding_init(&other, 1, 101, "test", &members, &limits);
        assert_int_equal(founding_load(&other, folder, why), 0);
        assert_int_equal(founding_is_same(&other), count == 3);
    }
    struct buffer first = {0}, same = {0};
    founding_first_entry(&one, &first);
    founding_first_entry(&again, &same);
    assert_true(bytes_equal(buffer_bytes(&first), buffer_bytes(&same)));
    buffer_done(&first);
    buffer_done(&same);

    snprintf(path, sizeof path, "%s/founding", folder);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 60, SEEK_SET), 0);
    assert_int_not_equal(fputc('7', file), EOF);
    fclose(file);
    assert_int_equal(founding_load(&again, folder, why), HASP_ECORRUPT);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_alone_founds_at_once),
        cmocka_unit_test(a_founder_waits_for_every_other_one),
        cmocka_unit_test(founders_compute_the_same_id),
        cmocka_unit_test(another_configuration_or_name_gives_another_id),
        cmocka_unit_test(founders_agree_on_their_terms),
        cmocka_unit_test(two_founders_have_two_directories),
        cmocka_unit_test(a_late_founder_recognises_its_own_cluster),
        cmocka_unit_test(a_wiped_founder_does_not_found_again),
        cmocka_unit_test(a_wiped_founder_joins_though_one_member_is_silent),
        cmocka_unit_test(a_stranger_to_the_configuration_joins),
        cmocka_unit_test(the_record_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
