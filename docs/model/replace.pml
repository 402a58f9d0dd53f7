/* SPDX-License-Identifier: MIT */

/* RAFT.REPLACE: the steps by which a voter that lost its directory gets an
 * empty one, broken off anywhere and continued by any leader. members.pml has
 * what Raft makes of each step; here a step is an entry that is committed, or
 * is lost with its leader although it may have reached the new directory.
 *
 * Member A is wiped, gets a directory with a past, its first one runs elsewhere
 * or returns; B is down or wiped. C leads, or another leader that knows what is
 * committed. After a calm A must vote with the directory that its node has.
 *
 * With AUTO the leader also begins one without a request
 * (cluster.replace_empty), and a mount can be missing: the node then runs with
 * an empty directory in a volume without the marker. */

#ifndef WIPES
#define WIPES 3     /* A gets another directory so often. */
#endif
#ifndef CHANGES
#define CHANGES 3   /* Changes of leader, each of which loses what is in flight. */
#endif
#define DIRS (WIPES + 1)

/* --- What is committed ---------------------------------------------------- */

byte place = 1;     /* A's directory in the configuration; 0: none. */
bool votes = true;
byte wanted;        /* The record: the directory that was verified; 0: none. */
byte removed;       /* Bits: directories that were removed. */
bool left;          /* An operator has removed A for good. */

/* --- What runs ------------------------------------------------------------ */

byte runs = 1;      /* The directory of the node at A's address. */
byte newest = 1;
byte used = 2;      /* Bits: directories with a term or a log. */
byte foreign;       /* Bits: directories of another cluster. */
bool twin;          /* The first directory runs elsewhere, and is connected. */
bool b_up = true;
bool b_wiped;

/* The leader's request, or its own continuation, and what A's node said. */
bool busy;
byte asked;

bool own;           /* No request: the leader has begun it. */
byte unmarked;      /* Bits: directories in a volume without the marker. */

byte changes;
bool calm;

#define BIT(d) (1 << (d))
#define IS_REMOVED(d) ((removed >> (d)) & 1)
#define IS_USED(d) ((used >> (d)) & 1)
#define IS_FOREIGN(d) ((foreign >> (d)) & 1)
#define IS_UNMARKED(d) ((unmarked >> (d)) & 1)
#define B_IS_THERE (b_up && !b_wiped)
#define A_IS_THERE (place != 0 && (place == runs || (twin && place == 1)))

/* Of three voters, and of two, a majority is two. So this is one more than the
 * failures that the cluster survives now. */
#define ALIVE (1 + (B_IS_THERE -> 1 : 0) + (votes && A_IS_THERE -> 1 : 0))

/* --- Guards --------------------------------------------------------------- */

#ifdef NO_EMPTY_CHECK
#define IS_EMPTY(d) 1
#else
#ifdef EMPTY_EVERY_TIME
#define IS_EMPTY(d) (!IS_USED(d))
#else
#define IS_EMPTY(d) (!IS_USED(d) || wanted == (d))
#endif
#endif
#ifdef NO_OTHERS_CHECK
#define OTHERS_ARE_THERE 1
#else
#define OTHERS_ARE_THERE B_IS_THERE
#endif
#ifdef NO_OWN_CHECK
#define IS_LOST 1
#else
#define IS_LOST (!A_IS_THERE)
#endif
#ifdef RECORDED_LATER
#define IS_RECORDED 1
#define MAY_RECORD (place == 0)
#else
#define IS_RECORDED (wanted == asked)
#define MAY_RECORD (place == 0 || (OTHERS_ARE_THERE && IS_LOST))
#endif
#ifdef NOBODY_CONTINUES
#define CONTINUES 0
#else
#define CONTINUES (wanted != 0 && !votes)
#endif

/* No model of an hour: a removal forbids the leader's own beginning for ever. */
#ifdef NO_MARK_CHECK
#define IS_MOUNTED 1
#else
#define IS_MOUNTED (!IS_UNMARKED(runs))
#endif
#ifdef NO_PAUSE
#define HAS_PAUSED 1
#else
#define HAS_PAUSED (removed == 0)
#endif
#ifdef ONLY_ASKED
#define MAY_BEGIN 0
#else
#define MAY_BEGIN (IS_MOUNTED && HAS_PAUSED)
#endif
#ifdef AUTO
#define BEGINS (votes && place != runs && MAY_BEGIN && \
                IS_EMPTY(runs) && OTHERS_ARE_THERE && IS_LOST)
/* What the leader has to do alone, in the calm. */
#define MUST_BEGIN (votes && !IS_UNMARKED(runs) && removed == 0)
#else
#define BEGINS 0
#define MUST_BEGIN 0
#endif

/* The step that the state asks for when A's node has answered. */
#define CAN_RECORD \
    (wanted != asked && place != asked && IS_EMPTY(asked) && MAY_RECORD)
#define CAN_REMOVE \
    (place != 0 && place != asked && IS_RECORDED && IS_EMPTY(asked) && \
     OTHERS_ARE_THERE && IS_LOST)
#define CAN_ADD \
    (place == 0 && wanted == asked && IS_EMPTY(asked) && runs == asked && \
     OTHERS_ARE_THERE)
#define CAN_PROMOTE \
    (place == asked && !votes && runs == asked && OTHERS_ARE_THERE)
#define IS_DONE (place == runs && votes)

inline remove_it()
{
    assert(B_IS_THERE);     /* No second voter is missing meanwhile. */
    assert(!own || !IS_UNMARKED(asked)); /* The former one may be intact. */
    assert(!own || removed == 0);        /* Not at each start. */
    k = ALIVE;
    removed = removed | BIT(place);
    place = 0;
    votes = false;
    assert(ALIVE >= k)      /* It costs no availability. */
}

inline add_it()
{
    assert(!IS_REMOVED(asked) && !IS_FOREIGN(asked) && !left);
    place = asked;
    used = used | BIT(asked)
}

#define FAULT(c) !calm && (c)

hidden byte k;

init
{
end:
    do
    /* Faults, until the calm. */
    :: d_step { FAULT(newest < DIRS && !left) ->
           newest++; runs = newest }
    :: d_step { FAULT(newest < DIRS - 1 && !left) ->
           newest++; runs = newest;
           foreign = foreign | BIT(newest); used = used | BIT(newest) }
#ifdef AUTO
    :: d_step { FAULT(newest < DIRS && !left) ->
           newest++; runs = newest;
           unmarked = unmarked | BIT(newest) }
#endif
    :: d_step { FAULT(runs != 1) -> runs = 1 }      /* The mount is back. */
    :: d_step { FAULT(runs != newest) -> runs = newest }
    :: d_step { FAULT(runs != 1) -> twin = !twin }
    :: d_step { FAULT(true) -> b_up = !b_up }
    :: d_step { FAULT(!b_wiped) -> b_wiped = true }
    :: d_step { FAULT(changes < CHANGES) -> changes++; busy = false }
    /* The ADD has reached its directory, and is lost with its leader. */
    :: d_step { FAULT(changes < CHANGES && busy && CAN_ADD) ->
           changes++; used = used | BIT(asked); busy = false }

    /* Operators: replace, and give up. After the calm they repeat it while A
     * is a voter. */
    :: d_step { !busy && !IS_DONE && !left &&
                (calm -> votes && !MUST_BEGIN : place != 0 || wanted != 0) ->
           busy = true; own = false; asked = runs }
    :: d_step { FAULT(!busy && wanted != 0 && place == 0) ->
           left = true;
#ifndef REMOVE_KEEPS_RECORD
           wanted = 0;
#endif
           skip }

    /* The leader. */
    :: d_step { !busy && CONTINUES -> busy = true; own = false; asked = runs }
    :: d_step { !busy && !IS_DONE && !left && BEGINS ->
           busy = true; own = true; asked = runs }
    :: d_step { busy && CAN_RECORD -> wanted = asked }
    :: d_step { busy && CAN_REMOVE -> remove_it() }
    :: d_step { busy && CAN_ADD -> add_it() }
    :: d_step { busy && CAN_PROMOTE -> votes = true; wanted = 0 }
    :: d_step { busy && !CAN_RECORD && !CAN_REMOVE && !CAN_ADD &&
                !CAN_PROMOTE ->
           assert(!calm || IS_DONE);
           busy = false }

    /* Calm: A's node has its newest directory, everything else is there. */
    :: d_step { FAULT(!left && !IS_FOREIGN(newest)) ->
           calm = true; runs = newest; twin = false; b_up = true;
           b_wiped = false; busy = false }
    :: d_step { calm && !busy && !CONTINUES && !votes -> assert(false) }
    :: d_step { calm && !busy && !IS_DONE && MUST_BEGIN && !BEGINS ->
           assert(false) }
    :: calm && IS_DONE && !busy -> break
    od
}
