/* SPDX-License-Identifier: MIT */

/* tests/vectors/lease.json, with which the clients in other languages check
 * that they have the arithmetic of lease/lease, to the nanosecond.
 *
 * The file is made here, from lease/lease itself; the test compares it with
 * the stored one, and REWRITE=1 replaces it. A case is a sentence and steps,
 * for a lease that begins with none:
 *
 *     ["answered", MONOTONIC, BOOTTIME, TTL_MS, LINGER_MS]
 *     ["refused"]
 *     ["check", MONOTONIC, BOOTTIME, STATE, REMAINING]
 *     ["period", NANOSECONDS]
 *     ["hold", SENT_MONOTONIC, SENT_BOOTTIME, LEFT_MS, MONOTONIC, BOOTTIME,
 *      REMAINING]
 *
 * Clocks and remainders are in nanoseconds, below 2^53. */

#include "lease/lease.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/prng.h"
#include "base/units.h"
#include "lease/rules.h"
#include "tests/unit/vectors.h"

#define PATH "tests/vectors/lease.json"
#define DRAWN_COUNT 100
#define START_NS (UINT64_C(86400) * NS_PER_S + 123456789)

struct vectors {
    struct buffer out;
    struct lease lease;
    uint32_t case_count;
    uint32_t step_count; /* Steps of this case. */
};

static void begin(struct vectors *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void begin(struct vectors *v, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buffer_printf(&v->out, "%s\n{\"says\": \"%s\",\n \"steps\": [",
                  v->case_count++ > 0 ? "]}," : "", text);
    v->step_count = 0;
    lease_init(&v->lease);
}

static void step(struct vectors *v)
{
    buffer_put_text(&v->out, v->step_count++ > 0 ? ",\n  " : "\n  ");
}

static struct lease_clock at(uint64_t monotonic_ns, uint64_t boottime_ns)
{
    return (struct lease_clock){START_NS + monotonic_ns,
                                START_NS + boottime_ns};
}

static void answered(struct vectors *v, struct lease_clock sent,
                     uint64_t ttl_ms, uint64_t linger_ms)
{
    lease_answered(&v->lease, sent, ttl_ms, linger_ms);
    step(v);
    buffer_printf(&v->out,
                  "[\"answered\", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                  ", %" PRIu64 "]",
                  sent.monotonic_ns, sent.boottime_ns, ttl_ms, linger_ms);
}

static void refused(struct vectors *v)
{
    lease_refused(&v->lease);
    step(v);
    buffer_put_text(&v->out, "[\"refused\"]");
}

static void check(struct vectors *v, struct lease_clock now)
{
    static const char *const names[] = {"held", "jeopardy", "lost"};
    enum lease_state state = lease_check(&v->lease, now);
    step(v);
    buffer_printf(&v->out,
                  "[\"check\", %" PRIu64 ", %" PRIu64 ", \"%s\", %" PRIu64 "]",
                  now.monotonic_ns, now.boottime_ns, names[state],
                  lease_remaining(&v->lease, now));
}

static void period(struct vectors *v)
{
    step(v);
    buffer_printf(&v->out, "[\"period\", %" PRIu64 "]",
                  lease_period_ns(&v->lease));
}

static void hold(struct vectors *v, struct lease_clock sent, uint64_t left_ms,
                 struct lease_clock now)
{
    step(v);
    buffer_printf(&v->out,
                  "[\"hold\", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                  ", %" PRIu64 ", %" PRIu64 "]",
                  sent.monotonic_ns, sent.boottime_ns, left_ms,
                  now.monotonic_ns, now.boottime_ns,
                  lease_hold_remaining(sent, left_ms, now));
}

static const uint64_t ttls_ms[] = {100,  101,   333,   1000,   1001,
                                   7777, 10000, 60000, 3599999};

/* The last nanosecond before a moment, and the first after it: on both clocks,
 * or on either alone. */
static void check_around(struct vectors *v, uint64_t age_ns, int clocks)
{
    for (uint64_t now_ns = age_ns - 1; now_ns <= age_ns; now_ns++) {
        check(v, at(clocks != 1 ? now_ns : 0, clocks != 0 ? now_ns : 0));
    }
}

static void choose_ends(struct vectors *v)
{
    static const char *const which[] = {"CLOCK_MONOTONIC alone",
                                        "CLOCK_BOOTTIME alone (suspended)",
                                        "both clocks"};
    for (size_t i = 0; i < sizeof ttls_ms / sizeof ttls_ms[0]; i++) {
        uint64_t ttl_ms = ttls_ms[i];
        uint64_t lingers_ms[] = {0,          50,     ttl_ms / 3,
                                 ttl_ms - 1, ttl_ms, ttl_ms + 1};
        for (size_t j = 0; j < sizeof lingers_ms / sizeof lingers_ms[0]; j++) {
            int clocks = (int)((i + j) % 3);
            uint64_t linger_ms = lingers_ms[j];
            begin(v,
                  "TTL %" PRIu64 " ms, linger %" PRIu64
                  " ms: 0.8 of it on %s ends the belief, not 1 ns sooner",
                  ttl_ms, linger_ms, which[clocks]);
            answered(v, at(0, 0), ttl_ms, linger_ms);
            period(v);
            check(v, at(0, 0));
            uint64_t trust_ns = rules_trusted(lease_promised_ns(&v->lease));
            check_around(v, trust_ns, clocks);
            check_around(v, rules_trusted(ttl_ms * NS_PER_MS), clocks);
        }
    }
}

static void choose_orders(struct vectors *v)
{
    begin(v, "before the first answer nothing is held, nor lost");
    check(v, at(0, 0));
    period(v);
    begin(v, "refused before the first answer is lost");
    refused(v);
    check(v, at(0, 0));
    answered(v, at(5, 5), 1000, 0);
    check(v, at(6, 6));
    begin(v, "an answer to what was sent in jeopardy makes it held again");
    answered(v, at(0, 0), 1000, 500);
    check(v, at(450 * NS_PER_MS, 450 * NS_PER_MS));
    answered(v, at(440 * NS_PER_MS, 440 * NS_PER_MS), 1000, 500);
    check(v, at(450 * NS_PER_MS, 450 * NS_PER_MS));
    begin(v, "an older heartbeat than the newest changes nothing");
    answered(v, at(NS_PER_S, NS_PER_S), 1000, 0);
    answered(v, at(0, 0), 60000, 0);
    period(v);
    check(v, at(NS_PER_S + 800 * NS_PER_MS - 1, NS_PER_S));
    check(v, at(NS_PER_S + 800 * NS_PER_MS, NS_PER_S));
    begin(v, "of two with one reading of CLOCK_MONOTONIC, CLOCK_BOOTTIME "
             "tells the older");
    answered(v, at(0, 9), 1000, 0);
    answered(v, at(0, 8), 2000, 0);
    period(v);
    answered(v, at(0, 9), 3000, 0);
    period(v);
    begin(v, "what was sent when the lease had run out does not revive it");
    answered(v, at(0, 0), 1000, 0);
    answered(v, at(800 * NS_PER_MS, 800 * NS_PER_MS), 1000, 0);
    check(v, at(800 * NS_PER_MS, 800 * NS_PER_MS));
    begin(v, "what was sent 1 ns before it ran out does");
    answered(v, at(0, 0), 1000, 0);
    answered(v, at(800 * NS_PER_MS - 1, 0), 1000, 0);
    check(v, at(900 * NS_PER_MS, 0));
    begin(v, "nothing leaves lost, though a clock goes back");
    answered(v, at(0, 0), 1000, 0);
    check(v, at(0, 800 * NS_PER_MS));
    check(v, at(0, 0));
    answered(v, at(1, 1), 60000, 0);
    check(v, at(2, 2));
    begin(v, "refused is lost at once");
    answered(v, at(0, 0), 60000, 0);
    refused(v);
    check(v, at(1, 1));
    begin(v, "a reading before the sending counts as no time at all");
    answered(v, at(NS_PER_S, NS_PER_S), 1000, 0);
    check(v, at(0, 0));
    check(v, at(0, NS_PER_S + 1));
    begin(v, "a later answer may grant another TTL and linger");
    answered(v, at(0, 0), 1000, 0);
    answered(v, at(1, 1), 9000, 300);
    period(v);
    check(v, at(NS_PER_S, NS_PER_S));
}

static void choose_holds(struct vectors *v)
{
    for (size_t i = 0; i < sizeof ttls_ms / sizeof ttls_ms[0]; i++) {
        uint64_t trust_ns = rules_trusted(ttls_ms[i] * NS_PER_MS);
        begin(v, "of %" PRIu64 " ms left of a limited hold 0.8 are trusted",
              ttls_ms[i]);
        hold(v, at(7, 7), ttls_ms[i], at(7, 7));
        hold(v, at(7, 7), ttls_ms[i], at(7 + trust_ns - 1, 7));
        hold(v, at(7, 7), ttls_ms[i], at(7, 7 + trust_ns - 1));
        hold(v, at(7, 7), ttls_ms[i], at(7 + trust_ns, 7));
        hold(v, at(7, 7), ttls_ms[i], at(0, 0));
    }
}

/* Clocks advance, sometimes one of them alone, and now and then exactly to an
 * end. */
static void draw(struct vectors *v, uint64_t seed)
{
    struct prng prng = {seed};
    uint64_t ttl_ms = 100 + prng_below(&prng, 20000);
    uint64_t linger_ms = prng_chance(&prng, 0.5) ? prng_below(&prng, 20000) : 0;
    uint64_t monotonic_ns = 0, boottime_ns = prng_below(&prng, NS_PER_S);
    begin(v, "drawn %" PRIu64, seed);
    for (int i = 0; i < 8; i++) {
        uint64_t trust_ns = rules_trusted(lease_promised_ns(&v->lease));
        uint64_t step_ns = prng_below(&prng, ttl_ms * NS_PER_MS / 2);
        if (prng_chance(&prng, 0.2)) {
            step_ns = trust_ns - (trust_ns > 0 ? prng_below(&prng, 2) : 0);
        }
        monotonic_ns += prng_chance(&prng, 0.8) ? step_ns : 0;
        boottime_ns += prng_chance(&prng, 0.9) ? step_ns : 0;
        struct lease_clock now = at(monotonic_ns, boottime_ns);
        if (prng_chance(&prng, 0.4)) {
            answered(v, now, ttl_ms, linger_ms);
            period(v);
        } else if (prng_chance(&prng, 0.03)) {
            refused(v);
        }
        check(v, now);
        hold(v, at(0, 0), ttl_ms, now);
    }
}

static void make(struct vectors *v)
{
    buffer_put_text(&v->out, "[");
    choose_orders(v);
    choose_ends(v);
    choose_holds(v);
    for (uint64_t seed = 1; seed <= DRAWN_COUNT; seed++) {
        draw(v, seed);
    }
    buffer_put_text(&v->out, "]}\n]\n");
}

static void the_vectors_are_those_of_the_lease(void **state)
{
    (void)state;
    struct vectors v = {0};
    make(&v);
    vectors_compare(PATH, buffer_bytes(&v.out));
    buffer_done(&v.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_are_those_of_the_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
