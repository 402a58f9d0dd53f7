/* SPDX-License-Identifier: MIT */

/* The oracles: what is looked at all the time, in every run. Each violation
 * names its oracle, and `sim --without LIST` runs without some, so that it can
 * be shown of a planted bug that one oracle sees it and no other one does
 * (tests/sim/README.md has the plants). What any program checks of itself, a
 * CHECK or a sanitizer, is none of them: such a run has crashed. */

#ifndef HASP_TESTS_SIM_SIM_ORACLES_H
#define HASP_TESTS_SIM_SIM_ORACLES_H

enum sim_oracle {
    /* 1. One leader per term; and who is started again leads in a new one. */
    ORACLE_LEADERS = 1,
    /* 2. All nodes apply the same entries, one after the other, with the same
     * effects; equal applied index means equal state (lockfsm_hash), also after
     * a restart and a snapshot; the digest that is kept up is that of the
     * state; the state on disk is never ahead of the log. */
    ORACLE_EQUALITY,
    /* 3. Every state is sound in itself and follows from the one before
     * (lockfsm_check_basic, lockfsm_delta_check), and so is each core's
     * (core_check). */
    ORACLE_SOUNDNESS,
    /* 4. One owner per exclusive lock; grant and end of a hold alternate;
     * tokens of a lock grow and are token_base plus log index; effects tell
     * what happened. */
    ORACLE_GRANTS,
    /* 5. First come, first served; nobody passes the queue, and who barges
     * passes no wait for ever. */
    ORACLE_ORDER,
    /* 6. Nothing is granted to the dead, and a dead session stays dead. */
    ORACLE_DEATH,
    /* 7. One believer per exclusive lock, as many as slots for a semaphore, one
     * per Redis lock, by the clients' own clocks, at every moment of true
     * time. */
    ORACLE_BELIEVERS,
    /* 8. No session expires sooner than T/1.1 after a heartbeat that was
     * answered OK was sent; the client ends first, and is told by events
     * whether to believe. */
    ORACLE_LEASES,
    /* 9. Acknowledged results stay: each answer is that of a committed entry,
     * later than the question; a numbered request takes effect once; what is
     * told is told once. */
    ORACLE_RESULTS,
    /* 10. Who believes in a hold has it; who is told that it is over, or has
     * given it back, has it not. */
    ORACLE_HOLDS,
    /* 11. Reads are linearizable; a fence lets nothing older in, and the
     * newest. */
    ORACLE_READS,
    /* 12. A refusal is about what is committed; one that says that nothing was
     * done has no entry, then and ever after; a try fails only if the lock is
     * not free; what gives back is never refused; errors are those of the
     * contract. */
    ORACLE_REFUSALS,
    /* 13. No node stops by itself, and each starts from what it left on disk;
     * who has the state of a cluster knows its id; no entry is on disk before
     * its term. */
    ORACLE_NODES,
    /* 14. Once all is healed every client gets answers, and who died before
     * that has lost its session 20 s later; in the end everybody who waits or
     * watches has been served or told, no session and no lock is left, and all
     * members are equal. */
    ORACLE_PROGRESS,
    /* 15. When a leader dies and all else is well, another one serves within 3
     * terms, 1.5 s, six flushes (of up to 500 ms), and an election's longest
     * time for each election without an end, and for a death that nobody has
     * heard. */
    ORACLE_ELECTIONS,
    /* 16. What is above the cluster's feature level is not proposed, nobody
     * applies what its version does not understand, and who stops as too old
     * is. */
    ORACLE_LEVELS,
    /* 17. Silence is logged as it was, each moment once; a dead session and
     * what takes a time end in their bounds whatever leaders come and go
     * (sim_silence.h). */
    ORACLE_SILENCE,
    /* 18. After a calm nobody leads whose clock is more than 6 % off from those
     * of most voters, unless it has handed over before. */
    ORACLE_CLOCKS,
    /* 19. No vote is taken away, unless by force, if that leaves voters of whom
     * the leader has not heard more than half (sim_majority.h); a vote that is
     * said to be taken, or given back, is (sim_voter.h). */
    ORACLE_VOTES,
    /* 20. An old copy of a follower's disk is noticed and condemned as long as
     * the leader lives that knows better (sim_loss.h); no other disk is. */
    ORACLE_OLD_DISKS,
    /* 21. Who was away until it needs a snapshot catches up, wherever it dies
     * meanwhile (sim_behind.h). */
    ORACLE_CATCHING_UP,
    /* 22. Who watches is told what the log has, in order, nothing twice and
     * nothing left out, and `gap` if and only if the node cannot know; a lock's
     * history is that of the log (sim_watcher.h). */
    ORACLE_EVENTS,
    /* 23. What LOCK.SHOW, LOCK.LIST, SESSION.SHOW, SESSION.LIST and FENCE.LIST
     * tell was all so at one moment between question and answer: holders,
     * queue, note, counts; a page is whole then; ages, leases, delays and
     * limited holds have run as clocks allow, and do not end sooner than was
     * told (sim_shown.h, sim_faces.h). */
    ORACLE_LISTINGS,
    /* 24. What is refused as full is full, and what gives back is not refused
     * for it; a number is forgotten when 64 gaps have overtaken it
     * (sim_crowd.h). */
    ORACLE_LIMITS,
    /* 25. A session without end does not expire, and a hold of it is broken
     * only if that was announced, its time is over and nobody has objected
     * (sim_durable.h, sim_silence.h). */
    ORACLE_DURABLE,
    /* 26. A backup, taken from a node that serves or of a directory, is the
     * state that one entry left, with its members and all that had been applied
     * when it was asked for; a damaged one is refused (sim_backup.h,
     * sim_saver.h). */
    ORACLE_BACKUPS,
    /* 27. A restore keeps what must not be forgotten, and no more; of one that
     * was cut short nothing starts but a whole one (sim_restore.h). */
    ORACLE_RESTORES,
    /* 28. No life that is over goes on: none of its nodes serves, a new one has
     * an id of its own and tokens above all before, former tokens are not
     * admitted, former sessions are dead, and in the quarantine, which is as
     * long as was asked for, nothing is granted (sim_check.c, sim_silence.h); 7
     * and 22 look across lives. */
    ORACLE_LIVES,
    /* 29. Rights are decided once, by the log: what was done was allowed by the
     * rights at its index, what was refused for want of them was not; nobody
     * uses, ends or renews what is another's without the right to
     * (sim_rights.h). */
    ORACLE_RIGHTS,
    /* 30. A change of rights ends the waits that are no longer allowed, those
     * alone, by itself or by SWEEP, and until then they are granted nothing;
     * and it never ends a hold. */
    ORACLE_WITHDRAWAL,
    /* 31. A user has what the log gave him, the same on all nodes; nothing that
     * was acknowledged passes his quotas, and what gives back is never refused
     * for them. */
    ORACLE_QUOTAS,
    /* 32. Nobody is told of names that he may not read, by answers or events;
     * NOAUTH and NOPERM are true when they are said (sim_users.h). */
    ORACLE_SECRECY,

    /* 33. Who leads has the votes of more than half of the directories that its
     * newest configuration names; none of another directory under the same
     * number counts (sim_counted.h). */
    ORACLE_ELECTORS,
    /* 34. What a leader commits, and that it still leads, more than half of the
     * directories that its newest configuration names have acknowledged; so no
     * index is committed by two directories of one number (sim_counted.h). */
    ORACLE_COMMITTERS,
    /* 35. No member that hears a leader is connected with a directory in whose
     * place the newest configuration in its log names a later one
     * (sim_counted.h). */
    ORACLE_LINKS,
    /* 36. Who hands over for a slow disk has led for 30 s, longer if it has led
     * before; and hands over to one whose disk is four times faster and who has
     * all that is committed. A leader whose disk alone is slow does
     * (sim_slow.h). */
    ORACLE_DISKS,
    /* 37. Beside a flood of requests no session that is renewed in time
     * expires, no KEEP is refused with BUSY, no term begins, and a dead holder
     * ends in its bound (sim_flood.h). */
    ORACLE_FLOODS,

    ORACLE_END
};

#endif /* HASP_TESTS_SIM_SIM_ORACLES_H */
