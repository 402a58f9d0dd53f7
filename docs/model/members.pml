/* SPDX-License-Identifier: MIT */

/* Raft's membership where a number can have several data directories, one
 * after the other: the directory of a member is lost or left behind, the member
 * is removed and added again, and the old directory still runs. A configuration
 * in the log names each member's directory, and an answer counts only if the
 * newest configuration in the receiver's log names the directory that gives it.
 * README.md says what is left out, and how far it was run.
 *
 * One process takes one step after the other. A request and what it does to its
 * receiver is one step; the answer comes at once, with LATE also at any later
 * time, or never. A vote that comes late is a candidate that wins late.
 *
 * Entries are not kept per log: a term has one leader (asserted), so the term
 * and the index of the last entry stand for a whole log, and per term it is
 * enough to know what its leader's log was at its election, and what it
 * appended. */

#ifndef TERMS
#define TERMS 2     /* Elections can reach this term; the first leader has 1. */
#endif
#ifndef LOG
#define LOG 5       /* Entries of a log. */
#endif
#ifndef PUTS
#define PUTS 1      /* Entries that are no configurations, beside each leader's
                     * first. */
#endif

/* --- Directories ---------------------------------------------------------- */

/* A is replaced: it has A1, A2 and, with WIPED, A3. B and C have one directory
 * each. GROWN: D is a fourth member. TWO: so it is, and B is replaced, too.
 * FOUR: four members, of which A and B can be removed, and none added. */
#define B1 0
#define C1 1
#define A1 2
#define A2 3
#ifdef TWO
#define FOURTH
#define D1 4
#define B2 5
#define DIRS 6
#define DIRECTORIES(a, b, c, d, e, f) {a, b, c, d, e, f}
#else
#ifdef GROWN
#define FOURTH
#define D1 4
#define DIRS 5
#define DIRECTORIES(a, b, c, d, e, f) {a, b, c, d, e}
#else
#ifdef WIPED
#define A3 4
#define DIRS 5
#define DIRECTORIES(a, b, c, d, e, f) {a, b, c, d, f}
#else
#ifdef FOUR
#define FOURTH
#define D1 3
#define DIRS 4
#define DIRECTORIES(a, b, c, d, e, f) {a, b, c, e}
#else
#define DIRS 4
#define DIRECTORIES(a, b, c, d, e, f) {a, b, c, d}
#endif
#endif
#endif
#endif

/* The numbers of members. */
#define A 0
#define B 1
#define C 2
#define D 3
#define NOBODY 7

#ifdef WIPED
hidden byte id[DIRS] = DIRECTORIES(B, C, A, A, D, A);
hidden byte incarnation[DIRS] = DIRECTORIES(1, 1, 1, 2, 1, 3);
#else
hidden byte id[DIRS] = DIRECTORIES(B, C, A, A, D, B);
hidden byte incarnation[DIRS] = DIRECTORIES(1, 1, 1, 2, 1, 2);
#endif

/* --- Configurations ------------------------------------------------------- */

/* In one number: of A and of B the incarnation, 0 for none, and whether it
 * votes; whether D is there. C always is, and C and D vote. A cell of the log
 * is a configuration, or 0 for any other entry. */
#define CONFIGURATION(a, b, d) ((a) + 8 * (b) + 64 * (d))
#define STANDBY(i) (2 * (i))
#define VOTER(i) (2 * (i) + 1)
#ifdef APPLIED
#define REGISTER(i) (128 + (i))     /* The cell that registers it. */
#define IS_CONFIGURATION(c) ((c) != 0 && (c) < REGISTER(0))
#else
#define IS_CONFIGURATION(c) ((c) != 0)
#endif
#define OF_A(c) ((c) & 7)
#define OF_B(c) (((c) >> 3) & 7)
#define OF_D(c) (((c) >> 6) & 1)

#define A_VOTES(c) ((c) & 1)
#define B_VOTES(c) (((c) >> 3) & 1)
#define VOTERS(c) (A_VOTES(c) + B_VOTES(c) + 1 + OF_D(c))
#define HAS_MEMBER(c, n) \
    ((c) != 0 && ((n) == C || ((n) == A && OF_A(c) != 0) || \
                  ((n) == B && OF_B(c) != 0) || ((n) == D && OF_D(c) != 0)))
#define VOTES(c, n) \
    ((c) != 0 && ((n) == C || ((n) == A && A_VOTES(c)) || \
                  ((n) == B && B_VOTES(c)) || ((n) == D && OF_D(c))))

/* True if the configuration names this very directory. */
#define IS_NAMED(c, x) \
    (HAS_MEMBER(c, id[x]) && \
     (id[x] == A -> (OF_A(c) >> 1) == incarnation[x] : \
      (id[x] == B -> (OF_B(c) >> 1) == incarnation[x] : 1)))

/* --- What there is -------------------------------------------------------- */

#define FOLLOWER 0
#define CANDIDATE 1
#define LEADER 2

typedef directory {
    byte term;
    byte voted;         /* The number of a member: a vote names no directory. */
    byte last_term;     /* Of its last entry; ... */
    byte last;          /* ... the index; 0: an empty log. */
    byte role;
    byte votes;         /* Directories whose votes count for it. */
    byte match[4];      /* Per number: acknowledged up to here. */
    byte commit;        /* In its own reign; 0 until an own entry is. */
    /* Follow from the log. */
    byte config;        /* The newest configuration; 0: none. */
    byte config_index;
#ifdef LINKS
    byte link;          /* The incarnation of A that is connected; 0: none. */
#endif
#ifdef APPLIED
    byte applied;       /* So many entries; a restart goes back to 1. */
    byte registered;    /* A's incarnation in the applied state; 0: unknown. */
#endif
};

directory at[DIRS];

/* Per term, from 1: the log of its leader at its election, and its entries. */
byte base_term[TERMS + 1];
byte base[TERMS + 1];
byte cell[TERMS * LOG];
byte puts;              /* Entries that clients have had appended. */
byte led;               /* Terms that had a leader. */

byte done_term;         /* The log as far as it is committed, ... */
byte done;
byte done_by;           /* ... the newest term that committed any of it. */

#ifdef LATE
byte late_from;         /* An acknowledgement that is under way; DIRS: none. */
byte late_term;
byte late_index;
#endif
#ifdef RESTARTS
byte restarts;
#endif

hidden byte c, e, g, h, i, k, m, n, z;

/* --- Logs ----------------------------------------------------------------- */

#define CELL(t, index) cell[((t) - 1) * LOG + (index) - 1]

/* g: the term of the entry at 'index' of the log that ends in term 'newest'. */
inline find_term(newest, index)
{
    g = newest;
    do
    :: g > 0 && index <= base[g] -> g = base_term[g]
    :: else -> break
    od
}

/* The newest configuration of its log, be it committed or not. */
inline read_configuration(x)
{
    at[x].config = 0;
    at[x].config_index = 0;
    g = at[x].last_term;
    i = at[x].last;
    do
    :: i == 0 -> break
    :: i > 0 && i <= base[g] -> g = base_term[g]
    :: i > 0 && i > base[g] && !IS_CONFIGURATION(CELL(g, i)) -> i--
    :: else ->
        at[x].config = CELL(g, i);
        at[x].config_index = i;
        break
    od;
    close_links(x)
}

/* k: so many entries are the same in the logs of both. */
inline find_common(x, y)
{
    k = (at[x].last < at[y].last -> at[x].last : at[y].last);
    do
    :: k == 0 -> break
    :: else ->
        find_term(at[x].last_term, k);
        h = g;
        find_term(at[y].last_term, k);
        if
        :: g == h -> break
        :: else -> k--
        fi
    od
}

/* --- Who hears whom, and what counts -------------------------------------- */

#ifdef NAMES_NUMBERS
/* Of a configuration only the numbers count, once connected. */
#define COUNTS(x, y) HAS_MEMBER(at[x].config, id[y])
#else
#ifdef ADD_NAMES_NOBODY
/* Only the founders are named. */
#define COUNTS(x, y) \
    (HAS_MEMBER(at[x].config, id[y]) && \
     (id[y] == A && OF_A(at[x].config) == VOTER(1) -> incarnation[y] == 1 : 1))
#else
#define COUNTS(x, y) IS_NAMED(at[x].config, y)
#endif
#endif

/* What 'y' answers is heard and counts at 'x'. */
#ifdef NO_VOTE_CHECK
#define VOTE_COUNTS(x, y) 1
#else
#define VOTE_COUNTS(x, y) COUNTS(x, y)
#endif
#ifdef NO_ACK_CHECK
#define ACK_COUNTS(x, y) 1
#else
#define ACK_COUNTS(x, y) COUNTS(x, y)
#endif
#ifdef NO_CONFIRM_CHECK
#define CONFIRM_COUNTS(x, y) 1
#else
#define CONFIRM_COUNTS(x, y) COUNTS(x, y)
#endif

/* A directory counts for itself, too, and campaigns, only as who it is. */
#ifdef NO_OWN_CHECK
#define IS_ITSELF(x) HAS_MEMBER(at[x].config, id[x])
#else
#define IS_ITSELF(x) COUNTS(x, x)
#endif

#ifdef LINKS
/* A node has one link per number. Only those of A's directories matter. */
#define GUEST 8
#define HOLDER(x) (A1 + (at[x].link & 7) - 1)
#define LINKED(x, y) \
    (id[x] != id[y] && \
     (id[x] == A -> (at[y].link & 7) == incarnation[x] : \
      (id[y] == A -> (at[x].link & 7) == incarnation[y] : 1)))

/* A member, by the log of 'x', names 'y' in a newer configuration. */
#define NAMES_GUEST(w, x, y) \
    (w != (x) && IS_NAMED(at[x].config, w) && \
     at[w].config_index > at[x].config_index && IS_NAMED(at[w].config, y))
#ifdef FOURTH
#define IS_GUEST(x, y) \
    (NAMES_GUEST(B1, x, y) || NAMES_GUEST(C1, x, y) || NAMES_GUEST(D1, x, y))
#else
#define IS_GUEST(x, y) (NAMES_GUEST(B1, x, y) || NAMES_GUEST(C1, x, y))
#endif

#ifdef APPLIED
/* The log names its number, and the applied state knows no other incarnation
 * of it. */
#define IS_ADMITTED(x, y) \
    (HAS_MEMBER(at[x].config, A) && \
     (at[x].registered == 0 || at[x].registered == incarnation[y]))
#else
#ifdef NO_HELLO_CHECK
#define IS_ADMITTED(x, y) HAS_MEMBER(at[x].config, A)
#else
#define IS_ADMITTED(x, y) (IS_NAMED(at[x].config, y) || IS_GUEST(x, y))
#endif
#endif

/* At each configuration that is appended, rolled back or installed. */
inline close_links(x)
{
#ifdef NO_CLOSING
    skip
#else
    if
    :: id[x] != A && at[x].link != 0 ->
        if
        :: IS_NAMED(at[x].config, HOLDER(x)) -> at[x].link = at[x].link & 7
        :: !IS_NAMED(at[x].config, HOLDER(x)) && IS_GUEST(x, HOLDER(x)) ->
            at[x].link = at[x].link | GUEST
        :: else -> at[x].link = 0
        fi
    :: else
    fi
#endif
}

#define CAN_CONNECT(x, y) \
    ((at[x].link & 7) != incarnation[y] && IS_ADMITTED(x, y))

/* The link before was cut, or is a guest's. */
inline connect(x, y)
{
    printf("%d connects to %d\n", y, x);
    at[x].link = incarnation[y];
#ifndef APPLIED
    if
    :: !IS_NAMED(at[x].config, y) && IS_GUEST(x, y) ->
        at[x].link = at[x].link | GUEST
    :: else
    fi
#endif
}

/* Who is not named and no guest has taken the place of who is. */
#ifdef HARM
#define OF_PLACE(x, y)
#else
#define OF_PLACE(x, y) \
    :: d_step { IS_NAMED(at[x].config, y) && at[x].link != 0 && \
                at[x].link < GUEST && at[x].link != incarnation[y] -> \
           assert(false) }
#endif
#define OF_LINK(x, y) \
    :: d_step { CAN_CONNECT(x, y) -> connect(x, y) } \
    OF_PLACE(x, y)
#else
#define LINKED(x, y) (id[x] != id[y])
#define OF_LINK(x, y)
inline close_links(x)
{
    skip
}
#endif

/* --- Elections ------------------------------------------------------------ */

inline follow(x)
{
    at[x].role = FOLLOWER;
    at[x].votes = 0;
    at[x].commit = 0;
    for (n : 0 .. 3) {
        at[x].match[n] = 0
    }
}

inline see_term(x, newer)
{
    if
    :: at[x].term < newer ->
        at[x].term = newer;
        at[x].voted = NOBODY;
        follow(x)
    :: at[x].term == newer && at[x].role == CANDIDATE -> follow(x)
    :: else
    fi
}

#define CAN_CAMPAIGN(x) \
    (at[x].term < TERMS && VOTES(at[x].config, id[x]) && IS_ITSELF(x))

/* A leader that does has been restarted. */
inline campaign(x)
{
    printf("%d campaigns in term %d\n", x, at[x].term + 1);
    follow(x);
    at[x].term++;
    at[x].voted = id[x];
    at[x].role = CANDIDATE;
    at[x].votes = 1 << x;
    skip
}

#define IS_AS_GOOD(x, y) \
    (at[x].last_term > at[y].last_term || \
     (at[x].last_term == at[y].last_term && at[x].last >= at[y].last))

/* Whoever is asked votes, also one that is no voter by its own log (thesis,
 * 4.2.2). */
#define CAN_VOTE(x, y) \
    (at[x].role == CANDIDATE && LINKED(x, y) && IS_AS_GOOD(x, y) && \
     (at[y].term < at[x].term || \
      (at[y].term == at[x].term && \
       (at[y].voted == NOBODY || at[y].voted == id[x]) && \
       (at[x].votes >> y & 1) == 0)))

inline vote(x, y)
{
    printf("%d votes for %d in term %d\n", y, x, at[x].term);
    if
    :: at[y].term < at[x].term ->
        see_term(y, at[x].term)
    :: else
    fi;
    at[y].voted = id[x];
    if
    :: VOTE_COUNTS(x, y) -> at[x].votes = at[x].votes | (1 << y)
    :: else
    fi
}

#ifdef TWO
#define DIRS_OF_B ((1 << B1) | (1 << B2))
#else
#define DIRS_OF_B (1 << B1)
#endif
#ifdef FOURTH
#define DIRS_OF_D (1 << D1)
#else
#define DIRS_OF_D 0
#endif
#ifdef FOUR
#define DIRS_OF_A (1 << A1)
#else
#ifdef WIPED
#define DIRS_OF_A ((1 << A1) | (1 << A2) | (1 << A3))
#else
#define DIRS_OF_A ((1 << A1) | (1 << A2))
#endif
#endif

/* By numbers: two directories of one are one vote. */
#define IS_MAJORITY(c, set) \
    (2 * ((A_VOTES(c) && ((set) & DIRS_OF_A) != 0 -> 1 : 0) + \
          (B_VOTES(c) && ((set) & DIRS_OF_B) != 0 -> 1 : 0) + \
          (((set) & (1 << C1)) != 0 -> 1 : 0) + \
          (OF_D(c) && ((set) & DIRS_OF_D) != 0 -> 1 : 0)) > VOTERS(c))

#ifdef LOST
/* Only for what comes of the rest: no second leader of a term. */
#define MAY_LEAD(x) ((led >> at[x].term & 1) == 0)
#else
#define MAY_LEAD(x) 1
#endif
#define CAN_WIN(x) \
    (at[x].role == CANDIDATE && MAY_LEAD(x) && \
     IS_MAJORITY(at[x].config, at[x].votes))

inline check_has_done(x)
{
    assert(at[x].last >= done);     /* Nothing committed is lost. */
    find_term(at[x].last_term, done);
    assert(g == done_term)
}

inline win(x)
{
    printf("%d leads in term %d by votes %d, its log ends in %d/%d\n", x,
           at[x].term, at[x].votes, at[x].last_term, at[x].last);
    assert((led >> at[x].term & 1) == 0);   /* One leader per term. */
    led = led | (1 << at[x].term);
    if
    :: at[x].term > done_by -> check_has_done(x)
    :: else
    fi;
#ifndef HARM
    for (m : 0 .. DIRS - 1) {
        assert((at[x].votes >> m & 1) == 0 || IS_NAMED(at[x].config, m))
    }
#endif
    base_term[at[x].term] = at[x].last_term;
    base[at[x].term] = at[x].last;
    at[x].role = LEADER;
    at[x].votes = 0;
    if
    :: at[x].last < LOG -> append(x, 0)
    :: else
    fi
}

/* --- What a leader does --------------------------------------------------- */

#define HAS(x, index, number) \
    (VOTES(at[x].config, number) && \
     (number == id[x] -> IS_ITSELF(x) : at[x].match[number] >= (index)))
#define IS_HAD(x, index) \
    (2 * ((HAS(x, index, A) -> 1 : 0) + (HAS(x, index, B) -> 1 : 0) + \
          (HAS(x, index, C) -> 1 : 0) + (HAS(x, index, D) -> 1 : 0)) > \
     VOTERS(at[x].config))
/* The first entry of its own that it does not know to be committed. */
#define NEXT(x) \
    ((at[x].commit > base[at[x].term] -> at[x].commit : \
      base[at[x].term]) + 1)
#define CAN_COMMIT(x) (NEXT(x) <= at[x].last && IS_HAD(x, NEXT(x)))

inline settle(x)
{
    printf("%d commits in term %d\n", x, at[x].term);
    m = at[x].last;
    do
    :: !IS_HAD(x, m) -> m--
    :: else -> break
    od;
    at[x].commit = m;
#ifndef HARM
    /* What counts lies in the directories that the configuration names. */
    for (n : 0 .. DIRS - 1) {
        if
        :: n != x && IS_NAMED(at[x].config, n) && HAS(x, m, id[n]) ->
            assert(at[n].last >= m);
            find_term(at[n].last_term, m);
            assert(g == at[x].term)
        :: else
        fi
    }
#endif
    if
    :: m > done ->
        check_has_done(x);
        done = m;
        done_term = at[x].term;
    :: else ->
        find_term(done_term, m);
        assert(g == at[x].term)
    fi;
    done_by = (at[x].term > done_by -> at[x].term : done_by);
    for (n : 0 .. 3) {
        if
        :: at[x].match[n] <= at[x].commit -> at[x].match[n] = 0
        :: else
        fi
    }
    skip
}

#ifdef APPLIED
#define LACKS_APPLYING(x) (at[x].applied < at[x].last && at[x].applied < done)

/* It learns at once how much of its log is committed. */
inline apply(x)
{
    do
    :: !LACKS_APPLYING(x) -> break
    :: else ->
        find_term(done_term, at[x].applied + 1);
        h = g;
        find_term(at[x].last_term, at[x].applied + 1);
        if
        :: g != h -> break
        :: else
        fi;
        at[x].applied++;
        c = CELL(g, at[x].applied);
        if
        :: c >= REGISTER(0) -> at[x].registered = c - REGISTER(0)
        :: IS_CONFIGURATION(c) && OF_A(c) <= VOTER(1) ->
            at[x].registered = OF_A(c) >> 1
#ifdef REGISTERED_AT_ONCE
        :: IS_CONFIGURATION(c) && OF_A(c) > VOTER(1) ->
            at[x].registered = OF_A(c) >> 1
#endif
        :: else
        fi
    od
}
#else
#define LACKS_APPLYING(x) 0
inline apply(x)
{
    skip
}
#endif

/* What a majority has acknowledged is committed at once: a leader that learns
 * it later may only do less. */
inline commit_what_is_had(x)
{
    if
    :: CAN_COMMIT(x) ->
        settle(x);
        apply(x)
    :: else
    fi
}


inline append(x, entry)
{
    printf("%d appends %d at %d\n", x, entry, at[x].last + 1);
    at[x].last++;
    at[x].last_term = at[x].term;
    CELL(at[x].term, at[x].last) = entry;
    if
    :: entry != 0 -> read_configuration(x)
    :: else
    fi;
    commit_what_is_had(x)
}

#define HAS_ROOM(x) (at[x].role == LEADER && at[x].last < LOG)

#ifdef NO_OWN_ENTRY
#define HAS_OWN(x) 1
#else
#define HAS_OWN(x) (at[x].commit > 0)
#endif
#ifdef NO_COMMIT_WAIT
#define IS_SETTLED(x) 1
#else
#ifdef NO_OWN_ENTRY
#define IS_SETTLED(x) (at[x].commit >= at[x].config_index || \
                       base[at[x].term] >= at[x].config_index)
#else
#define IS_SETTLED(x) (at[x].commit >= at[x].config_index)
#endif
#endif
#define CAN_CHANGE(x) (HAS_ROOM(x) && HAS_OWN(x) && IS_SETTLED(x))

/* The core keeps progress per number, as long as the number is a member's. */
inline change(x, next, number)
{
    if
    :: !HAS_MEMBER(at[x].config, number) || !HAS_MEMBER(next, number) ->
        at[x].match[number] = 0
    :: else
    fi;
    c = next;
    append(x, c)
}

#define CONFIG_WITH_A(x, a) \
    CONFIGURATION(a, OF_B(at[x].config), OF_D(at[x].config))
#define CONFIG_WITH_B(x, b) \
    CONFIGURATION(OF_A(at[x].config), b, OF_D(at[x].config))

/* At least two voters are left, and a leader does not remove itself. */
#define CAN_REMOVE(x, number, of) \
    (CAN_CHANGE(x) && id[x] != number && of(at[x].config) != 0 && \
     VOTERS(at[x].config) - (of(at[x].config) & 1) >= 2)
#define CAN_ADD(x, of) (CAN_CHANGE(x) && of(at[x].config) == 0)
#define CAN_PROMOTE(x, of) \
    (CAN_CHANGE(x) && of(at[x].config) > 1 && (of(at[x].config) & 1) == 0)

#define IS_TOLD(x, y) \
    (at[x].role == LEADER && LINKED(x, y) && at[y].term <= at[x].term && \
     HAS_MEMBER(at[x].config, id[y]) && \
     (at[y].term < at[x].term || at[y].last_term != at[x].last_term || \
      at[y].last != at[x].last || \
      LACKS_APPLYING(y) || \
      (at[x].commit < at[x].last && at[x].match[id[y]] < at[x].last)))

/* Entries that no log has any more are as if they had never been. */
inline forget_entries()
{
    for (n : 2 .. TERMS) {
        i = 0;      /* The last entry of term n in any log. */
        e = 0;      /* Term n still has its leader. */
        for (m : 0 .. DIRS - 1) {
            g = at[m].last_term;
            h = at[m].last;
            do
            :: g > n ->
                h = base[g];
                g = base_term[g]
            :: else -> break
            od;
            i = (g == n && h > i -> h : i);
            e = (at[m].role == LEADER && at[m].term == n -> 1 : e)
        }
        for (m : 1 .. LOG) {
            if
            :: m > i -> CELL(n, m) = 0
            :: else
            fi
        }
        if
        :: i == 0 && !e -> base[n] = 0; base_term[n] = 0
        :: else
        fi
    }
    skip
}

/* The next entry that 'y' lacks. */
inline replicate(x, y)
{
    see_term(y, at[x].term);
    find_common(x, y);
    if
    :: k < at[x].last ->
        m = (k < at[y].last);
        k++;
        find_term(at[x].last_term, k);
        printf("%d gives %d entry %d of term %d\n", x, y, k, g);
        at[y].last_term = g;
        at[y].last = k;
        read_configuration(y);
        if
        :: m -> forget_entries()
        :: else
        fi
    :: else
    fi;
#ifdef CONFIG_FROM_APPLIED
    read_configuration(y);
#endif
    apply(y)
}

inline acknowledge(x, y, index)
{
    if
    :: ACK_COUNTS(x, y) && at[x].match[id[y]] < index &&
       at[x].commit < index ->
        at[x].match[id[y]] = index;
        commit_what_is_had(x)
    :: else
    fi
}

/* Only of A there may be another directory by then. */
#ifdef LATE
#define OF_LATE(x, y) \
    :: d_step { late_from == DIRS && IS_TOLD(x, y) -> \
           replicate(x, y); \
           late_from = y; late_term = at[x].term; late_index = k }
#else
#define OF_LATE(x, y)
#endif

/* Confirmations of its leadership can be got from a majority: who has a later
 * term gives none. Then nothing is committed that it does not have. */
inline confirm(x)
{
    printf("%d asks for confirmation in term %d\n", x, at[x].term);
    k = 1 << x;
    for (m : 0 .. DIRS - 1) {
        if
        :: m != x && LINKED(x, m) && at[m].term <= at[x].term &&
           CONFIRM_COUNTS(x, m) ->
            k = k | (1 << m)
        :: else
        fi
    }
    if
    :: IS_MAJORITY(at[x].config, k) -> check_has_done(x)
    :: else
    fi
}

#ifdef RESTARTS
/* Log, term and vote are durable; the applied state is an old snapshot's. */
inline restart(x)
{
    printf("%d is restarted\n", x);
    follow(x);
#ifdef CONFIG_FROM_APPLIED
    at[x].config = (at[x].last == 0 -> 0 : CELL(1, 1));
    at[x].config_index = (at[x].last == 0 -> 0 : 1);
    close_links(x);
#endif
#ifdef APPLIED
    at[x].applied = (at[x].last == 0 -> 0 : 1);
    at[x].registered = at[x].applied;
#endif
    skip
}
#endif

/* --- All that may happen -------------------------------------------------- */

#define OF_ONE(x) \
    :: d_step { CAN_CAMPAIGN(x) -> campaign(x) } \
    :: d_step { CAN_WIN(x) -> win(x) } \
    :: d_step { HAS_ROOM(x) && puts < PUTS -> puts++; append(x, 0) } \
    :: d_step { at[x].role == LEADER && at[x].term < done_by -> confirm(x) } \
    OF_CHANGE(x) \
    OF_APPLYING(x) \
    OF_RESTART(x)

#define OF_REMOVE_AND_PROMOTE(x, number, of, with) \
    :: d_step { CAN_REMOVE(x, number, of) -> change(x, with(x, 0), number) } \
    :: d_step { CAN_PROMOTE(x, of) -> \
           change(x, with(x, of(at[x].config) + 1), number) }
#define OF_ADD(x, number, of, with, i) \
    :: d_step { CAN_ADD(x, of) -> change(x, with(x, STANDBY(i)), number) }

#ifdef WIPED
#define OF_ADD_A(x) \
    OF_ADD(x, A, OF_A, CONFIG_WITH_A, 2) OF_ADD(x, A, OF_A, CONFIG_WITH_A, 3)
#else
#ifdef FOUR
#define OF_ADD_A(x)
#else
#define OF_ADD_A(x) OF_ADD(x, A, OF_A, CONFIG_WITH_A, 2)
#endif
#endif
#ifdef TWO
#define OF_CHANGE_OF_B(x) \
    OF_REMOVE_AND_PROMOTE(x, B, OF_B, CONFIG_WITH_B) \
    OF_ADD(x, B, OF_B, CONFIG_WITH_B, 2)
#else
#ifdef FOUR
#define OF_CHANGE_OF_B(x) OF_REMOVE_AND_PROMOTE(x, B, OF_B, CONFIG_WITH_B)
#else
#define OF_CHANGE_OF_B(x)
#endif
#endif
/* A1 becomes A2 in one entry. */
#ifdef IN_ONE
#define OF_REPLACE(x) \
    :: d_step { CAN_CHANGE(x) && id[x] != A && \
                OF_A(at[x].config) == VOTER(1) -> \
         change(x, CONFIG_WITH_A(x, VOTER(2)), A) }
#else
#define OF_REPLACE(x)
#endif
#define OF_CHANGE(x) \
    OF_REMOVE_AND_PROMOTE(x, A, OF_A, CONFIG_WITH_A) \
    OF_ADD_A(x) \
    OF_CHANGE_OF_B(x) \
    OF_REPLACE(x)

#ifdef APPLIED
/* REGISTER is logged when the new directory has greeted the leader. */
#define OF_APPLYING(x) \
    :: d_step { HAS_ROOM(x) && HAS_OWN(x) && id[x] != A && \
                at[x].applied == at[x].last && at[x].registered == 0 && \
                HAS_MEMBER(at[x].config, A) && at[x].link > 1 -> \
           append(x, REGISTER(at[x].link)) }
#else
#define OF_APPLYING(x)
#endif
#ifdef RESTARTS
#define OF_RESTART(x) \
    :: d_step { restarts < RESTARTS -> restarts++; restart(x) }
#else
#define OF_RESTART(x)
#endif

#define OF_TWO(x, y) \
    :: d_step { CAN_VOTE(x, y) -> vote(x, y) } \
    :: d_step { IS_TOLD(x, y) -> replicate(x, y); acknowledge(x, y, k) }
#define OF_PAIR(x, y) OF_TWO(x, y) OF_TWO(y, x)
#define OF_PAIR_WITH_A(x, y) OF_PAIR(x, y) OF_LATE(x, y) OF_LINK(x, y)

init
{
    d_step {
        for (m : 0 .. DIRS - 1) {
            at[m].voted = NOBODY
        }
        led = 1 << 1;
        for (m : 0 .. DIRS - 1) {
            if
            :: incarnation[m] == 1 ->
                at[m].term = 1;
                at[m].last_term = 1;
                at[m].last = 1;
            :: else
            fi
        }
#ifdef APPLIED
        for (m : 0 .. DIRS - 1) {
            at[m].applied = at[m].last;
            at[m].registered = at[m].last
        }
#endif
#ifdef GROWN
        /* D was added and promoted while C was away. */
        CELL(1, 1) = CONFIGURATION(VOTER(1), VOTER(1), 0);
        CELL(1, 2) = CONFIGURATION(VOTER(1), VOTER(1), 1);
        at[A1].last = 2;
        at[B1].last = 2;
        at[D1].last = 2;
#ifdef STALE
        /* C leads in term 1 and does not know that B leads in term 2. */
        CELL(1, 2) = 0;
        CELL(2, 3) = CONFIGURATION(VOTER(1), VOTER(1), 1);
        base[2] = 1;
        base_term[2] = 1;
        led = led | (1 << 2);
        at[A1].last = 3;
        at[B1].last = 3;
        at[D1].last = 3;
        at[A1].last_term = 2;
        at[B1].last_term = 2;
        at[D1].last_term = 2;
        at[A1].term = 2;
        at[A1].voted = B;
        at[B1].term = 2;
        at[D1].term = 2;
        at[C1].voted = C;
        at[C1].role = LEADER;
        at[C1].commit = 1;
#endif
#else
#ifdef FOURTH
        CELL(1, 1) = CONFIGURATION(VOTER(1), VOTER(1), 1);
#else
        CELL(1, 1) = CONFIGURATION(VOTER(1), VOTER(1), 0);
#endif
#endif
        for (m : 0 .. DIRS - 1) {
            read_configuration(m)
        }
        at[B1].voted = B;
        at[B1].role = LEADER;
        at[B1].commit = at[B1].last;
        done = at[B1].last;
        done_term = at[B1].last_term;
        done_by = at[B1].term;
#ifdef LATE
        late_from = DIRS;
#endif
        skip
    }
end:
    do
    OF_ONE(B1)
    OF_ONE(C1)
    OF_ONE(A1)
    OF_PAIR(B1, C1)
    OF_PAIR_WITH_A(B1, A1)
    OF_PAIR_WITH_A(C1, A1)
#ifndef FOUR
    OF_ONE(A2)
    OF_PAIR_WITH_A(B1, A2)
    OF_PAIR_WITH_A(C1, A2)
#endif
#ifdef WIPED
    OF_ONE(A3)
    OF_PAIR_WITH_A(B1, A3)
    OF_PAIR_WITH_A(C1, A3)
#endif
#ifdef FOURTH
    OF_ONE(D1)
    OF_PAIR_WITH_A(D1, A1)
#ifndef FOUR
    OF_PAIR_WITH_A(D1, A2)
#endif
    OF_PAIR(D1, B1)
    OF_PAIR(D1, C1)
#endif
#ifdef TWO
    OF_ONE(B2)
    OF_PAIR(B2, A1)
    OF_PAIR(B2, A2)
    OF_PAIR(B2, C1)
    OF_PAIR(B2, D1)
#endif
#ifdef LATE
    :: d_step { late_from != DIRS ->
           for (z : 0 .. DIRS - 1) {
               if
               :: at[z].role == LEADER && at[z].term == late_term &&
                  LINKED(z, late_from) ->
                   acknowledge(z, late_from, late_index)
               :: else
               fi
           }
           late_from = DIRS; late_term = 0; late_index = 0 }
#endif
    od
}
