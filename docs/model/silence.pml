/* SPDX-License-Identifier: MIT */

/* The rules of time 8, 9, 10, 15 and 16 of ARCHITECTURE.md, on three nodes of
 * which the third only votes. Two models in one: with SPANS a span, and with
 * HOLD what its holder is told of it; else a session and its heartbeats, and
 * with LINGER what becomes of it when its connection is closed.
 * README.md says what is left out, and how far it was run.
 *
 * One process takes one step after the other: all that may happen next is a
 * guarded choice. A message is its delivery, at any later time or never. Time is
 * a step, too: a tick of all clocks, which run alike; a client trusts the whole
 * of what it is told, so that one tick that is counted twice is a violation. */

#ifndef LEASE
#define LEASE 3     /* T, or the length of the span. */
#endif
#ifndef STEP
#define STEP 1      /* I: what one entry may count. */
#endif
#ifndef LOG
#define LOG 6       /* Entries of a log. */
#endif
#ifndef TERMS
#define TERMS 3     /* Leaders, one after the other. */
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef BEATS
#define BEATS 1     /* Heartbeats under way at once. */
#endif

#define NOBODY 3
#define NONE 15

#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define LESS(a, b) ((a) > (b) -> (a) - (b) : 0)

/* --- What there is -------------------------------------------------------- */

#define BEGIN 1
#define TIME 2
#define HEARD 3
#define EXPIRE 4
#define START 5     /* SPANS: a span begins. */
#define OVER 6      /* SPANS: it is over. */

/* An entry in one number: its kind and term; of TIME and BEGIN the place of the
 * entry that is counted from, and the time since then; what TIME marks. */
#define ENTRY(kind, term, base, passed, quiet) \
    ((kind) + 8 * (term) + 64 * (base) + 1024 * (passed) + 4096 * (quiet))
#define KIND(w) ((w) & 7)
#define TERM(w) (((w) >> 3) & 7)
#define BASE(w) (((w) >> 6) & 15)
#define PASSED(w) (((w) >> 10) & 3)
#define QUIET(w) (((w) >> 12) & 7)
#define NO_MARK 7

typedef node {
    byte term;
    byte size;
    short log[LOG];
    byte commit;    /* So many are known to be committed, ... */
    byte applied;   /* ... so many are applied. */
    byte clock;     /* Place of the newest TIME or BEGIN applied; NONE. */
    byte since;     /* Time since then, a step at most. */
    byte mark;      /* Quiet time by mark and clock; NONE: no mark.
                     * SPANS: the clock since the start; NONE: no span. */
    bit is_told;    /* The mark is a TIME's. */
    bit leads;
    bit begun;      /* Its BEGIN is proposed, ... */
    bit serves;     /* ... is applied. */
    bit doomed;     /* Its EXPIRE, its OVER, is proposed. */
    bit timing;     /* Its TIME is under way, ... */
    bit marking;    /* ... marks the session, ... */
#ifdef LINGER
    bit lingers;    /* A linger began, and no TIME has said so yet. */
#endif
    byte flying;    /* ... may move the clock so far. */
    byte hearing;   /* The place of its HEARD under way; NONE. */
    byte left;      /* Until the deadline, or the end of the span. */
}
typedef beat {
    byte to;        /* NOBODY: there is none. */
    byte left;      /* LEASE less the time since it was sent. */
    bit said;       /* Leadership is confirmed later than it came. */
    bit logged;     /* It waits for a HEARD: ... */
    byte after;     /* ... this one; NONE: the next. */
}

node at[3];
beat hb[BEATS];
byte newest_term;
byte restarts;
byte trust;         /* So long the client still believes. */
bit is_over;        /* EXPIRE, or OVER, is committed. */
#ifdef SPANS
bit has_start;
bit is_started;     /* START is committed ... */
byte passed;        /* ... since then; LEASE at most. */
#endif

hidden byte i, j, m, e, g;
hidden short w;

/* --- What an entry does --------------------------------------------------- */

#ifdef NO_BASE_CHECK
#define COUNTS(x) 1
#else
#define COUNTS(x) (BASE(w) == at[x].clock && at[x].clock != NONE)
#endif

inline apply(x)
{
    e = at[x].applied;
    w = at[x].log[e];
    at[x].applied++;
    if
    :: KIND(w) == TIME || KIND(w) == BEGIN ->
        g = (COUNTS(x) -> MIN(PASSED(w), STEP) : 0);
        if
        :: at[x].mark != NONE ->
            at[x].mark = MIN(at[x].mark + g, LEASE + 2 * STEP)
        :: else
        fi;
        at[x].clock = e;
        at[x].since = 0;
        if
        :: KIND(w) == TIME && QUIET(w) != NO_MARK ->
            at[x].mark = QUIET(w);
            at[x].is_told = 1
#ifndef SPANS
        :: KIND(w) == BEGIN && at[x].mark == NONE -> at[x].mark = 0
#endif
        :: else
        fi;
        if
        :: at[x].leads && TERM(w) == at[x].term && KIND(w) == TIME ->
            at[x].timing = 0; at[x].marking = 0; at[x].flying = 0
        :: at[x].leads && TERM(w) == at[x].term && KIND(w) == BEGIN ->
            serve(x)
        :: else
        fi
    :: KIND(w) == HEARD ->
        at[x].mark = NONE;
        at[x].is_told = 0;
        if
        :: at[x].serves && TERM(w) == at[x].term -> at[x].hearing = NONE
        :: else
        fi
    :: KIND(w) == START ->
        at[x].mark = 0;
        at[x].left = (at[x].serves -> LEASE : 0)
    :: else
    fi;
    skip
}

#ifdef SPAN_WITHOUT_STEP
#define SLACK 0
#else
#ifdef HOLD
#define SLACK (2 * STEP)
#else
#define SLACK STEP
#endif
#endif

/* A leader begins. */
inline serve(x)
{
    at[x].serves = 1;
#ifdef SPANS
    at[x].left = (at[x].mark == NONE -> 0 :
                  LESS(LEASE, LESS(at[x].mark, SLACK)))
#else
    at[x].left = LESS(LEASE, at[x].mark)
#endif
}

/* --- Leaders come and go -------------------------------------------------- */

inline drop_beat(k)
{
    hb[k].to = NOBODY; hb[k].left = 0; hb[k].said = 0; hb[k].logged = 0;
    hb[k].after = NONE
}

inline no_linger(x)
{
#ifdef LINGER
    at[x].lingers = 0
#else
    skip
#endif
}

/* What only a leader knows. Who asked it asks again. */
inline forget(x)
{
    at[x].leads = 0; at[x].begun = 0; at[x].serves = 0; at[x].doomed = 0;
    at[x].timing = 0; at[x].marking = 0; at[x].flying = 0;
    at[x].hearing = NONE; at[x].left = 0;
    no_linger(x);
    for (i : 0 .. BEATS - 1) {
        if
        :: hb[i].to == x -> drop_beat(i)
        :: else
        fi
    }
}

#define LAST(x) TERM(at[x].log[at[x].size - 1])
#define AS_GOOD(x, y) (LAST(x) > LAST(y) || \
                       (LAST(x) == LAST(y) && at[x].size >= at[y].size))

inline elect(x, y)
{
    newest_term++;
    forget(x);
    forget(y);
    at[x].term = newest_term;
    at[y].term = newest_term;
    at[x].leads = 1;
    skip
}

#define IS_USEFUL(x, y) \
    (at[x].leads && at[y].term <= at[x].term && \
     (at[y].term < at[x].term || at[y].size != at[x].size || \
      at[y].log[at[x].size - 1] != at[x].log[at[x].size - 1] || \
      (y != 2 && at[y].commit < at[x].commit)))

/* The log of a leader, as it stands: a shorter one is what was sent before
 * there was more. What is known to be committed is applied; the third applies
 * nothing. */
inline replicate(x, y)
{
    if
    :: at[y].term < at[x].term ->
        forget(y);
        at[y].term = at[x].term
    :: else
    fi;
    for (j : 0 .. LOG - 1) {
        at[y].log[j] = at[x].log[j]
    }
    at[y].size = at[x].size;
    if
    :: y != 2 && at[y].commit < at[x].commit ->
        at[y].commit = at[x].commit;
        do
        :: at[y].applied < at[y].commit -> apply(y)
        :: else -> break
        od
    :: else
    fi;
    skip
}

/* A majority has all of the log, and the newest entry is of its own term. */
#define CAN_COMMIT(x) \
    (at[x].leads && at[x].size > at[x].commit && \
     LAST(x) == at[x].term && (HAS_ALL(1 - x, x) || HAS_ALL(2, x)))
#define HAS_ALL(y, x) \
    (at[y].size >= at[x].size && \
     at[y].log[at[x].size - 1] == at[x].log[at[x].size - 1])

inline settle(x)
{
    do
    :: at[x].commit < at[x].size ->
        w = at[x].log[at[x].commit];
        at[x].commit++;
        if
        :: KIND(w) == EXPIRE && !is_over ->
            assert(trust == 0);     /* The client ends first. */
            is_over = 1
#ifdef SPANS
        :: KIND(w) == START -> is_started = 1
        :: KIND(w) == OVER && !is_over ->
            assert(passed >= LEASE); /* It takes its time. */
            assert(trust == 0);      /* Who was told more has let go. */
            is_over = 1
#endif
        :: else
        fi
    :: else -> break
    od;
    skip
}

/* Its process ends and begins again: it has measured nothing before. */
inline restart(x)
{
    restarts++;
    forget(x);
    at[x].since = 0
}

/* --- What a leader does --------------------------------------------------- */

/* What a deposed leader proposes may matter, if it leads again. */
#define HAS_ROOM(x) (at[x].size < LOG && !is_over && \
                     (at[x].term == newest_term || newest_term < TERMS))

/* At place e. */
inline propose(x, kind, base, passed_, quiet)
{
    e = at[x].size;
    at[x].log[e] = ENTRY(kind, at[x].term, base, passed_, quiet);
    at[x].size++
}

inline propose_begin(x)
{
    at[x].begun = 1;
    propose(x, BEGIN, at[x].clock, at[x].since, NO_MARK)
}

inline propose_time(x, quiet)
{
#ifdef SECOND_TIME
    /* It follows the first, which is not applied, and nothing new is measured. */
    g = at[x].size - 1;
    do
    :: KIND(at[x].log[g]) != TIME && KIND(at[x].log[g]) != BEGIN -> g--
    :: else -> break
    od;
    propose(x, TIME, g, at[x].since, quiet);
#else
    propose(x, TIME, at[x].clock, at[x].since, quiet);
#endif
    at[x].timing = 1;
    at[x].flying = at[x].since
}

#ifdef SECOND_TIME
#define CAN_TIME(x) (at[x].serves && !at[x].doomed && HAS_ROOM(x))
#else
#define CAN_TIME(x) \
    (at[x].serves && !at[x].doomed && !at[x].timing && HAS_ROOM(x))
#endif

/* A mark stands, or is on its way: a heartbeat needs a HEARD. */
#ifdef MARK_BINDS_WHEN_APPLIED
#define BOUND(x) (at[x].mark != NONE)
#else
#ifdef FIRST_BEAT_FREE
#define BOUND(x) (at[x].marking || at[x].is_told)
#else
#define BOUND(x) (at[x].marking || at[x].mark != NONE)
#endif
#endif

/* Another one says that the term is still that of 'x'. */
#define CAN_CONFIRM(x) \
    (at[1 - (x)].term == at[x].term || at[2].term == at[x].term)

inline expire(x)
{
    propose(x, EXPIRE, 0, 0, 0);
    at[x].doomed = 1
}

inline log_mark(x)
{
    propose_time(x, LEASE - at[x].left);
    at[x].marking = 1;
    no_linger(x)
}

#ifdef LINGER
/* The last connection of the session is closed. */
inline close(x)
{
    at[x].left = LINGER;
    at[x].lingers = 1
}

#define MAY_MARK(x) (!at[x].is_told || at[x].lingers)
#else
#define MAY_MARK(x) (!at[x].is_told)
#endif

/* How long the client goes on after a heartbeat that was answered OK: by the
 * lease, or by the linger, since it may have been closed. */
#ifdef LINGER
#ifdef JEOPARDY_BY_LEASE
#define BELIEF(left) (left)
#else
#define BELIEF(left) LESS(left, LEASE - LINGER)
#endif
#else
#define BELIEF(left) (left)
#endif

#define WANTS(k, x) (hb[k].to == x && hb[k].logged && hb[k].after == NONE)
#if BEATS == 1
#define WANTS_HEARD(x) WANTS(0, x)
#else
#define WANTS_HEARD(x) (WANTS(0, x) || WANTS(1, x))
#endif

/* One is under way; what comes meanwhile waits for the next. */
inline hear(x)
{
    propose(x, HEARD, 0, 0, 0);
    at[x].hearing = e;
    for (i : 0 .. BEATS - 1) {
        if
        :: WANTS(i, x) -> hb[i].after = e
        :: else
        fi
    }
    skip
}

inline arrive(k, x)
{
    hb[k].to = x;
    hb[k].left = LEASE;
#ifdef HEARTBEAT_KEEPS_LINGER
    if
    :: !at[x].lingers -> at[x].left = LEASE
    :: else
    fi;
#else
    at[x].left = LEASE;     /* At its receipt. */
    no_linger(x);
#endif
    hb[k].logged = BOUND(x);
    hb[k].after = NONE
}

#ifdef ANSWER_WHEN_PROPOSED
#define HEARD_DONE(k) 1
#define IS_ENOUGH(k) (hb[k].after != NONE)
#else
#define HEARD_DONE(k) (at[hb[k].to].hearing != hb[k].after)
#define IS_ENOUGH(k) 0
#endif

/* Looked at again when it is answered. */
inline answer(k)
{
    if
    :: at[hb[k].to].doomed -> drop_beat(k)
    :: !at[hb[k].to].doomed && BOUND(hb[k].to) && !IS_ENOUGH(k) ->
        hb[k].logged = 1;
        hb[k].after = NONE
    :: else ->
        assert(!is_over || BELIEF(hb[k].left) == 0);    /* Dead is dead. */
        trust = (BELIEF(hb[k].left) > trust -> BELIEF(hb[k].left) : trust);
        drop_beat(k)
    fi;
    skip
}

#ifdef SPANS
inline start(x)
{
    has_start = 1;
    propose(x, START, 0, 0, 0);
#ifdef HOLD
    trust = LEASE           /* From sending. */
#endif
}

inline over(x)
{
    propose(x, OVER, 0, 0, 0);
    at[x].doomed = 1
}

#ifdef TOLD_WITHOUT_CLOCK
#define TOLD(x) at[x].left
#else
#define TOLD(x) MIN(at[x].left, \
                    LESS(LEASE, LESS(at[x].mark + at[x].flying, STEP)))
#endif
#endif

/* --- All that may happen -------------------------------------------------- */

inline tick()
{
    trust = LESS(trust, 1);
    at[0].since = MIN(at[0].since + 1, STEP);
    at[1].since = MIN(at[1].since + 1, STEP);
    at[0].left = LESS(at[0].left, 1);
    at[1].left = LESS(at[1].left, 1);
#ifdef SPANS
    passed = (is_started -> MIN(passed + 1, LEASE) : 0);
#else
    for (i : 0 .. BEATS - 1) {
        hb[i].left = LESS(hb[i].left, 1)
    }
#endif
    skip
}

#define CAN_ELECT(x, y) \
    (newest_term < TERMS && !is_over && !at[x].leads && AS_GOOD(x, y))

#define OF_LEADER(x) \
    :: at[x].leads && !at[x].begun && HAS_ROOM(x) -> \
        d_step { propose_begin(x) } \
    :: CAN_TIME(x) && at[x].since > 0 && \
       (at[x].mark != NONE || at[x].timing) -> \
        d_step { propose_time(x, NO_MARK) } \
    :: CAN_COMMIT(x) -> d_step { settle(x) } \
    :: IS_USEFUL(x, 1 - x) -> d_step { replicate(x, 1 - x) } \
    :: IS_USEFUL(x, 2) -> d_step { replicate(x, 2) } \
    :: CAN_ELECT(x, 2) -> d_step { elect(x, 2) } \
    :: CAN_ELECT(x, 1 - x) -> d_step { elect(x, 1 - x) } \
    :: at[x].leads && newest_term < TERMS && !is_over -> \
        d_step { forget(x); skip } \
    :: at[x].applied < at[x].commit && !is_over -> d_step { apply(x) } \
    :: restarts < RESTARTS && !is_over -> d_step { restart(x) }

#ifdef LINGER
#define OF_CLOSE(x) \
    :: at[x].serves && !at[x].doomed && !is_over && at[x].left > LINGER -> \
        d_step { close(x) }
#else
#define OF_CLOSE(x)
#endif

#define OF_SESSION(x) \
    :: at[x].serves && at[x].left == 0 && !at[x].doomed && HAS_ROOM(x) -> \
        d_step { expire(x) } \
    :: CAN_TIME(x) && !at[x].marking && at[x].left < LEASE && \
       MAY_MARK(x) && at[x].hearing == NONE -> d_step { log_mark(x) } \
    OF_CLOSE(x) \
    :: at[x].serves && at[x].hearing == NONE && !at[x].doomed && \
       HAS_ROOM(x) && WANTS_HEARD(x) -> d_step { hear(x) }

#define OF_BEAT(k) \
    :: hb[k].to == NOBODY && at[0].serves && !at[0].doomed && !is_over -> \
        d_step { arrive(k, 0) } \
    :: hb[k].to == NOBODY && at[1].serves && !at[1].doomed && !is_over -> \
        d_step { arrive(k, 1) } \
    :: hb[k].to < 2 && !hb[k].logged && !hb[k].said && \
       CAN_CONFIRM(hb[k].to) -> d_step { hb[k].said = 1 } \
    :: hb[k].to < 2 && !hb[k].logged && hb[k].said -> \
        d_step { answer(k) } \
    :: hb[k].to < 2 && hb[k].logged && hb[k].after != NONE && \
       HEARD_DONE(k) -> d_step { answer(k) }

#ifdef SPANS
#define OF_SPAN(x) \
    :: at[x].serves && !has_start && HAS_ROOM(x) -> d_step { start(x) } \
    :: at[x].serves && at[x].mark != NONE && at[x].left == 0 && \
       !at[x].doomed && HAS_ROOM(x) -> d_step { over(x) }
#define OF_HOLD(x) \
    :: at[x].serves && at[x].mark != NONE && !at[x].doomed && !is_over && \
       CAN_CONFIRM(x) && TOLD(x) > trust -> d_step { trust = TOLD(x) }
#endif

init
{
    /* The first leader serves, and all know it; a client was just heard. */
    d_step {
        newest_term = 1;
        for (m : 0 .. 2) {
            at[m].term = 1;
            at[m].log[0] = ENTRY(BEGIN, 1, NONE, 0, NO_MARK);
            at[m].size = 1;
            at[m].commit = 1;
            at[m].applied = 1;
            at[m].mark = NONE;
            at[m].hearing = NONE
        }
        at[0].leads = 1;
        at[0].begun = 1;
        at[0].serves = 1;
        for (i : 0 .. BEATS - 1) {
            drop_beat(i)
        }
#ifndef SPANS
        at[0].left = LEASE;
        trust = BELIEF(LEASE);
#endif
        skip
    }
    do
    :: d_step { tick() }
    OF_LEADER(0)
    OF_LEADER(1)
#ifdef SPANS
    OF_SPAN(0)
    OF_SPAN(1)
#ifdef HOLD
    OF_HOLD(0)
    OF_HOLD(1)
#endif
#else
    OF_SESSION(0)
    OF_SESSION(1)
    OF_BEAT(0)
#if BEATS > 1
    OF_BEAT(1)
#endif
#endif
    od
}
