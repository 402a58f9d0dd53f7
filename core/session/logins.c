/* SPDX-License-Identifier: MIT */

#include "core/session/logins.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "core/state.h"

/* The bytes of a fingerprint that are shown. */
#define SHOWN_SIZE 8

static const char *way_of(const struct conn *conn)
{
    return conn->way == IDENTITY_LOCAL         ? "socket"
           : conn->way == IDENTITY_CERTIFICATE ? "certificate"
           : conn->secret != 0                 ? "secret"
                                               : "none";
}

void login_put(const struct conn *conn, struct buffer *out)
{
    char digits[2 * SHOWN_SIZE + 1];
    buffer_put_text(out, way_of(conn));
    if (conn->way == IDENTITY_CERTIFICATE) {
        hex_put(digits, bytes_of(conn->fingerprint, SHOWN_SIZE));
        buffer_printf(out, ":%s", digits);
        hex_put(digits, bytes_of(conn->ca, SHOWN_SIZE));
        buffer_printf(out, " ca=%s", digits);
    } else if (conn->secret != 0) {
        buffer_printf(out, ":%" PRIu64, conn->secret);
    }
}

/* --- Counts --------------------------------------------------------------- */

struct row {
    UT_hash_handle by_key;
    /* A secret's number, which is unique, or the first bytes of a CA's
     * fingerprint; with the way of authentication. */
    struct {
        uint64_t way;
        uint8_t ca[FINGERPRINT_SIZE];
        uint64_t secret;
    } key;
    struct core_login login;
};

static struct row *row_new(const struct core *core, const struct conn *conn)
{
    struct row *row = memory_new(sizeof *row);
    row->login.by = way_of(conn);
    row->login.secret = conn->secret;
    memcpy(row->login.ca, conn->ca, sizeof row->login.ca);
    const struct user *user = lockfsm_user(core->fsm, conn->user);
    if (conn->secret != 0 && user != NULL) {
        CHECK(user->name.size < sizeof row->login.user);
        memcpy(row->login.user, user->name.data, user->name.size);
    }
    return row;
}

/* Counts the connection; false if there is no space for its row. */
static bool count_conn(const struct core *core, const struct conn *conn,
                       struct row **rows)
{
    struct row *row, key = {.key = {.secret = conn->secret}};
    key.key.way = conn->secret != 0 ? 0 : (uint64_t)conn->way + 1;
    memcpy(key.key.ca, conn->ca, sizeof key.key.ca);
    HASH_FIND(by_key, *rows, &key.key, sizeof key.key, row);
    if (row == NULL && HASH_CNT(by_key, *rows) == CORE_LOGINS_MAX) {
        return false;
    }
    if (row == NULL) {
        row = row_new(core, conn);
        row->key = key.key;
        HASH_ADD(by_key, *rows, key, sizeof row->key, row);
    }
    row->login.count++;
    return true;
}

bool core_logins(const struct core *core, core_login_fn *each, void *data)
{
    struct row *rows = NULL, *row, *next;
    bool is_whole = true;
    LIST_FOR (const struct conn, conn, &core->conns.by_age, in_core) {
        is_whole &= conn->is_closing || count_conn(core, conn, &rows);
    }
    HASH_ITER (by_key, rows, row, next) {
        HASH_DELETE(by_key, rows, row);
        each(data, &row->login);
        free(row);
    }
    return is_whole;
}
