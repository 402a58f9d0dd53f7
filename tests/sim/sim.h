/* SPDX-License-Identifier: MIT */

/* The simulator's world: true time, events, clocks, hosts.
 *
 * Everything happens in one thread at points of true time, in the order of a
 * heap of events. One seeded generator makes all random decisions, so a seed is
 * a whole history. Hosts (nodes, clients) do not see true time: each has its
 * own clock, which starts anywhere and runs at 0.9 to 1.1.
 *
 * sim_note() writes the trace: what happened, as a word and three numbers.
 * Notes are hashed (two runs of a seed must agree) and printed with
 * --verbose. */

#ifndef HASP_TESTS_SIM_SIM_H
#define HASP_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/prng.h"
#include "tests/sim/sim_oracles.h"

#define SIM_US UINT64_C(1000)
#define SIM_MS UINT64_C(1000000)
#define SIM_S UINT64_C(1000000000)

/* Numbers of nodes, and machines on which nodes run. Several machines can have
 * the same number, one after the other or at once. */
#define SIM_ID_MAX 9
#define SIM_NODE_MAX 12
#define SIM_CLIENT_MAX 11
#define SIM_HOST_MAX (SIM_NODE_MAX + SIM_CLIENT_MAX)
#define SIM_LIFE_MAX 16

struct sim;

/* A future event; embedded in the struct that it concerns. */
struct sim_event {
    struct heap_node node;
    void (*run)(struct sim *sim, struct sim_event *event);
};

/* A clock that runs at 'permille' of true time. */
struct sim_clock {
    uint64_t true_ns;
    uint64_t local_ns;
    uint64_t permille;
};
uint64_t sim_clock_at(const struct sim_clock *clock, uint64_t true_ns);
/* The first moment of true time at which the clock shows 'local_ns'. */
uint64_t sim_clock_when(const struct sim_clock *clock, uint64_t local_ns);

/* A machine and its one process that matters. */
struct sim_host {
    uint32_t number; /* Nodes first, then clients. */
    char name[8];    /* "n1", "c1". */
    bool is_os_up;
    bool is_running; /* The process exists. */
    bool is_paused;  /* It is stopped; its sockets still receive bytes. */
    struct sim_clock clock;
    struct list inbox; /* sim_news that the kernel holds for it. */
    struct sim_event wake;
    uint64_t busy_until_ns; /* The process is computing. */
};

struct sim_stats {
    uint64_t operations; /* Answered operations. */
    uint64_t grants;
    uint64_t beats;
    uint64_t reads;
    uint64_t unknowns; /* Operations that were repeated. */
    uint64_t crashes;
    uint64_t partitions;
    uint64_t cuts;
    uint64_t pauses;
    uint64_t disk_faults;
    uint64_t leaders;
    uint64_t expired;
    uint64_t lost; /* Sessions that their client considered lost. */
    uint64_t entries;
    uint64_t snapshots;
    uint64_t installs;
    uint64_t transfers;
    uint64_t relays;      /* Handovers of leadership in a relay. */
    uint64_t replaced;    /* Members replaced by another machine. */
    uint64_t moved;       /* Changes of a member's addresses. */
    uint64_t taken;       /* Holds ended by RELEASEIF. */
    uint64_t changes;     /* Membership changes requested. */
    uint64_t raised;      /* Clusters raised to a feature level. */
    uint64_t too_old;     /* Nodes that stopped as too old. */
    uint64_t votes_taken; /* Votes removed without force. */
    uint64_t refused; /* Starts refused because a bit of a file had flipped. */
    uint64_t condemned;    /* Old disks that were detected. */
    uint64_t removed;      /* Nodes that stopped because they were removed. */
    uint64_t pushes;       /* Ends of waits, pushed to programs. */
    uint64_t promises;     /* Refusals after which a client did not retry. */
    uint64_t events;       /* Events sent to watchers. */
    uint64_t gaps;         /* Gaps sent to watchers. */
    uint64_t listings;     /* Complete listings. */
    uint64_t died;         /* Sessions that the witness has ended. */
    uint64_t crowds;       /* Sessions of a crowd. */
    uint64_t drawn;        /* Drawn requests that were answered. */
    uint64_t durables;     /* Sessions without end. */
    uint64_t refused_full; /* Entries refused because a table was full. */
    uint64_t backups;      /* Backups that were checked. */
    uint64_t restores;
    uint64_t administered; /* Changes of users, roles, access. */
    uint64_t denials;      /* Refusals for lack of a right. */
    uint64_t simulated_ns;
};

#define SIM_FAULT_COUNT 29
#define SIM_STATE_COUNT 44
#define SIM_PAIR_COUNT 20 /* Options, see sim_pairs.h. */

/* What was reached, see sim_cover.h: 1 or 0 for one run, the number of runs for
 * several. */
struct sim_cover {
    uint32_t fault[SIM_FAULT_COUNT];
    uint32_t pair[SIM_FAULT_COUNT][SIM_FAULT_COUNT]; /* [less][greater] */
    uint32_t state[SIM_STATE_COUNT];
    /* Lives in which two options were met: [less][greater]. */
    uint32_t option[SIM_PAIR_COUNT][SIM_PAIR_COUNT];
    uint64_t struck_ns[SIM_FAULT_COUNT]; /* Newest fault of a kind; or 0. */
    uint64_t looked_ns;
};

/* Faults of a run have numbers from 1; some can be left out. */
#define SIM_SKIP_MAX 4096

struct sim_options {
    uint64_t seed;
    uint32_t node_count;          /* 0: 3 or 5, as the seed says. */
    uint32_t client_max;          /* 0: as the seed says. */
    bool skips[SIM_SKIP_MAX + 1]; /* By fault number. */
    bool without[ORACLE_END];     /* Oracles whose violations are ignored. */
    uint32_t seconds;
    bool is_planted; /* A bug: rogues trust their sessions forever. */
    bool is_verbose;
};

#define SIM_USER_COUNT 4 /* Users of clients. */

/* See sim_users.h. */
struct sim_users {
    bool are_there;
    bool starts_required; /* Access, when the cluster is founded. */
    bool has_strangers;   /* Some clients do not authenticate. */
    bool are_restless;    /* Rights change many times a second. */
    uint64_t plain_node;  /* Its links show no certificate; 0: all do. */
    uint32_t serial[SIM_USER_COUNT]; /* Serial of each user's newest secret. */
};

enum sim_phase {
    SIM_CHAOS, /* Faults happen. */
    SIM_CALM,  /* Everything is healed: there must be progress. */
    SIM_DRAIN, /* Clients finish; nothing must be left. */
    SIM_OVER
};

struct sim {
    struct sim_options options;
    struct prng prng;
    uint64_t now_ns;
    struct heap events;
    enum sim_phase phase;
    uint32_t life;      /* Life of the cluster, from 0: counts restores. */
    bool is_left_alone; /* Dead hosts are not started again. */
    struct sim_node *node[SIM_NODE_MAX]; /* By machine. */
    uint32_t node_count;
    uint32_t id_count; /* The first machines have the numbers 1, 2, ... */
    struct sim_client *client[SIM_CLIENT_MAX];
    uint32_t client_count;
    struct sim_host *host[SIM_HOST_MAX];
    uint32_t host_count;
    uint32_t member_count;   /* The first nodes are members from the start. */
    uint64_t fence_asked[8]; /* By lock: the highest token presented ... */
    uint64_t fence_admitted[8]; /* ... and the highest admitted. */
    struct sim_net *net;
    struct sim_check *check;
    struct sim_faults *faults;
    struct sim_restore *restore;
    struct sim_replace *replace;
    struct sim_places *places;
    struct sim_flood *flood;   /* NULL: no flood at present. */
    uint64_t settled;          /* Machines that were given a number so far. */
    struct sim_event exchange; /* Exchange of a node's version. */
    struct sim_users users;
    struct sim_stats stats;
    struct sim_cover cover;
    uint64_t trace;
    bool has_failed;
    enum sim_oracle oracle; /* The oracle whose rule was broken. */
    char why[1024];         /* The rule, and how it was broken. */
};

/* Runs one seed to its end; 'sim' has what happened. */
void sim_run(struct sim *sim, const struct sim_options *options);
void sim_done(struct sim *sim);

/* Lets the world run, until 'is_over' (NULL: never) at the latest. */
void sim_run_until(struct sim *sim, uint64_t until_ns,
                   bool (*is_over)(struct sim *sim));

void sim_at(struct sim *sim, struct sim_event *event, uint64_t true_ns);
void sim_cancel(struct sim *sim, struct sim_event *event);
/* Like sim_at(), unless the event is due earlier already. */
void sim_at_latest(struct sim *sim, struct sim_event *event, uint64_t true_ns);

/* 'who' may be NULL. 'what' is a constant text. */
void sim_note(struct sim *sim, const struct sim_host *who, const char *what,
              uint64_t a, uint64_t b, uint64_t c);
/* A line for people only. */
void sim_say(struct sim *sim, const struct sim_host *who, const char *format,
             ...) __attribute__((format(printf, 3, 4)));
/* Reports a broken rule: the run ends, unless it is without this oracle. Only
 * the first report counts. */
void sim_fail(struct sim *sim, enum sim_oracle oracle, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A number from 'low' to 'high', both included. */
uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high);
bool sim_chance(struct sim *sim, double probability);

void sim_host_init(struct sim *sim, struct sim_host *host, uint32_t number,
                   char kind);
uint64_t sim_host_now(const struct sim *sim, const struct sim_host *host);
/* Schedules the process as soon as it can run. */
void sim_host_poke(struct sim *sim, struct sim_host *host);

#endif /* HASP_TESTS_SIM_SIM_H */
