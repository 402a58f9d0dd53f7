/* SPDX-License-Identifier: MIT */

/* Requests under way: where they come from, how they wait, how they are
 * answered.
 *
 * An answer is written between request_reply() and request_done(); in between
 * nothing else may be answered. Structures come from a free list and keep their
 * buffers, so that the steady state allocates nothing. */

#ifndef HASP_CORE_REQUEST_H
#define HASP_CORE_REQUEST_H

#include "core/state.h"

/* A request of a local connection; takes the next slot. */
struct request *request_new_local(struct core *core, struct conn *conn);
/* One that a peer forwarded. */
struct request *request_new_remote(struct core *core, uint64_t peer,
                                   const struct frame_forward *forward);
void requests_free(struct core *core);

/* Keeps the arguments for later: as the frame in which they are forwarded. */
void request_keep(struct core *core, struct request *request,
                  const struct bytes *argument, uint32_t count);
/* Decodes what was kept; borrowed from the request, the arguments from
 * core->arguments. */
struct frame_forward request_kept(struct core *core, struct request *request);

/* Moves it to another station (but see request_wait()). */
void request_move(struct core *core, struct request *request, struct list *list,
                  enum request_state state);
/* Takes it out of its station. */
void request_leave(struct core *core, struct request *request);
/* Lets it wait for the end of a wait in a lock's queue. Several may: a
 * repetition joins the one it repeats. */
void request_wait(struct core *core, struct request *request,
                  uint64_t wait_index);
/* Takes out those that waited for it: a chain by 'next'. */
struct request *requests_end_wait(struct core *core, uint64_t wait_index);

/* Where to write its answer. */
struct resp_writer *request_reply(struct core *core, struct request *request);
/* The answer is complete: sends it and frees the request. */
void request_done(struct core *core, struct request *request);
/* Likewise; 'session' is now attached to its connection, or detached. */
void request_done_as(struct core *core, struct request *request,
                     enum frame_answer_kind kind, uint64_t session);
/* From now on it may have been done, whoever is asked: its entry is logged, or
 * it is on its way to a leader. Nothing for what only reads. */
void request_mark(struct request *request);
/* True if it may be carried to the next leader: nothing was done, or doing it
 * twice does no harm. */
bool request_may_go_on(const struct request *request);
/* Answers with an error: 'code' and why, if nothing was done. If it may have
 * been, the word is UNKNOWN, whatever 'code' is, and the text says so. */
void request_refuse(struct core *core, struct request *request,
                    const char *code, const char *why);
/* Answers with an error that is the result of its entry. */
void request_fail(struct core *core, struct request *request, const char *code,
                  struct bytes text);
/* A peer's request whose arguments are not understood here: the error that says
 * so stands in the scratch. */
void request_misunderstood(struct core *core, struct request *request);
/* Counts an answer with this error word; the two above have done so. */
void request_count_refusal(struct core *core, const char *code);
/* This node cannot carry it out, another may lead: a local one is parked for
 * the next leader, or refused if doing it twice might do harm; a remote one
 * goes back. */
void request_return(struct core *core, struct request *request);
/* Frees it without an answer: its asker asks elsewhere, or has gone. */
void request_drop(struct core *core, struct request *request);
/* Its asker has gone. */
void request_orphan(struct core *core, struct request *request);

/* The name of the client that asks (CLIENT SETNAME), and its address. */
struct bytes request_client(struct core *core, struct request *request);
struct bytes request_address(struct core *core, struct request *request);

#endif /* HASP_CORE_REQUEST_H */
