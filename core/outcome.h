/* SPDX-License-Identifier: MIT */

/* How a request has ended, as set by the code that decided it.
 *
 * A reply may contain bytes that a client chose: a script can return any error.
 * So a reply that this node wrote is never read back. A refusal sets the word
 * and makes the reply from it (request_refuse(), request_fail()); a node that
 * forwarded the request receives the word beside the reply (ANSWER). */

#ifndef HASP_CORE_OUTCOME_H
#define HASP_CORE_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "net/resp.h"

struct outcome {
    enum core_word word; /* WORD_NONE: the reply is data, nil or OK. */
    /* Something was changed, or a session was proved to be the client's. */
    bool has_changed;
};

/* The word that a peer sent; one unknown to this node becomes WORD_OTHER. */
enum core_word word_of_peer(uint8_t number);
/* True if the word tells a client that its request had no effect. */
bool word_denies_effect(enum core_word word);

/* Writes "-WORD text" and decides nothing: request_refuse() or request_fail()
 * refuse a request. `make lint` has the list of permitted callers. */
void word_put(struct resp_writer *writer, enum core_word word,
              const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif /* HASP_CORE_OUTCOME_H */
