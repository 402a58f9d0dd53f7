/* SPDX-License-Identifier: MIT */

/* Feature levels: which entries a cluster of several versions may log.
 *
 * A version understands all entries up to its level. A cluster has a level,
 * too: it is replicated, all its members have at least that one, and it is
 * raised by an entry (SET_FEATURE) and never lowered. The leader proposes no
 * entry, and no field of an entry, of a level above the cluster's; so a member
 * of an older version can be replaced by a newer one and back again, until the
 * level is raised. From then on an older one is refused.
 *
 * To add an entry or a field after a release: add it to entry.def with its
 * level and the words in which it is refused, and raise FEATURE_LEVEL if the
 * level has been released. Nothing else has to ask for the level: the proposer
 * (entry_check()) and apply look there. What is sent to another node has
 * versions of its own (net/frame.h). Records of the table (records.def) need
 * none: what is only written after an entry of a level is of that level.
 *
 * A number that decides what an entry does (SLICE_DEFAULT, DEADLOCK_STEP_MAX
 * ...) belongs to a level, too: nodes with different ones would get different
 * states. After a release another number needs a new level, and the former one
 * stays for clusters below it. test_feature has a list. */

#ifndef HASP_LOCKFSM_FEATURE_H
#define HASP_LOCKFSM_FEATURE_H

/* The level of a new cluster. */
#define FEATURE_LEVEL_FIRST 1
/* The level that this version understands. HASP_FEATURE_LEVEL_EXTRA simulates
 * the version after the next release, in builds for tests (Makefile). */
#ifdef HASP_FEATURE_LEVEL_EXTRA
#define FEATURE_LEVEL (FEATURE_LEVEL_FIRST + HASP_FEATURE_LEVEL_EXTRA)
#else
#define FEATURE_LEVEL FEATURE_LEVEL_FIRST
#endif
#endif /* HASP_LOCKFSM_FEATURE_H */
