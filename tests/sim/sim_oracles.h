/* SPDX-License-Identifier: MIT */

/* The oracles: what is checked all the time, in every run. Each violation names
 * its oracle, and `sim --without LIST` runs without some of them. That shows
 * that exactly one oracle sees a planted bug (tests/sim/README.md lists the
 * plants). A CHECK or a sanitizer that a program trips is not an oracle: such a
 * run has crashed. */

#ifndef HASP_TESTS_SIM_SIM_ORACLES_H
#define HASP_TESTS_SIM_SIM_ORACLES_H

enum sim_oracle {
    /* 1. One leader per term. A restarted node leads only in a new term. */
    ORACLE_LEADERS = 1,
    /* 2. All nodes apply the same entries in the same order with the same
     * effects. Equal applied index means equal state (lockfsm_hash), also after
     * a restart and a snapshot. The incremental digest is that of the state.
     * The state on disk is never ahead of the log. */
    ORACLE_EQUALITY,
    /* 3. Every state is consistent and follows from the one before
     * (lockfsm_check_basic, lockfsm_delta_check), and so is each core's
     * (core_check). */
    ORACLE_SOUNDNESS,
    /* 4. An exclusive lock has one owner; the grant and the end of a hold
     * alternate. Tokens of a lock grow and are token_base plus log index.
     * Effects report what happened. */
    ORACLE_GRANTS,
    /* 5. First come, first served: nobody overtakes the queue, and requests
     * that barge do not overtake a wait forever. */
    ORACLE_ORDER,
    /* 6. A dead session is granted nothing and stays dead. */
    ORACLE_DEATH,
    /* 7. One believer per exclusive lock, as many as slots for a semaphore, one
     * per Redis lock, by the clients' own clocks, at every moment of true
     * time. */
    ORACLE_BELIEVERS,
    /* 8. No session expires sooner than T/1.1 after a heartbeat that was
     * answered OK was sent. The client considers its lease over first, and
     * events report whether it can trust its holds. */
    ORACLE_LEASES,
    /* 9. Acknowledged results are permanent: each answer is that of a committed
     * entry, later than the request. A numbered request takes effect once. A
     * grant is reported once. */
    ORACLE_RESULTS,
    /* 10. A client that believes in a hold has it. A client that learned that a
     * hold is over, or released it, does not have it. */
    ORACLE_HOLDS,
    /* 11. Reads are linearizable. A fence admits the newest token and nothing
     * older. */
    ORACLE_READS,
    /* 12. A refusal is based on committed state. If it says that nothing was
     * done, no entry has the request, then or later. A try fails only if the
     * lock is not free. A request that gives back is never refused. Errors are
     * those of the contract. */
    ORACLE_REFUSALS,
    /* 13. No node stops by itself, and each starts from what it left on disk. A
     * node with the state of a cluster knows its id. No entry is on disk before
     * its term. */
    ORACLE_NODES,
    /* 14. After everything is healed every client gets answers, and a client
     * that died before that has lost its session 20 s later. So has a Redis
     * value that no request has renewed, and only a request that sets the time
     * of a value renews its session. In the end every waiter is answered, every
     * watcher has its events, no session and no lock is left, and all members
     * are equal. */
    ORACLE_PROGRESS,
    /* 15. When a leader dies and all else is well, another one serves within 3
     * terms, 1.5 s, six flushes (of up to 500 ms), and the longest time of an
     * election for each election without a winner and for a death that no node
     * noticed. */
    ORACLE_ELECTIONS,
    /* 16. Nothing above the cluster's feature level is proposed. No node
     * applies what its version does not understand. A node that stops as too
     * old is too old. */
    ORACLE_LEVELS,
    /* 17. Silence is logged as it was, each moment once. A dead session and
     * every time span end within their bounds however often the leader changes
     * (sim_silence.h). */
    ORACLE_SILENCE,
    /* 18. After a calm no leader has a clock more than 6 % off from those of
     * most voters, unless it has already handed over once. At any time, only
     * one whose clock is 4 % off hands over because of it. */
    ORACLE_CLOCKS,
    /* 19. No vote is removed, except by force, if that leaves voters of which
     * the leader has not heard more than half (sim_majority.h). A vote that is
     * reported as removed or given back is (sim_voter.h). */
    ORACLE_VOTES,
    /* 20. An old copy of a follower's disk is detected and condemned as long as
     * the leader that knows better lives (sim_loss.h). No other disk is
     * condemned. */
    ORACLE_OLD_DISKS,
    /* 21. A node that was away until it needs a snapshot catches up, wherever
     * it dies meanwhile (sim_behind.h). */
    ORACLE_CATCHING_UP,
    /* 22. A watcher gets the events of the log, in order, each once and none
     * left out, and `gap` if and only if the node cannot know them. A lock's
     * history is that of the log (sim_watcher.h). */
    ORACLE_EVENTS,
    /* 23. The content of LOCK.SHOW, LOCK.LIST, SESSION.SHOW, SESSION.LIST and
     * FENCE.LIST was all true at one moment between request and answer:
     * holders, queue, note, counts. A page is complete then. Ages, leases,
     * delays and limited holds have run as clocks allow, and do not end sooner
     * than was shown (sim_shown.h, sim_faces.h). */
    ORACLE_LISTINGS,
    /* 24. A table that is reported as full is full, and a request that gives
     * back is not refused for it. Nothing grows above its limit. A number is
     * forgotten when 64 gaps have overtaken it (sim_crowd.h). */
    ORACLE_LIMITS,
    /* 25. A session without end does not expire, and a hold of it is broken
     * only if that was announced, its time is over and nobody has objected
     * (sim_durable.h, sim_silence.h). */
    ORACLE_DURABLE,
    /* 26. A backup, taken from a serving node or of a directory, is the state
     * that one entry left, with its members and everything applied before the
     * request. A damaged backup is refused (sim_backup.h, sim_saver.h). */
    ORACLE_BACKUPS,
    /* 27. A restore keeps what must not be forgotten, and nothing else. After
     * an interrupted restore only a complete one starts (sim_restore.h). */
    ORACLE_RESTORES,
    /* 28. A former life does not continue: none of its nodes serves. A new life
     * has its own id and tokens above all earlier ones. Former tokens are not
     * admitted, and former sessions are dead. In the quarantine, which has the
     * requested length, nothing is granted (sim_check.c, sim_silence.h). 7 and
     * 22 check across lives. */
    ORACLE_LIVES,
    /* 29. Rights are decided once, by the log: what was done was allowed by the
     * rights at its index, and what was refused for lack of them was not
     * allowed. Nobody uses, ends or renews what belongs to another user without
     * the right to (sim_rights.h). */
    ORACLE_RIGHTS,
    /* 30. A change of rights ends the waits that are no longer allowed, and
     * only those, by itself or by SWEEP. Until then they are granted nothing.
     * It never ends a hold. */
    ORACLE_WITHDRAWAL,
    /* 31. A user has what the log granted, the same on all nodes. Nothing that
     * was acknowledged exceeds the user's quotas, and a request that gives back
     * is never refused for them. */
    ORACLE_QUOTAS,
    /* 32. No answer or event shows a client names that it has no right to read.
     * NOAUTH and NOPERM are true when they are sent (sim_users.h). */
    ORACLE_SECRECY,

    /* 33. A leader has the votes of more than half of the directories that its
     * newest configuration names. Votes of another directory under the same
     * number do not count (sim_counted.h). */
    ORACLE_ELECTORS,
    /* 34. More than half of the directories that the newest configuration of a
     * leader names have acknowledged what it commits, and that it still leads;
     * so no index is committed by two directories of one number
     * (sim_counted.h). */
    ORACLE_COMMITTERS,
    /* 35. No member that hears a leader is connected with a directory that a
     * later one has replaced in the newest configuration of its log
     * (sim_counted.h). */
    ORACLE_LINKS,
    /* 36. A leader that hands over because of a slow disk has led for 30 s,
     * longer if it has led before. Its successor has a disk four times faster
     * and everything committed. A leader whose disk alone is slow hands over
     * (sim_slow.h). */
    ORACLE_DISKS,
    /* 37. During a flood of requests no session that is renewed in time
     * expires, no KEEP is refused with BUSY, no term begins, and a dead holder
     * ends in its bound (sim_flood.h). */
    ORACLE_FLOODS,
    /* 38. No two members have one directory, and a removed one is never named
     * again. A lost directory is replaced only while all other voters are
     * heard, and by the leader itself only by an empty one in a mounted volume,
     * once an hour (sim_places.h). */
    ORACLE_PLACES,

    ORACLE_END
};

#endif /* HASP_TESTS_SIM_SIM_ORACLES_H */
