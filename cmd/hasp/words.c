/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/tool.h"

void words_put(struct query *query, const char *const *words)
{
    query_begin(query, *words++);
    while (*words != NULL) {
        query_text(query, *words++);
    }
}

int words_send_query(struct client *client, struct query *query,
                     const struct client_options *options, json_t **ret_answer)
{
    const struct resp_reply *reply;
    int error = client_ask(client, query, options, &reply);
    query_done(query);
    if (error == 0 && ret_answer != NULL) {
        *ret_answer = value_of_reply(reply, 0);
    }
    return error;
}

int tool_send(struct client *client, const char *const *words,
              const struct client_options *options, json_t **ret_answer)
{
    struct query query = {0};
    words_put(&query, words);
    return words_send_query(client, &query, options, ret_answer);
}
