/* SPDX-License-Identifier: MIT */

/* Embed a hasp node in a program.
 *
 * A node is one member of a cluster of one, three or five: it keeps the Raft
 * log and the state in a directory, talks to the other members, and serves
 * clients over RESP. haspd is a thin program around this interface; a program
 * that wants to bring its own lock service links the same node:
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
 * program itself takes locks through the client library (hasp/hasp.h), by a
 * connection to hasp_node_client_address().
 *
 * What a host program must know:
 *   - SIGPIPE must be ignored (signal(SIGPIPE, SIG_IGN)), else the death of a
 *     peer kills the process.
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
 * Nothing here depends on other headers of hasp, and none is included. */

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

/* How opening and running end. The numbers are those of sysexits.h, so that a
 * daemon may exit with them. */
enum hasp_node_status {
    HASP_NODE_OK = 0,
    HASP_NODE_DATA = 65,        /* A backup: no such file, or it is damaged. */
    HASP_NODE_UNAVAILABLE = 69, /* Cannot listen on an address. */
    HASP_NODE_STORAGE = 70,     /* The disk failed, or what is on it is bad. */
    HASP_NODE_EXISTS = 73,      /* A backup: what would be made is there. */
    HASP_NODE_TOO_OLD = 76,     /* Other nodes run a newer version: upgrade. */
    HASP_NODE_CONFIG = 78 /* The options contradict each other, or this node
                             is no member any more: it was removed. */
};

/* Size of a buffer for a message that says to a person why. */
#define HASP_NODE_WHY_SIZE 512

/* One member of a cluster. Addresses are "host:port" or "[v6]:port". */
struct hasp_node_member {
    uint64_t id;
    const char *peer_address;
    const char *client_address;
};

/* Bounds on what is kept. */
struct hasp_node_limits {
    uint32_t connections;             /* Of clients. */
    uint32_t connections_per_address; /* From one host. */
    uint32_t requests_in_flight;      /* Beyond: BUSY. */
    uint32_t requests_per_conn;       /* Pipelined and unanswered. */
    uint32_t sessions_per_conn;
    uint32_t name_size;         /* Of a lock or a resource, at most 511. */
    uint32_t value_size;        /* Of a value or a message, at most 4096. */
    uint32_t request_size;      /* As it comes; 4 KiB to 512 KiB. */
    uint64_t snapshot_log_size; /* A snapshot when the log has grown so ... */
    uint64_t snapshot_entries;  /* ... or by so many entries. */
    uint32_t snapshot_chunk_size;
    uint32_t flush_records; /* The state goes to its table by so many ... */
    uint32_t flush_ms;      /* ... or after this time. */

    /* Of the state, which all members share: a cluster that this node founds
     * begins with these; LIMITS.SET ("hasp limits set") changes them for all.
     * Later they are ignored, with a line of the log for each that differs.
     * 0: the default, and no such line. */
    uint64_t sessions;
    uint64_t locks;
    uint64_t holds_per_session; /* Holds and waits together. */
    uint64_t waits;             /* Of all locks together. */
    uint64_t waits_per_lock;
    uint64_t waits_per_session;
    uint64_t owners_per_session; /* That wait. */
    uint64_t fences;
    uint64_t blacklist;
    uint64_t ttl_max;    /* Milliseconds, of a session or a Redis value. */
    uint64_t state_size; /* Bytes; from 80 % on what is new is refused. */

    uint64_t disk_reserve;     /* Free bytes below which changes are refused. */
    uint64_t wal_segment_size; /* Bytes, a multiple of 4096. */
    uint64_t table_size; /* Address space of the table at first; it grows. */
};

enum hasp_node_redirect {
    HASP_NODE_FORWARD, /* A follower asks the leader for its clients. */
    HASP_NODE_MOVED /* A follower answers -MOVED with the leader's address. */
};

/* Whether who does not say who he is may do anything, in a cluster that this
 * node founds; later: hasp access. */
enum hasp_node_access {
    HASP_NODE_ACCESS_AUTO, /* Required if an address is not loopback and
                              is_insecure is not set; else open. */
    HASP_NODE_ACCESS_OPEN,
    HASP_NODE_ACCESS_REQUIRED
};

enum hasp_node_log_level {
    HASP_NODE_LOG_ERROR,
    HASP_NODE_LOG_WARN,
    HASP_NODE_LOG_INFO,
    HASP_NODE_LOG_DEBUG
};

/* What is spoken on a port; the first byte of a connection tells it apart. */
enum hasp_node_tls {
    HASP_NODE_TLS_OFF,    /* Plain alone. */
    HASP_NODE_TLS_ALLOW,  /* Both: for the way from off to require. */
    HASP_NODE_TLS_REQUIRE /* TLS 1.3 alone. */
};

/* Takes one line of the log: 'event' is a fixed text, 'fields' is "k=v k=v". It
 * is called on the node's thread, by the thread that opens the node, and, while
 * the disk hangs, by one more, perhaps at the same time. */
typedef void hasp_node_log_fn(void *data, enum hasp_node_log_level level,
                              const char *event, const char *fields);

struct hasp_node_options {
    size_t size;           /* Set by hasp_node_options_init(). */
    uint64_t id;           /* From 1; its own in each cluster, for ever. */
    const char *directory; /* Made if need be, with mode 0700. */

    const char *listen_client; /* Where to listen; port 0: any free one. */
    const char *listen_peer;
    const char *listen_http; /* NULL: no HTTP. */
    /* A path: a UNIX socket for clients of this machine, mode 0660, which takes
     * less of the processor than TCP; NULL: none. */
    const char *listen_local;
    /* Names by which it may be asked over HTTP beside its addresses and
     * localhost, with blanks between them; NULL: none. */
    const char *http_names;
    bool http_api; /* false: over HTTP the probes and the metrics alone. */

    /* The members that found the cluster, the same on each of them; later ones
     * are learnt from the log. None: a cluster of one. A node that is not among
     * them waits to be added to theirs. */
    const char *cluster_name;
    const struct hasp_node_member *members;
    uint32_t member_count;
    /* A node that is let in although neither the log nor a member that the log
     * names knows it: for one that was away while all others were replaced.
     * 0: none. */
    uint64_t trusted;
    /* Without members the node founds a cluster of one. Where other machines
     * can reach it that is most often a mistake, such as a file that was not
     * read, and clients would take locks there that others hold elsewhere: so
     * the start fails with HASP_NODE_CONFIG unless this is set, or all
     * addresses are on loopback. */
    bool founds_alone;

    uint32_t election_ms; /* Without word from a leader: 1 to 2 times this. */
    uint32_t heartbeat_ms;
    struct hasp_node_limits limits;
    bool is_insecure; /* Addresses other than loopback, without TLS. */
    /* For haspd, which leaves no core file and lets no process of its user
     * trace it unless this is set: keys, secrets and what clients sent are in
     * its memory. Of a program that runs a node that is the program's matter.
     */
    bool dumps_core;

    /* TLS. Files in PEM: ca.crt, node.crt and node.key in the folder tls_dir,
     * or where the other three say; the key's is readable by its owner and
     * group alone. The certificate names this node in a URI,
     * "hasp://CLUSTER/node/ID", where CLUSTER is cluster_name, which is of the
     * cluster's own then, and of letters, digits, '.', '_' and '-'. 'hasp cert'
     * makes such files. Between nodes both sides show one; clients may show a
     * user's, "hasp://CLUSTER/user/NAME". */
    const char *tls_dir; /* NULL: none. */
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
    enum hasp_node_tls tls_client;
    enum hasp_node_tls tls_peer;
    enum hasp_node_tls tls_http; /* OFF or REQUIRE: HTTPS. */
    /* Over HTTPS: a user's certificate is asked for (browsers open a window for
     * it); and /metrics is for whoever asks, not for users alone. */
    bool tls_http_certificates;
    bool tls_opens_metrics;

    enum hasp_node_access access;
    /* Each administrative act that this node applies goes to this file, as a
     * line of JSON; NULL: none. What cannot be written is logged and counted,
     * and tried again. */
    const char *audit_file;
    enum hasp_node_redirect redirect;
    bool allows_del;    /* DEL of Redis takes a lock from whoever holds it. */
    bool allows_no_ttl; /* SET of Redis without PX: a lock without end. */
    /* After an upgrade of all members: raise the cluster to the new version's
     * feature level, without being told so. The way back is closed then. */
    bool finalizes_itself;

    hasp_node_log_fn *log; /* NULL: no log. */
    void *log_data;
    enum hasp_node_log_level log_level;

    /* Called on the node's thread when it has begun to serve, and when what
     * 'status' says has changed ("leader, term 7"). May be NULL. */
    void (*on_status)(void *data, const char *status);
    /* Called on the node's thread each second: for a watchdog. May be NULL. */
    void (*on_alive)(void *data);
    void *status_data; /* Of both. */
};

/* Fills in every default. */
HASP_NODE_API void hasp_node_options_init(struct hasp_node_options *options);

struct hasp_node;

/* Checks the options alone, as hasp_node_open() does first: HASP_NODE_OK, or
 * HASP_NODE_CONFIG with 'why'. */
HASP_NODE_API int
hasp_node_options_check(const struct hasp_node_options *options,
                        char why[HASP_NODE_WHY_SIZE]);

/* Tells what of the options is allowed and yet does not fit together, and
 * whether the certificates could be used as they are on the disk now, a line
 * each. HASP_NODE_CONFIG: a node does not start with these; else HASP_NODE_OK.
 */
typedef void hasp_node_advice_fn(void *data, const char *text);
HASP_NODE_API int
hasp_node_options_advise(const struct hasp_node_options *options,
                         hasp_node_advice_fn *tell, void *data);

/* Opens the directory, recovers the log and the state, and listens. The options
 * are copied. Returns an enum hasp_node_status; on anything but HASP_NODE_OK
 * nothing is left open and 'why' says what to do. */
HASP_NODE_API int hasp_node_open(const struct hasp_node_options *options,
                                 struct hasp_node **ret_node,
                                 char why[HASP_NODE_WHY_SIZE]);

/* Runs until hasp_node_stop() or a fatal error; returns an enum
 * hasp_node_status. To be called once. */
HASP_NODE_API int hasp_node_run(struct hasp_node *node);

/* Asks the node to stop cleanly: it hands leadership over, flushes its state,
 * and hasp_node_run() returns, within about two seconds. May be called from any
 * thread and from a signal handler, more than once. */
HASP_NODE_API void hasp_node_stop(struct hasp_node *node);

/* Reads the certificates again, and opens audit_file anew (it may have been
 * renamed); the log says what came of it. Certificates are read within a minute
 * after they have changed anyway. From any thread, or a signal handler, while
 * the node is open. */
HASP_NODE_API void hasp_node_reload(struct hasp_node *node);

/* Frees the node; it must not be running. NULL is fine. */
HASP_NODE_API void hasp_node_close(struct hasp_node *node);

/* Where it listens for clients, with the real port; the text lives as long as
 * the node. */
HASP_NODE_API const char *
hasp_node_client_address(const struct hasp_node *node);

/* After hasp_node_run() has failed: what happened, else "". The text lives as
 * long as the node. */
HASP_NODE_API const char *hasp_node_why(const struct hasp_node *node);

/* Ends what keeps a node from counting, or from starting: that its directory
 * has lost entries which it had acknowledged (the files 'barred' and
 * 'condemned' there). For an operator who knows that it is not so, since a node
 * that starts with such a directory makes others lose what was committed. The
 * node must not run. 'why' is the reason that was written there, "" if there
 * was none. HASP_NODE_CONFIG: there is no such directory; HASP_NODE_STORAGE: it
 * is in use, or cannot be written. */
HASP_NODE_API int hasp_node_uncondemn(const char *directory,
                                      char why[HASP_NODE_WHY_SIZE]);

/* --- Backups ----------------------------------------------------------------
 *
 * A snapshot file is the state at one index of the log: portable, checksummed,
 * the same on every node. A restore does not go back in time, it begins a new
 * life of the cluster: what clients believe in (sessions, holds, queues) is
 * dropped, and what must never go back (the highest token that each resource
 * has admitted, the blacklist of client names) is kept. All new tokens are
 * larger than all old ones. */

/* Of a backup: as many as a cluster may have. */
#define HASP_NODE_MEMBER_MAX 15

struct hasp_node_snapshot_member {
    uint64_t id;
    bool is_voter;
    char addresses[256]; /* "peer-host:port,client-host:port" */
};

/* What a snapshot holds. */
struct hasp_node_snapshot {
    uint64_t log_index;
    uint64_t term;
    uint8_t cluster_id[16]; /* All zero: a new life that has not begun. */
    uint64_t token_base;    /* All tokens are larger. */
    uint64_t size;
    uint8_t checksum[16];
    uint64_t sessions;
    uint64_t locks;
    uint64_t holds;
    uint64_t waits;
    uint64_t fences;
    uint64_t blacklist;
    uint64_t longest_ttl_ms;   /* Of a session. */
    uint64_t longest_delay_ms; /* Lock delay, running or asked for. */
    uint64_t quarantine_ms;    /* Nothing is granted for so long at first. */
    uint64_t users;            /* Besides 'admin'. */
    uint64_t secrets;          /* Of all users. */
    bool is_access_required;   /* Who does not say who he is may do nothing. */
    uint64_t users_changed_ms; /* The newest act on users, roles, secrets,
                                  certificates or access, since 1970, ... */
    char users_change[256];    /* ... in words, cut; "": none is known. */
    struct hasp_node_snapshot_member member[HASP_NODE_MEMBER_MAX];
    uint32_t member_count;
};

/* Checks the snapshot 'file' and tells what is in it. HASP_NODE_DATA: it is
 * damaged; 'why' says where, as far as that can be known. */
HASP_NODE_API int hasp_node_inspect(const char *file,
                                    struct hasp_node_snapshot *ret_snapshot,
                                    char why[HASP_NODE_WHY_SIZE]);

/* Makes a snapshot of what is in the directory of a node that does not run: of
 * its newest one and of the whole log behind that. Whether the end of the log
 * was committed one node alone does not know; it is taken as if it had been,
 * since a mark that is too high does no harm and one that is too low does. The
 * directory stays as it is, except that what a crash has left at the end of the
 * log is cut off, as at a start. HASP_NODE_CONFIG: there is no such directory;
 * HASP_NODE_STORAGE: it is in use or damaged, or 'file' cannot be written;
 * HASP_NODE_TOO_OLD: a newer version wrote it;
 * HASP_NODE_EXISTS: 'file' is there, and 'may_replace' is false. */
HASP_NODE_API int hasp_node_export(const char *directory, const char *file,
                                   bool may_replace,
                                   struct hasp_node_snapshot *ret_snapshot,
                                   char why[HASP_NODE_WHY_SIZE]);

/* For hasp_node_restore(): as long as any client may trust any lease. */
#define HASP_NODE_QUARANTINE_FULL UINT64_MAX

/* Begins a new life of a cluster from the snapshot 'file': fills the directory
 * of 'options', which must be empty or not there, with a cluster of one, the
 * node of 'options' with its addresses among the members there (or, if none are
 * named, with those at which it listens). The others begin with empty
 * directories and are added. Nothing is granted for 'quarantine_ms' after the
 * first leader has begun. Whoever gives less than HASP_NODE_QUARANTINE_FULL
 * vouches for it that by the end of that time no client of the old life
 * believes in a lock any more. With 'suspends_users' all users are disabled,
 * 'admin' too, until somebody who comes by the local door enables them; without
 * it whoever was removed or disabled since the backup was made, and each secret
 * and certificate withdrawn since, is let in again. 'ret_snapshot' is what the
 * directory begins with. HASP_NODE_DATA: there is no such file, or it is
 * damaged; HASP_NODE_EXISTS: the directory is not empty; HASP_NODE_CONFIG;
 * HASP_NODE_STORAGE. */
HASP_NODE_API int hasp_node_restore(const struct hasp_node_options *options,
                                    const char *file, uint64_t quarantine_ms,
                                    bool suspends_users,
                                    struct hasp_node_snapshot *ret_snapshot,
                                    char why[HASP_NODE_WHY_SIZE]);

#ifdef __cplusplus
}
#endif

#endif /* HASP_NODE_H */
