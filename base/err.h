/* SPDX-License-Identifier: MIT */

/* The error codes of hasp, from one list.
 *
 * A function that can fail returns 0 or one of these (negative) and is marked
 * MUST_CHECK; outputs are 'ret_...' parameters, set on success only. Codes of
 * foreign libraries are translated where they arise. A function either logs an
 * error or returns it, never both. Where a person must read why, a message
 * buffer of HASP_WHY_SIZE bytes goes along with the code.
 *
 * An answer such as "held by somebody else" is not an error: it is a result
 * (struct result, lockfsm/lockfsm.h). */

#ifndef HASP_BASE_ERR_H
#define HASP_BASE_ERR_H

#include <stddef.h>

#define MUST_CHECK __attribute__((warn_unused_result))

/* Size of a buffer for a message that explains an error to a person. */
#define HASP_WHY_SIZE 512

/* Name, value, text. Append only: values are stable. */
#define HASP_ERRORS(X)                                       \
    X(HASP_EINVALID, -1, "invalid argument")                 \
    X(HASP_EPROTO, -2, "protocol error")                     \
    X(HASP_ETOOBIG, -3, "too big")                           \
    X(HASP_EFULL, -4, "limit reached")                       \
    X(HASP_EIO, -5, "storage error")                         \
    X(HASP_ENOSPC, -6, "no space left on the device")        \
    X(HASP_ECORRUPT, -7, "corrupt data")                     \
    X(HASP_ENOTLEADER, -8, "not the leader")                 \
    X(HASP_EBUSY, -9, "busy")                                \
    X(HASP_ENOENT, -10, "not found")                         \
    X(HASP_EEXIST, -11, "exists already")                    \
    X(HASP_ECLOSED, -12, "closed")                           \
    X(HASP_ETIMEDOUT, -13, "timed out")                      \
    X(HASP_ENOMEM, -14, "out of memory")                     \
    X(HASP_EMORE, -15, "more bytes are needed")              \
    X(HASP_ECONNECT, -16, "cannot connect")                  \
    X(HASP_EREPLY, -17, "the server answered with an error") \
    X(HASP_ELOST, -18, "the lease is lost")                  \
    X(HASP_EINTR, -19, "interrupted")                        \
    X(HASP_EREFUSED, -20, "refused")                         \
    X(HASP_ENOTHELD, -21, "not held")                        \
    X(HASP_EDEADLOCK, -22, "deadlock")                       \
    X(HASP_EFORKED, -23, "belongs to the parent process")    \
    X(HASP_EUNKNOWN, -24, "the outcome is not known")        \
    X(HASP_ESHORT, -25, "too little of the lease is left")   \
    X(HASP_ESTALE, -26, "a higher token has been seen")      \
    X(HASP_EBLACKLISTED, -27, "blacklisted")                 \
    X(HASP_ETOOOLD, -28, "this version is too old")          \
    X(HASP_ECERT, -29, "a certificate is refused")           \
    X(HASP_ESEAL, -30, "the lock was not sealed")            \
    X(HASP_EFOREIGN, -31, "the name is of another cell")

/* The public header has the same enumeration for programs that see nothing of
 * base/; client/hasp_error.c checks that they agree. */
#ifndef HASP_ERRORS_DEFINED
#define HASP_ERRORS_DEFINED
enum hasp_error {
#define HASP_ERROR_ENUM(name, value, text) name = value,
    HASP_ERRORS(HASP_ERROR_ENUM)
#undef HASP_ERROR_ENUM
};
#endif

/* Returns the text for 'error'; "success" for 0. Never NULL. Public, too. */
__attribute__((visibility("default"))) const char *hasp_strerror(int error);

#endif /* HASP_BASE_ERR_H */
