/* SPDX-License-Identifier: MIT */

/* Carries out commands from stdin: tests/conformance/README.md. */

#include <hasp/hasp.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define LOCK_MAX 8192
#define NAME_MAX_COUNT 8
#define AGAIN_MAX 4

/* Called with "as". Once a hold is about to be released, no other command can
 * use it. */
struct lock {
    char as[64];
    json_t *names;
    struct hasp_hold *hold[AGAIN_MAX]; /* By an owner again: one hold each. */
    int count;
    int cancel_fd;
    const char *seal; /* Kind of its on_grant; NULL: none. */
    uint64_t seal_ms;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* Guards these. */
static struct hasp_session *session;
static struct hasp_session *beside; /* Shares its connection; or NULL. */
static struct lock locks[LOCK_MAX];
static bool is_unsealed; /* Hooks that hang return. */
static pthread_cond_t unsealed = PTHREAD_COND_INITIALIZER;

/* --- Output --------------------------------------------------------------- */

static void say(json_t *told)
{
    pthread_mutex_lock(&mutex);
    json_dumpf(told, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    pthread_mutex_unlock(&mutex);
    json_decref(told);
}

static void tell_event(void *data, const struct hasp_event *event)
{
    static const char *const kinds[] = {"",     "jeopardy", "safe",
                                        "lost", "please",   "notice"};
    (void)data;
    say(json_pack("{s:s, s:s, s:I, s:s}", "event", kinds[event->kind], "name",
                  event->name, "token", (json_int_t)event->token, "text",
                  event->text));
}

static void tell_hook(void *data, const struct hasp_hook_event *event)
{
    static const char *const kinds[] = {"",       "acquire",  "wait", "granted",
                                        "failed", "released", "lost"};
    (void)data;
    say(json_pack("{s:s, s:s, s:I, s:s, s:I, s:s, s:s, s:I, s:I}", "event",
                  "hook", "kind", kinds[event->kind], "id",
                  (json_int_t)event->id, "name", event->name, "token",
                  (json_int_t)event->token, "trace", event->trace, "text",
                  event->text, "elapsed_ns", (json_int_t)event->elapsed_ns,
                  "skipped", (json_int_t)event->skipped));
}

/* For a refusal, hasp_why() begins with the cluster's word. */
static void word_of(int error, char ret_word[32])
{
    static const struct {
        int error;
        const char *word;
    } words[] = {
        {HASP_ECONNECT, "UNREACHABLE"}, {HASP_ENOTLEADER, "UNREACHABLE"},
        {HASP_EBUSY, "UNREACHABLE"},    {HASP_EUNKNOWN, "UNKNOWN"},
        {HASP_ELOST, "LOST"},           {HASP_ESHORT, "SHORT"},
        {HASP_ENOTHELD, "NOTHELD"},     {HASP_ESEAL, "SEAL"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i].error == error) {
            snprintf(ret_word, 32, "%s", words[i].word);
            return;
        }
    }
    if (sscanf(hasp_why(), "%31[A-Z]:", ret_word) != 1 ||
        hasp_why()[strlen(ret_word)] != ':') {
        snprintf(ret_word, 32, "MISUSE");
    }
}

/* The newest; NULL: none. */
static struct hasp_hold *hold_of(const struct lock *lock)
{
    return lock->count > 0 ? lock->hold[lock->count - 1] : NULL;
}

static json_int_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (json_int_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- Words ---------------------------------------------------------------- */

static const char *text_of(json_t *command, const char *key)
{
    return json_string_value(json_object_get(command, key));
}

static uint64_t number_of(json_t *command, const char *key, uint64_t missing)
{
    json_t *value = json_object_get(command, key);
    return value != NULL ? (uint64_t)json_integer_value(value) : missing;
}

static struct lock *lock_of(json_t *command)
{
    const char *as = text_of(command, "as");
    struct lock *lock = locks;
    pthread_mutex_lock(&mutex);
    while (lock->as[0] != '\0' && strcmp(lock->as, as) != 0) {
        lock++;
    }
    if (lock->as[0] == '\0') {
        snprintf(lock->as, sizeof lock->as, "%s", as);
        lock->names = json_incref(json_object_get(command, "names"));
        lock->cancel_fd = eventfd(0, EFD_CLOEXEC);
    }
    pthread_mutex_unlock(&mutex);
    return lock;
}

/* The result of a wait. */
static int ended(const struct lock *lock, int status, json_t **ret_told)
{
    uint64_t cancels;
    json_t *tokens = json_object();
    for (size_t i = 0; status == 0 && i < json_array_size(lock->names); i++) {
        const char *name = json_string_value(json_array_get(lock->names, i));
        json_object_set_new(
            tokens, name,
            json_integer((json_int_t)hasp_token_of(hold_of(lock), i)));
    }
    *ret_told = json_pack("{s:b, s:o}", "held", status == 0, "tokens", tokens);
    if (status == HASP_EINTR) {
        status = read(lock->cancel_fd, &cancels, sizeof cancels) > 0 ? 0
                                                                     : HASP_EIO;
    }
    return status > 0 ? 0 : status;
}

/* --- Commands: 0 and lines of output, or an error ------------------------- */

/* An unknown word becomes a value that the library refuses. */
static enum hasp_tie tie_of(json_t *command)
{
    static const char *const kinds[] = {"none", "try", "must"};
    const char *kind = text_of(command, "tie");
    int i = 0;
    while (kind != NULL && i < 3 && strcmp(kind, kinds[i]) != 0) {
        i++;
    }
    return (enum hasp_tie)i;
}

static int do_open(json_t *command, json_t **ret_told)
{
    struct hasp_options options;
    hasp_options_init(&options);
    options.endpoints = text_of(command, "endpoints");
    options.name = text_of(command, "name");
    options.ttl_ms = (uint32_t)number_of(command, "ttl", 0);
    options.linger_ms = (uint32_t)number_of(command, "linger", 0);
    options.timeout_ms = (uint32_t)number_of(command, "timeout", 0);
    options.alive_ms = (uint32_t)number_of(command, "alive", 0);
    options.is_durable = json_is_true(json_object_get(command, "durable"));
    options.reason = text_of(command, "reason");
    options.agent = text_of(command, "agent");
    options.tie = tie_of(command);
    *ret_told = json_object();
    if (json_is_true(json_object_get(command, "beside"))) {
        int error = hasp_open(&options, &beside);
        if (error != 0) {
            return error;
        }
    }
    options.on_event = tell_event;
    struct hasp_hooks hooks;
    hasp_hooks_init(&hooks);
    hooks.acquire = hooks.wait = hooks.granted = tell_hook;
    hooks.failed = hooks.released = hooks.lost = tell_hook;
    if (json_object_get(command, "hooks") != NULL) {
        options.hooks = &hooks;
    }
    return hasp_open(&options, &session);
}

static int do_close(json_t *command, json_t **ret_told)
{
    struct hasp_session *closing = session;
    (void)command;
    memset(locks, 0, sizeof locks);
    session = NULL;
    hasp_close(closing);
    hasp_close(beside);
    beside = NULL;
    *ret_told = json_object();
    return 0;
}

static int do_beside(json_t *command, json_t **ret_told)
{
    (void)command;
    *ret_told = json_pack(
        "{s:s}", "state",
        beside != NULL && hasp_session_remaining(beside) > 0 ? "held" : "lost");
    return 0;
}

static int do_note(json_t *command, json_t **ret_told)
{
    struct hasp_hold *hold = hold_of(lock_of(command));
    *ret_told = json_object();
    return hold != NULL ? hasp_note(hold, text_of(command, "text"))
                        : HASP_ENOTHELD;
}

static int do_state(json_t *command, json_t **ret_told)
{
    json_int_t at_ns = now_ns();
    uint64_t left_ns = session != NULL ? hasp_session_remaining(session) : 0;
    const char *state = "lost";
    (void)command;
    if (left_ns > 0) {
        state = "held";
    } else if (session != NULL && hasp_alive(session) == 0) {
        state = "jeopardy";
    }
    *ret_told = json_pack("{s:s, s:I, s:I}", "state", state, "left_ns",
                          (json_int_t)left_ns, "at_ns", at_ns);
    return 0;
}

/* on_grant, and the data that selects what it does. */
static int seal(void *data, const char *name, uint64_t token)
{
    const char *kind = data;
    if (strcmp(kind, "hang") != 0) {
        return hasp_admit(session, name, token);
    }
    say(json_pack("{s:s, s:s, s:I, s:s}", "event", "seal", "name", name,
                  "token", (json_int_t)token, "text", ""));
    pthread_mutex_lock(&mutex);
    while (!is_unsealed) {
        pthread_cond_wait(&unsealed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    return 0;
}

static int do_unseal(json_t *command, json_t **ret_told)
{
    (void)command;
    pthread_mutex_lock(&mutex);
    is_unsealed = true;
    pthread_cond_broadcast(&unsealed);
    pthread_mutex_unlock(&mutex);
    *ret_told = json_object();
    return 0;
}

static int do_lock(json_t *command, json_t **ret_told)
{
    const char *names[NAME_MAX_COUNT] = {NULL};
    struct lock *lock = lock_of(command);
    struct hasp_acquire_options options;
    size_t count = json_array_size(lock->names);
    hasp_acquire_options_init(&options);
    for (size_t i = 0; i < count && i < NAME_MAX_COUNT; i++) {
        names[i] = json_string_value(json_array_get(lock->names, i));
    }
    options.slots = (uint32_t)number_of(command, "slots", 0);
    if (json_is_true(json_object_get(command, "shared"))) {
        options.mode = HASP_SHARED;
    } else if (options.slots != 0) {
        options.mode = HASP_SLOTS;
    }
    options.wait_ms = number_of(command, "wait", HASP_FOREVER);
    options.owner = text_of(command, "owner");
    options.value = text_of(command, "value");
    options.trace = text_of(command, "trace");
    options.hold_ms = number_of(command, "hold", 0);
    options.delay_ms = number_of(command, "delay", 0);
    options.is_barging = json_is_true(json_object_get(command, "barge"));
    options.interrupt_fd = lock->cancel_fd;
    if (text_of(command, "seal") != NULL) {
        lock->seal = strcmp(text_of(command, "seal"), "hang") == 0 ? "hang"
                                                                   : "admit";
        lock->seal_ms = number_of(command, "seal_time", 0);
    }
    options.on_grant = lock->seal != NULL ? seal : NULL;
    options.grant_data = (void *)(uintptr_t)lock->seal;
    options.seal_ms = lock->seal_ms;
    int status = lock->count == AGAIN_MAX
                     ? HASP_EINVALID
                     : hasp_acquire_many(session, names, count, &options,
                                         &lock->hold[lock->count]);
    lock->count += status == 0;
    return ended(lock, status, ret_told);
}

static int do_convert(json_t *command, json_t **ret_told)
{
    struct lock *lock = lock_of(command);
    struct hasp_acquire_options options;
    bool is_shared = json_is_true(json_object_get(command, "shared"));
    hasp_acquire_options_init(&options);
    options.wait_ms = number_of(command, "wait", HASP_FOREVER);
    options.interrupt_fd = lock->cancel_fd;
    int status = hasp_convert(
        hold_of(lock), is_shared ? HASP_SHARED : HASP_EXCLUSIVE, &options);
    return ended(lock, status, ret_told);
}

static int do_cancel(json_t *command, json_t **ret_told)
{
    uint64_t one = 1;
    *ret_told = json_object();
    return write(lock_of(command)->cancel_fd, &one, sizeof one) > 0 ? 0
                                                                    : HASP_EIO;
}

static int do_release(json_t *command, json_t **ret_told)
{
    struct lock *lock = lock_of(command);
    pthread_mutex_lock(&mutex);
    struct hasp_hold *hold = hold_of(lock);
    lock->count -= hold != NULL;
    pthread_mutex_unlock(&mutex);
    *ret_told = json_object();
    return hold != NULL ? hasp_release(hold) : HASP_ENOTHELD;
}

static int do_guard(json_t *command, json_t **ret_told)
{
    struct hasp_hold *hold = hold_of(lock_of(command));
    *ret_told = json_pack("{s:I}", "at_ns", now_ns());
    return hold == NULL
               ? HASP_ELOST
               : hasp_guard(hold, number_of(command, "need", 0) * 1000000);
}

static int do_remaining(json_t *command, json_t **ret_told)
{
    struct hasp_hold *hold = hold_of(lock_of(command));
    json_int_t at_ns = now_ns();
    *ret_told = json_pack("{s:I, s:I}", "left_ns",
                          (json_int_t)(hold != NULL ? hasp_remaining(hold) : 0),
                          "at_ns", at_ns);
    return 0;
}

static int do_alive(json_t *command, json_t **ret_told)
{
    (void)command;
    *ret_told = json_object();
    return hasp_alive(session);
}

static int do_tied(json_t *command, json_t **ret_told)
{
    (void)command;
    *ret_told = json_pack("{s:b}", "tied", hasp_is_tied(session));
    return 0;
}

static int do_credentials(json_t *command, json_t **ret_told)
{
    char text[HASP_CREDENTIALS_SIZE];
    (void)command;
    int error = hasp_credentials(session, text);
    if (error == 0) {
        *ret_told = json_pack("{s:I, s:s}", "session",
                              (json_int_t)hasp_session_id(session), "secret",
                              strchr(text, ':') + 1);
    }
    return error;
}

static int do_can(json_t *command, json_t **ret_told)
{
    static const char *const features[] = {
        "several", "convert", "alive", "cancel", "owner", "linger", "hold",
        "please",  "durable", "late",  "note",   "tie",   "seal",   "hooks"};
    json_t *list = json_array();
    (void)command;
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        json_array_append_new(list, json_string(features[i]));
    }
    *ret_told = json_pack("{s:o}", "features", list);
    return 0;
}

/* --- Reading -------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*run)(json_t *command, json_t **ret_told);
} commands[] = {{"can", do_can},
                {"open", do_open},
                {"close", do_close},
                {"state", do_state},
                {"lock", do_lock},
                {"convert", do_convert},
                {"cancel", do_cancel},
                {"release", do_release},
                {"unseal", do_unseal},
                {"guard", do_guard},
                {"remaining", do_remaining},
                {"alive", do_alive},
                {"beside", do_beside},
                {"note", do_note},
                {"tied", do_tied},
                {"credentials", do_credentials}};

static void *run(void *data)
{
    json_t *command = data;
    json_t *id = json_object_get(command, "id");
    json_t *told = NULL;
    char word[32] = "MISUSE";
    const char *text = "no such command";
    int error = HASP_EINVALID;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, text_of(command, "do")) == 0) {
            error = commands[i].run(command, &told);
            text = hasp_why();
            word_of(error, word);
        }
    }
    if (error == 0) {
        say(json_pack("{s:O, s:O}", "id", id, "ok", told));
    } else {
        say(json_pack("{s:O, s:s, s:s}", "id", id, "error", word, "text",
                      text));
    }
    json_decref(told);
    json_decref(command);
    return NULL;
}

int main(void)
{
    json_t *command;
    while ((command = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL)) !=
           NULL) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, command) != 0) {
            return 1;
        }
        pthread_detach(thread);
    }
    return 0;
}
