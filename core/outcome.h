/* SPDX-License-Identifier: MIT */

/* How a request has ended, as the code that decided it says.
 *
 * A reply may hold bytes that a client chose: a script returns any error it
 * likes. So no reply that this node wrote is ever read back. A refusal sets
 * the word and makes the reply from it (request_refuse(), request_fail()); a
 * node that forwarded the request gets the word beside the reply (ANSWER). */

#ifndef HASP_CORE_OUTCOME_H
#define HASP_CORE_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "net/resp.h"

struct outcome {
    enum core_word word; /* WORD_NONE: the reply is data, nil or OK. */
    bool has_changed;    /* Something was changed, or a session was proved to
                            be the client's. */
};

/* The word that a peer sent; a word that this node does not know is
 * WORD_OTHER. */
enum core_word word_of_peer(uint8_t number);
/* True if a client that reads the word takes it that its request had no
 * effect. */
bool word_denies_effect(enum core_word word);

/* Writes "-WORD text". It decides nothing: a request is refused by
 * request_refuse() or request_fail(). `make lint` knows who may call it. */
void word_put(struct resp_writer *writer, enum core_word word,
              const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif /* HASP_CORE_OUTCOME_H */
