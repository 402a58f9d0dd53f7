/* SPDX-License-Identifier: MIT */

/* Rule 10 of ARCHITECTURE.md: how long a dead session, or a span, lives under
 * leaders that change at any moment. Here an entry is committed and applied
 * everywhere at once, and there is always a leader: what these take comes on
 * top. README.md says how far it was run. */

#ifndef LEASE
#define LEASE 16    /* T, or the length of the span. */
#endif
#ifndef STEP
#define STEP 3      /* I. */
#endif
#ifndef CHANGES
#define CHANGES 12
#endif
#define QUARTER (LEASE / 4)
#define NONE 255
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define LESS(a, b) ((a) > (b) -> (a) - (b) : 0)

byte lived;     /* Since the last heartbeat, or the beginning of the span. */
byte mark;      /* Quiet time by mark and clock; NONE. SPANS: by the clock. */
bit is_told;    /* The mark is a TIME's. */
byte since;     /* Time since the newest TIME or BEGIN. */
byte left;      /* Of the present leader's time. */
byte changes;
bit is_over;

#ifdef SPANS
#define BOUND (LEASE + 2 * STEP)
#else
#define BOUND (LEASE + QUARTER + STEP)
#endif

inline count(d)
{
    if
    :: mark != NONE -> mark = MIN(mark + MIN(d, STEP), 2 * LEASE)
    :: else
    fi;
    since = 0
}

#ifdef BEGIN_WITHOUT_TIME
#define OF_BEGIN 0
#else
#define OF_BEGIN since
#endif

inline change()
{
    changes++;
    count(OF_BEGIN);
#ifdef SPANS
    left = LESS(LEASE, LESS(mark, STEP))
#else
    if
    :: mark == NONE -> mark = 0
    :: else
    fi;
    left = LESS(LEASE, mark)
#endif
#ifdef IN_FULL
    left = LEASE
#endif
}

#ifdef NO_MARK
#define MUST_MARK false
#else
#define MUST_MARK (!is_told && LEASE - left >= QUARTER)
#endif
#ifdef SPANS
#undef MUST_MARK
#define MUST_MARK false
#endif
#ifdef NO_TIME
#define MUST_TIME false
#else
#define MUST_TIME (mark != NONE && since >= STEP)
#endif

init
{
    d_step {
        left = LEASE;
#ifdef SPANS
        mark = 0
#else
        mark = NONE
#endif
    }
    /* The last TIME may have been at any time. */
    do
    :: since < STEP -> since++
    :: break
    od;
    do
    :: is_over -> break
    :: !is_over && changes < CHANGES -> d_step { change() }
    :: !is_over && left == 0 -> d_step {
           assert(lived >= LEASE); is_over = 1 }
    :: !is_over && left > 0 && MUST_MARK -> d_step {
           count(since); mark = LEASE - left; is_told = 1 }
    :: !is_over && left > 0 && !MUST_MARK && MUST_TIME -> d_step {
           count(since) }
    :: !is_over && left > 0 && !MUST_MARK && !MUST_TIME -> d_step {
           lived++; left--; since = MIN(since + 1, STEP);
           assert(lived <= BOUND) }
    od
}
