/* SPDX-License-Identifier: MIT */

/* Embed a hasp node in a program.
 *
 * A node is one member of a cluster of one, three or five. It keeps the Raft
 * log and the state in a directory, communicates with the other members, and
 * serves clients over RESP. haspd is a thin program around this interface; a
 * program that is to contain its own lock service links the same node:
 *
 *     struct hasp_node_options options;
 *     struct hasp_node *node;
 *     char why[HASP_NODE_WHY_SIZE];
 *
 *     hasp_node_options_init(&options);
 *     options.id = 1;
 *     options.directory = "/var/lib/mine/hasp";
 *     int status = hasp_node_open(&options, &node, why);
 *     if (status != HASP_NODE_OK) {
 *         ... print 'why' ...
 *     }
 *     status = hasp_node_run(node);     (blocks; give it a thread of its own)
 *     hasp_node_close(node);
 *
 * and, from any thread or from a signal handler, hasp_node_stop(node). The
 * program itself acquires locks through the client library (hasp/hasp.h),
 * connected to hasp_node_client_address().
 *
 * What a host program must know:
 *   - SIGPIPE must be ignored (signal(SIGPIPE, SIG_IGN)): otherwise the death
 * of a peer kills the process.
 *   - A node stops for good when its disk fails or when it finds a bug in
 *     itself: the first ends hasp_node_run() with HASP_NODE_STORAGE, the
 *     second aborts the process, as does memory that runs out.
 *   - After HASP_NODE_STORAGE only a new start, which reads back what is on
 *     the disk, can tell what got there; a service manager may do that.
 *   - One process runs one node at a time. All functions but
 *     hasp_node_stop() belong to one thread, or to one after the other.
 *   - A node must not be used after fork().
 *
 * To link it: pkg-config --cflags --libs --static haspnode. examples/embedded.c
 * is such a program.
 *
 * This header includes no other header of hasp. */

#ifndef HASP_NODE_H
#define HASP_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define HASP_NODE_API __attribute__((visibility("default")))
#else
#define HASP_NODE_API
#endif

/* Results of opening and running a node. The numbers are those of sysexits.h,
 * so a daemon can use them as exit codes. */
enum hasp_node_status {
    HASP_NODE_OK = 0,
    HASP_NODE_DATA = 65,        /* A backup does not exist or is damaged. */
    HASP_NODE_UNAVAILABLE = 69, /* Cannot listen on an address. */
    HASP_NODE_STORAGE = 70,     /* The disk failed or has damaged data. */
    HASP_NODE_EXISTS = 73,      /* The target of a backup exists. */
    HASP_NODE_TOO_OLD = 76,     /* Other nodes are newer: upgrade. */
    /* Invalid options, or this node was removed from its cluster. */
    HASP_NODE_CONFIG = 78
};

/* Size of a buffer for an error message, for people. */
#define HASP_NODE_WHY_SIZE 512

/* One member of a cluster. Addresses are "host:port" or "[v6]:port". */
struct hasp_node_member {
    uint64_t id;
    const char *peer_address;
    const char *client_address;
};

/* Limits of a node and of the state. */
struct hasp_node_limits {
    uint32_t connections;             /* From clients. */
    uint32_t connections_per_address; /* From one host. */
    uint32_t requests_in_flight;      /* Beyond: BUSY. */
    uint32_t requests_per_conn;       /* Pipelined and unanswered. */
    uint32_t sessions_per_conn;
    uint32_t name_size;         /* A lock's or resource's; at most 511. */
    uint32_t value_size;        /* A value's or message's; at most 4096. */
    uint32_t request_size;      /* Bytes as received; 4 KiB to 512 KiB. */
    uint64_t snapshot_log_size; /* Bytes of log between snapshots. */
    uint64_t snapshot_entries;  /* Entries between snapshots. */
    uint32_t snapshot_chunk_size;
    uint32_t flush_records; /* Changed records between flushes ... */
    uint32_t flush_ms;      /* ... and time between flushes. */

    /* Limits of the state, which all members share. They apply when this node
     * founds a cluster; later only LIMITS.SET ("hasp limits set") changes them,
     * for all members, and the node logs each one that differs from the
     * cluster's. 0: the default, and nothing is logged. */
    uint64_t sessions;
    uint64_t locks;
    uint64_t holds_per_session; /* Holds and waits together. */
    uint64_t waits;             /* On all locks together. */
    uint64_t waits_per_lock;
    uint64_t waits_per_session;
    uint64_t owners_per_session; /* Owners that wait. */
    uint64_t fences;
    uint64_t blacklist;
    uint64_t ttl_max;    /* Milliseconds; sessions and Redis values. */
    uint64_t state_size; /* Bytes; above 80 % nothing new is accepted. */

    uint64_t disk_reserve;     /* Free bytes; with less, changes are refused. */
    uint64_t wal_segment_size; /* Bytes, a multiple of 4096. */
    uint64_t table_size; /* Initial address space of the table; it grows. */
};

enum hasp_node_redirect {
    HASP_NODE_FORWARD, /* A follower forwards requests to the leader. */
    HASP_NODE_MOVED /* A follower answers -MOVED with the leader's address. */
};

/* Whether anonymous clients have any rights, in a cluster that this node
 * founds. Later it is changed with: hasp access. */
enum hasp_node_access {
    /* Required if an address is not loopback and is_insecure is not set;
     * otherwise open. */
    HASP_NODE_ACCESS_AUTO,
    HASP_NODE_ACCESS_OPEN,
    HASP_NODE_ACCESS_REQUIRED
};

enum hasp_node_log_level {
    HASP_NODE_LOG_ERROR,
    HASP_NODE_LOG_WARN,
    HASP_NODE_LOG_INFO,
    HASP_NODE_LOG_DEBUG
};

enum hasp_node_log_format {
    HASP_NODE_LOG_LOGFMT, /* key=value */
    HASP_NODE_LOG_JSON
};

/* Protocols that a port accepts; the first byte of a connection distinguishes
 * TLS from plain. */
enum hasp_node_tls {
    HASP_NODE_TLS_OFF,    /* Plain only. */
    HASP_NODE_TLS_ALLOW,  /* Both: to migrate from off to require. */
    HASP_NODE_TLS_REQUIRE /* TLS 1.3 only. */
};

/* Receives one line of the log: 'event' is a fixed text, 'fields' is "k=v k=v".
 * Called on the node's thread, on the thread that opens the node and, while the
 * disk hangs, on one more thread, possibly at the same time. */
typedef void hasp_node_log_fn(void *data, enum hasp_node_log_level level,
                              const char *event, const char *fields);

/* A setting of the host program, for NODE.SETTINGS. */
struct hasp_node_setting {
    const char *name; /* "node.log_level" */
    const char *value;
    const char *source; /* "default", "file", "command" ... */
    /* When another value takes effect: "reload", "restart" ... */
    const char *changes;
};

/* The settings of a host program that has names for them, as haspd has. All
 * functions are called while hasp_node_run() runs; all but 'read' on its
 * thread. All zero: there are none. */
struct hasp_node_settings {
    /* Describes number 'index', from 0 on; false: there is none. The texts are
     * valid until the next call of any of these functions. */
    bool (*describe)(void *data, size_t index,
                     struct hasp_node_setting *ret_setting);
    /* Changes one until the node ends. 0, or -1 with 'why'. */
    int (*set)(void *data, const char *name, const char *value,
               char why[HASP_NODE_WHY_SIZE]);
    /* After hasp_node_reload(): reads the sources again, on another thread;
     * then 'take' makes use of what was read. Never two at a time. */
    void (*read)(void *data);
    void (*take)(void *data);
    void *data;
};

struct hasp_node_options {
    size_t size;           /* Set by hasp_node_options_init(). */
    uint64_t id;           /* From 1; unique in the cluster, never reused. */
    const char *directory; /* Created with mode 0700 if it does not exist. */

    const char *listen_client; /* "host:port"; port 0: any free port. */
    const char *listen_peer;
    const char *listen_http; /* NULL: no HTTP. */
    /* Path of a UNIX socket, mode 0660, for clients on this machine; it costs
     * less CPU time than TCP. NULL: none. */
    const char *listen_local;
    /* Host names that HTTP requests may use besides the node's addresses and
     * localhost, separated by blanks. NULL: none. */
    const char *http_names;
    /* Groups of FleetLock and how many machines of each may reboot at once,
     * 1 to 64: "default:1 edge:3". The same on each node. NULL: none. */
    const char *http_fleetlock;
    bool http_api; /* false: only probes and metrics over HTTP. */
    /* "host:port" for clients of Consul's sessions and locks; NULL: none. TLS
     * as for listen_http. */
    const char *listen_consul;
    /* The name of their datacenter; NULL: dc1. Clients that ask for another one
     * are refused. */
    const char *consul_datacenter;
    /* Their sessions without a TTL; false: they are refused. */
    bool consul_no_ttl_is_durable;

    /* The members that found the cluster; the list must be the same on each of
     * them. Later members are learned from the log. Empty: a cluster of one. A
     * node that is not in the list waits until it is added to the cluster. */
    const char *cluster_name;
    const struct hasp_node_member *members;
    uint32_t member_count;
    /* Id of a node that is accepted although neither the log nor a member in
     * the log knows it: for a node that was away while all others were
     * replaced. 0: none. */
    uint64_t trusted;
    /* As the leader: give a voter that lost its data directory the empty one
     * with which its node runs, when the voter has been missed for this time;
     * 0: never. It needs tls_peer = HASP_NODE_TLS_REQUIRE, and a file
     * 'hasp-volume' beside each data directory. The same on all nodes. */
    uint64_t replace_empty_ms;
    /* Without members the node founds a cluster of one. If other machines can
     * reach it, that is usually a mistake, such as a file that was not read,
     * and clients would acquire locks there that others hold elsewhere. So the
     * start fails with HASP_NODE_CONFIG unless this is set or all addresses are
     * on loopback. */
    bool founds_alone;

    /* An election starts after 1 to 2 times this time without a message of a
     * leader. */
    uint32_t election_ms;
    uint32_t heartbeat_ms;
    struct hasp_node_limits limits;
    bool is_insecure; /* Allows other addresses than loopback without TLS. */
    /* For haspd only: unless this is set, it writes no core file and no process
     * of its user can trace it, since its memory has keys, secrets and clients'
     * data. A program that embeds a node decides that for itself. */
    bool dumps_core;

    /* TLS. PEM files: ca.crt, node.crt and node.key in the folder tls_dir, or
     * the paths in the other three options. Only the owner and the group may
     * have the right to read the key. The certificate names this node in a URI,
     * "hasp://CLUSTER/node/ID", where CLUSTER is cluster_name: it must be
     * unique then, and consist of letters, digits, '.', '_' and '-'. 'hasp
     * cert' makes such files. Between nodes both sides present a certificate; a
     * client can present a user's, "hasp://CLUSTER/user/NAME". */
    const char *tls_dir; /* NULL: none. */
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
    enum hasp_node_tls tls_client;
    enum hasp_node_tls tls_peer;
    enum hasp_node_tls tls_http; /* OFF or REQUIRE: HTTPS. */
    /* Over HTTPS: ask clients for a user's certificate (browsers open a
     * dialog); and serve /metrics to anonymous clients, too. */
    bool tls_http_certificates;
    bool tls_opens_metrics;

    enum hasp_node_access access;
    /* The node appends each administrative act that it applies to this file, as
     * a line of JSON. NULL: none. A line that cannot be written is logged,
     * counted and retried. */
    const char *audit_file;
    enum hasp_node_redirect redirect;
    bool allows_del;    /* Redis DEL releases a lock of any holder. */
    bool allows_no_ttl; /* Redis SET without PX: a lock that never ends. */
    /* Redis SET NX of the value that holds the key: a repetition, and OK. Only
     * for clients that never use a value twice. */
    bool renews_same_value;
    /* After an upgrade of all members, raise the cluster to the new version's
     * feature level without a command. A downgrade is no longer possible
     * then. */
    bool finalizes_itself;

    hasp_node_log_fn *log; /* NULL: no log. */
    void *log_data;
    enum hasp_node_log_level log_level;
    enum hasp_node_log_format log_format; /* For haspd only. */
    /* Requests that take at least this long, without the waits that they ask
     * for, are recorded with their stages (NODE.SLOW); 0: none. */
    uint32_t slow_ms;
    /* Prefixes of lock names, separated by blanks, whose grants, waits and
     * holds the metrics count apart: at most 16. NULL: none. */
    const char *metrics_class;

    struct hasp_node_settings settings;

    /* Called on the node's thread when the node starts to serve, and whenever
     * its status has changed ("leader, term 7"). NULL: not called. */
    void (*on_status)(void *data, const char *status);
    /* Called on the node's thread each second, for a watchdog. NULL: not
     * called. */
    void (*on_alive)(void *data);
    void *status_data; /* Passed to both. */
};

/* Sets every default. */
HASP_NODE_API void hasp_node_options_init(struct hasp_node_options *options);

struct hasp_node;

/* Checks only the options, as hasp_node_open() does first: HASP_NODE_OK, or
 * HASP_NODE_CONFIG with 'why'. */
HASP_NODE_API int
hasp_node_options_check(const struct hasp_node_options *options,
                        char why[HASP_NODE_WHY_SIZE]);

/* Reports options that are allowed but do not fit together, and whether the
 * certificates on the disk can be used now; one call for each line.
 * HASP_NODE_CONFIG: a node does not start with these options; otherwise
 * HASP_NODE_OK. */
typedef void hasp_node_advice_fn(void *data, const char *text);
HASP_NODE_API int
hasp_node_options_advise(const struct hasp_node_options *options,
                         hasp_node_advice_fn *report, void *data);

/* Opens the directory, recovers the log and the state, and listens. The options
 * are copied. Returns an enum hasp_node_status; on anything but HASP_NODE_OK
 * nothing is left open and 'why' says what to do. */
HASP_NODE_API int hasp_node_open(const struct hasp_node_options *options,
                                 struct hasp_node **ret_node,
                                 char why[HASP_NODE_WHY_SIZE]);

/* Runs until hasp_node_stop() or a fatal error; returns an enum
 * hasp_node_status. Call it once. */
HASP_NODE_API int hasp_node_run(struct hasp_node *node);

/* Asks the node to stop cleanly: it hands leadership over and flushes its
 * state, and hasp_node_run() returns within about two seconds. May be called
 * from any thread and from a signal handler, more than once. */
HASP_NODE_API void hasp_node_stop(struct hasp_node *node);

/* Reads the certificates and the settings again, and reopens audit_file, which
 * may have been renamed; the log has the result. Changed certificates are also
 * read without this call, within a minute. May be called from any thread or a
 * signal handler, while the node is open. */
HASP_NODE_API void hasp_node_reload(struct hasp_node *node);

/* Takes over the options that may change while a node runs: log_level,
 * slow_ms, metrics_class, redirect, allows_del, allows_no_ttl,
 * renews_same_value, finalizes_itself and, of 'limits', connections,
 * connections_per_address, requests_per_conn, name_size, value_size,
 * snapshot_log_size, snapshot_entries, flush_records, flush_ms and
 * disk_reserve. All options must be valid (hasp_node_options_check()). On the
 * node's thread, as in a function of struct hasp_node_settings. */
HASP_NODE_API void hasp_node_change(struct hasp_node *node,
                                    const struct hasp_node_options *options);

/* Frees the node; it must not be running. NULL is ignored. */
HASP_NODE_API void hasp_node_close(struct hasp_node *node);

/* The address at which it listens for clients, with the actual port; valid as
 * long as the node. */
HASP_NODE_API const char *
hasp_node_client_address(const struct hasp_node *node);

/* The error after hasp_node_run() has failed, otherwise ""; valid as long as
 * the node. */
HASP_NODE_API const char *hasp_node_why(const struct hasp_node *node);

/* For a handler of fatal signals: records one line about the crash in the data
 * directory; the next hasp_node_open() logs it. 'node' NULL: the node that is
 * being opened, if there is one. Async-signal-safe. */
HASP_NODE_API void hasp_node_record_crash(const struct hasp_node *node,
                                          const char *text, size_t size);

/* Removes the marks (the files 'barred' and 'condemned') that keep a node from
 * voting, or from starting, because its directory has lost entries that it had
 * acknowledged. Only for an operator who knows that the mark is wrong: if the
 * directory did lose entries, starting it makes the cluster lose committed
 * ones. The node must not run. 'why' is the reason in the mark, "" if there was
 * none. HASP_NODE_CONFIG: no such directory; HASP_NODE_STORAGE: it is in use,
 * or cannot be written. */
HASP_NODE_API int hasp_node_uncondemn(const char *directory,
                                      char why[HASP_NODE_WHY_SIZE]);

/* --- Backups ----------------------------------------------------------------
 *
 * A snapshot file is the state at one index of the log: portable, checksummed,
 * the same on every node. A restore starts a new epoch of the cluster instead
 * of going back in time. Sessions, holds and queues are dropped; what must
 * never go back (the highest token that each resource has admitted, the
 * blacklist of client names) is kept. All new tokens are larger than all old
 * ones. */

/* Members in a backup: the most that a cluster can have. */
#define HASP_NODE_MEMBER_MAX 15

struct hasp_node_snapshot_member {
    uint64_t id;
    bool is_voter;
    char addresses[256]; /* "peer-host:port,client-host:port" */
};

/* Contents of a snapshot. */
struct hasp_node_snapshot {
    uint64_t log_index;
    uint64_t term;
    uint8_t cluster_id[16]; /* All zero: a new epoch that has not started. */
    uint64_t token_base;    /* All tokens are larger. */
    uint64_t size;
    uint8_t checksum[16];
    uint64_t sessions;
    uint64_t locks;
    uint64_t holds;
    uint64_t waits;
    uint64_t durable_sessions; /* A restore keeps them, with their holds. */
    uint64_t durable_holds;
    uint64_t newest_token; /* The largest of all tokens, at least. */
    uint64_t fences;
    uint64_t blacklist;
    /* Digest of what a restore keeps: users and roles, revoked certificates,
     * fences, durable holds with their tokens. */
    uint64_t kept_digest;
    uint64_t longest_ttl_ms;   /* A session's. */
    uint64_t longest_delay_ms; /* Lock delay, running or requested. */
    uint64_t quarantine_ms;    /* Initial time without grants. */
    uint64_t users;            /* Besides 'admin'. */
    uint64_t secrets;          /* All users' together. */
    bool is_access_required;   /* Anonymous clients have no rights. */
    /* Time of the newest change to users, roles, secrets, certificates or
     * access, since 1970 ... */
    uint64_t users_changed_ms;
    /* ... and its text, truncated; "": none is known. */
    char users_change[256];
    struct hasp_node_snapshot_member member[HASP_NODE_MEMBER_MAX];
    uint32_t member_count;
};

/* Checks the snapshot 'file' and returns what it contains. HASP_NODE_DATA: it
 * is damaged; 'why' says where, if that is known. */
HASP_NODE_API int hasp_node_inspect(const char *file,
                                    struct hasp_node_snapshot *ret_snapshot,
                                    char why[HASP_NODE_WHY_SIZE]);

/* Makes a snapshot from the directory of a node that does not run: from its
 * newest snapshot and the whole log after it. One node alone cannot know
 * whether the end of the log was committed; the snapshot includes it, since a
 * fence that is too high does no harm and one that is too low does. The
 * directory is not changed, except that an incomplete entry that a crash left
 * at the end of the log is cut off, as at a start. HASP_NODE_CONFIG: no such
 * directory; HASP_NODE_STORAGE: it is in use or damaged, or 'file' cannot be
 * written; HASP_NODE_TOO_OLD: a newer version wrote it; HASP_NODE_EXISTS:
 * 'file' exists and 'may_replace' is false. */
HASP_NODE_API int hasp_node_export(const char *directory, const char *file,
                                   bool may_replace,
                                   struct hasp_node_snapshot *ret_snapshot,
                                   char why[HASP_NODE_WHY_SIZE]);

/* For hasp_node_restore(): the longest time for which any client can trust a
 * lease. */
#define HASP_NODE_QUARANTINE_FULL UINT64_MAX

/* Starts a new epoch of a cluster from the snapshot 'file'. It fills the
 * directory of 'options', which must be empty or not exist, with a cluster of
 * one: the node of 'options', with its addresses in the list of members there
 * or, if that is empty, with those at which it listens. The other nodes start
 * with empty directories and are added.
 *
 * Nothing is granted for 'quarantine_ms' after the first leader starts to
 * serve. A caller that passes less than HASP_NODE_QUARANTINE_FULL must be sure
 * that by then no client of the old epoch trusts a lock.
 *
 * With 'suspends_users' all users are disabled, 'admin' too, until somebody
 * enables them through the admin socket. Without it, users that were removed or
 * disabled since the backup was made have access again, and so have secrets and
 * certificates withdrawn since.
 *
 * 'ret_snapshot' describes the initial state. HASP_NODE_DATA: 'file' does not
 * exist or is damaged; HASP_NODE_EXISTS: the directory is not empty;
 * HASP_NODE_CONFIG; HASP_NODE_STORAGE. */
HASP_NODE_API int hasp_node_restore(const struct hasp_node_options *options,
                                    const char *file, uint64_t quarantine_ms,
                                    bool suspends_users,
                                    struct hasp_node_snapshot *ret_snapshot,
                                    char why[HASP_NODE_WHY_SIZE]);

#ifdef __cplusplus
}
#endif

#endif /* HASP_NODE_H */
