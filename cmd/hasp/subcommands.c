/* SPDX-License-Identifier: MIT */

/* The one table of subcommands, by topic, from which the help, the manual page
 * and the completion are made. A line of 'details' that begins with "-" has
 * an option, in columns: short, long, its value; then its meaning. */

#include "cmd/hasp/tool.h"

#define ACQUIRE_OPTIONS                                                       \
    "-s, --shared        several clients can hold it at once\n"               \
    "    --slots N       at most N clients can hold it at once\n"             \
    "-n, --nonblock      try: do not wait\n"                                  \
    "-w, --wait TIME     wait at most this long (forever)\n"                  \
    "-E, --exit-code N   exit code if it was not acquired (75)\n"             \
    "    --with NAME     acquire this lock, too: all or none of them\n"       \
    "    --ttl TIME      lease of the session (10s)\n"                        \
    "    --linger TIME   end it this long after its last connection closes\n" \
    "    --value TEXT    shown by hasp show\n"                                \
    "    --delay TIME    keep the lock closed this long after an unclean "    \
    "end\n"                                                                   \
    "    --hold TIME     hold it at most this long\n"

#define SESSION_OPTIONS                                    \
    "    --session-file FILE  written by 'hasp acquire'\n" \
    "    --session ID:SECRET  printed by 'hasp acquire'\n"

#define AGENT_OPTIONS                                 \
    "    --listen PATH  its socket (HASP_AGENT, or\n" \
    "                   /run/hasp-agent/agent.sock)\n"

#define LOCKS "Locks"
#define SESSIONS "Sessions and tokens"
#define CLUSTER "The cluster"
#define USERS "Users and permissions"
#define OPERATOR "For operators"
#define CERTIFICATES "Certificates"
#define CERT_OPTIONS "    --dir DIR       folder of the CA (certs)\n"
#define TRYING "Development and measurement"

static const struct view_field lock_fields[] = {
    {"name", "NAME", FIELD_TEXT},
    {"mode", "MODE", FIELD_TEXT},
    {"holders", "HOLDERS", FIELD_COUNT},
    {"holders.0.client", "HOLDER", FIELD_TEXT},
    {"holders.0.token", "TOKEN", FIELD_NUMBER},
    {"holders.0.since_ms", "HELD", FIELD_DURATION},
    {"queue", "WAITING", FIELD_COUNT},
    {0},
};

static const struct view_field session_fields[] = {
    {"id", "SESSION", FIELD_NUMBER},
    {"name", "NAME", FIELD_TEXT},
    {"user", "USER", FIELD_TEXT},
    {"address", "ADDRESS", FIELD_TEXT},
    {"ttl_ms", "TTL", FIELD_DURATION},
    {"left_ms", "LEFT", FIELD_DURATION},
    {"holds", "HOLDS", FIELD_COUNT},
    {"waits", "WAITS", FIELD_COUNT},
    {"blacklisted", "BLACKLISTED", FIELD_FLAG},
    {"will", "WILL", FIELD_FLAG},
    {"labels", "LABELS", FIELD_TEXT},
    {0},
};

static const struct view_field setup_fields[] = {
    {"machine", "MACHINE", FIELD_TEXT},
    {"node", "NODE", FIELD_NUMBER},
    {"command", "COMMAND", FIELD_TEXT},
    {0},
};

static const struct view_field fence_fields[] = {
    {"resource", "RESOURCE", FIELD_TEXT},
    {"token", "TOKEN", FIELD_NUMBER},
    {0},
};

static const struct view_field limits_fields[] = {
    {"name", "LIMIT", FIELD_TEXT},  {"value", "VALUE", FIELD_NUMBER},
    {"used", "USED", FIELD_NUMBER}, {"min", "FROM", FIELD_NUMBER},
    {"max", "TO", FIELD_NUMBER},    {0},
};

static const struct view_field blacklist_fields[] = {
    {"session", "SESSION", FIELD_ID},
    {"client", "CLIENT", FIELD_TEXT},
    {"reason", "REASON", FIELD_TEXT},
    {"by", "BY", FIELD_TEXT},
    {"since_ms", "SINCE", FIELD_DURATION},
    {"for_ms", "FOR", FIELD_SPAN},
    {0},
};

static const struct view_field user_fields[] = {
    {"name", "USER", FIELD_TEXT},           {"state", "STATE", FIELD_TEXT},
    {"roles", "ROLES", FIELD_TEXT},         {"secrets", "SECRETS", FIELD_COUNT},
    {"sessions", "SESSIONS", FIELD_NUMBER}, {0},
};

static const struct view_field role_fields[] = {
    {"name", "ROLE", FIELD_TEXT},
    {"grants", "GRANTS", FIELD_TEXT},
    {0},
};

static const struct view_field revoked_fields[] = {
    {"fingerprint", "FINGERPRINT", FIELD_TEXT},
    {"name", "NAME", FIELD_TEXT},
    {0},
};

static const struct view_field whoami_fields[] = {
    {"user", "USER", FIELD_TEXT},
    {"by", "BY", FIELD_TEXT},
    {"roles", "ROLES", FIELD_TEXT},
    {"access", "ACCESS", FIELD_TEXT},
    {0},
};

#define QUOTA_OPTIONS                                                     \
    "    --sessions N     open at once (10000)\n"                         \
    "    --holds N        locks held or waited for (100000)\n"            \
    "    --waits N        positions in queues (10000)\n"                  \
    "    --bytes N        stored for the user: 64 a record, and its text" \
    " (64M)\n"                                                            \
    "    --connections N  to each node (1000)\n"                          \
    "    --watches N      at each node, streams of events too (10000)\n"

static const struct view_field act_fields[] = {
    {"index", "INDEX", FIELD_NUMBER},
    {"time", "TIME", FIELD_TEXT},
    {"user", "USER", FIELD_TEXT},
    {"from", "FROM", FIELD_TEXT},
    {"by", "BY", FIELD_TEXT},
    {"command", "COMMAND", FIELD_TEXT},
    {"what", "WHAT", FIELD_TEXT},
    {"outcome", "OUTCOME", FIELD_TEXT},
    {0},
};

static const struct view_field slow_fields[] = {
    {"time", "TIME", FIELD_TEXT},       {"node", "NODE", FIELD_NUMBER},
    {"command", "COMMAND", FIELD_TEXT}, {"lock", "LOCK", FIELD_TEXT},
    {"client", "CLIENT", FIELD_TEXT},   {"took_ms", "TOOK", FIELD_DURATION},
    {"stages", "STAGES", FIELD_TEXT},   {0},
};

const struct subcommand subcommands[] = {
    {LOCKS, "run", "[-s] [-n] [-w TIME] [--on-lost HOW] NAME [--] COMMAND...",
     "run a command while holding a lock",
     ACQUIRE_OPTIONS
     "    --on-lost term|kill|freeze|ignore  if the lock cannot be kept: TERM\n"
     "                    in time, then KILL (term); KILL; STOP, and CONT if "
     "it\n"
     "                    is kept after all; nothing\n"
     "    --grace TIME    between TERM and KILL (a quarter of the lease)\n"
     "    --seal COMMAND  sh runs it first, under the lock; if it fails, the\n"
     "                    lock is given back\n"
     "    --seal-time TIME  kill the seal after this (the lease)\n",
     .run = run_run},
    {LOCKS, "acquire", "NAME... [--ttl TIME] [-n | -w TIME] [--export]",
     "wait for a lock and leave it held until the TTL",
     ACQUIRE_OPTIONS
     "    --owner TAG     hold it as this owner\n"
     "    --durable       without a lease, until it is released\n"
     "    --reason TEXT   with --durable: why, for those who find it held\n"
     "    --export        print variables for eval \"$(hasp acquire ...)\"\n"
     "    --session-file FILE  use the session in this file; create the file\n"
     "                         (0600) if it does not exist\n"
     "    --session ID:SECRET  use this session, not a new one\n",
     .run = run_acquire},
    {LOCKS, "convert", "NAME --to exclusive|shared [-n | -w TIME]",
     "make a held lock shared or exclusive",
     "    --to exclusive|shared  the new mode\n"
     "-n, --nonblock      try: do not wait for the other holders\n"
     "-w, --wait TIME     wait at most this long for them (forever)\n"
     "-E, --exit-code N   exit code if the lock is still shared (75)\n"
     "    --owner TAG     a hold of this owner\n" SESSION_OPTIONS,
     .run = run_convert},
    {LOCKS, "release", "NAME... [--session-file FILE] [--token N]",
     "release a lock",
     SESSION_OPTIONS "    --owner TAG          a hold of this owner\n"
                     "    --token N            only if this is its token\n",
     .run = run_release},
    {LOCKS, "object", "NAME [--session-file FILE] [-m TEXT]",
     "object to a break of a durable lock, and keep it",
     SESSION_OPTIONS "    --owner TAG          a hold of this owner\n"
                     "-m, --message TEXT       shown to clients that watch\n",
     .run = run_object},
    {LOCKS, "note", "NAME [TEXT]", "attach a text to a held lock, or read it",
     SESSION_OPTIONS "    --owner TAG          a hold of this owner\n"
                     "    --token N            only if this is its token\n",
     .run = run_note},
    {LOCKS, "list", "[PREFIX]", "locks that are held or waited for",
     .run = run_list, .command = "LOCK.LIST", .fields = lock_fields},
    {LOCKS, "show", "NAME [--all]", "holders and queue of a lock",
     "-a, --all           list all, not only those that one answer has\n",
     .run = run_show},
    {LOCKS, "why", "NAME", "why a lock is not free, and until when",
     .run = run_why},
    {LOCKS, "please", "NAME [MESSAGE]", "ask the holders to release a lock",
     "-m, --message TEXT  message to the holders\n", .run = run_please},
    {LOCKS, "watch", "[PREFIX] [--count N]", "events of locks as they happen",
     "-c, --count N       end after this many events\n", .run = run_watch},
    {LOCKS, "history", "NAME [--count N]",
     "past events of a lock, as one node knows them",
     "-c, --count N       print the newest N events (100)\n",
     .run = run_history},
    {LOCKS, "top", "[-n COUNT] [-i TIME]",
     "the hottest locks, the longest waits, the sessions, live",
     "-n, --count N        end after this many refreshes\n"
     "-i, --interval TIME  time between them (2s)\n"
     "On a terminal: q quits, p pauses, s switches between locks, waits,\n"
     "sessions and all; ? lists the keys.\n",
     .run = run_top},

    {SESSIONS, "session list", "[PREFIX]", "sessions, by prefix of their names",
     .run = run_list, .command = "SESSION.LIST", .fields = session_fields},
    {SESSIONS, "session show", "ID", "one session", .run = run_session_show,
     .fields = session_fields},
    {SESSIONS, "session keep", "[ID:SECRET | --session-file FILE]",
     "send one heartbeat",
     "    --session-file FILE  written by 'hasp acquire'\n",
     .run = run_session_keep},
    {SESSIONS, "session close", "[ID:SECRET | --session-file FILE]",
     "end a session and release its holds",
     "    --session-file FILE  written by 'hasp acquire'; it is removed, too\n",
     .run = run_session_close},
    {SESSIONS, "check", "NAME TOKEN",
     "check that a token is the holder's: exit 0 or 1", .run = run_judge,
     .command = "LOCK.CHECK", .what = "cannot check the token",
     .yes = "current"},
    {SESSIONS, "fence admit", "RESOURCE TOKEN",
     "admit a token, and no smaller one: exit 0 or 1", .run = run_judge,
     .command = "FENCE.ADMIT", .what = "cannot admit the token",
     .yes = "admitted"},
    {SESSIONS, "fence show", "RESOURCE", "the highest token admitted, or 0",
     .run = run_fence_show},
    {SESSIONS, "fence list", "[PREFIX]", "resources and their highest tokens",
     .run = run_list, .command = "FENCE.LIST", .fields = fence_fields},
    {SESSIONS, "fence remove", "RESOURCE", "forget a resource's highest token",
     .run = run_fence_remove},

    {CLUSTER, "setup",
     "NAME[=ADDRESS[,ADDRESS...]]... | --install FILE | --check",
     "set up machines as a new cluster with TLS and users",
     "    --cluster NAME  cluster.name of haspd (production)\n"
     "    --dir DIR       for certificates and machines' files (certs)\n"
     "    --install FILE  make this machine a node with its file; -: stdin\n"
     "    --check         print what this machine lacks to serve as a node\n",
     .run = run_setup, .fields = setup_fields, .is_offline = true},
    {CLUSTER, "status", "",
     "members, their roles, how many the cluster can lose", .run = run_status},
    {CLUSTER, "health", "", "exit 0 if the cluster is available, else 69",
     .run = run_health},
    {CLUSTER, "doctor", "[--config FILE] [--offline]",
     "check the cluster and this machine; print faults, remedies",
     "    --config FILE  also check this machine, by the configuration of its\n"
     "                   node (/etc/hasp/haspd.conf if it exists)\n"
     "    --offline      check only this machine; its node need not run\n",
     .run = run_doctor},
    {CLUSTER, "debug", "FILE [--redact] [--config FILE] [--log FILE]",
     "gather an archive for a bug report, without secrets",
     "    --redact       hashes instead of names of locks, clients and users\n"
     "    --config FILE  configuration of the node on this machine\n"
     "                   (/etc/hasp/haspd.conf if it exists)\n"
     "    --log FILE     its log (default: the journal of haspd.service)\n"
     "    --offline      only this machine; its node need not run\n",
     .run = run_debug},
    {CLUSTER, "version", "", "versions of the tool and of the nodes",
     .run = run_version},
    {CLUSTER, "member list", "",
     "members, and when the leader last heard from each",
     .run = run_member_list},
    {CLUSTER, "member add", "ID PEER,CLIENT [--standby] [--incarnation HEX]",
     "add a node to the cluster",
     "    PEER,CLIENT        its addresses for nodes and for clients\n"
     "    --standby          it replicates the log and does not vote\n"
     "    --incarnation HEX  of its data directory (default: the node's "
     "answer)\n",
     .run = run_member_add},
    {CLUSTER, "member update", "ID PEER [CLIENT]",
     "change the addresses of a member that has moved or will move",
     .run = run_member_update},
    {CLUSTER, "member promote", "ID", "make a standby a voter",
     .run = run_member_change, .command = "RAFT.PROMOTE"},
    {CLUSTER, "member demote", "ID [--force]", "make a member a standby",
     "    --force     even if too few reachable voters remain\n",
     .run = run_member_change, .command = "RAFT.DEMOTE"},
    {CLUSTER, "member remove", "ID [--force] [--revoke WHAT]",
     "remove a node from the cluster",
     "    --force       even if too few reachable voters remain\n"
     "    --revoke WHAT refuse its certificate, too: as 'hasp cert revoke'\n",
     .run = run_member_change, .command = "RAFT.REMOVE"},
    {CLUSTER, "member replace", "ID [--force]",
     "replace the lost data directory of a voter",
     "    --force  even if the nodes do not authenticate each other (no TLS)\n",
     .run = run_member_replace},
    {CLUSTER, "member transfer", "[ID]",
     "transfer the leadership to another node", .run = run_member_transfer},
    {CLUSTER, "member drain", "ID [--cancel] [--force]",
     "rid a node of clients and of leadership before it is stopped",
     "    --cancel  let it serve again, as a restart does\n"
     "    --force   even if the others would not be a majority without it\n",
     .run = run_member_drain},
    {CLUSTER, "cluster finalize", "",
     "after an upgrade: enable the new features", .run = run_cluster_finalize},

    {USERS, "whoami", "", "print the user that the cluster sees",
     .run = run_whoami, .fields = whoami_fields},
    {USERS, "can", "USER VERB [LOCK]",
     "check whether a user has a right, and by which grant", .run = run_can},
    {USERS, "access", "[open | required] [--force]",
     "show or set whether clients must authenticate",
     "    --force  even if it ends sessions of anonymous clients\n",
     .run = run_access},
    {USERS, "user list", "[PREFIX]", "users", .run = run_list,
     .command = "USER.LIST", .fields = user_fields},
    {USERS, "user show", "NAME",
     "a user, with the secrets and their connections", .run = run_user_show,
     .fields = user_fields},
    {USERS, "user add", "NAME [--role ROLE]... [--may GRANT]... [--reuse] ...",
     "create a user",
     "    --role ROLE      assign a role; repeatable\n"
     "    --may GRANT      a grant as in hasp role set, in a new role with "
     "the\n"
     "                     name of the user; repeatable\n"
     "    --reuse          allow the name of a user that was "
     "removed\n" QUOTA_OPTIONS,
     .run = run_user_add},
    {USERS, "user set", "NAME [--sessions N] [--holds N] ...",
     "set a user's quotas; 'hasp user show' prints them",
     QUOTA_OPTIONS
     "Existing state above a new quota stays; new state is refused.\n",
     .run = run_user_set},
    {USERS, "user grant", "NAME ROLE...", "assign roles to a user",
     "A user has at most 16 roles; 'hasp role list' prints all roles.\n",
     .run = run_user_grant},
    {USERS, "user revoke", "NAME ROLE...", "take roles from a user",
     "Waits that need the roles end; holds stay.\n", .run = run_user_revoke},
    {USERS, "user disable", "NAME",
     "refuse a user; its locks become free as leases expire",
     .run = run_user_disable},
    {USERS, "user enable", "NAME", "accept a disabled user again",
     .run = run_user_enable},
    {USERS, "user remove", "NAME",
     "remove a disabled user that has no sessions", .run = run_user_remove},
    {USERS, "audit", "[-f | --denied] [--user USER] [--count N]",
     "the audit log of administrative acts, newest last",
     "-f, --follow     print new ones as they happen\n"
     "    --denied     print what the nodes denied since they started instead\n"
     "    --user USER  only those of this user\n"
     "    --count N    read the newest N (100, at most 1000)\n",
     .run = run_audit, .fields = act_fields},
    {USERS, "secret add", "USER [--label TEXT] [--file FILE]",
     "create a secret for a user to log in with",
     "    --label TEXT  to recognize it later\n"
     "    --file FILE   write it there (0600), for --secret-file\n",
     .run = run_secret_add},
    {USERS, "secret remove", "USER NUMBER",
     "remove a secret; 'hasp user show' prints its number",
     .run = run_secret_remove},
    {USERS, "role list", "[PREFIX]", "roles, except the built-in 'admin'",
     .run = run_list, .command = "ROLE.LIST", .fields = role_fields},
    {USERS, "role show", "NAME", "the grants of a role", .run = run_role_show,
     .fields = role_fields},
    {USERS, "role set", "NAME GRANT...",
     "create a role with these grants, or replace its grants",
     "A grant is verbs and a name, or a prefix with '*':\n"
     "'lock,read:billing/*' 'fence:db'. Verbs of names are read, share, lock,\n"
     "fence, kick; of the cluster, without a name: sessions, blacklist,\n"
     "cluster, backup, audit. See docs/protocol.md for what each allows.\n",
     .run = run_role_set},
    {USERS, "role remove", "NAME", "remove a role that no user has",
     .run = run_role_remove},

    {OPERATOR, "limits", "", "the limits of the state, and their use",
     .run = run_rows, .command = "LIMITS.LIST", .fields = limits_fields,
     .what = "cannot list"},
    {OPERATOR, "limits set", "LIMIT VALUE", "change a limit of the state",
     .run = run_limits_set},
    {OPERATOR, "cells", "", "which prefixes of names belong to which cluster",
     .run = run_cells},
    {OPERATOR, "cells join", "ENDPOINTS",
     "make an empty cluster a cell that owns no name yet",
     .run = run_cells_change, .command = "CELLS.JOIN", .what = "cannot join"},
    {OPERATOR, "cells give", "PREFIX CLUSTER ENDPOINTS",
     "give an unused prefix away; print the receipt", .run = run_cells_give},
    {OPERATOR, "cells take", "RECEIPT",
     "take a prefix with the receipt of the cell that gave it",
     .run = run_cells_change, .command = "CELLS.TAKE", .what = "cannot take"},
    {OPERATOR, "cells point", "PREFIX ENDPOINTS",
     "change where a prefix of another cell is found", .run = run_cells_change,
     .command = "CELLS.POINT", .what = "cannot point"},
    {OPERATOR, "cells vouch", "PREFIX",
     "take a prefix without a receipt, at your own risk",
     .run = run_cells_change, .command = "CELLS.VOUCH", .what = "cannot vouch"},
    {OPERATOR, "cells confirm", "", "confirm the map of a restored cell",
     .run = run_cells_change, .command = "CELLS.CONFIRM",
     .what = "cannot confirm"},
    {OPERATOR, "config show", "[--node ID]",
     "settings of a running node, and where they come from",
     "    --node ID  this node (default: the first that answers)\n",
     .run = run_config_show},
    {OPERATOR, "config diff", "[--config FILE]",
     "settings in which the nodes differ: exit 0 if none, or 1",
     "    --config FILE  compare the node of this file with it instead\n",
     .run = run_config_diff},
    {OPERATOR, "log level", "LEVEL [--for TIME] [--node ID]",
     "change the log level of running nodes",
     "    --for TIME  then revert it (until the node ends)\n"
     "    --node ID   only of this node (all that answer)\n",
     .run = run_log_level},
    {OPERATOR, "log format", "FORMAT [--for TIME] [--node ID]",
     "change the log format of running nodes: logfmt or json",
     "    --for TIME  then revert it (until the node ends)\n"
     "    --node ID   only of this node (all that answer)\n",
     .run = run_log_format},
    {OPERATOR, "log slow", "MS [--for TIME] [--node ID]",
     "change when a node's request counts as slow; 0: never",
     "    --for TIME  then revert it (until the node ends)\n"
     "    --node ID   only of this node (all that answer)\n",
     .run = run_log_slow},
    {OPERATOR, "slow", "[--node ID] [--count N]",
     "slow requests, and the stages in which their time went",
     "    --node ID   of this node (all that answer)\n"
     "    --count N   the newest N of each node (20)\n",
     .run = run_slow, .fields = slow_fields},
    {OPERATOR, "break", "NAME [--after TIME] [--reason TEXT]",
     "free a durable lock, unless its holder objects",
     "    --after TIME   time in which the holder can object (60s)\n"
     "    --reason TEXT  shown to the holder\n"
     "    --by WHO       who decided it (user@host)\n"
     "    --session ID   only holds of this session\n",
     .run = run_break},
    {OPERATOR, "blacklist add",
     "--session ID | --client PATTERN [--reason TEXT]",
     "refuse a client's heartbeats and sessions",
     "    --session ID      one session\n"
     "    --client PATTERN  clients with such names (a glob)\n"
     "    --reason TEXT     shown to the refused clients\n"
     "    --by WHO          who decided it (user@host)\n"
     "    --for TIME        how long (until removed)\n",
     .run = run_blacklist_add},
    {OPERATOR, "blacklist list", "", "blacklisted sessions and clients",
     .run = run_list, .command = "BLACKLIST.LIST", .fields = blacklist_fields,
     .what = "cannot list"},
    {OPERATOR, "blacklist remove", "--session ID | --client PATTERN",
     "remove an entry from the blacklist",
     "    --session ID      one session\n"
     "    --client PATTERN  as it was added\n",
     .run = run_blacklist_remove},
    {OPERATOR, "snapshot save", "FILE [--data DIR] [--force]",
     "save the state of the cluster as a file",
     "    --data DIR  read the data directory of a node that is not running\n"
     "    --force     replace FILE if it exists\n",
     .run = run_snapshot_save},
    {OPERATOR, "snapshot inspect", "FILE",
     "check a backup, and print its contents", .run = run_snapshot_inspect},
    {OPERATOR, "snapshot verify", "FILE...",
     "check that backups are whole: exit 0, or 65",
     "It names each damaged file.\n", .run = run_snapshot_verify,
     .is_offline = true},
    {OPERATOR, "snapshot restore", "FILE --config FILE | --dir DIR --id N ...",
     "start a new cluster from a backup",
     "    --config FILE        configuration of the first node; or\n"
     "    --dir DIR            its data directory, which must be empty\n"
     "    --id N               its number\n"
     "    --address HOST:PORT  where the other nodes reach it\n"
     "    --client HOST:PORT   where clients reach it\n"
     "    --quarantine TIME    grant nothing for this long (the longest lease\n"
     "                         and the longest lock delay)\n"
     "    --users WORD         keep or suspend: users can log in at once, or\n"
     "                         after hasp user enable; required if there are "
     "any\n",
     .run = run_snapshot_restore},
    {OPERATOR, "drill restore", "[FILE | DIR]",
     "try a backup: restore it into a throw-away node",
     "    --tmp DIR  where the node has its directory ($TMPDIR, or /tmp)\n",
     .run = run_drill_restore, .is_offline = true},
    {OPERATOR, "quarantine end", "--i-vouch REASON",
     "grant locks after a restore before the quarantine ends",
     "    --i-vouch REASON  why no client from before the restore can still\n"
     "                      trust a lease; it is logged with your name\n",
     .run = run_quarantine_end},

    {OPERATOR, "agent", "[--listen PATH]",
     "end the sessions of processes that die",
     "    --listen PATH  socket for programs, unless systemd passes one\n"
     "                   (/run/hasp-agent/agent.sock)\n"
     "    --old-kernel   work as on a kernel before 6.5\n",
     .run = run_agent},
    {OPERATOR, "agent status", "[--listen PATH]",
     "show what the agent of this host does", AGENT_OPTIONS,
     .run = run_agent_status, .is_offline = true},
    {OPERATOR, "agent metrics", "[--listen PATH]",
     "print the same for Prometheus", AGENT_OPTIONS, .run = run_agent_metrics,
     .is_offline = true},
    {OPERATOR, "died", "FILE", "end sessions by their death words", NULL,
     .run = run_died},
    {CERTIFICATES, "cert ca", "--cluster NAME [--dir DIR] [--days N]",
     "create the CA of a cluster: ca.crt, ca.key",
     "    --cluster NAME  cluster.name of haspd\n" CERT_OPTIONS
     "    --days N        valid for this many days (3650)\n",
     .run = run_cert_ca, .is_offline = true},
    {CERTIFICATES, "cert node", "ID=HOST[,HOST...]... [--dir DIR] [--days N]",
     "create certificates for nodes",
     CERT_OPTIONS "    --days N        valid for this many days (as the CA)\n",
     .run = run_cert_node, .is_offline = true},
    {CERTIFICATES, "cert user", "NAME... [--dir DIR] [--days N]",
     "create certificates for users",
     CERT_OPTIONS "    --days N        valid for this many days (365)\n",
     .run = run_cert_user, .is_offline = true},
    {CERTIFICATES, "cert renew", "FOLDER... [--dir DIR] [--days N]",
     "renew certificates: the same names, new keys",
     CERT_OPTIONS
     "    --days N        valid for this many days (a node's: as the CA;\n"
     "                    a user's: 365)\n",
     .run = run_cert_renew, .is_offline = true},
    {CERTIFICATES, "cert revoke", "FILE|FOLDER|FINGERPRINT...",
     "refuse a certificate, and close its connections",
     "Its user or node can use another: hasp cert renew. This cannot be\n"
     "undone.\n",
     .run = run_cert_revoke},
    {CERTIFICATES, "cert revoked", "[PREFIX]", "the refused certificates",
     .run = run_list, .command = "CERT.REVOKED", .fields = revoked_fields},
    {CERTIFICATES, "cert show", "FILE|HOST:PORT",
     "print a certificate from a file or from a node", NULL,
     .run = run_cert_show, .is_offline = true},
    {CERTIFICATES, "cert check", "FOLDER",
     "check a folder: key, CA, names, days, modes", NULL, .run = run_cert_check,
     .is_offline = true},

    {TRYING, "dev", "[--nodes 3] [--dir DIR] [--port 7420] [--secure]",
     "start a temporary cluster on loopback",
     "    --nodes N   number of nodes\n"
     "    --dir DIR   keep it here (default: a temporary folder)\n"
     "    --port P    node i uses the ports from P + 10 (i - 1)\n"
     "    --secure    TLS on all ports, access only for users: admin, and "
     "demo,\n"
     "                which has the rights lock and read on demo/*\n",
     .run = run_dev, .is_offline = true},
    {TRYING, "bench", "[--clients 16] [--seconds 5] [--open-loop] [--shared]",
     "measure how fast the cluster grants and releases",
     "-c, --clients N     number of clients, each with a session (16)\n"
     "-s, --seconds N     duration (5)\n"
     "-l, --locks N       number of locks that they share (each has its own)\n"
     "    --prefix NAME   prefix of the locks' names (bench/)\n"
     "-r, --rate N        start N cycles a second (default: as fast as "
     "possible)\n"
     "    --open-loop     as fast as possible, then at 10, 50 and 80 % of "
     "that\n"
     "    --shared        all clients share one connection\n",
     .run = run_bench},
    {TRYING, "completion", "bash|zsh|fish",
     "print a shell's script: source <(hasp completion bash)",
     "    --words     print what can follow the given words, one a line\n",
     .run = run_completion},
    {0},
};
