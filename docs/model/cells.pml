/* SPDX-License-Identifier: MIT */

/* Cells: prefixes of names that pass from one cluster to another by GIVE, a
 * receipt, and TAKE (lockfsm/cells.h). Each cluster has a log, in which an entry
 * is one step. Receipts are never lost: anybody may use one again, anywhere, at
 * any time. Clients ask any cluster for any name, since their maps may be stale,
 * and their requests are applied later than they were proposed.
 *
 * Three clusters, founded in the order of their numbers; the first owns all.
 * Three prefixes: W, its part V, and U. Three names: 0 under W alone, 1 under V
 * and so W, 2 under U. */

#ifndef GIVES
#define GIVES 4
#endif
#define CELLS 3
#define W 0
#define V 1
#define U 2
#define NONE 0
#define OWN 1
#define OTHER 2

/* The rows of each cluster, and the highest epoch that it knows. */
byte kind[9];
byte epoch[9];
byte clock[CELLS];

/* Receipts. */
byte gives;
byte of_prefix[GIVES];
byte by[GIVES];
byte to[GIVES];
byte at_epoch[GIVES];

/* Bit 3 * cluster + name: held there. */
short held;
/* The cluster whose token is the newest of the name. */
byte newest[3];

/* A request on its way through a log: cluster and name, plus 1; 0: none. */
byte wish;
bool passed;    /* It was this cluster's name when it was proposed. */

#ifdef NO_JOIN
#define DEFAULT(c) 1
#else
#define DEFAULT(c) ((c) == 0)
#endif
#define ROW(c, p) (3 * (c) + (p))
#define K(c, p) kind[ROW(c, p)]
#define E(c, p) epoch[ROW(c, p)]
#define OWNS_AS(c, p) (K(c, p) == NONE -> DEFAULT(c) : K(c, p) == OWN)
#define OWNS(c, n) \
    ((n) == V && K(c, V) != NONE -> K(c, V) == OWN : \
     OWNS_AS(c, ((n) == U -> U : W)))
#define IS_HELD(c, n) ((held >> ROW(c, n)) & 1)

/* All names with the prefix are the cluster's, or none is. */
#define OWNS_ALL(c, p) (OWNS(c, p) && ((p) != W || K(c, V) != OTHER))
#define OWNS_NONE(c, p) (!OWNS(c, p) && ((p) != W || K(c, V) != OWN))

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#ifdef ROW_ALONE
#define EPOCH_OF(c, p) E(c, p)
#else
#define EPOCH_OF(c, p) ((p) == U -> E(c, U) : MAX(E(c, W), E(c, V)))
#endif

/* --- Guards --------------------------------------------------------------- */

#ifdef NO_EMPTY_CHECK
#define IS_EMPTY(c, p) 1
#else
#define IS_EMPTY(c, p) (!IS_HELD(c, p) && ((p) != W || !IS_HELD(c, V)))
#endif
#ifdef NO_TAKER
#define IS_FOR(c, r) ((c) != by[r])
#else
#define IS_FOR(c, r) ((c) == to[r])
#endif
#ifdef NO_EPOCH_CHECK
#define IS_NEW(c, r) 1
#else
#define IS_NEW(c, r) (at_epoch[r] > EPOCH_OF(c, of_prefix[r]))
#endif
/* A later cluster has the higher token_base. */
#ifdef ANY_TOKEN
#define IS_ABOVE(c, r) 1
#else
#define IS_ABOVE(c, r) ((c) > by[r])
#endif
#ifdef DECIDED_WHEN_PROPOSED
#define IS_GRANTED(c, n) passed
#else
#define IS_GRANTED(c, n) OWNS(c, n)
#endif

/* --- Assertions ----------------------------------------------------------- */

#define ONE_HOLDER(n) (IS_HELD(0, n) + IS_HELD(1, n) + IS_HELD(2, n) <= 1)
#define ONE_OWNER(n) (OWNS(0, n) + OWNS(1, n) + OWNS(2, n) <= 1)

inline check()
{
    assert(ONE_HOLDER(0) && ONE_HOLDER(1) && ONE_HOLDER(2));
#ifndef HARM
    assert(ONE_OWNER(0) && ONE_OWNER(1) && ONE_OWNER(2))
#endif
}

inline set_row(c, p, what, at)
{
    if
    :: p == W -> K(c, V) = NONE; E(c, V) = 0
    :: else
    fi;
    K(c, p) = what;
    E(c, p) = at
}

inline give(c, p, t)
{
    clock[c]++;
    set_row(c, p, OTHER, clock[c]);
    of_prefix[gives] = p;
    by[gives] = c;
    to[gives] = t;
    at_epoch[gives] = clock[c];
    gives++
}

inline take(c, r)
{
    set_row(c, of_prefix[r], OWN, at_epoch[r]);
#ifndef OWN_CLOCK
    clock[c] = MAX(clock[c], at_epoch[r]);
#endif
    check()
}

inline grant(c, n)
{
    held = held | (1 << ROW(c, n));
#ifndef ROUND
    assert(c >= newest[n]);     /* Tokens do not go back. */
#endif
    newest[n] = c;
    check()
}

byte c;
byte n;
byte t;

init
{
end:
    do
    :: d_step { wish != 0 ->
           c = (wish - 1) / 3;
           n = (wish - 1) % 3;
           wish = 0;
           if
           :: IS_GRANTED(c, n) && !IS_HELD(c, n) -> grant(c, n)
           :: else
           fi;
           passed = false; c = 0; n = 0 }
    :: atomic { wish == 0 ->
           select(c : 0 .. 2);
           select(n : 0 .. 2);
           passed = OWNS(c, n);
           if
           :: IS_HELD(c, n) -> passed = false      /* Nothing new. */
           :: else -> wish = ROW(c, n) + 1
           fi;
           c = 0; n = 0 }
    :: atomic { held != 0 ->
           select(n : 0 .. 8);
           if
           :: (held >> n) & 1 -> held = held & ~(1 << n)
           :: else
           fi;
           n = 0 }
    :: atomic { gives < GIVES ->
           select(c : 0 .. 2);
           select(n : 0 .. 2);
           select(t : 0 .. 2);
           if
           :: t != c && OWNS_ALL(c, n) && IS_EMPTY(c, n) -> give(c, n, t)
           :: else
           fi;
           c = 0; n = 0; t = 0 }
    :: atomic { gives > 0 ->
           select(c : 0 .. 2);
           select(n : 0 .. gives - 1);
           if
           :: IS_FOR(c, n) && IS_NEW(c, n) && IS_ABOVE(c, n) &&
              OWNS_NONE(c, of_prefix[n]) -> take(c, n)
           :: else
           fi;
           c = 0; n = 0 }
    od
}
