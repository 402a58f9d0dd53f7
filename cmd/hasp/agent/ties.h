/* SPDX-License-Identifier: MIT */

/* The ties of an agent, without I/O: which sessions end when which process
 * dies.
 *
 * A process is (pid, START), START being the time at which it was started, as
 * /proc/PID/stat has it. The driver adds one only while it has proved that the
 * process lives, and reports its death only when the process descriptor that it
 * got then is readable. Nothing else is a death: not the end of a connection,
 * not a pid that is missing.
 *
 *     TIE --> tied --UNTIE--> gone
 *               |
 *               '--process died--> death --reported, or too old--> gone
 *
 * A connection that ends changes nothing for a process that has ties. Users
 * share the table: each has a part of the processes and of the ties, deaths
 * that are not reported yet included, and its part of each batch. A batch that
 * the cluster refuses is reported again in smaller parts, down to the death
 * that is refused, so that it holds up no other.
 *
 * A session is tied under its death word, so that a process that guesses its id
 * cannot keep the right one from tying it. The same session with the same
 * word belongs to one process. */

#ifndef HASP_CMD_HASP_AGENT_TIES_H
#define HASP_CMD_HASP_AGENT_TIES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"

#define TIE_WORD_SIZE 33 /* 32 hex digits and a zero. */
/* Sessions in one SESSION.DIED. */
#define TIE_BATCH_MAX 100
#define TIE_PER_PROCESS_MAX 4096
/* Ties of all processes, with deaths that are not reported yet: 45 MB. */
#define TIE_MAX 262144
/* The share of a user: an eighth of all ties, and of all connections and
 * processes, but at least 64 of these. */
#define TIE_USER_LEAST 64
#define TIE_USER_PART 8
/* A death is reported for this many times the session's TTL at most: then the
 * session has ended by itself. */
#define TIE_TTL_FACTOR 2
/* The TTL of a session whose tie does not say it. */
#define TIE_TTL_DEFAULT_MS 60000

struct ties;
struct tie_user;

struct tied_process {
    struct list in_ties;
    pid_t pid;
    uint64_t start;
    struct tie_user *user;
    struct list ties;
    uint32_t count;
    uint32_t connections; /* As ties_join() and ties_leave() say. */
    void *driver;         /* The driver's. */
};

struct tie_death {
    uint64_t session;
    char word[TIE_WORD_SIZE];
};

struct tie_counts {
    uint64_t connections;
    uint64_t processes;
    uint64_t ties;
    uint64_t pending; /* Deaths that are not reported yet. */
    uint64_t tied;    /* From here on: since the start. */
    uint64_t untied;
    uint64_t died;     /* Sessions whose process died. */
    uint64_t reported; /* Deaths that the cluster has answered. */
    uint64_t too_late; /* Deaths that had no answer within the time limit. */
};

enum tie_answer {
    TIE_DONE,
    TIE_TAKEN,    /* Another process has tied it. */
    TIE_TOO_MANY, /* TIE_PER_PROCESS_MAX. */
    TIE_NO_ROOM   /* TIE_MAX, or the user's share of it. */
};

/* The result of a batch. */
enum tie_result {
    TIE_REPORTED,
    TIE_UNREPORTED, /* No answer. */
    TIE_REJECTED    /* An error that would come again. */
};

/* 'process_max': of processes, and of connections. */
struct ties *ties_new(uint32_t process_max);
void ties_free(struct ties *ties);

/* A connection of this user; false: there are too many, of it or in all. Each
 * has its ties_dismiss(). */
bool ties_admit(struct ties *ties, uid_t uid);
void ties_dismiss(struct ties *ties, uid_t uid);

/* NULL: not known. */
struct tied_process *ties_find(struct ties *ties, pid_t pid, uint64_t start);
/* NULL: no room, in all or for this user. */
struct tied_process *ties_add(struct ties *ties, pid_t pid, uint64_t start,
                              uid_t uid);
/* The process has one more connection, or one that has ended. This is neither a
 * death nor an UNTIE. True: it has neither connections nor ties, and is freed.
 */
void ties_join(struct tied_process *process);
bool ties_leave(struct ties *ties, struct tied_process *process);

enum tie_answer ties_tie(struct ties *ties, struct tied_process *process,
                         uint64_t session, const char word[TIE_WORD_SIZE],
                         uint64_t ttl_ms);
/* False: it was not tied. */
bool ties_untie(struct ties *ties, struct tied_process *process,
                uint64_t session, const char word[TIE_WORD_SIZE]);

/* The process is dead: its ties are deaths from now on, and it is freed. */
void ties_died(struct ties *ties, struct tied_process *process,
               uint64_t now_ns);

/* The death of a process that nobody has tied, from a supervisor of this user.
 * False: no room. */
bool ties_hear(struct ties *ties, uid_t uid, uint64_t session,
               const char word[TIE_WORD_SIZE], uint64_t now_ns);

/* Each user's oldest deaths, to be reported together; none while a batch is
 * under way. Deaths that are too old are dropped. */
uint32_t ties_batch(struct ties *ties, uint64_t now_ns,
                    struct tie_death ret_deaths[TIE_BATCH_MAX]);
/* The batch is over; unless the cluster has answered, it is reported again. */
void ties_batch_end(struct ties *ties, enum tie_result result);
struct tie_counts ties_counts(const struct ties *ties);

#endif /* HASP_CMD_HASP_AGENT_TIES_H */
