/* SPDX-License-Identifier: MIT */

/* What a command is: a row of the table of commands, with its name, arity,
 * flags, arguments and handlers; and a call of it, with its arguments parsed.
 *
 * The flags say how a command is answered:
 *
 *     COMMAND_LOCAL   at once by the asked node ('run');
 *     COMMAND_CHANGE  'propose' makes an entry for propose_entry(), and 'reply'
 *                     makes the reply from the result of applying it;
 *     COMMAND_READ    from the state ('read') by the leader, once a question
 *                     asked after the receipt is confirmed;
 *     neither         'run' decides at the leader.
 *
 * Handlers decide and make entries. They do not encode (core/propose.c does),
 * apply (apply.c) or send (request.c). */

#ifndef HASP_CORE_COMMAND_H
#define HASP_CORE_COMMAND_H

#include "base/bytes.h"
#include "core/request.h"
#include "lockfsm/entry.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"
#include "net/resp.h"

struct core;

enum command_flag {
    COMMAND_LOCAL = 1 << 0,
    COMMAND_CHANGE = 1 << 1,
    COMMAND_READ = 1 << 2,
    COMMAND_SESSION = 1 << 3, /* Needs an attached session, which acts. */
    /* Accepts REQ; a session acts if one is attached. */
    COMMAND_ORIGIN = 1 << 4,
    COMMAND_BLOCKS = 1 << 5, /* May wait, and then blocks its connection. */
    COMMAND_ADMIN = 1 << 6,  /* For COMMAND's categories. */
    COMMAND_FREES = 1 << 7,  /* Served while the disk is nearly full. */
    COMMAND_PUBSUB = 1 << 8, /* Allowed to a RESP2 subscriber. */
    COMMAND_REDIS = 1 << 9,  /* Errors are worded as in Redis. */
    /* A change that does no harm if done twice. */
    COMMAND_REPEATABLE = 1 << 10,
    COMMAND_ATTACHES = 1 << 11, /* Attaches a session to the connection. */
    COMMAND_SCANS = 1 << 12,    /* May take long; bounded in each turn. */
    /* Its entry names the requester and its address. */
    COMMAND_TRAIL = 1 << 14,
    COMMAND_CHOOSES = 1 << 13,   /* SESSION names the session that acts. */
    COMMAND_KEEPS = 1 << 15,     /* A heartbeat: waits for no other request. */
    COMMAND_ACQUIRES = 1 << 16,  /* May acquire a lock, or return nil. */
    COMMAND_TRANSFERS = 1 << 17, /* Its purpose is to move leadership. */
    COMMAND_PROMOTES = 1 << 18,
    COMMAND_REMOVES = 1 << 19,
    COMMAND_SCRIPT = 1 << 20, /* EVALSHA, which is forwarded as EVAL. */
    COMMAND_QUEUES = 1 << 21, /* MULTI queues it, ... */
    /* ... or executes it at once; all others are refused. */
    COMMAND_PASSES = 1 << 22,
    /* A READ that the asked node answers after the leader has authorized the
     * requester. A client of the local socket needs neither authorization nor a
     * leader. */
    COMMAND_ASKED = 1 << 23,
    COMMAND_REPLACES = 1 << 24
};

/* Which right a command needs: each row of the table must say. authorize.h
 * checks it when the request is answered or proposed. */
enum command_needs {
    NEEDS_MISSING, /* Not a command; the row lacks its needs. */
    NEEDS_NOTHING, /* Anybody, also before AUTH. */
    /* Any user. The handler decides what the user sees of others. */
    NEEDS_USER,
    NEEDS_ENTRY,       /* Any user; the entry is checked when it is applied. */
    NEEDS_READ,        /* VERB_READ of each name or key. */
    NEEDS_READ_PREFIX, /* VERB_READ of all names with the prefix. */
    NEEDS_READ_CHANNELS,
    NEEDS_READ_PATTERNS,
    NEEDS_SESSIONS, /* A verb of the cluster, as all below. */
    NEEDS_CLUSTER,
    NEEDS_BACKUP,
    NEEDS_AUDIT,
    NEEDS_ADMIN,
    NEEDS_ACCESS
};

/* The options that may follow the operands. */
enum option {
    OPTION_TTL,
    OPTION_NAME,
    OPTION_LINGER,
    OPTION_LABEL,
    OPTION_SHARED,
    OPTION_EXCLUSIVE,
    OPTION_SLOTS,
    OPTION_WAIT,
    OPTION_OWNER,
    OPTION_VALUE,
    OPTION_BARGE,
    OPTION_DELAY,
    OPTION_HOLD,
    OPTION_REQ,
    OPTION_ACKED,
    OPTION_TOKEN,
    OPTION_SESSION,
    OPTION_PREFIX,
    OPTION_COUNT,
    OPTION_CURSOR,
    OPTION_MESSAGE,
    OPTION_REASON,
    OPTION_BY,
    OPTION_FOR,
    OPTION_CLIENT,
    OPTION_STANDBY,
    OPTION_FULL,
    OPTION_FORCE,
    OPTION_PROOF,
    OPTION_PUSH,
    OPTION_AFTER,
    OPTION_TOKENS,
    OPTION_INCARNATION,
    OPTION_WILL,
    OPTION_CANCEL,
    OPTION_UNCLEAN,
    OPTION_TRACE,
    OPTION_COUNT_ALL
};
/* Options are bits of 'given' */
_Static_assert(OPTION_COUNT_ALL <= 64, "too many options");
#define WAIT_FOREVER UINT64_MAX
#define TTL_NONE UINT64_MAX
/* Ranges in ACKED, besides the number up to which all are answered. */
#define ACKED_RANGE_MAX 16

/* A command with its arguments parsed. Bytes are borrowed; those of a request
 * that was kept, from its body. */
struct call {
    const struct command *command; /* NULL: not parsed yet. */
    enum core_word word;           /* Why it cannot be parsed. */
    struct bytes *own; /* Space for the arguments; kept for reuse. */
    uint32_t own_capacity;
    struct call *next; /* In the free list. */
    const struct bytes *argument;
    uint32_t count;
    uint64_t given;    /* 1 << enum option. */
    struct bytes name; /* Lock, resource, prefix or address. */
    const struct bytes *names;
    uint32_t name_count;
    uint64_t id; /* Session or member. */
    bool has_id;
    uint64_t token;
    uint64_t tokens[MULTI_COUNT_MAX]; /* With TOKENS: one for each name. */
    enum limit_key limit;
    uint64_t value;            /* The limit's value. */
    uint8_t proof[PROOF_SIZE]; /* The secret's proof; for OPEN, the PROOF. */
    uint8_t will[PROOF_SIZE];  /* OPEN: the hash of the death word. */
    enum verb verb;
    bool is_disabled; /* The user is disabled. */
    bool is_reused;
    struct quota bound;
    bool is_required; /* Access. */
    /* Pairs from argument 1 on: KEEP: (id, secret); DIED: (id, word). */
    uint32_t pair_count;
    uint64_t number[OPTION_COUNT_ALL]; /* Set for each given option. */
    struct bytes text[OPTION_COUNT_ALL];
    struct label labels[LABEL_COUNT_MAX];
    uint32_t label_count;
    uint64_t also_acked[2 * ACKED_RANGE_MAX]; /* Pairs of first and last. */
    uint32_t also_acked_count;                /* How many pairs. */
};

static inline bool call_has(const struct call *call, enum option option)
{
    return (call->given & (UINT64_C(1) << option)) != 0;
}
static inline uint64_t call_number(const struct call *call, enum option option,
                                   uint64_t otherwise)
{
    return call_has(call, option) ? call->number[option] : otherwise;
}
static inline struct bytes call_text(const struct call *call,
                                     enum option option)
{
    return call_has(call, option) ? call->text[option]
                                  : (struct bytes){NULL, 0};
}

/* The largest COUNT of a page; a larger number means this one. */
#define PAGE_COUNT_MAX 1000
/* A listing's cursor: '=', the number of a record and '/', and its name. */
#define CURSOR_SIZE_MAX (LOCK_NAME_SIZE_MAX + 22)
static inline uint32_t call_page(const struct call *call)
{
    uint64_t count = call_number(call, OPTION_COUNT, 100);
    return count < PAGE_COUNT_MAX ? (uint32_t)count : PAGE_COUNT_MAX;
}

/* How a successful result becomes a reply. */
enum reply_kind {
    REPLY_TOKEN,
    REPLY_COUNT,
    REPLY_RELEASED, /* A count, for MRELEASE also if it has one name. */
    REPLY_TOKENS,
    REPLY_OK,
    REPLY_OWN /* Written by 'reply'. */
};

/* request->call has the arguments until the request is answered. */
typedef void command_run_fn(struct core *core, struct request *request);
typedef void command_propose_fn(struct core *core, struct request *request,
                                const struct call *call);
typedef void command_read_fn(struct core *core, struct request *request);
typedef void command_reply_fn(struct core *core, struct request *request,
                              const struct result *result);
/* Parses the arguments; on failure writes an error and returns false. */
typedef bool command_parse_fn(struct call *call, struct resp_writer *writer);

struct command {
    const char *name; /* In upper case. */
    enum command_needs needs;
    const char *operands; /* See call.c; NULL: 'parse' does everything. */
    uint64_t options;     /* The options allowed. */
    uint32_t flags;
    int arity;     /* With the name; negative: a minimum. */
    uint32_t cost; /* In the account's units; 0: derived from the flags. */
    /* The first key of a command without operands; 0: it has no key. */
    uint32_t key_at;
    enum reply_kind reply_kind;
    command_run_fn *run;
    command_propose_fn *propose;
    command_read_fn *read;
    command_reply_fn *reply;
    command_parse_fn *parse;
    const char *arguments; /* For people: COMMAND DOCS. */
    const char *summary;
};

/* The commands of a core, given to core_new(); core/commands/table.c has
 * them. */
struct command_table {
    const struct command *row;
    uint32_t count;
    /* True if scripts know a command of this name that clients cannot call. */
    bool (*is_for_scripts)(struct bytes name);
};

void command_init(struct core *core);
/* Finds a command by its name in any case; NULL if there is none. */
const struct command *command_find(const struct core *core, struct bytes name);
/* The command's place in the table. */
uint32_t command_place(const struct core *core, const struct command *command);

/* The error word for a result. */
enum core_word result_word(enum result_code code);
/* The error word as a text; "nil" if the lock was not granted. */
const char *result_name(enum result_code code);
/* The text after the word; 'own' is the result's own text. */
struct bytes result_text(enum result_code code, struct bytes own);

/* Parses the arguments. Returns WORD_NONE, or the word of the error that was
 * written. */
MUST_CHECK enum core_word call_parse(struct call *call,
                                     const struct command *command,
                                     const struct bytes *argument,
                                     uint32_t count,
                                     struct resp_writer *writer);

/* Writes "BADARG command: text" or "WORD text" for a call that cannot be
 * parsed, and returns false. */
bool call_fail(struct call *call, struct resp_writer *writer, const char *text);
bool call_fail_as(struct call *call, struct resp_writer *writer,
                  enum core_word word, const char *text);
/* True if the command accepts this number of arguments, including its name. The
 * parsers of arguments rely on it. */
bool command_takes(const struct command *command, uint32_t count);
/* The cost of one request of this command, without the work that depends on the
 * state. */
uint64_t command_cost(const struct command *command);
/* Adds 'units' to the cost of the current request. */
void command_spend(struct core *core, uint64_t units);
/* True for heartbeats and for commands that release something: these are not
 * refused because other requests are in flight. Each connection has a bound of
 * its own. */
bool command_is_urgent(const struct command *command);
/* The command's name in lower case. */
void command_name(const struct command *command, char *name, size_t size);
/* The proof of a secret of 32 hex digits; false for any other text. */
bool call_secret(struct bytes text, uint8_t ret_proof[PROOF_SIZE]);

/* The request number, under which repeating the request has its effect once; 0:
 * none. */
static inline uint64_t call_req(const struct request *request,
                                const struct call *call)
{
    return request->session != 0 ? call_number(call, OPTION_REQ, 0) : 0;
}

/* --- What was granted (grants.c) ------------------------------------------ */

/* Identifies a grant. */
struct grant_of {
    uint64_t session;
    struct bytes owner;
    struct bytes lock;
    uint64_t token;
    /* The grant is not an answer of the leader: what is left of a limit is sent
     * as 0, because the client could not tell from when to count. */
    bool is_pushed;
};
/* Writes the map of the hold that the token names, with count 0 if the hold has
 * ended. */
void grant_put(struct core *core, const struct grant_of *grant,
               struct resp_writer *writer);
/* Answers a request with FULL: everything about what it was granted. */
void grants_answer(struct core *core, struct request *request,
                   const struct result *result);

/* The requester, for the entry. */
struct origin call_origin(const struct request *request,
                          const struct call *call);

#endif /* HASP_CORE_COMMAND_H */
