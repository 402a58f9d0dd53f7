/* SPDX-License-Identifier: MIT */

/* COMMAND: the table of commands for programs and for redis-cli's hints. */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/commands/commands.h"
#include "core/request.h"
#include "core/state.h"

static void command_info_put_name(struct resp_writer *writer,
                                  const struct command *command)
{
    char name[64];
    command_name(command, name, sizeof name);
    resp_text(writer, name);
}

/* The index of the first lock name: 'first', or the argument after a count at
 * that place. */
static uint32_t first_key(const struct command *command)
{
    const char *operands = command->operands;
    if (operands == NULL) {
        return command->key_at;
    }
    return operands[0] == 'l' || operands[0] == 'r' ? 1
           : operands[0] == 'n'                     ? 2
                                                    : 0;
}

static void command_info_put_info(struct resp_writer *writer,
                                  const struct command *command)
{
    CHECK(command->arity != 0);
    uint32_t key = first_key(command);
    bool is_write = (command->flags & COMMAND_CHANGE) != 0;
    bool is_admin = (command->flags & COMMAND_ADMIN) != 0;
    bool is_pubsub = (command->flags & COMMAND_PUBSUB) != 0;
    resp_array(writer, 10);
    command_info_put_name(writer, command);
    resp_integer(writer, command->arity);
    resp_array(writer, 1 + (is_admin ? 1 : 0) + (is_pubsub ? 1 : 0));
    resp_simple(writer, is_write ? "write" : "readonly");
    if (is_admin) {
        resp_simple(writer, "admin");
    }
    if (is_pubsub) {
        resp_simple(writer, "pubsub");
    }
    resp_integer(writer, key);
    resp_integer(writer, key);
    resp_integer(writer, key != 0 ? 1 : 0);
    for (int i = 0; i < 4; i++) {
        resp_array(writer, 0); /* Categories, tips, key specs, subcommands. */
    }
}

/* Writes one argument of the text: "name", "name...", "[TTL ms]", "[LABEL k
 * v]...". */
static void put_argument(struct resp_writer *writer, struct bytes text,
                         bool is_optional, bool is_multiple)
{
    size_t word = 0;
    CHECK(text.size > 0);
    while (word < text.size && isupper(text.data[word])) {
        word++;
    }
    bool has_token = word > 0 && word < text.size && text.data[word] == ' ';
    bool is_token = word > 0 && word == text.size;
    struct bytes name = text;
    if (has_token) {
        name = bytes_of(text.data + word + 1, text.size - word - 1);
    }
    uint32_t flags = (is_optional ? 1u : 0u) + (is_multiple ? 1u : 0u);
    resp_map(writer, 2 + (has_token || is_token ? 1 : 0) + (flags > 0 ? 1 : 0));
    resp_key_bulk(writer, "name", name);
    resp_key_text(writer, "type", is_token ? "pure-token" : "string");
    if (has_token || is_token) {
        resp_key_bulk(writer, "token", bytes_of(text.data, word));
    }
    if (flags > 0) {
        resp_key_array(writer, "flags", flags);
        if (is_optional) {
            resp_simple(writer, "optional");
        }
        if (is_multiple) {
            resp_simple(writer, "multiple");
        }
    }
}

static uint32_t put_arguments(struct resp_writer *writer, const char *text)
{
    uint32_t count = 0;
    while (*text != '\0') {
        if (*text == ' ') {
            text++;
            continue;
        }
        bool is_optional = *text == '[';
        const char *begin = is_optional ? text + 1 : text;
        const char *end = is_optional ? strchr(text, ']')
                                      : text + strcspn(text, " ");
        CHECK(end != NULL); /* The texts of the table close each bracket. */
        text = is_optional ? end + 1 : end;
        bool is_multiple = strncmp(text, "...", 3) == 0;
        text += is_multiple ? 3 : 0;
        if (!is_optional && end - begin > 3 &&
            strncmp(end - 3, "...", 3) == 0) {
            is_multiple = true;
            end -= 3;
        }
        put_argument(writer, bytes_of(begin, (size_t)(end - begin)),
                     is_optional, is_multiple);
        count++;
    }
    return count;
}

static void put_docs(struct resp_writer *writer, const struct command *command)
{
    struct buffer nothing = {0};
    struct resp_writer dry = {&nothing, writer->version};
    resp_map(writer, 4);
    resp_key_text(writer, "summary", command->summary);
    resp_key_text(writer, "since", "0.1.0");
    resp_text(writer, "group");
    resp_text(writer,
              (command->flags & COMMAND_REDIS) != 0 ? "connection" : "generic");
    resp_key_array(writer, "arguments",
                   put_arguments(&dry, command->arguments));
    put_arguments(writer, command->arguments);
    buffer_done(&nothing);
}

/* True if more names are given than there are commands, or one of them twice: a
 * short request would have an unbounded answer. */
static bool is_excessive(const struct core *core, const struct call *call,
                         struct bytes *ret_name)
{
    AUTO(buffer_done) struct buffer seen = {0};
    *ret_name = (struct bytes){NULL, 0};
    if (call->count - 2 > commands_count()) {
        return true;
    }
    for (uint32_t i = 2; i < call->count; i++) {
        const struct command *command = command_find(core, call->argument[i]);
        for (size_t k = 0; k < seen.size; k += sizeof command) {
            if (memcmp(seen.data + k, &command, sizeof command) == 0) {
                *ret_name = call->argument[i];
                return true;
            }
        }
        if (command != NULL) {
            buffer_put(&seen, &command, sizeof command);
        }
    }
    return false;
}

static void refuse_excessive(struct core *core, struct request *request,
                             struct bytes name)
{
    char why[160];
    if (name.size > 0) {
        snprintf(why, sizeof why, "duplicate command name '%.*s'",
                 (int)(name.size < 64 ? name.size : 64),
                 (const char *)name.data);
    } else {
        snprintf(why, sizeof why,
                 "COMMAND accepts at most %u names, as many as there are "
                 "commands",
                 (unsigned)commands_count());
    }
    request_refuse(core, request, WORD_ERR, why);
}

static void put_described(struct resp_writer *writer,
                          const struct command *command, bool is_docs)
{
    if (!is_docs) {
        command_info_put_info(writer, command);
    } else {
        command_info_put_name(writer, command);
        put_docs(writer, command);
    }
}

/* The answer is as large as the table and always the same, so it is made only
 * once: a client can ask for it a thousand times in 16 KiB. */
static void put_all(struct core *core, struct request *request, bool is_docs)
{
    struct resp_writer *writer = request_reply(core, request);
    bool is_resp3 = writer->version == 3;
    struct buffer *text = &core->run.described[is_docs][is_resp3];
    if (text->size == 0) {
        struct resp_writer once = {text, writer->version};
        if (is_docs) {
            resp_map(&once, commands_count());
        } else {
            resp_array(&once, commands_count());
        }
        for (uint32_t i = 0; i < commands_count(); i++) {
            put_described(&once, command_at(i), is_docs);
        }
    }
    buffer_put_bytes(writer->out, buffer_bytes(text));
    request_done(core, request);
}

/* Describes the named commands. An unknown name gives null, or is omitted. */
static void put_named(struct core *core, struct request *request,
                      const struct call *call, bool is_docs)
{
    struct bytes name;
    if (is_excessive(core, call, &name)) {
        refuse_excessive(core, request, name);
        return;
    }
    struct resp_writer *writer = request_reply(core, request);
    uint32_t known = 0;
    for (uint32_t i = 2; i < call->count; i++) {
        /* RESP puts the size of a map before its content. */
        known += command_find(core, call->argument[i]) != NULL;
    }
    if (is_docs) {
        resp_map(writer, known);
    } else {
        resp_array(writer, call->count - 2);
    }
    for (uint32_t i = 2; i < call->count; i++) {
        const struct command *command = command_find(core, call->argument[i]);
        if (command != NULL) {
            put_described(writer, command, is_docs);
        } else if (!is_docs) {
            resp_null_array(writer);
        }
    }
    request_done(core, request);
}

static void put_selected(struct core *core, struct request *request,
                         const struct call *call, bool is_docs)
{
    if (call->count > 2) {
        put_named(core, request, call, is_docs);
    } else {
        put_all(core, request, is_docs);
    }
}

static void command_info_put_list(struct core *core, struct request *request)
{
    struct resp_writer *writer = request_reply(core, request);
    resp_array(writer, commands_count());
    for (uint32_t i = 0; i < commands_count(); i++) {
        command_info_put_name(writer, command_at(i));
    }
    request_done(core, request);
}

static void put_keys(struct core *core, struct request *request,
                     const struct call *call)
{
    struct call inner;
    const struct command *command = call->count > 2
                                        ? command_find(core, call->argument[2])
                                        : NULL;
    if (command == NULL || first_key(command) == 0) {
        request_refuse(core, request, WORD_ERR,
                       "The command has no key arguments");
        return;
    }
    /* The inner command's own error text is discarded: the answer is that of
     * COMMAND GETKEYS. */
    struct buffer error = {0};
    struct resp_writer nowhere = {&error, 2};
    bool has_names = command->operands != NULL && command->operands[0] == 'n' &&
                     call_parse(&inner, command, call->argument + 2,
                                call->count - 2, &nowhere) == WORD_NONE;
    buffer_done(&error);
    if (has_names) {
        struct resp_writer *writer = request_reply(core, request);
        resp_array(writer, inner.name_count);
        for (uint32_t i = 0; i < inner.name_count; i++) {
            resp_bulk(writer, inner.names[i]);
        }
        request_done(core, request);
        return;
    }
    if (call->count <= 2 + first_key(command)) {
        request_refuse(core, request, WORD_ERR,
                       "Invalid number of arguments specified for command");
        return;
    }
    struct resp_writer *writer = request_reply(core, request);
    resp_array(writer, 1);
    resp_bulk(writer, call->argument[2 + first_key(command)]);
    request_done(core, request);
}

void server_command(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct bytes what = call->count > 1 ? call->argument[1]
                                        : BYTES_LITERAL("INFO");
    if (bytes_is_word(what, "INFO")) {
        put_selected(core, request, call, false);
    } else if (bytes_is_word(what, "DOCS")) {
        put_selected(core, request, call, true);
    } else if (bytes_is_word(what, "COUNT")) {
        request_answer_integer(core, request, commands_count());
    } else if (bytes_is_word(what, "LIST")) {
        command_info_put_list(core, request);
    } else if (bytes_is_word(what, "GETKEYS")) {
        put_keys(core, request, call);
    } else {
        request_refuse(core, request, WORD_ERR,
                       "unknown subcommand of COMMAND: try COUNT, DOCS, INFO, "
                       "LIST or GETKEYS");
    }
}
