/* SPDX-License-Identifier: MIT */

/* hasp for programs with a libuv loop: the calls of hasp/hasp.h that wait, with
 * a callback on the loop's thread instead.
 *
 *     static void held(void *data, int status, const char *why,
 *                      struct hasp_hold *hold)
 *     {
 *         if (status == 0) {
 *             ... work; hasp_guard(hold, need_ns) before each step ...
 *             hasp_uv_release(uv, hold, released, NULL);
 *         }
 *     }
 *     static void opened(void *data, int status, const char *why)
 *     {
 *         if (status != 0 ||
 *             hasp_uv_acquire(uv, "billing", NULL, held, NULL) != 0) {
 *             hasp_uv_close(uv, NULL, NULL);
 *         }
 *     }
 *     ...
 *     status = hasp_uv_open(&loop, &options, opened, NULL, &uv);
 *     uv_run(&loop, UV_RUN_DEFAULT);
 *
 * Functions that do not wait (hasp_guard(), hasp_remaining(), hasp_token(),
 * hasp_alive(), hasp_interrupt()) are called directly, on hasp_uv_session(). Do
 * not call the blocking functions on the loop's thread: they would stop the
 * loop. Do not hasp_close() the session: hasp_uv_close() does.
 *
 * How it works: all sessions of a loop that would make the same connection
 * share one connection and one timer. There is no thread; only host names are
 * resolved in libuv's pool. (Only a session with a 'tie' has a thread, which
 * the ties of the process share.) A wait with an 'interrupt_fd' watches a copy
 * of it. The loop's timers stop while a machine is suspended: events are a
 * little late then, but hasp_guard() is right at once.
 *
 * Threads: all functions here must be called on the loop's thread. All
 * callbacks run there, never from inside the call that they answer. A callback
 * is called exactly once if the call returned 0, never otherwise. 'why' is
 * hasp_why() of the call, "" on success, and valid while the callback runs.
 *
 * Errors: the return value is about the call itself (HASP_EINVALID: an
 * argument, or not open yet; HASP_ENOMEM; HASP_EIO: no thread). The result of
 * the request is the callback's 'status', with the same meaning as for the
 * function in hasp/hasp.h.
 *
 * The handle keeps the loop running until it is closed. Link with -lhasp -luv.
 * The header does not include <uv.h>; a uv_loop_t is a struct uv_loop_s. */

#ifndef HASP_HASP_UV_H
#define HASP_HASP_UV_H

#include "hasp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct uv_loop_s;
struct hasp_uv;

typedef void hasp_uv_fn(void *data, int status, const char *why);
/* 'hold' is NULL unless 'status' is 0. */
typedef void hasp_uv_hold_fn(void *data, int status, const char *why,
                             struct hasp_hold *hold);

/* Starts to open a session. 'options' as for hasp_open(), but on_event is
 * called on the loop's thread. '*ret_uv' must be closed, even if 'done' gets an
 * error. 'loop' is borrowed until 'closed' of hasp_uv_close(). */
HASP_API HASP_MUST_CHECK int hasp_uv_open(struct uv_loop_s *loop,
                                          const struct hasp_options *options,
                                          hasp_uv_fn *done, void *data,
                                          struct hasp_uv **ret_uv);

/* The session; NULL until it has been opened. With HASP_TIE_MUST 'done' of
 * hasp_uv_open() gets HASP_ECONNECT if it cannot be tied. */
HASP_API struct hasp_session *hasp_uv_session(struct hasp_uv *uv);

/* hasp_acquire() with a callback; 'name' and 'options' are copied, and on_grant
 * must be NULL: it would block the loop, so seal the resource in 'done'.
 * 'status' may be HASP_NOT_ACQUIRED. A hold that 'done' receives belongs to the
 * caller, who passes it to hasp_uv_release(). */
HASP_API HASP_MUST_CHECK int
hasp_uv_acquire(struct hasp_uv *uv, const char *name,
                const struct hasp_acquire_options *options,
                hasp_uv_hold_fn *done, void *data);

/* hasp_acquire_many() with a callback; all that is passed is copied. */
HASP_API HASP_MUST_CHECK int
hasp_uv_acquire_many(struct hasp_uv *uv, const char *const *names, size_t count,
                     const struct hasp_acquire_options *options,
                     hasp_uv_hold_fn *done, void *data);

/* hasp_convert() with a callback. The hold still belongs to the caller, who
 * must not release it until 'done' has been called. */
HASP_API HASP_MUST_CHECK int
hasp_uv_convert(struct hasp_uv *uv, struct hasp_hold *hold, enum hasp_mode mode,
                const struct hasp_acquire_options *options, hasp_uv_fn *done,
                void *data);

/* hasp_release() with a callback, which may be NULL. From here on the hold
 * belongs to the library and must not be trusted. If this returns an error,
 * nothing was started and the hold still belongs to the caller. */
HASP_API HASP_MUST_CHECK int hasp_uv_release(struct hasp_uv *uv,
                                             struct hasp_hold *hold,
                                             hasp_uv_fn *done, void *data);

/* Unties the session for good, before it is handed over: hasp_credentials()
 * returns HASP_EBUSY here while the session is tied, since it would stop the
 * loop. 'status' is HASP_EBUSY if the agent has not confirmed it: the session
 * may still be tied. 0 also if it was never tied. */
HASP_API HASP_MUST_CHECK int hasp_uv_untie(struct hasp_uv *uv, hasp_uv_fn *done,
                                           void *data);

/* Ends the waits (their callbacks get HASP_EINTR), closes the session and frees
 * 'uv'; finally calls 'closed', which may be NULL. No other call on 'uv' is
 * allowed after this. */
HASP_API void hasp_uv_close(struct hasp_uv *uv, hasp_uv_fn *closed, void *data);

#ifdef __cplusplus
}
#endif

#endif /* HASP_HASP_UV_H */
