/* SPDX-License-Identifier: MIT */

/* tests/cluster/test_libhasp.py runs this against real nodes: one scenario, by
 * name, with the public header only. Exits 0 if everything expected happened.
 * If the test must do something to the nodes meanwhile, this prints a word and
 * waits for a line. */

#include <errno.h>
#include <fcntl.h>
#include <hasp/hasp.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

#define EXPECT_IS(call, expected)                                       \
    do {                                                                \
        int status_ = (call);                                           \
        if (status_ != (expected)) {                                    \
            fprintf(stderr, "line %d: %s: %d (%s, %s) instead of %s\n", \
                    __LINE__, #call, status_, hasp_strerror(status_),   \
                    hasp_why(), #expected);                             \
            exit(1);                                                    \
        }                                                               \
    } while (0)

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void sleep_ms(uint64_t time_ms)
{
    struct timespec left = {(time_t)(time_ms / 1000),
                            (long)(time_ms % 1000 * 1000000)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Lets the test act: it answers with a line. */
static void say(const char *word)
{
    char line[64];
    printf("%s\n", word);
    fflush(stdout);
    EXPECT(fgets(line, sizeof line, stdin) != NULL);
}

static struct hasp_session *open_with(uint32_t ttl_ms, uint32_t timeout_ms)
{
    struct hasp_options options;
    struct hasp_session *session;
    hasp_options_init(&options);
    options.ttl_ms = ttl_ms;
    options.timeout_ms = timeout_ms;
    EXPECT_IS(hasp_open(&options, &session), 0);
    return session;
}

static struct hasp_session *open_one(void)
{
    return open_with(0, 0);
}

static int acquire(struct hasp_session *session, const char *name,
                   uint64_t wait_ms, struct hasp_hold **ret_hold)
{
    struct hasp_acquire_options options;
    hasp_acquire_options_init(&options);
    options.wait_ms = wait_ms;
    return hasp_acquire(session, name, &options, ret_hold);
}

/* Until the lock is available; nobody may keep it forever. */
static void expect_free(struct hasp_session *session, const char *name)
{
    struct hasp_hold *hold;
    EXPECT_IS(acquire(session, name, 15000, &hold), 0);
    EXPECT_IS(hasp_release(hold), 0);
}

static bool next_event(struct hasp_session *session, int time_ms,
                       struct hasp_event *ret_event)
{
    struct pollfd fd = {.fd = hasp_event_fd(session), .events = POLLIN};
    EXPECT(fd.fd >= 0);
    if (poll(&fd, 1, time_ms) != 1) {
        return false;
    }
    return hasp_event_next(session, ret_event);
}

/* --- Locks ------------------------------------------------------------------
 */

static void basic(void)
{
    struct hasp_session *one = open_one(), *two = open_one();
    struct hasp_hold *hold, *other;
    bool is_holder;
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", HASP_VERSION_MAJOR,
             HASP_VERSION_MINOR, HASP_VERSION_PATCH);
    EXPECT(strcmp(version, hasp_version()) == 0);
    EXPECT(hasp_session_id(one) != hasp_session_id(two));
    EXPECT_IS(hasp_acquire(one, "basic", NULL, &hold), 0);
    uint64_t token = hasp_token(hold);
    EXPECT(token > 0 && hasp_token_of(hold, 1) == 0);
    EXPECT(hasp_remaining(hold) > 0);
    EXPECT(hasp_remaining(hold) <= UINT64_C(8000000000));
    EXPECT_IS(hasp_guard(hold, 1000000), 0);
    EXPECT_IS(hasp_guard(hold, UINT64_C(9000000000)), HASP_ESHORT);
    EXPECT(strstr(hasp_why(), "never more than 8000000000") != NULL);
    EXPECT_IS(acquire(two, "basic", 0, &other), HASP_NOT_ACQUIRED);
    EXPECT_IS(hasp_check(two, "basic", token, &is_holder), 0);
    EXPECT(is_holder);
    EXPECT_IS(hasp_release(hold), 0);
    EXPECT_IS(hasp_check(two, "basic", token, &is_holder), 0);
    EXPECT(!is_holder);
    EXPECT_IS(acquire(two, "basic", 0, &other), 0);
    EXPECT(hasp_token(other) > token);
    EXPECT_IS(hasp_admit(one, "basic", hasp_token(other)), 0);
    EXPECT_IS(hasp_admit(one, "basic", token), HASP_ESTALE);
    /* Closing releases the holds. */
    hasp_close(two);
    EXPECT_IS(acquire(one, "basic", 0, &hold), 0);
    hasp_close(one);
    hasp_close(NULL);
}

static void modes(void)
{
    struct hasp_session *session = open_one();
    struct hasp_acquire_options options;
    struct hasp_hold *hold[3], *other;
    hasp_acquire_options_init(&options);
    options.wait_ms = 0;
    options.mode = HASP_SHARED;
    EXPECT_IS(hasp_acquire(session, "m", &options, &hold[0]), 0);
    EXPECT_IS(hasp_acquire(session, "m", &options, &hold[1]), 0);
    EXPECT_IS(acquire(session, "m", 0, &other), HASP_NOT_ACQUIRED);
    uint64_t token = hasp_token(hold[0]);

    /* Two upgrades would wait for each other forever. */
    EXPECT_IS(hasp_convert(hold[0], HASP_EXCLUSIVE, &options),
              HASP_NOT_ACQUIRED);
    EXPECT_IS(hasp_release(hold[1]), 0);
    EXPECT_IS(hasp_convert(hold[0], HASP_EXCLUSIVE, NULL), 0);
    EXPECT(hasp_token(hold[0]) > token);
    EXPECT_IS(hasp_acquire(session, "m", &options, &other), HASP_NOT_ACQUIRED);
    EXPECT_IS(hasp_convert(hold[0], HASP_SHARED, NULL), 0);
    EXPECT_IS(hasp_acquire(session, "m", &options, &other), 0);
    EXPECT_IS(hasp_release(other), 0);
    EXPECT_IS(hasp_release(hold[0]), 0);

    options.mode = HASP_SLOTS;
    EXPECT_IS(hasp_acquire(session, "s", &options, &other), HASP_EINVALID);
    options.slots = 2;
    EXPECT_IS(hasp_acquire(session, "s", &options, &hold[0]), 0);
    EXPECT_IS(hasp_acquire(session, "s", &options, &hold[1]), 0);
    EXPECT_IS(hasp_acquire(session, "s", &options, &other), HASP_NOT_ACQUIRED);
    EXPECT_IS(hasp_release(hold[1]), 0);
    EXPECT_IS(hasp_acquire(session, "s", &options, &hold[1]), 0);
    hasp_close(session);
}

static void reentrant(void)
{
    struct hasp_session *session = open_one();
    struct hasp_acquire_options options;
    struct hasp_hold *outer, *inner, *other;
    hasp_acquire_options_init(&options);
    options.wait_ms = 0;
    options.owner = "me";
    EXPECT_IS(hasp_acquire(session, "r", &options, &outer), 0);
    EXPECT_IS(hasp_acquire(session, "r", &options, &inner), 0);
    EXPECT(hasp_token(outer) == hasp_token(inner));
    EXPECT_IS(hasp_release(inner), 0);
    EXPECT_IS(acquire(session, "r", 0, &other), HASP_NOT_ACQUIRED);
    EXPECT_IS(hasp_release(outer), 0);
    EXPECT_IS(acquire(session, "r", 0, &other), 0);
    options.owner = "#1";
    EXPECT_IS(hasp_acquire(session, "r2", &options, &outer), HASP_EINVALID);
    hasp_close(session);
}

/* Re-entry does not prolong a limited hold, in the cluster or here. */
static void limit_of_re_entry(void)
{
    struct hasp_session *session = open_one();
    struct hasp_acquire_options options;
    struct hasp_hold *outer, *inner, *innermost;
    hasp_acquire_options_init(&options);
    options.owner = "me";
    options.hold_ms = 5000;
    uint64_t began_ms = now_ms();
    EXPECT_IS(hasp_acquire(session, "lr", &options, &outer), 0);
    EXPECT_IS(hasp_acquire(session, "lr", &options, &inner), 0);
    uint64_t took_ms = now_ms() - began_ms + 1; /* The node began later. */
    uint64_t outer_ns = hasp_remaining(outer) + took_ms * 1000000;
    EXPECT(hasp_remaining(inner) <= outer_ns);
    EXPECT_IS(hasp_release(outer), 0);
    options.hold_ms = 0;
    EXPECT_IS(hasp_acquire(session, "lr", &options, &innermost), 0);
    EXPECT(hasp_remaining(innermost) <= outer_ns + 100000000); /* 0.8 of it. */
    /* A new hold has a limit of its own, whatever happened to another. */
    options.hold_ms = 400;
    EXPECT_IS(hasp_acquire(session, "lr2", &options, &outer), 0);
    sleep_ms(1500);
    EXPECT_IS(hasp_guard(outer, 0), HASP_ELOST);
    options.hold_ms = 5000;
    EXPECT_IS(hasp_acquire(session, "lr2", &options, &inner), 0);
    EXPECT(hasp_remaining(inner) > 0);
    hasp_close(session);
}

static void many(void)
{
    struct hasp_session *session = open_one();
    const char *names[] = {"x", "y", "z"};
    struct hasp_acquire_options options;
    struct hasp_hold *all, *one;
    hasp_acquire_options_init(&options);
    options.wait_ms = 0;
    EXPECT_IS(acquire(session, "y", 0, &one), 0);
    EXPECT_IS(hasp_acquire_many(session, names, 3, &options, &all),
              HASP_NOT_ACQUIRED);
    expect_free(session, "x");
    EXPECT_IS(hasp_release(one), 0);
    EXPECT_IS(hasp_acquire_many(session, names, 3, &options, &all), 0);
    EXPECT(hasp_token_of(all, 0) > 0 && hasp_token_of(all, 2) > 0);
    EXPECT(hasp_token_of(all, 3) == 0);
    EXPECT_IS(acquire(session, "z", 0, &one), HASP_NOT_ACQUIRED);
    EXPECT_IS(hasp_convert(all, HASP_SHARED, NULL), HASP_EINVALID);
    EXPECT_IS(hasp_release(all), 0);
    for (int i = 0; i < 3; i++) {
        expect_free(session, names[i]);
    }
    hasp_close(session);
}

/* --- Threads -----------------------------------------------------------------
 */

#define THREADS 4
#define ROUNDS 25

static struct hasp_session *shared_session;
static volatile int shared_count; /* Guarded by the lock alone. */

static void *count_up(void *data)
{
    (void)data;
    for (int i = 0; i < ROUNDS; i++) {
        struct hasp_hold *hold;
        EXPECT_IS(hasp_acquire(shared_session, "count", NULL, &hold), 0);
        int seen = shared_count;
        sched_yield();
        shared_count = seen + 1;
        EXPECT_IS(hasp_release(hold), 0);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    shared_session = open_one();
    for (int i = 0; i < THREADS; i++) {
        EXPECT(pthread_create(&thread[i], NULL, count_up, NULL) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    EXPECT(shared_count == THREADS * ROUNDS);
    hasp_close(shared_session);
}

struct waiting {
    const char *name;
    const char *owner;
    int interrupt_fd;
    uint64_t wait_ms;
    struct hasp_hold *hold;
    int status;
};

static void *wait_for_it(void *data)
{
    struct waiting *waiting = data;
    struct hasp_acquire_options options;
    hasp_acquire_options_init(&options);
    options.interrupt_fd = waiting->interrupt_fd;
    options.wait_ms = waiting->wait_ms;
    options.owner = waiting->owner;
    waiting->status = hasp_acquire(shared_session, waiting->name, &options,
                                   &waiting->hold);
    return NULL;
}

static void deadlock(void)
{
    pthread_t thread;
    struct hasp_acquire_options options;
    struct hasp_hold *a, *b, *other;
    struct waiting waiting = {"dl-b", "one", -1, HASP_FOREVER, NULL, 0};
    shared_session = open_one();
    hasp_acquire_options_init(&options);
    options.owner = "one";
    EXPECT_IS(hasp_acquire(shared_session, "dl-a", &options, &a), 0);
    options.owner = "two";
    EXPECT_IS(hasp_acquire(shared_session, "dl-b", &options, &b), 0);
    EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiting) == 0);
    sleep_ms(300);
    EXPECT_IS(hasp_acquire(shared_session, "dl-a", &options, &other),
              HASP_EDEADLOCK);
    EXPECT_IS(hasp_release(b), 0);
    pthread_join(thread, NULL);
    EXPECT_IS(waiting.status, 0);
    hasp_close(shared_session);
}

/* --- Waits and their ends ----------------------------------------------------
 */

static void timed(void)
{
    struct hasp_session *one = open_one(), *two = open_one();
    struct hasp_hold *hold, *other;
    EXPECT_IS(hasp_acquire(one, "t", NULL, &hold), 0);
    uint64_t from_ms = now_ms();
    EXPECT_IS(acquire(two, "t", 300, &other), HASP_NOT_ACQUIRED);
    EXPECT(now_ms() - from_ms >= 300);
    say("queue t 0");
    hasp_close(two);
    hasp_close(one);
}

static void on_signal(int number)
{
    (void)number;
    (void)hasp_interrupt(shared_session);
}

static void interrupt(void)
{
    struct hasp_session *holder = open_one();
    struct hasp_hold *hold, *other;
    pthread_t thread;
    uint64_t one = 1;
    int fd = eventfd(0, 0);
    shared_session = open_one();
    EXPECT_IS(hasp_acquire(holder, "i", NULL, &hold), 0);

    /* From another thread; the place in the queue is given up. */
    struct waiting waiting = {"i", NULL, -1, HASP_FOREVER, NULL, 0};
    EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiting) == 0);
    say("queue i 1");
    EXPECT_IS(hasp_interrupt(shared_session), 0);
    pthread_join(thread, NULL);
    EXPECT_IS(waiting.status, HASP_EINTR);
    say("queue i 0");

    /* The interruption lasts, so it cannot come too early; then it ends. */
    EXPECT_IS(acquire(shared_session, "i", 5000, &other), HASP_EINTR);
    EXPECT_IS(acquire(shared_session, "free", 5000, &other), HASP_EINTR);
    EXPECT_IS(acquire(shared_session, "i", 0, &other), HASP_NOT_ACQUIRED);
    EXPECT_IS(hasp_interrupt_clear(shared_session), 0);
    EXPECT_IS(acquire(shared_session, "free", 5000, &other), 0);
    EXPECT_IS(hasp_release(other), 0);

    /* By a descriptor: this wait only. */
    waiting = (struct waiting){"i", NULL, fd, HASP_FOREVER, NULL, 0};
    EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiting) == 0);
    say("queue i 1");
    EXPECT(write(fd, &one, sizeof one) == sizeof one);
    pthread_join(thread, NULL);
    EXPECT_IS(waiting.status, HASP_EINTR);
    say("queue i 0");

    /* From a signal handler. */
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    waiting = (struct waiting){"i", NULL, -1, HASP_FOREVER, NULL, 0};
    EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiting) == 0);
    say("queue i 1");
    EXPECT(pthread_kill(thread, SIGUSR1) == 0);
    pthread_join(thread, NULL);
    EXPECT_IS(waiting.status, HASP_EINTR);

    EXPECT_IS(hasp_release(hold), 0);
    expect_free(holder, "i");
    hasp_close(shared_session);
    hasp_close(holder);
}

/* --- Events ------------------------------------------------------------------
 */

static void events(void)
{
    struct hasp_session *one = open_one(), *two = open_one();
    struct hasp_acquire_options options;
    struct hasp_event event;
    struct hasp_hold *hold;
    uint64_t told;
    EXPECT(!next_event(one, 0, &event));
    EXPECT_IS(hasp_acquire(one, "e", NULL, &hold), 0);
    EXPECT_IS(hasp_please(two, "e", "soon", &told), 0);
    EXPECT(told == 1);
    EXPECT(next_event(one, 5000, &event));
    EXPECT(event.kind == HASP_EVENT_PLEASE);
    EXPECT(strcmp(event.name, "e") == 0 && strcmp(event.text, "soon") == 0);
    EXPECT(!next_event(one, 0, &event) && !hasp_event_next(one, &event));
    EXPECT_IS(hasp_release(hold), 0);

    /* Max hold: the client trusts 0.8 of it and names it in an event; once the
     * cluster has ended the hold, releasing it reports that it is not held. */
    hasp_acquire_options_init(&options);
    options.hold_ms = 1000;
    uint64_t from_ms = now_ms();
    EXPECT_IS(hasp_acquire(one, "limited", &options, &hold), 0);
    EXPECT(hasp_remaining(hold) <= UINT64_C(800000000));
    EXPECT_IS(hasp_guard(hold, 1000000), 0);
    EXPECT(next_event(one, 5000, &event));
    EXPECT(now_ms() - from_ms < 1000);
    EXPECT(event.kind == HASP_EVENT_LOST);
    EXPECT(strcmp(event.name, "limited") == 0);
    EXPECT_IS(hasp_guard(hold, 0), HASP_ELOST);
    EXPECT(hasp_remaining(hold) == 0);
    expect_free(two, "limited");
    EXPECT_IS(hasp_release(hold), HASP_ENOTHELD);
    EXPECT(!next_event(one, 2500, &event));
    EXPECT(hasp_session_remaining(one) > 0);
    hasp_close(one);
    hasp_close(two);
}

/* A limited hold is trusted even after a wait longer than its limit, which
 * counts from the grant. */
static void limit_after_wait(void)
{
    pthread_t thread;
    struct hasp_hold *hold, *limited;
    struct hasp_session *other = open_one();
    struct hasp_acquire_options options;
    struct waiting waiting = {"law", NULL, -1, HASP_FOREVER, NULL, 0};
    shared_session = open_one();
    EXPECT_IS(hasp_acquire(shared_session, "law", NULL, &hold), 0);
    hasp_acquire_options_init(&options);
    options.hold_ms = 1500;
    /* The hold is released after the limit. */
    EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiting) == 0);
    say("queue law 1");
    EXPECT_IS(hasp_release(hold), 0);
    pthread_join(thread, NULL);
    EXPECT_IS(waiting.status, 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct hasp_session *own = open_one();
        EXPECT_IS(hasp_acquire(own, "law", &options, &limited), 0);
        uint64_t left_ns = hasp_remaining(limited);
        EXPECT(left_ns > UINT64_C(300000000));
        EXPECT(left_ns <= UINT64_C(1200000000));
        hasp_close(own);
        _exit(0);
    }
    int status;
    sleep_ms(2500);
    EXPECT_IS(hasp_release(waiting.hold), 0);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    hasp_close(other);
    hasp_close(shared_session);
}

static bool has_event;

static void on_event(void *data, const struct hasp_event *event)
{
    struct hasp_event *last = data;
    /* Calls are allowed here. */
    EXPECT(hasp_session_id(shared_session) != 0);
    *last = *event;
    __atomic_store_n(&has_event, true, __ATOMIC_RELEASE);
}

static void callback(void)
{
    static struct hasp_event last;
    struct hasp_options options;
    struct hasp_hold *hold;
    uint64_t told;
    hasp_options_init(&options);
    options.on_event = on_event;
    options.event_data = &last;
    EXPECT_IS(hasp_open(&options, &shared_session), 0);
    EXPECT_IS(hasp_acquire(shared_session, "cb", NULL, &hold), 0);
    EXPECT_IS(hasp_please(shared_session, "cb", NULL, &told), 0);
    for (int i = 0; i < 500; i++) {
        if (__atomic_load_n(&has_event, __ATOMIC_ACQUIRE)) {
            break;
        }
        sleep_ms(10);
    }
    EXPECT(last.kind == HASP_EVENT_PLEASE && strcmp(last.name, "cb") == 0);
    hasp_close(shared_session);
}

/* Heartbeats must be earned: the lease lasts while the program reports
 * progress, and expires when it stops. */
static void alive(void)
{
    struct hasp_options options;
    struct hasp_session *session, *other = open_one();
    struct hasp_event event;
    struct hasp_hold *hold;
    hasp_options_init(&options);
    options.ttl_ms = 1000;
    options.alive_ms = 500;
    EXPECT_IS(hasp_open(&options, &session), 0);
    EXPECT_IS(hasp_acquire(session, "alive", NULL, &hold), 0);
    for (int i = 0; i < 30; i++) {
        sleep_ms(100);
        EXPECT_IS(hasp_alive(session), 0);
        EXPECT_IS(hasp_guard(hold, 0), 0);
    }
    EXPECT(next_event(session, 5000, &event));
    EXPECT(event.kind == HASP_EVENT_LOST && event.name[0] == '\0');
    EXPECT(strstr(event.text, "hasp_alive") != NULL);
    EXPECT_IS(hasp_guard(hold, 0), HASP_ELOST);
    EXPECT_IS(hasp_alive(session), HASP_ELOST);
    EXPECT(strstr(hasp_why(), "hasp_alive") != NULL);
    EXPECT_IS(hasp_release(hold), HASP_ELOST);
    expect_free(other, "alive");
    hasp_close(session);
    hasp_close(other);
}

/* --- fork
 * ---------------------------------------------------------------------- */

static int open_count(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static void child_of_fork(struct hasp_session *session, struct hasp_hold *hold,
                          int expected_open_count)
{
    struct hasp_hold *other;
    struct hasp_event event;
    bool is_holder;
    EXPECT_IS(hasp_acquire(session, "f2", NULL, &other), HASP_EFORKED);
    EXPECT_IS(hasp_guard(hold, 0), HASP_EFORKED);
    EXPECT_IS(hasp_release(hold), HASP_EFORKED);
    EXPECT_IS(hasp_convert(hold, HASP_SHARED, NULL), HASP_EFORKED);
    EXPECT_IS(hasp_check(session, "f", 1, &is_holder), HASP_EFORKED);
    EXPECT_IS(hasp_alive(session), HASP_EFORKED);
    EXPECT_IS(hasp_interrupt(session), HASP_EFORKED);
    EXPECT_IS(hasp_event_fd(session), HASP_EFORKED);
    EXPECT(!hasp_event_next(session, &event));
    EXPECT(hasp_remaining(hold) == 0 && hasp_token(hold) == 0);
    hasp_close(session);
    EXPECT(open_count() == expected_open_count);
    struct hasp_session *own = open_one();
    EXPECT_IS(acquire(own, "f", 0, &other), HASP_NOT_ACQUIRED);
    EXPECT_IS(acquire(own, "f2", 0, &other), 0);
    hasp_close(own);
    _exit(0);
}

static void forks(void)
{
    int before_count = open_count();
    struct hasp_session *session = open_with(1000, 0);
    struct hasp_hold *hold;
    int status;
    EXPECT_IS(hasp_acquire(session, "f", NULL, &hold), 0);
    for (int i = 0; i < 5; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            child_of_fork(session, hold, before_count);
        }
        EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    }
    sleep_ms(1500);
    EXPECT_IS(hasp_guard(hold, 0), 0);
    EXPECT_IS(hasp_release(hold), 0);
    hasp_close(session);
}

/* --- Misuse
 * -------------------------------------------------------------------- */

static void misuse(void)
{
    struct hasp_session *session = open_one(), *none = NULL;
    struct hasp_options options = {0};
    struct hasp_acquire_options acquiring = {0};
    struct hasp_hold *hold = NULL;
    char long_name[600];
    const char *names[] = {"a", NULL};
    uint64_t number;
    bool answer;
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    EXPECT_IS(hasp_open(&options, &none), HASP_EINVALID);
    EXPECT_IS(hasp_open(NULL, NULL), HASP_EINVALID);
    hasp_options_init(&options);
    options.endpoints = "";
    EXPECT_IS(hasp_open(&options, &none), HASP_EINVALID);
    options.endpoints = NULL;
    options.ttl_ms = 1;
    EXPECT_IS(hasp_open(&options, &none), HASP_EINVALID);
    options.endpoints = "127.0.0.1:1";
    options.timeout_ms = 200;
    EXPECT_IS(hasp_open(&options, &none), HASP_ECONNECT);
    EXPECT(none == NULL && hasp_why()[0] != '\0');
    EXPECT_IS(hasp_acquire(NULL, "a", NULL, &hold), HASP_EINVALID);
    EXPECT_IS(hasp_acquire(session, NULL, NULL, &hold), HASP_EINVALID);
    EXPECT_IS(hasp_acquire(session, "", NULL, &hold), HASP_EINVALID);
    EXPECT_IS(hasp_acquire(session, long_name, NULL, &hold), HASP_EINVALID);
    EXPECT_IS(hasp_acquire(session, "a", &acquiring, &hold), HASP_EINVALID);
    EXPECT_IS(hasp_acquire(session, "a", NULL, NULL), HASP_EINVALID);
    EXPECT_IS(hasp_acquire_many(session, names, 2, NULL, &hold), HASP_EINVALID);
    EXPECT_IS(hasp_acquire_many(session, names, 0, NULL, &hold), HASP_EINVALID);
    hasp_acquire_options_init(&acquiring);
    acquiring.interrupt_fd = 9999;
    EXPECT_IS(hasp_acquire(session, "a", &acquiring, &hold), HASP_EINVALID);
    EXPECT_IS(hasp_release(NULL), HASP_EINVALID);
    EXPECT_IS(hasp_guard(NULL, 0), HASP_EINVALID);
    EXPECT_IS(hasp_convert(NULL, HASP_SHARED, NULL), HASP_EINVALID);
    EXPECT_IS(hasp_check(session, NULL, 1, &answer), HASP_EINVALID);
    EXPECT_IS(hasp_please(session, "a", NULL, NULL), HASP_EINVALID);
    EXPECT_IS(hasp_please(session, "a", NULL, &number), 0);
    EXPECT_IS(hasp_admit(session, "a", 0), HASP_EINVALID);
    EXPECT_IS(hasp_interrupt(NULL), HASP_EINVALID);
    EXPECT(hasp_remaining(NULL) == 0 && hasp_token(NULL) == 0);
    EXPECT(hold == NULL);
    hasp_options_init(NULL);
    hasp_acquire_options_init(NULL);
    expect_free(session, "a");
    hasp_close(session);
}

/* --- When nodes fail
 * ------------------------------------------------------------ */

/* The leader is killed during one hold and one wait. */
static void failover(void)
{
    struct hasp_session *one = open_with(10000, 0);
    struct hasp_hold *hold;
    pthread_t thread;
    struct waiting waiting = {"fo", NULL, -1, HASP_FOREVER, NULL, 0};
    shared_session = open_with(10000, 0);
    EXPECT_IS(hasp_acquire(one, "fo", NULL, &hold), 0);
    uint64_t token = hasp_token(hold);
    EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiting) == 0);
    say("queue fo 1");
    say("kill leader");
    EXPECT_IS(hasp_guard(hold, 0), 0);
    EXPECT_IS(hasp_release(hold), 0);
    pthread_join(thread, NULL);
    EXPECT_IS(waiting.status, 0);
    EXPECT(hasp_token(waiting.hold) > token);
    EXPECT_IS(hasp_release(waiting.hold), 0);
    hasp_close(one);
    hasp_close(shared_session);
}

/* All nodes are silent: jeopardy, lost, and no call hangs. */
static void blackout(void)
{
    struct hasp_options options;
    struct hasp_event event;
    struct hasp_hold *hold, *other;
    pthread_t thread;
    struct waiting waiting = {"bo", NULL, -1, HASP_FOREVER, NULL, 0};
    hasp_options_init(&options);
    options.ttl_ms = 3000;
    options.linger_ms = 1000;
    options.timeout_ms = 500;
    EXPECT_IS(hasp_open(&options, &shared_session), 0);
    EXPECT_IS(hasp_acquire(shared_session, "bo", NULL, &hold), 0);
    EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiting) == 0);
    say("queue bo 1");
    say("pause all");
    uint64_t from_ms = now_ms();
    EXPECT(next_event(shared_session, 5000, &event));
    EXPECT(event.kind == HASP_EVENT_JEOPARDY);
    EXPECT(now_ms() - from_ms <= 1000);
    EXPECT_IS(hasp_guard(hold, 0), HASP_ESHORT);
    say("resume all");
    EXPECT(next_event(shared_session, 1900, &event));
    EXPECT(event.kind == HASP_EVENT_SAFE);
    EXPECT_IS(hasp_guard(hold, 0), 0);
    say("pause all");
    EXPECT(next_event(shared_session, 5000, &event));
    EXPECT(event.kind == HASP_EVENT_JEOPARDY);
    EXPECT(next_event(shared_session, 5000, &event));
    EXPECT(event.kind == HASP_EVENT_LOST);
    EXPECT_IS(hasp_guard(hold, 0), HASP_ELOST);
    pthread_join(thread, NULL);
    EXPECT_IS(waiting.status, HASP_ELOST);
    EXPECT_IS(acquire(shared_session, "bo", 0, &other), HASP_ELOST);
    EXPECT_IS(hasp_release(hold), HASP_ELOST);
    hasp_close(shared_session);
    say("resume all");
    shared_session = open_one();
    expect_free(shared_session, "bo");
    hasp_close(shared_session);
}

/* No answer, but the nodes have the request and grant it later: a grant that no
 * call waits for must be released, and "unknown" is not "no". */
static void unknown(void)
{
    struct hasp_session *one = open_with(60000, 600), *two = open_one();
    struct hasp_hold *hold, *kept;
    expect_free(one, "u");
    EXPECT_IS(hasp_acquire(one, "kept", NULL, &kept), 0);
    say("pause all");
    EXPECT_IS(acquire(one, "u", 0, &hold), HASP_EUNKNOWN);
    /* A new connection was needed, so it is known that nothing was sent. */
    int status = hasp_release(kept);
    EXPECT(status == HASP_EUNKNOWN || status == HASP_ECONNECT);
    /* Longer than one attempt to resolve it takes. */
    sleep_ms(3500);
    say("resume all");
    hasp_close(two);
    two = open_one();
    expect_free(two, "u");
    expect_free(two, "kept");
    EXPECT(hasp_session_remaining(one) > 0);
    /* And the session continues as before. */
    expect_free(one, "u");
    hasp_close(one);
    hasp_close(two);
}

/* Nothing listens, so each attempt ends at once; the wait can still be
 * interrupted, and no other call takes longer than its time-out. */
static void refused(void)
{
    struct hasp_session *holder = open_with(60000, 500);
    struct hasp_hold *hold, *other;
    pthread_t thread;
    struct waiting waiting = {"re", NULL, -1, HASP_FOREVER, NULL, 0};
    shared_session = open_with(60000, 500);
    EXPECT_IS(hasp_acquire(holder, "re", NULL, &hold), 0);
    EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiting) == 0);
    say("queue re 1");
    say("end all");
    sleep_ms(1000);
    uint64_t from_ms = now_ms();
    EXPECT_IS(hasp_interrupt(shared_session), 0);
    pthread_join(thread, NULL);
    EXPECT_IS(waiting.status, HASP_EINTR);
    EXPECT_IS(acquire(holder, "re2", 0, &other), HASP_ECONNECT);
    /* The lease lasts, whichever node answers. */
    EXPECT_IS(hasp_guard(hold, 0), 0);
    EXPECT_IS(hasp_release(hold), HASP_ECONNECT);
    hasp_close(holder);
    hasp_close(shared_session);
    EXPECT(now_ms() - from_ms < 20000);
}

/* A node answers a request with the news that the session has ended. */
static void expired(void)
{
    struct hasp_session *session = open_with(60000, 0);
    struct hasp_event event;
    struct hasp_hold *hold, *other;
    EXPECT_IS(hasp_acquire(session, "ex", NULL, &hold), 0);
    EXPECT_IS(hasp_guard(hold, 0), 0);
    EXPECT_IS(acquire(session, "doomed", 0, &other), HASP_ELOST);
    EXPECT_IS(hasp_guard(hold, 0), HASP_ELOST);
    EXPECT(hasp_session_remaining(session) == 0);
    EXPECT(next_event(session, 2000, &event));
    EXPECT(event.kind == HASP_EVENT_LOST && event.name[0] == '\0');
    EXPECT_IS(acquire(session, "ex2", 0, &other), HASP_ELOST);
    hasp_close(session);
}

/* The program itself is stopped for longer than its lease. */
static void stopped(void)
{
    struct hasp_session *session = open_with(1000, 0);
    struct hasp_event event;
    struct hasp_hold *hold;
    EXPECT_IS(hasp_acquire(session, "st", NULL, &hold), 0);
    say("stop me");
    EXPECT_IS(hasp_guard(hold, 0), HASP_ELOST);
    EXPECT(next_event(session, 5000, &event));
    EXPECT(event.kind == HASP_EVENT_LOST);
    hasp_close(session);
}

/* The same during a wait: a grant meanwhile came too late. */
static void late_grant(void)
{
    pthread_t thread;
    struct hasp_acquire_options options;
    struct hasp_session *other = open_with(60000, 0);
    struct hasp_hold *hold;
    struct waiting waiting = {"late", NULL, -1, HASP_FOREVER, NULL, 0};
    hasp_acquire_options_init(&options);
    options.hold_ms = 700;
    shared_session = open_with(1000, 0);
    EXPECT_IS(hasp_acquire(other, "late", &options, &hold), 0);
    EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiting) == 0);
    sleep_ms(200);
    say("stop me");
    pthread_join(thread, NULL);
    EXPECT_IS(waiting.status, HASP_ELOST);
    hasp_close(shared_session);
    hasp_close(other);
}

static void dawdle(void *data, const struct hasp_event *event)
{
    (void)data;
    (void)event;
    sleep_ms(6000);
}

/* A slow callback does not delay the end of a wait. */
static void slow_callback(void)
{
    struct hasp_options options;
    struct hasp_hold *hold;
    pthread_t thread;
    uint64_t count;
    struct hasp_session *other = open_with(60000, 300);
    struct waiting waiting = {"slow", NULL, -1, HASP_FOREVER, NULL, 0};
    hasp_options_init(&options);
    options.ttl_ms = 1500;
    options.timeout_ms = 300;
    options.on_event = dawdle;
    EXPECT_IS(hasp_open(&options, &shared_session), 0);
    EXPECT_IS(hasp_acquire(other, "slow", NULL, &hold), 0);
    EXPECT_IS(hasp_acquire(shared_session, "slow2", NULL, &hold), 0);
    EXPECT_IS(hasp_please(other, "slow2", NULL, &count), 0);
    EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiting) == 0);
    sleep_ms(300);
    uint64_t begun_ms = now_ms();
    say("pause all");
    pthread_join(thread, NULL);
    EXPECT_IS(waiting.status, HASP_ELOST);
    EXPECT(now_ms() - begun_ms < 4000);
    say("resume all");
    hasp_close(shared_session);
    hasp_close(other);
}

/* A frozen node reports no grant: its waits move to another node as soon as a
 * heartbeat also stays unanswered. */
static void frozen(void)
{
    for (int i = 0; i < 3; i++) {
        char freeze[32];
        pthread_t thread;
        struct hasp_session *other = open_with(8000, 0);
        struct hasp_hold *hold;
        struct waiting waiting = {"fz", NULL, -1, HASP_FOREVER, NULL, 0};
        shared_session = open_with(4000, 0);
        EXPECT_IS(hasp_acquire(other, "fz", NULL, &hold), 0);
        EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiting) == 0);
        sleep_ms(300);
        snprintf(freeze, sizeof freeze, "freeze %d", i);
        say(freeze);
        EXPECT_IS(hasp_release(hold), 0);
        uint64_t begun_ms = now_ms();
        pthread_join(thread, NULL);
        EXPECT_IS(waiting.status, 0);
        EXPECT(now_ms() - begun_ms < 8000);
        EXPECT_IS(hasp_guard(waiting.hold, 1), 0);
        say("resume all");
        hasp_close(shared_session);
        hasp_close(other);
    }
}

/* One process opens the session and takes the lock; another one (here: another
 * session object) continues with it. */
static void handed_over(void)
{
    char credentials[HASP_CREDENTIALS_SIZE];
    struct hasp_options options;
    struct hasp_acquire_options acquire_options;
    struct hasp_lease lease;
    struct hasp_hold *hold;
    struct hasp_session *session = open_with(20000, 0), *other = open_one();
    hasp_acquire_options_init(&acquire_options);
    acquire_options.owner = "";
    acquire_options.hold_ms = 10000;
    EXPECT_IS(hasp_acquire(session, "ho", &acquire_options, &hold), 0);
    uint64_t token = hasp_token(hold), id = hasp_session_id(session);
    EXPECT_IS(hasp_look(hold, &lease), 0);
    EXPECT(lease.remaining_ns > 0 && lease.sure_ns >= lease.remaining_ns);
    EXPECT(lease.most_ns == UINT64_C(8000000000) && !lease.is_refused);
    EXPECT_IS(hasp_credentials(session, credentials), 0);
    EXPECT_IS(hasp_detach(session), 0);
    EXPECT_IS(acquire(other, "ho", 0, &hold), HASP_NOT_ACQUIRED);
    hasp_options_init(&options);
    options.credentials = "1:00112233445566778899aabbccddeeff";
    EXPECT_IS(hasp_open(&options, &session), HASP_ELOST);
    options.credentials = credentials;
    EXPECT_IS(hasp_open(&options, &session), 0);
    EXPECT(hasp_session_id(session) == id);
    EXPECT(hasp_session_remaining(session) > UINT64_C(8000000000));
    EXPECT_IS(hasp_resume(session, "ho", "nobody", &hold), HASP_NOT_ACQUIRED);
    EXPECT_IS(hasp_resume(session, "ho", "", &hold), 0);
    EXPECT(hasp_token(hold) == token);
    EXPECT(hasp_remaining(hold) < UINT64_C(8000000000)); /* Its limit. */
    EXPECT_IS(hasp_convert(hold, HASP_SHARED, NULL), 0);
    EXPECT_IS(hasp_release(hold), 0);
    expect_free(other, "ho");
    hasp_close(session);
    hasp_close(other);
}

/* The session is ended by an operator. */
static void blacklisted(void)
{
    struct hasp_options options;
    struct hasp_event event;
    struct hasp_session *session;
    struct hasp_hold *hold, *other;
    hasp_options_init(&options);
    options.name = "naughty";
    options.ttl_ms = 1000;
    EXPECT_IS(hasp_open(&options, &session), 0);
    EXPECT_IS(hasp_acquire(session, "bl", NULL, &hold), 0);
    say("blacklist naughty");
    EXPECT_IS(acquire(session, "bl2", 0, &other), HASP_EBLACKLISTED);
    EXPECT(next_event(session, 5000, &event));
    EXPECT(event.kind == HASP_EVENT_LOST);
    hasp_close(session);
    EXPECT_IS(hasp_open(&options, &session), HASP_EBLACKLISTED);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenarios[] = {
        {"basic", basic},
        {"modes", modes},
        {"reentrant", reentrant},
        {"limit_of_re_entry", limit_of_re_entry},
        {"many", many},
        {"threads", threads},
        {"deadlock", deadlock},
        {"timed", timed},
        {"interrupt", interrupt},
        {"events", events},
        {"limit_after_wait", limit_after_wait},
        {"callback", callback},
        {"alive", alive},
        {"forks", forks},
        {"misuse", misuse},
        {"failover", failover},
        {"blackout", blackout},
        {"unknown", unknown},
        {"stopped", stopped},
        {"late_grant", late_grant},
        {"frozen", frozen},
        {"slow_callback", slow_callback},
        {"handed_over", handed_over},
        {"blacklisted", blacklisted},
        {"refused", refused},
        {"expired", expired},
    };
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (argc == 2 && strcmp(argv[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            return 0;
        }
    }
    fprintf(stderr, "no such scenario\n");
    return 2;
}
