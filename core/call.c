/* SPDX-License-Identifier: MIT */

/* Parsing arguments: operands in their order, then options in any order.
 *
 * 'operands' of a command is a word of letters, one for each operand:
 *
 *     l  a lock's name           n  a count and that many names
 *     r  a resource's name       p  a prefix (may be empty)
 *     t  a token                 i  a session's or member's number
 *     s  a secret                a  a member's address
 *     I  an optional number
 *     k  a limit's name          v  its value
 *     x  a value (may be empty)  u  a user's or a role's name
 *     h  a SHA-256               b  a verb
 *     y  a setting's name        z  a setting's value (may be empty)
 *     w  a word, which the command checks
 *
 * Every error that a client can make in arguments is reported here, with the
 * command's name. */

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/sha.h"
#include "core/command.h"
#include "core/core.h"
#include "core/options.h"
#include "core/request.h"
#include "core/state.h"

enum option_kind {
    KIND_FLAG,
    KIND_NUMBER,
    KIND_TEXT,
    KIND_LABEL,
    KIND_RANGES,
    KIND_TOKENS
};

#define WORD(text) (text), sizeof(text) - 1

static const struct {
    const char *word;
    size_t size; /* The size of the word. */
    enum option_kind kind;
    uint64_t min; /* The range of a number, or of a text's size. */
    uint64_t max;
} options[OPTION_COUNT_ALL] = {
    [OPTION_TTL] = {WORD("TTL"), KIND_NUMBER, 100, TTL_ASKED_MS_MAX},
    [OPTION_NAME] = {WORD("NAME"), KIND_TEXT, 0, CLIENT_NAME_SIZE_MAX},
    [OPTION_LINGER] = {WORD("LINGER"), KIND_NUMBER, 50, TTL_ASKED_MS_MAX},
    [OPTION_LABEL] = {WORD("LABEL"), KIND_LABEL, 0, LABEL_SIZE_MAX},
    [OPTION_SHARED] = {WORD("SHARED"), KIND_FLAG, 0, 0},
    [OPTION_EXCLUSIVE] = {WORD("EXCLUSIVE"), KIND_FLAG, 0, 0},
    [OPTION_SLOTS] = {WORD("SLOTS"), KIND_NUMBER, 1, INT32_MAX},
    [OPTION_WAIT] = {WORD("WAIT"), KIND_NUMBER, 0, TIME_MS_MAX},
    [OPTION_OWNER] = {WORD("OWNER"), KIND_TEXT, 0, OWNER_SIZE_MAX},
    [OPTION_VALUE] = {WORD("VALUE"), KIND_TEXT, 0, VALUE_SIZE_MAX},
    [OPTION_BARGE] = {WORD("BARGE"), KIND_FLAG, 0, 0},
    [OPTION_DELAY] = {WORD("DELAY"), KIND_NUMBER, 0, TIME_MS_MAX},
    [OPTION_HOLD] = {WORD("HOLD"), KIND_NUMBER, 1, TIME_MS_MAX},
    [OPTION_REQ] = {WORD("REQ"), KIND_NUMBER, 1, INT64_MAX},
    [OPTION_ACKED] = {WORD("ACKED"), KIND_RANGES, 0, INT64_MAX},
    [OPTION_TOKEN] = {WORD("TOKEN"), KIND_NUMBER, 1, TOKEN_MAX},
    [OPTION_SESSION] = {WORD("SESSION"), KIND_NUMBER, 1, INT64_MAX},
    [OPTION_PREFIX] = {WORD("PREFIX"), KIND_TEXT, 0, LOCK_NAME_SIZE_MAX},
    [OPTION_COUNT] = {WORD("COUNT"), KIND_NUMBER, 1, INT64_MAX},
    [OPTION_CURSOR] = {WORD("CURSOR"), KIND_TEXT, 0, CURSOR_SIZE_MAX},
    [OPTION_MESSAGE] = {WORD("MESSAGE"), KIND_TEXT, 0, VALUE_SIZE_MAX},
    [OPTION_REASON] = {WORD("REASON"), KIND_TEXT, 0, VALUE_SIZE_MAX},
    [OPTION_BY] = {WORD("BY"), KIND_TEXT, 0, CLIENT_NAME_SIZE_MAX},
    [OPTION_FOR] = {WORD("FOR"), KIND_NUMBER, 1, TIME_MS_MAX},
    [OPTION_CLIENT] = {WORD("CLIENT"), KIND_TEXT, 1, CLIENT_NAME_SIZE_MAX},
    [OPTION_STANDBY] = {WORD("STANDBY"), KIND_FLAG, 0, 0},
    [OPTION_FULL] = {WORD("FULL"), KIND_FLAG, 0, 0},
    [OPTION_FORCE] = {WORD("FORCE"), KIND_FLAG, 0, 0},
    [OPTION_PROOF] = {WORD("PROOF"), KIND_TEXT, 2 * PROOF_SIZE, 2 * PROOF_SIZE},
    [OPTION_PUSH] = {WORD("PUSH"), KIND_FLAG, 0, 0},
    [OPTION_AFTER] = {WORD("AFTER"), KIND_NUMBER, 1, TIME_MS_MAX},
    [OPTION_TOKENS] = {WORD("TOKENS"), KIND_TOKENS, 1, TOKEN_MAX},
    [OPTION_INCARNATION] = {WORD("INCARNATION"), KIND_TEXT, 16, 16},
    [OPTION_CANCEL] = {WORD("CANCEL"), KIND_FLAG, 0, 0},
    [OPTION_WILL] = {WORD("WILL"), KIND_TEXT, 2 * PROOF_SIZE, 2 * PROOF_SIZE},
    /* An invalid one is ignored, not refused. */
    [OPTION_TRACE] = {WORD("TRACE"), KIND_TEXT, 0, TRACE_TEXT_SIZE_MAX},
    [OPTION_UNCLEAN] = {WORD("UNCLEAN"), KIND_FLAG, 0, 0},
};

bool option_range(const char *word, uint64_t *ret_min, uint64_t *ret_max)
{
    for (int i = 0; i < OPTION_COUNT_ALL; i++) {
        if (strcmp(options[i].word, word) == 0) {
            *ret_min = options[i].min;
            *ret_max = options[i].max;
            return true;
        }
    }
    return false;
}

const char *option_word(uint32_t place)
{
    return place < OPTION_COUNT_ALL ? options[place].word : NULL;
}

/* The command being parsed, and where an error goes; each message begins with
 * the command's name. */
struct parse {
    struct call *call;
    struct resp_writer *writer;
    uint32_t at; /* The index of the next argument. */
};

static bool call_parse_fail(struct parse *parse, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool call_parse_fail(struct parse *parse, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return call_fail(parse->call, parse->writer, text);
}

static bool call_parse_number(struct parse *parse, const char *what,
                              uint64_t min, uint64_t max, uint64_t *ret_value)
{
    CHECK(parse->at < parse->call->count);
    struct bytes text = parse->call->argument[parse->at];
    uint64_t value;
    char buffer[BYTES_SHOWN_SIZE];
    if (!bytes_to_u64(text, &value)) {
        return call_parse_fail(parse, "%s must be a decimal integer, not '%s'",
                               what, bytes_shown(text, buffer));
    }
    if (value < min || value > max) {
        return call_parse_fail(parse, "%s must be from %llu to %llu", what,
                               (unsigned long long)min,
                               (unsigned long long)max);
    }
    parse->at++;
    *ret_value = value;
    return true;
}

static bool call_check_size(struct parse *parse, const char *what, size_t size,
                            size_t min, size_t max)
{
    if (size < min || size > max) {
        return call_parse_fail(parse, "%s must have %zu to %zu bytes", what,
                               min, max);
    }
    return true;
}

/* True for "host:port" in ASCII, with the host in brackets if it has colons
 * itself. */
static bool call_is_address(struct bytes text)
{
    char address[MEMBER_ADDRESS_SIZE], host[MEMBER_ADDRESS_SIZE];
    uint16_t port;
    if (text.size == 0 || text.size >= sizeof address) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '\0' || (text.data[i] & 0x80) != 0 ||
            text.data[i] == ',') {
            return false;
        }
    }
    memcpy(address, text.data, text.size);
    address[text.size] = '\0';
    return address_split(address, host, sizeof host, &port) == 0 && port != 0;
}

/* True for a peer's address, optionally followed by a comma and the address for
 * clients. A member that no node could reach would delay every later change. */
static bool is_member_address(struct bytes text)
{
    const uint8_t *comma = text.size == 0 ? NULL
                                          : memchr(text.data, ',', text.size);
    if (comma == NULL) {
        return call_is_address(text);
    }
    size_t first = (size_t)(comma - text.data);
    return call_is_address(bytes_of(text.data, first)) &&
           call_is_address(bytes_of(comma + 1, text.size - first - 1));
}

static bool parse_limit(struct parse *parse)
{
    char buffer[BYTES_SHOWN_SIZE];
    struct bytes name = parse->call->argument[parse->at];
    if (!limit_find(name, &parse->call->limit)) {
        return call_parse_fail(
            parse, "unknown limit '%s'; LIMITS.LIST shows all of them",
            bytes_shown(name, buffer));
    }
    parse->at++;
    return true;
}

static bool parse_names(struct parse *parse)
{
    struct call *call = parse->call;
    uint64_t count;
    if (!call_parse_number(parse, "the number of names", 1, MULTI_COUNT_MAX,
                           &count)) {
        return false;
    }
    /* Otherwise the difference would wrap around. */
    CHECK(parse->at <= call->count);
    if (call->count - parse->at < count) {
        return call_parse_fail(parse, "expected %llu names, got fewer",
                               (unsigned long long)count);
    }
    call->names = &call->argument[parse->at];
    call->name_count = (uint32_t)count;
    parse->at += (uint32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        if (!call_check_size(parse, "a lock's name", call->names[i].size, 1,
                             LOCK_NAME_SIZE_MAX)) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (bytes_equal(call->names[i], call->names[j])) {
                return call_parse_fail(parse, "duplicate name");
            }
        }
    }
    call->name = call->names[0];
    return true;
}

/* Parses an operand of the commands about users and cells. */
static bool parse_of_user(struct parse *parse, char letter)
{
    struct call *call = parse->call;
    CHECK(parse->at < call->count);
    struct bytes argument = call->argument[parse->at++];
    switch (letter) {
    case 'u':
        call->name = argument;
        return user_name_is_valid(argument) ||
               call_parse_fail(parse,
                               "a name has 1 to 64 letters, digits, '.', '_', "
                               "'-'");
    case 'b':
        return verb_find(argument, &call->verb) ||
               call_parse_fail(
                   parse,
                   "unknown verb; use read, share, lock, fence, kick, "
                   "sessions, blacklist, cluster, backup, audit, admin or "
                   "access");
    case 'w':
        return call_check_size(parse, "a word", argument.size, 1,
                               LOCK_NAME_SIZE_MAX);
    default:
        return (argument.size == (size_t)2 * PROOF_SIZE &&
                hex_get(argument, call->proof, PROOF_SIZE)) ||
               call_parse_fail(parse, "the hash must be 64 hex digits");
    }
}

/* Parses an operand of NODE.SET. */
static bool parse_of_setting(struct parse *parse, char letter)
{
    struct call *call = parse->call;
    CHECK(parse->at < call->count);
    struct bytes argument = call->argument[parse->at++];
    if (letter == 'y') {
        call->name = argument;
        return call_check_size(parse, "the setting's name", argument.size, 1,
                               SETTING_NAME_SIZE_MAX);
    }
    call->given |= UINT64_C(1) << OPTION_VALUE;
    call->text[OPTION_VALUE] = argument;
    return call_check_size(parse, "the setting's value", argument.size, 0,
                           SETTING_VALUE_SIZE_MAX);
}

static bool parse_operand(struct parse *parse, char letter)
{
    struct call *call = parse->call;
    if (letter == 'I') {
        if (parse->at == call->count ||
            bytes_is_word(call->argument[parse->at], "REQ") ||
            bytes_is_word(call->argument[parse->at], "BY")) {
            return true;
        }
    } else if (parse->at >= call->count) {
        return call_parse_fail(parse, "wrong number of arguments");
    }
    if (strchr("ubhwyz", letter) != NULL) {
        return letter < 'y' ? parse_of_user(parse, letter)
                            : parse_of_setting(parse, letter);
    }
    struct bytes argument = call->argument[parse->at];
    switch (letter) {
    case 'l':
    case 'r':
        call->name = argument;
        call->names = &call->argument[parse->at++];
        call->name_count = 1;
        return call_check_size(
            parse, letter == 'l' ? "the lock's name" : "the resource's name",
            argument.size, 1, LOCK_NAME_SIZE_MAX);
    case 'p':
        call->name = argument;
        parse->at++;
        return call_check_size(parse, "the prefix", argument.size, 0,
                               LOCK_NAME_SIZE_MAX);
    case 'a':
        call->name = argument;
        parse->at++;
        if (!is_member_address(argument)) {
            return call_parse_fail(parse,
                                   "the address must be peer-host:port, or "
                                   "peer-host:port,client-host:port");
        }
        return call_check_size(parse, "the address", argument.size, 1,
                               MEMBER_ADDRESS_SIZE - 1);
    case 'k':
        return parse_limit(parse);
    case 'v':
        return call_parse_number(parse, limit_rules[call->limit].name,
                                 limit_rules[call->limit].min,
                                 limit_rules[call->limit].max, &call->value);
    case 'n':
        return parse_names(parse);
    case 't':
        return call_parse_number(parse, "the token", 0, TOKEN_MAX,
                                 &call->token);
    case 'x':
        call->given |= UINT64_C(1) << OPTION_VALUE;
        call->text[OPTION_VALUE] = argument;
        parse->at++;
        return call_check_size(parse, "a note", argument.size, 0,
                               VALUE_SIZE_MAX);
    case 's':
        /* A malformed secret counts as a wrong one; see the table of error
         * words. */
        if (!call_secret(argument, call->proof)) {
            memset(call->proof, 0, PROOF_SIZE);
        }
        parse->at++;
        return true;
    default:
        call->has_id = true;
        return call_parse_number(parse, "the id", 1, INT64_MAX, &call->id);
    }
}

static bool parse_label(struct parse *parse)
{
    struct call *call = parse->call;
    if (call->count - parse->at < 2) {
        return call_parse_fail(parse, "option LABEL needs a key and a value");
    }
    if (call->label_count == LABEL_COUNT_MAX) {
        return call_parse_fail(parse, "more than %d labels", LABEL_COUNT_MAX);
    }
    struct label *label = &call->labels[call->label_count++];
    label->key = call->argument[parse->at++];
    label->value = call->argument[parse->at++];
    return call_check_size(parse, "a label's key", label->key.size, 1,
                           LABEL_SIZE_MAX) &&
           call_check_size(parse, "a label's value", label->value.size, 0,
                           LABEL_SIZE_MAX);
}

/* Parses "7" or "7,9,12-40": all numbers up to the first one, and the others.
 */
static bool parse_ranges(struct parse *parse)
{
    struct call *call = parse->call;
    CHECK(parse->at < call->count);
    struct bytes rest = call->argument[parse->at++];
    struct bytes first = bytes_cut(&rest, ',');
    bool is_good = bytes_to_u64(first, &call->number[OPTION_ACKED]) &&
                   call->number[OPTION_ACKED] <= INT64_MAX;
    while (is_good && rest.size > 0) {
        struct bytes to = bytes_cut(&rest, ',');
        struct bytes from = bytes_cut(&to, '-');
        uint64_t *pair = &call->also_acked[2 * call->also_acked_count];
        /* Checked before 'pair' is written: it may point to the end of the
         * array. */
        if (call->also_acked_count++ == ACKED_RANGE_MAX) {
            return call_parse_fail(parse, "more than %d ranges in ACKED",
                                   ACKED_RANGE_MAX);
        }
        is_good = bytes_to_u64(from, &pair[0]) &&
                  bytes_to_u64(to.size > 0 ? to : from, &pair[1]) &&
                  pair[0] > 0 && pair[0] <= pair[1] && pair[1] <= INT64_MAX;
    }
    return is_good ||
           call_parse_fail(
               parse,
               "ACKED must be a number, or a number and the ranges answered "
               "after it, as 7,9,12-40");
}

/* Parses one token per name. */
static bool parse_tokens(struct parse *parse)
{
    struct call *call = parse->call;
    for (uint32_t i = 0; i < call->name_count; i++) {
        if (parse->at >= call->count) {
            return call_parse_fail(parse, "expected %u tokens, one per name",
                                   call->name_count);
        }
        if (!call_parse_number(parse, "a token", 1, TOKEN_MAX,
                               &call->tokens[i])) {
            return false;
        }
    }
    return true;
}

static bool parse_option(struct parse *parse, enum option option)
{
    struct call *call = parse->call;
    const char *word = options[option].word;
    CHECK((call->command->options >> option & 1) != 0);
    if (options[option].kind == KIND_FLAG) {
        return true;
    }
    if (parse->at >= call->count) {
        return call_parse_fail(parse, "option %s needs a value", word);
    }
    struct bytes argument = call->argument[parse->at];
    /* These words replace a number; their values are outside of the option's
     * range. */
    if (option == OPTION_WAIT && bytes_is_word(argument, "FOREVER")) {
        call->number[option] = WAIT_FOREVER;
        parse->at++;
        return true;
    }
    if (option == OPTION_TTL && bytes_is_word(argument, "NONE")) {
        call->number[option] = TTL_NONE;
        parse->at++;
        return true;
    }
    switch (options[option].kind) {
    case KIND_NUMBER:
        return call_parse_number(parse, word, options[option].min,
                                 options[option].max, &call->number[option]);
    case KIND_LABEL:
        return parse_label(parse);
    case KIND_RANGES:
        return parse_ranges(parse);
    case KIND_TOKENS:
        return parse_tokens(parse);
    default:
        call->text[option] = argument;
        parse->at++;
        return call_check_size(parse, word, argument.size, options[option].min,
                               options[option].max);
    }
}

static bool parse_options(struct parse *parse)
{
    struct call *call = parse->call;
    while (parse->at < call->count) {
        struct bytes word = call->argument[parse->at];
        int found = -1;
        /* For the option "WAIT ms or FOREVER" the word FOREVER may also stand
         * alone. */
        bool is_forever = (call->command->options >> OPTION_WAIT & 1) != 0 &&
                          bytes_is_word(word, "FOREVER");
        for (uint64_t left = call->command->options; left != 0 && found < 0;
             left &= left - 1) {
            int i = __builtin_ctzll(left);
            /* Usually it is in capitals, and these bytes are equal. */
            if (word.size == options[i].size &&
                (memcmp(word.data, options[i].word, word.size) == 0 ||
                 bytes_is_word(word, options[i].word))) {
                found = i;
            }
        }
        found = is_forever ? OPTION_WAIT : found;
        if (found < 0) {
            char buffer[BYTES_SHOWN_SIZE];
            return call_parse_fail(parse, "unknown option '%s'",
                                   bytes_shown(word, buffer));
        }
        if (call_has(call, (enum option)found) && found != OPTION_LABEL) {
            return call_parse_fail(parse, "duplicate option %s",
                                   options[found].word);
        }
        /* For FOREVER parse_option() takes the word itself as the value of
         * WAIT. */
        parse->at += is_forever ? 0 : 1;
        if (!parse_option(parse, (enum option)found)) {
            return false;
        }
        CHECK(parse->at <= call->count);
        call->given |= UINT64_C(1) << found;
    }
    return true;
}

static bool check_req(struct parse *parse)
{
    struct call *call = parse->call;
    if (!call_has(call, OPTION_ACKED)) {
        return true;
    }
    if (!call_has(call, OPTION_REQ)) {
        return call_parse_fail(parse, "ACKED needs REQ");
    }
    uint64_t req = call->number[OPTION_REQ];
    /* An acknowledged number is never executed (rule 20), so such a request
     * could only be answered FORGOTTEN. */
    if (req <= call->number[OPTION_ACKED]) {
        return call_parse_fail(parse, "REQ must be greater than ACKED");
    }
    for (uint32_t i = 0; i < call->also_acked_count; i++) {
        if (req >= call->also_acked[2 * i] &&
            req <= call->also_acked[2 * i + 1]) {
            return call_parse_fail(parse, "REQ must not be among ACKED");
        }
    }
    return true;
}

static bool parse_all(struct call *call, struct resp_writer *writer)
{
    const struct command *command = call->command;
    struct parse parse = {call, writer, 1};
    if (command->operands == NULL) {
        return command->parse == NULL || command->parse(call, writer);
    }
    for (const char *o = command->operands; *o != '\0'; o++) {
        if (!parse_operand(&parse, *o)) {
            return false;
        }
    }
    if (!parse_options(&parse) || !check_req(&parse)) {
        return false;
    }
    CHECK(parse.at == call->count); /* Each argument has been read. */
    return command->parse == NULL || command->parse(call, writer);
}

enum core_word call_parse(struct call *call, const struct command *command,
                          const struct bytes *argument, uint32_t count,
                          struct resp_writer *writer)
{
    CHECK(count > 0);
    call->command = command;
    call->word = WORD_NONE;
    call->argument = argument;
    call->count = count;
    call->given = 0;
    call->name = (struct bytes){NULL, 0};
    call->name_count = 0;
    call->has_id = false;
    call->pair_count = 0;
    call->label_count = 0;
    call->also_acked_count = 0;
    bool is_good = parse_all(call, writer);
    CHECK(is_good == (call->word == WORD_NONE)); /* call_fail() has set it. */
    return call->word;
}

bool call_fail(struct call *call, struct resp_writer *writer, const char *text)
{
    char name[64];
    command_name(call->command, name, sizeof name);
    call->word = WORD_BADARG;
    word_put(writer, call->word, "%s: %s", name, text);
    return false;
}

bool call_fail_as(struct call *call, struct resp_writer *writer,
                  enum core_word word, const char *text)
{
    call->word = word;
    word_put(writer, word, "%s", text);
    return false;
}

void command_name(const struct command *command, char *name, size_t size)
{
    size_t i = 0;
    for (; command->name[i] != '\0' && i + 1 < size; i++) {
        name[i] = (char)tolower((unsigned char)command->name[i]);
    }
    name[i] = '\0';
}

/* The hash is taken of the digits in lower case, however they were written. */
bool call_secret(struct bytes text, uint8_t ret_proof[PROOF_SIZE])
{
    uint8_t secret[SECRET_SIZE] = {0};
    char digits[2 * SECRET_SIZE + 1];
    if (!hex_get(text, secret, SECRET_SIZE)) {
        return false;
    }
    hex_put(digits, bytes_of(secret, SECRET_SIZE));
    int error = sha256(bytes_of(digits, 2 * SECRET_SIZE), ret_proof);
    CHECK(error == 0);
    return true;
}

struct origin call_origin(const struct request *request,
                          const struct call *call)
{
    return (struct origin){.session = request->session,
                           .owner = call_text(call, OPTION_OWNER),
                           .req = call_number(call, OPTION_REQ, 0),
                           .acked = call_number(call, OPTION_ACKED, 0),
                           .also_acked = call->also_acked,
                           .also_acked_count = call->also_acked_count};
}
