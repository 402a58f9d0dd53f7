/* SPDX-License-Identifier: MIT */

/* What a command is: a row of the one table, with its name, arity, flags,
 * arguments and handlers; and a call of it, with its arguments understood.
 *
 * How a command comes to its answer is told by its flags:
 *
 *     COMMAND_LOCAL   answered at once by the node that was asked ('run');
 *     COMMAND_CHANGE  'encode' makes an entry of it, the reply is made of the
 *                     result of applying that ('reply');
 *     COMMAND_READ    answered from the state ('read') by the leader, once a
 *                     question asked after its receipt is confirmed;
 *     neither         'run' decides at the leader.
 *
 * Handlers decide and encode. They propose nothing (core/propose.c does),
 * apply nothing (apply.c) and send nothing (request.c). */

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
    COMMAND_SESSION = 1 << 3, /* An attached session acts. */
    COMMAND_ORIGIN = 1 << 4,  /* Takes REQ; a session acts if one is there. */
    COMMAND_BLOCKS = 1 << 5,  /* May wait: holds back what follows. */
    COMMAND_ADMIN = 1 << 6,   /* For COMMAND's categories. */
    COMMAND_FREES = 1 << 7,   /* Served while the disk is scarce. */
    COMMAND_PUBSUB = 1 << 8,  /* Allowed to a subscriber of RESP2. */
    COMMAND_REDIS = 1 << 9,   /* Errors in the words of Redis. */
    COMMAND_REPEATABLE = 1 << 10, /* A change that may be done twice. */
    COMMAND_ATTACHES = 1 << 11,   /* Attaches a session to the connection. */
    COMMAND_SCANS = 1 << 12,      /* May take long: bounded in a turn. */
    COMMAND_TRAIL = 1 << 14,      /* Its entry says who asks, from where. */
    COMMAND_CHOOSES = 1 << 13,    /* SESSION tells who acts, not on whom. */
    COMMAND_KEEPS = 1 << 15,      /* A heartbeat: waits for nothing. */
    COMMAND_ACQUIRES = 1 << 16,   /* May be granted a lock, or told nil. */
    COMMAND_TRANSFERS = 1 << 17,  /* That leadership moves is its purpose. */
    COMMAND_PROMOTES = 1 << 18,
    COMMAND_REMOVES = 1 << 19,
    COMMAND_SCRIPT = 1 << 20, /* EVALSHA leaves as EVAL. */
    COMMAND_QUEUES = 1 << 21, /* MULTI queues it, ... */
    COMMAND_PASSES = 1 << 22, /* ... or lets it pass; it refuses the rest. */
    /* A READ that the asked node answers: the leader confirms that who asks
     * may. Whoever comes by the local door needs nobody's leave, nor a leader.
     */
    COMMAND_ASKED = 1 << 23
};

/* Who may ask: what a row of the table must say. Decided by authorize.h where
 * the request is answered or proposed. */
enum command_needs {
    NEEDS_MISSING, /* No command; a row without its needs. */
    NEEDS_NOTHING, /* Whoever is there, before AUTH, too. */
    NEEDS_USER,    /* Any user. What he sees of others the handler decides. */
    NEEDS_ENTRY,   /* Any user; more by its entry, when that is applied. */
    NEEDS_READ,    /* VERB_READ of each name or key. */
    NEEDS_READ_PREFIX, /* VERB_READ of all names with the prefix. */
    NEEDS_READ_CHANNELS,
    NEEDS_READ_PATTERNS,
    NEEDS_SESSIONS, /* The verb of the cluster; likewise those below. */
    NEEDS_CLUSTER,
    NEEDS_BACKUP,
    NEEDS_AUDIT,
    NEEDS_ADMIN,
    NEEDS_ACCESS
};

/* What may follow the operands. */
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
    OPTION_COUNT_ALL
};
/* They are bits of 'given'. */
_Static_assert(OPTION_COUNT_ALL <= 64, "too many options");
#define WAIT_FOREVER UINT64_MAX
#define TTL_NONE UINT64_MAX
/* Of ACKED, beside the number up to which all are answered. */
#define ACKED_RANGE_MAX 16

/* A command with its arguments understood. Bytes are borrowed: of a request
 * that was kept, from its body. */
struct call {
    const struct command *command; /* NULL: not understood yet. */
    enum core_word word;           /* Why it cannot be understood. */
    struct bytes *own;             /* Room for the arguments; kept for reuse. */
    uint32_t own_capacity;
    struct call *next; /* While it is free. */
    const struct bytes *argument;
    uint32_t count;
    uint64_t given;    /* 1 << enum option. */
    struct bytes name; /* Lock, resource, prefix or address. */
    const struct bytes *names;
    uint32_t name_count;
    uint64_t id; /* Session or member. */
    bool has_id;
    uint64_t token;
    uint64_t tokens[MULTI_COUNT_MAX]; /* With TOKENS: one per name. */
    enum limit_key limit;
    uint64_t value;            /* Of the limit. */
    uint8_t proof[PROOF_SIZE]; /* Of the secret; of OPEN the PROOF. */
    enum verb verb;
    bool is_disabled; /* Of a user. */
    bool is_reused;
    struct quota bound;
    bool is_required;    /* Access. */
    uint32_t pair_count; /* KEEP: of (id, secret), from argument 1 on. */
    uint64_t number[OPTION_COUNT_ALL]; /* Set where given. */
    struct bytes text[OPTION_COUNT_ALL];
    struct label labels[LABEL_COUNT_MAX];
    uint32_t label_count;
    uint64_t also_acked[2 * ACKED_RANGE_MAX]; /* From, to, from, to ... */
    uint32_t also_acked_count;                /* Of pairs. */
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

/* COUNT of a page: more than a node tells at once is that much. */
#define PAGE_COUNT_MAX 1000
static inline uint32_t call_page(const struct call *call)
{
    uint64_t count = call_number(call, OPTION_COUNT, 100);
    return count < PAGE_COUNT_MAX ? (uint32_t)count : PAGE_COUNT_MAX;
}

/* How a good result becomes a reply. */
enum reply_kind {
    REPLY_TOKEN,
    REPLY_COUNT,
    REPLY_RELEASED, /* A count, of MRELEASE also for one name. */
    REPLY_TOKENS,
    REPLY_OK,
    REPLY_OWN /* By 'reply'. */
};

/* What is asked is request->call, until the request is answered. */
typedef void command_run_fn(struct core *core, struct request *request);
typedef void command_encode_fn(struct core *core, struct request *request,
                               const struct call *call, struct buffer *out);
typedef void command_read_fn(struct core *core, struct request *request);
typedef void command_reply_fn(struct core *core, struct request *request,
                              const struct result *result);
/* Understands the arguments, or writes an error and returns false. */
typedef bool command_parse_fn(struct call *call, struct resp_writer *writer);

struct command {
    const char *name; /* Upper case. */
    enum command_needs needs;
    const char *operands; /* See parse.c; NULL: 'parse' does it all. */
    uint64_t options;     /* Those allowed. */
    uint32_t flags;
    int arity;       /* With the name; negative: at least. */
    uint32_t cost;   /* In the account's units; 0: as its flags tell. */
    uint32_t key_at; /* Of a command without operands; 0: no key. */
    enum reply_kind reply_kind;
    command_run_fn *run;
    command_encode_fn *encode;
    command_read_fn *read;
    command_reply_fn *reply;
    command_parse_fn *parse;
    const char *arguments; /* For people: COMMAND DOCS. */
    const char *summary;
};

/* The commands of a core (core_new()), as core/commands/table.c has them. */
struct command_table {
    const struct command *row;
    uint32_t count;
    /* True if scripts know a command of this name, which is none of these. */
    bool (*is_for_scripts)(struct bytes name);
};

void command_init(struct core *core);
/* By its name, in any case; NULL: there is none. */
const struct command *command_find(const struct core *core, struct bytes name);
/* Its place in the table. */
uint32_t command_place(const struct core *core, const struct command *command);

/* The word of a refusal. */
enum core_word result_word(enum result_code code);
/* Likewise as a text, "nil" for what was not to be had. */
const char *result_name(enum result_code code);
/* What is said beside the word: 'own' is the result's. */
struct bytes result_text(enum result_code code, struct bytes own);

/* Understands the arguments. WORD_NONE, or the word of the error that has been
 * written. */
MUST_CHECK enum core_word call_parse(struct call *call,
                                     const struct command *command,
                                     const struct bytes *argument,
                                     uint32_t count,
                                     struct resp_writer *writer);

/* The call cannot be understood. Writes "BADARG command: text", or "WORD text";
 * returns false. */
bool call_fail(struct call *call, struct resp_writer *writer, const char *text);
bool call_fail_as(struct call *call, struct resp_writer *writer,
                  enum core_word word, const char *text);
/* True if it may have so many arguments, with its name: what the parsers of
 * arguments rely on. */
bool command_takes(const struct command *command, uint32_t count);
/* What one request of this kind costs, without what its state adds. */
uint64_t command_cost(const struct command *command);
/* What is done for the request at hand costs so much more. */
void command_spend(struct core *core, uint64_t units);
/* True of heartbeats, and of what a session gives back: these are not refused
 * for what others have in flight. Each connection has a bound of its own. */
bool command_is_urgent(const struct command *command);
/* The command's name in lower case. */
void command_name(const struct command *command, char *name, size_t size);
/* The proof of a secret of 32 hex digits; false for anything else. */
bool call_secret(struct bytes text, uint8_t ret_proof[PROOF_SIZE]);

/* The number under which doing it twice has its effect once; 0: none. */
static inline uint64_t call_req(const struct request *request,
                                const struct call *call)
{
    return request->session != 0 ? call_number(call, OPTION_REQ, 0) : 0;
}

/* --- What was granted (grants.c) ------------------------------------------ */

/* Which grant. */
struct grant_of {
    uint64_t session;
    struct bytes owner;
    struct bytes lock;
    uint64_t token;
    /* Not an answer of the leader: what is left of a limit is told as 0, since
     * nobody knows from when a client would count it. */
    bool is_pushed;
};
/* Writes the map of the hold that the token names; if it is over, with 0 for
 * its count. */
void grant_put(struct core *core, const struct grant_of *grant,
               struct resp_writer *writer);
/* Answers what the request, which has FULL, was granted. */
void grants_answer(struct core *core, struct request *request,
                   const struct result *result);

/* Who asks, for the entry. */
struct origin call_origin(const struct request *request,
                          const struct call *call);

#endif /* HASP_CORE_COMMAND_H */
