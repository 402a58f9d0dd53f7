/* SPDX-License-Identifier: MIT */

#include "client/shown.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/sha.h"
#include "client/tls_folder.h"

/* What was read. */
struct shown_reading {
    uint8_t digest[SHA256_SIZE]; /* Of all files. */
    struct tls_context *context;
    char secret[CLIENT_USER_SECRET_SIZE];
};

struct shown {
    atomic_int count;
    struct list in_all;
    uint32_t generation; /* The process of the registry's list. */
    char *folder;        /* "": none. */
    char *cluster;       /* NULL: as the CA says. */
    char *path;          /* Of the secret; "": none. */
    /* Guards what follows. */
    pthread_mutex_t mutex;
    struct shown_reading reading;
    bool was_let_in;
    char reported[HASP_WHY_SIZE]; /* Why the files were not taken, or "". */
};

/* --- Reading -------------------------------------------------------------- */

static void reading_done(struct shown_reading *reading)
{
    tls_context_unref(reading->context);
    explicit_bzero(reading, sizeof *reading);
}

static void shown_put_text(struct buffer *all, struct bytes text)
{
    buffer_put_u64(all, text.size);
    buffer_put_bytes(all, text);
}

/* Reads all files; makes a context unless they are those of 'old'. */
static int shown_read_files(const struct shown *shown,
                            const struct shown_reading *old,
                            struct shown_reading *ret_reading,
                            char why[HASP_WHY_SIZE])
{
    struct tls_texts texts = {0};
    struct buffer all = {0};
    int rv = 0;
    *ret_reading = (struct shown_reading){.context = NULL};
    if (!shown_has_files(shown)) {
        return 0;
    }
    if (shown->folder[0] != '\0') {
        rv = tls_folder_read(shown->folder, &texts, why);
    }
    if (rv == 0 && shown->path[0] != '\0') {
        rv = secret_read(shown->path, ret_reading->secret, why);
    }
    if (rv == 0) {
        shown_put_text(&all, buffer_bytes(&texts.ca));
        shown_put_text(&all, buffer_bytes(&texts.certificate));
        shown_put_text(&all, buffer_bytes(&texts.key));
        shown_put_text(&all, bytes_of_text(ret_reading->secret));
        rv = sha256(buffer_bytes(&all), ret_reading->digest);
        if (rv != 0) {
            snprintf(why, HASP_WHY_SIZE, "no SHA-256");
        }
    }
    bool is_same = rv == 0 && old != NULL &&
                   memcmp(old->digest, ret_reading->digest, SHA256_SIZE) == 0;
    if (rv == 0 && !is_same && shown->folder[0] != '\0') {
        rv = tls_folder_load(shown->folder, &texts, shown->cluster,
                             &ret_reading->context, why);
    }
    /* The key and the secret do not stay in freed memory. */
    if (all.size > 0) {
        explicit_bzero(all.data, all.size);
    }
    buffer_done(&all);
    tls_texts_done(&texts);
    return rv;
}

/* The users that it comes as: by the secret, and by the certificate. */
static bool is_of_same_user(const struct shown_reading *a,
                            const struct shown_reading *b)
{
    size_t a_size = secret_user_size(a->secret);
    size_t b_size = secret_user_size(b->secret);
    return a_size == b_size && memcmp(a->secret, b->secret, a_size) == 0 &&
           strcmp(tls_context_user(a->context), tls_context_user(b->context)) ==
               0;
}

/* --- Those of the process ------------------------------------------------- */

static struct {
    pthread_once_t once;
    pthread_mutex_t mutex;
    struct list all;
    uint32_t generation;
} registry = {.once = PTHREAD_ONCE_INIT, .mutex = PTHREAD_MUTEX_INITIALIZER};

/* In a child of fork() another thread may have held the lock, and been about to
 * change the list. */
static void forget_all(void)
{
    pthread_mutex_init(&registry.mutex, NULL);
    list_init(&registry.all);
    registry.generation++;
}

static void shown_init_registry(void)
{
    list_init(&registry.all);
    (void)!pthread_atfork(NULL, NULL, forget_all);
}

static bool is_text_equal(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void shown_free(struct shown *shown)
{
    reading_done(&shown->reading);
    pthread_mutex_destroy(&shown->mutex);
    free(shown->folder);
    free(shown->cluster);
    free(shown->path);
    free(shown);
}

/* The newest one of the same files as 'made' that is in use; of the same user,
 * or, if 'made' could not be read, one that a node has let in. */
static struct shown *find_shown(struct shown *made, bool is_read)
{
    struct shown *found = NULL;
    LIST_FOR (struct shown, shown, &registry.all, in_all) {
        if (!is_text_equal(shown->folder, made->folder) ||
            !is_text_equal(shown->cluster, made->cluster) ||
            !is_text_equal(shown->path, made->path)) {
            continue;
        }
        pthread_mutex_lock(&shown->mutex);
        if (is_read ? is_of_same_user(&shown->reading, &made->reading)
                    : shown->was_let_in) {
            found = shown;
        }
        pthread_mutex_unlock(&shown->mutex);
    }
    return found;
}

static const char *or_environment(const char *text, const char *variable)
{
    text = text != NULL ? text : getenv(variable);
    return text != NULL ? text : "";
}

/* Without what is in the files; NULL: no memory. */
static struct shown *shown_new(const char *folder, const char *cluster,
                               const char *secret)
{
    struct shown *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    atomic_init(&made->count, 1);
    pthread_mutex_init(&made->mutex, NULL);
    made->folder = strdup(or_environment(folder, "HASP_TLS"));
    made->cluster = cluster != NULL ? strdup(cluster) : NULL;
    made->path = strdup(or_environment(secret, "HASP_SECRET_FILE"));
    if (made->folder == NULL || made->path == NULL ||
        (cluster != NULL && made->cluster == NULL)) {
        shown_free(made);
        return NULL;
    }
    return made;
}

int shown_open(const char *folder, const char *cluster, const char *secret,
               struct shown **ret_shown, char why[HASP_WHY_SIZE])
{
    pthread_once(&registry.once, shown_init_registry);
    struct shown *made = shown_new(folder, cluster, secret);
    if (made == NULL) {
        snprintf(why, HASP_WHY_SIZE, "out of memory");
        return HASP_ENOMEM;
    }
    int error = shown_read_files(made, NULL, &made->reading, why);
    pthread_mutex_lock(&registry.mutex);
    /* Unreadable files are not an error if a session with the same files is
     * open: they may be being replaced. */
    struct shown *found = find_shown(made, error == 0);
    if (found != NULL) {
        shown_ref(found);
    } else if (error == 0) {
        made->generation = registry.generation;
        list_push_back(&registry.all, &made->in_all);
    }
    pthread_mutex_unlock(&registry.mutex);
    if (found != NULL || error != 0) {
        shown_free(made);
    }
    *ret_shown = found != NULL ? found : made;
    return found != NULL ? 0 : error;
}

struct shown *shown_ref(struct shown *shown)
{
    atomic_fetch_add(&shown->count, 1);
    return shown;
}

void shown_unref(struct shown *shown)
{
    if (shown == NULL) {
        return;
    }
    pthread_mutex_lock(&registry.mutex);
    bool is_last = atomic_fetch_sub(&shown->count, 1) == 1;
    if (is_last && shown->generation == registry.generation) {
        list_remove(&shown->in_all);
    }
    pthread_mutex_unlock(&registry.mutex);
    if (is_last) {
        shown_free(shown);
    }
}

/* --- One ------------------------------------------------------------------ */

bool shown_has_files(const struct shown *shown)
{
    return shown->folder[0] != '\0' || shown->path[0] != '\0';
}

/* Returns why the files were rejected, unless that was reported before. */
static void shown_tell_refused(struct shown *shown, const char *reason,
                               char why[HASP_WHY_SIZE])
{
    why[0] = '\0';
    if (strcmp(shown->reported, reason) != 0) {
        snprintf(shown->reported, sizeof shown->reported, "%s", reason);
        snprintf(why, HASP_WHY_SIZE,
                 "the new certificates or secret are not taken: %.450s",
                 reason);
    }
}

bool shown_renew(struct shown *shown, char why[HASP_WHY_SIZE])
{
    struct shown_reading reading;
    char reason[HASP_WHY_SIZE] = "";
    why[0] = '\0';
    if (!shown_has_files(shown)) {
        return false;
    }
    pthread_mutex_lock(&shown->mutex);
    int error = shown_read_files(shown, &shown->reading, &reading, reason);
    bool is_new = error == 0 && memcmp(reading.digest, shown->reading.digest,
                                       SHA256_SIZE) != 0;
    if (error == 0 && !is_new) {
        shown->reported[0] = '\0';
    } else if (is_new && !is_of_same_user(&reading, &shown->reading)) {
        /* A session belongs to a user: as another one it would be refused, and
         * lost. */
        is_new = false;
        shown_tell_refused(
            shown, "they belong to another user than the session's", why);
    } else if (error != 0) {
        shown_tell_refused(shown, reason, why);
    }
    if (is_new) {
        struct shown_reading old = shown->reading;
        shown->reading = reading;
        reading = old;
        shown->reported[0] = '\0';
    }
    reading_done(&reading);
    pthread_mutex_unlock(&shown->mutex);
    return is_new;
}

struct tls_context *shown_context(struct shown *shown)
{
    pthread_mutex_lock(&shown->mutex);
    struct tls_context *context = shown->reading.context;
    if (context != NULL) {
        tls_context_ref(context);
    }
    pthread_mutex_unlock(&shown->mutex);
    return context;
}

void shown_secret(struct shown *shown, char ret_secret[CLIENT_USER_SECRET_SIZE])
{
    pthread_mutex_lock(&shown->mutex);
    memcpy(ret_secret, shown->reading.secret, CLIENT_USER_SECRET_SIZE);
    pthread_mutex_unlock(&shown->mutex);
}

void shown_let_in(struct shown *shown)
{
    pthread_mutex_lock(&shown->mutex);
    shown->was_let_in = true;
    pthread_mutex_unlock(&shown->mutex);
}

bool shown_was_let_in(struct shown *shown)
{
    pthread_mutex_lock(&shown->mutex);
    bool was_let_in = shown->was_let_in;
    pthread_mutex_unlock(&shown->mutex);
    return was_let_in;
}
