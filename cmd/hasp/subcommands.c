/* SPDX-License-Identifier: MIT */

/* The one table of subcommands, by topic, from which the help, the manual page
 * and the completion are made. A line of 'details' that begins with "-" is of
 * an option, in columns: short, long, what it takes; then its meaning. */

#include "cmd/hasp/tool.h"

const char tool_options_text[] =
    "-e, --endpoints HOST:PORT,...  the nodes (HASP_ENDPOINTS, else\n"
    "                               " ENDPOINTS_DEFAULT ")\n"
    "    --secret-file FILE         of the user as whom to come "
    "(HASP_SECRET_FILE)\n"
    "    --socket DIR               by the local door of the node with that\n"
    "                               data directory\n"
    "    --tls DIR                  certificates: ca.crt, and client.crt with\n"
    "                               client.key (HASP_TLS, else plain)\n"
    "-o, --output table|json|plain  how results are written (table)\n"
    "-t, --timeout TIME             for an answer (5s)\n"
    "-q, --quiet                    errors only\n"
    "-h, --help                     this help\n"
    "-V, --version                  the version of the tool\n";

#define ACQUIRE_OPTIONS                                                       \
    "-s, --shared        several may hold it together\n"                      \
    "    --slots N       at most N may hold it\n"                             \
    "-n, --nonblock      try: do not wait\n"                                  \
    "-w, --wait TIME     wait at most this long (for ever)\n"                 \
    "-E, --exit-code N   exit code if it was not acquired (75)\n"             \
    "    --with NAME     this lock, too: all or none of them\n"               \
    "    --ttl TIME      lease of the session (10s)\n"                        \
    "    --linger TIME   end it this long after the last connection closed\n" \
    "    --value TEXT    shown to those who ask\n"                            \
    "    --delay TIME    keep the lock closed this long after an unclean "    \
    "end\n"                                                                   \
    "    --hold TIME     hold it at most this long\n"

#define SESSION_OPTIONS                            \
    "    --session-file FILE  of 'hasp acquire'\n" \
    "    --session ID:SECRET  as 'hasp acquire' printed it\n"

#define LOCKS "Locks"
#define SESSIONS "Sessions and tokens"
#define CLUSTER "The cluster"
#define USERS "Users and what they may"
#define OPERATOR "For operators"
#define CERTIFICATES "Certificates"
#define CERT_OPTIONS "    --dir DIR       the folder of the CA (certs)\n"
#define TRYING "To try and to measure"

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
    {"address", "ADDRESS", FIELD_TEXT},
    {"ttl_ms", "TTL", FIELD_DURATION},
    {"left_ms", "LEFT", FIELD_DURATION},
    {"holds", "HOLDS", FIELD_COUNT},
    {"waits", "WAITS", FIELD_COUNT},
    {"blacklisted", "BLACKLISTED", FIELD_FLAG},
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
    "    --waits N        places in queues (10000)\n"                     \
    "    --bytes N        of his in the state: 64 a record, and its text" \
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

const struct subcommand subcommands[] = {
    {LOCKS, "run", "[-s] [-n] [-w TIME] [--on-lost HOW] NAME [--] COMMAND...",
     "run a command while holding a lock",
     ACQUIRE_OPTIONS
     "    --on-lost term|kill|freeze|ignore  if it cannot be kept: TERM in\n"
     "                    time, then KILL (term); KILL; STOP, and go on if it\n"
     "                    is kept after all; nothing\n"
     "    --grace TIME    between TERM and KILL (a quarter of the lease)\n",
     .run = run_run},
    {LOCKS, "acquire", "NAME... [--ttl TIME] [-n | -w TIME] [--export]",
     "wait for a lock and leave it held until the TTL",
     ACQUIRE_OPTIONS
     "    --owner TAG     hold it as this owner\n"
     "    --durable       without lease and end, until it is released\n"
     "    --reason TEXT   with --durable: why, for who finds it closed\n"
     "    --export        print variables for eval \"$(hasp acquire ...)\"\n"
     "    --session-file FILE  in the session of this file; if it is not "
     "there,\n"
     "                         it gets the new one's (0600)\n"
     "    --session ID:SECRET  in this session, not a new one\n",
     .run = run_acquire},
    {LOCKS, "convert", "NAME --to exclusive|shared [-n | -w TIME]",
     "make a held lock shared or exclusive",
     "    --to exclusive|shared  what it is to become\n"
     "-n, --nonblock      try: do not wait for the other holders\n"
     "-w, --wait TIME     wait at most this long for them (for ever)\n"
     "-E, --exit-code N   exit code if it is still shared then (75)\n"
     "    --owner TAG     of this owner\n" SESSION_OPTIONS,
     .run = run_convert},
    {LOCKS, "release", "NAME... [--session-file FILE] [--token N]",
     "give a lock back",
     SESSION_OPTIONS "    --owner TAG          of this owner\n"
                     "    --token N            only if this is its token\n",
     .run = run_release},
    {LOCKS, "object", "NAME [--session-file FILE] [-m TEXT]",
     "keep a lock that somebody breaks",
     SESSION_OPTIONS "    --owner TAG          of this owner\n"
                     "-m, --message TEXT       told to who watches\n",
     .run = run_object},
    {LOCKS, "note", "NAME [TEXT]",
     "leave a text at a lock that one holds, or read it",
     SESSION_OPTIONS "    --owner TAG          of this owner\n"
                     "    --token N            only if this is its token\n",
     .run = run_note},
    {LOCKS, "list", "[PREFIX]", "locks that are held or waited for",
     .run = run_list, .command = "LOCK.LIST", .fields = lock_fields},
    {LOCKS, "show", "NAME [--all]", "holders and queue of a lock",
     "-a, --all           also more than the first 2,000 and 10,000 of them\n",
     .run = run_show},
    {LOCKS, "why", "NAME", "why a lock is not free, and until when",
     .run = run_why},
    {LOCKS, "please", "NAME [MESSAGE]", "ask the holders to give a lock back",
     "-m, --message TEXT  what they are told\n", .run = run_please},
    {LOCKS, "watch", "[PREFIX] [--count N]", "events of locks as they happen",
     "-c, --count N       end after this many events\n", .run = run_watch},
    {LOCKS, "history", "NAME [--count N]",
     "what has happened to a lock, as one node knows it",
     "-c, --count N       the newest N events (100)\n", .run = run_history},
    {LOCKS, "top", "[-n COUNT] [-i TIME]",
     "the hottest locks, the longest waits, the sessions, live",
     "-n, --count N        end after this many times\n"
     "-i, --interval TIME  between them (2s)\n"
     "On a terminal: q ends, p pauses, s shows the next of locks, waits,\n"
     "sessions, all; ? tells the keys.\n",
     .run = run_top},

    {SESSIONS, "session list", "[PREFIX]", "sessions, by prefix of their names",
     .run = run_list, .command = "SESSION.LIST", .fields = session_fields},
    {SESSIONS, "session show", "ID", "one session", .run = run_session_show,
     .fields = session_fields},
    {SESSIONS, "session keep", "[ID:SECRET | --session-file FILE]",
     "send one heartbeat", "    --session-file FILE  of 'hasp acquire'\n",
     .run = run_session_keep},
    {SESSIONS, "session close", "[ID:SECRET | --session-file FILE]",
     "end a session and release its holds",
     "    --session-file FILE  of 'hasp acquire'; goes with the session\n",
     .run = run_session_close},
    {SESSIONS, "check", "NAME TOKEN",
     "is this still the holder's token? exit 0 or 1", .run = run_judge,
     .command = "LOCK.CHECK", .what = "cannot check the token",
     .yes = "current"},
    {SESSIONS, "fence admit", "RESOURCE TOKEN",
     "may this token write, and no smaller one? exit 0 or 1", .run = run_judge,
     .command = "FENCE.ADMIT", .what = "cannot admit the token",
     .yes = "admitted"},
    {SESSIONS, "fence show", "RESOURCE", "the highest token admitted, or 0",
     .run = run_fence_show},
    {SESSIONS, "fence list", "[PREFIX]",
     "resources and the highest token of each", .run = run_list,
     .command = "FENCE.LIST", .fields = fence_fields},
    {SESSIONS, "fence remove", "RESOURCE", "forget a resource's highest token",
     .run = run_fence_remove},

    {CLUSTER, "setup",
     "NAME[=ADDRESS[,ADDRESS...]]... | --install FILE | --check",
     "make machines the nodes of a new cluster with TLS and users",
     "    --cluster NAME  as cluster.name of haspd (production)\n"
     "    --dir DIR       for certificates and the files of machines (certs)\n"
     "    --install FILE  make this machine a node, with its file; -: stdin\n"
     "    --check         what this machine lacks to be a node that serves\n",
     .run = run_setup, .fields = setup_fields, .is_offline = true},
    {CLUSTER, "status", "", "the members, their roles, how many may be lost",
     .run = run_status},
    {CLUSTER, "health", "", "exit 0 if the cluster serves, else 69",
     .run = run_health},
    {CLUSTER, "version", "", "versions of the tool and of the nodes",
     .run = run_version},
    {CLUSTER, "member list", "",
     "the members, and for how long they are silent", .run = run_member_list},
    {CLUSTER, "member add", "ID PEER,CLIENT [--standby] [--incarnation HEX]",
     "add a node to the cluster",
     "    PEER,CLIENT        its addresses for nodes and for clients\n"
     "    --standby          it gets the log and has no vote\n"
     "    --incarnation HEX  its data directory; else the node is asked\n",
     .run = run_member_add},
    {CLUSTER, "member promote", "ID", "make a standby a voter",
     .run = run_member_change, .command = "RAFT.PROMOTE"},
    {CLUSTER, "member demote", "ID [--force]", "make a member a standby",
     "    --force     whoever is silent\n", .run = run_member_change,
     .command = "RAFT.DEMOTE"},
    {CLUSTER, "member remove", "ID [--force] [--revoke WHAT]",
     "remove a node from the cluster",
     "    --force       whoever is silent\n"
     "    --revoke WHAT refuse its certificate, too: as 'hasp cert revoke'\n",
     .run = run_member_change, .command = "RAFT.REMOVE"},
    {CLUSTER, "member transfer", "[ID]", "hand the leadership over",
     .run = run_member_transfer},
    {CLUSTER, "cluster finalize", "",
     "after an upgrade: log what only the new version knows",
     .run = run_cluster_finalize},

    {USERS, "whoami", "", "who one is to the cluster", .run = run_whoami,
     .fields = whoami_fields},
    {USERS, "can", "USER VERB [LOCK]",
     "whether a user may do that, and by which grant", .run = run_can},
    {USERS, "access", "[open | required] [--force]",
     "whether who does not say who he is may do anything",
     "    --force  cut off the sessions of those who do not say who they are\n",
     .run = run_access},
    {USERS, "user list", "[PREFIX]", "users", .run = run_list,
     .command = "USER.LIST", .fields = user_fields},
    {USERS, "user show", "NAME",
     "a user, with his secrets and who comes by them", .run = run_user_show,
     .fields = user_fields},
    {USERS, "user add", "NAME [--role ROLE]... [--may GRANT]... [--reuse] ...",
     "make a user",
     "    --role ROLE      what he may; may come again\n"
     "    --may GRANT      what he may, as in hasp role set; makes a role "
     "that\n"
     "                     is called as the user; may come again\n"
     "    --reuse          somebody else had the name, and was "
     "removed\n" QUOTA_OPTIONS,
     .run = run_user_add},
    {USERS, "user set", "NAME [--sessions N] [--holds N] ...",
     "how much a user may have; 'hasp user show' has it",
     QUOTA_OPTIONS "What is above a new bound stays; what is new is refused.\n",
     .run = run_user_set},
    {USERS, "user grant", "NAME ROLE...", "give a user roles",
     "A user has at most 16; 'hasp role list' shows which there are.\n",
     .run = run_user_grant},
    {USERS, "user revoke", "NAME ROLE...", "take roles from a user",
     "Waits that need them end, holds stay.\n", .run = run_user_revoke},
    {USERS, "user disable", "NAME",
     "refuse a user from now on; its locks pass on as leases end",
     .run = run_user_disable},
    {USERS, "user enable", "NAME", "refuse a user no longer",
     .run = run_user_enable},
    {USERS, "user remove", "NAME",
     "remove a user who is disabled and has no sessions",
     .run = run_user_remove},
    {USERS, "audit", "[-f | --denied] [--user USER] [--count N]",
     "who did what: administrative acts, the newest last",
     "-f, --follow     and those to come\n"
     "    --denied     what the nodes have denied since they started, instead\n"
     "    --user USER  his alone\n"
     "    --count N    look at so many (100, at most 1000)\n",
     .run = run_audit, .fields = act_fields},
    {USERS, "secret add", "USER [--label TEXT] [--file FILE]",
     "make a secret by which a user may come",
     "    --label TEXT  to tell it from others\n"
     "    --file FILE   write it there (0600), for --secret-file\n",
     .run = run_secret_add},
    {USERS, "secret remove", "USER NUMBER",
     "take a secret back; 'hasp user show' has its number",
     .run = run_secret_remove},
    {USERS, "role list", "[PREFIX]", "roles, beside the built-in 'admin'",
     .run = run_list, .command = "ROLE.LIST", .fields = role_fields},
    {USERS, "role show", "NAME", "the grants of a role", .run = run_role_show,
     .fields = role_fields},
    {USERS, "role set", "NAME GRANT...",
     "make a role of these grants, or replace those that it has",
     "A grant is verbs and a name, or all names that begin so:\n"
     "'lock,read:billing/*' 'fence:db'. Verbs of names are read, share, lock,\n"
     "fence, kick; of the cluster, without a name: sessions, blacklist,\n"
     "cluster, backup, audit. docs/protocol.md says what each allows.\n",
     .run = run_role_set},
    {USERS, "role remove", "NAME", "remove a role that no user has",
     .run = run_role_remove},

    {OPERATOR, "limits", "",
     "the limits of the state, and what is used of them", .run = run_rows,
     .command = "LIMITS.LIST", .fields = limits_fields, .what = "cannot list"},
    {OPERATOR, "limits set", "LIMIT VALUE", "change a limit of the state",
     .run = run_limits_set},
    {OPERATOR, "break", "NAME [--after TIME] [--reason TEXT]",
     "take a lock that has no lease, unless its holder objects",
     "    --after TIME   how long it may (60s)\n"
     "    --reason TEXT  told to the holder\n"
     "    --by WHO       who decided it (user@host)\n"
     "    --session ID   only what this session holds\n",
     .run = run_break},
    {OPERATOR, "blacklist add",
     "--session ID | --client PATTERN [--reason TEXT]",
     "refuse a client's heartbeats and sessions",
     "    --session ID      one session\n"
     "    --client PATTERN  clients by name (a glob)\n"
     "    --reason TEXT     told to the refused\n"
     "    --by WHO          who decided it (user@host)\n"
     "    --for TIME        how long (until removed)\n",
     .run = run_blacklist_add},
    {OPERATOR, "blacklist list", "", "who is refused", .run = run_list,
     .command = "BLACKLIST.LIST", .fields = blacklist_fields,
     .what = "cannot list"},
    {OPERATOR, "blacklist remove", "--session ID | --client PATTERN",
     "refuse no longer",
     "    --session ID      one session\n"
     "    --client PATTERN  as it was added\n",
     .run = run_blacklist_remove},
    {OPERATOR, "snapshot save", "FILE [--data DIR] [--force]",
     "save the state of the cluster as a file",
     "    --data DIR  that of a node which does not run, from its data "
     "directory\n"
     "    --force     replace FILE if it is there\n",
     .run = run_snapshot_save},
    {OPERATOR, "snapshot inspect", "FILE",
     "check a backup, and say what is in it", .run = run_snapshot_inspect},
    {OPERATOR, "snapshot restore", "FILE --config FILE | --dir DIR --id N ...",
     "begin a new life of a cluster from a backup",
     "    --config FILE        haspd's, of the node that begins it; or\n"
     "    --dir DIR            its data directory, which must be empty\n"
     "    --id N               its number\n"
     "    --address HOST:PORT  where the other nodes reach it\n"
     "    --client HOST:PORT   where clients reach it\n"
     "    --quarantine TIME    grant nothing for this long (the longest lease\n"
     "                         and the longest lock delay)\n"
     "    --users WORD         keep or suspend: whether users may come at "
     "once,\n"
     "                         or after hasp user enable; where there are "
     "any\n",
     .run = run_snapshot_restore},
    {OPERATOR, "quarantine end", "--i-vouch REASON",
     "grant again after a restore, before the time",
     "    --i-vouch REASON  why no client of the former life can still trust\n"
     "                      a lease; it is logged with your name\n",
     .run = run_quarantine_end},

    {CERTIFICATES, "cert ca", "--cluster NAME [--dir DIR] [--days N]",
     "make the CA of a cluster: ca.crt, ca.key",
     "    --cluster NAME  as cluster.name of haspd\n" CERT_OPTIONS
     "    --days N        valid for this many days (3650)\n",
     .run = run_cert_ca, .is_offline = true},
    {CERTIFICATES, "cert node", "ID=HOST[,HOST...]... [--dir DIR] [--days N]",
     "make the certificates of nodes",
     CERT_OPTIONS "    --days N        valid for this many days (as the CA)\n",
     .run = run_cert_node, .is_offline = true},
    {CERTIFICATES, "cert user", "NAME... [--dir DIR] [--days N]",
     "make the certificates of users",
     CERT_OPTIONS "    --days N        valid for this many days (365)\n",
     .run = run_cert_user, .is_offline = true},
    {CERTIFICATES, "cert renew", "FOLDER... [--dir DIR] [--days N]",
     "make certificates anew: the same names, new keys",
     CERT_OPTIONS
     "    --days N        valid for this many days (a node's: as the CA;\n"
     "                    a user's: 365)\n",
     .run = run_cert_renew, .is_offline = true},
    {CERTIFICATES, "cert revoke", "FILE|FOLDER|FINGERPRINT...",
     "refuse a certificate from now on, and close what came by it",
     "Its user or node may come by another: hasp cert renew. A certificate\n"
     "cannot be taken back into use.\n",
     .run = run_cert_revoke},
    {CERTIFICATES, "cert revoked", "[PREFIX]",
     "the certificates that are refused", .run = run_list,
     .command = "CERT.REVOKED", .fields = revoked_fields},
    {CERTIFICATES, "cert show", "FILE|HOST:PORT",
     "what a certificate says, from a file or from a node", NULL,
     .run = run_cert_show, .is_offline = true},
    {CERTIFICATES, "cert check", "FOLDER",
     "is a folder right? key, CA, names, days, modes", NULL,
     .run = run_cert_check, .is_offline = true},

    {TRYING, "dev", "[--nodes 3] [--dir DIR] [--port 7420] [--secure]",
     "a throw-away cluster on loopback",
     "    --nodes N   how many\n"
     "    --dir DIR   keep it here (default: a temporary folder)\n"
     "    --port P    node i has the ports from P + 10 (i - 1)\n"
     "    --secure    TLS on all ports and access for users alone: admin, and\n"
     "                demo, who may lock and read demo/*\n",
     .run = run_dev, .is_offline = true},
    {TRYING, "bench", "[--clients 16] [--seconds 5] [--open-loop] [--shared]",
     "acquire and release as fast as it goes, and measure",
     "-c, --clients N     this many at a time, each with a session (16)\n"
     "-s, --seconds N     for this long (5)\n"
     "-l, --locks N       that they share (each has its own)\n"
     "    --prefix NAME   of the locks' names (bench/)\n"
     "-r, --rate N        so many cycles a second are due (as fast as it "
     "goes)\n"
     "    --open-loop     as fast as it goes, then 10, 50 and 80 % of that\n"
     "    --shared        they are one program, on one connection\n",
     .run = run_bench},
    {TRYING, "completion", "bash|zsh|fish",
     "a script for the shell: source <(hasp completion bash)",
     "    --words     what may stand next after the words that follow, a line "
     "each\n",
     .run = run_completion},
    {0},
};
