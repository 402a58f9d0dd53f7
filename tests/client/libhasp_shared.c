/* SPDX-License-Identifier: MIT */

/* Sessions of one process that share a connection: one scenario by name, as in
 * libhasp.c. Exits 0 if everything expected happened. */

#include <hasp/hasp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define SESSIONS 50
#define LOCKS 5

/* Lets the test act: it answers with a line. */
static void say(const char *word)
{
    char line[64];
    printf("%s\n", word);
    fflush(stdout);
    EXPECT(fgets(line, sizeof line, stdin) != NULL);
}

static struct hasp_session *open_lingering(uint32_t ttl_ms, uint32_t linger_ms)
{
    struct hasp_options options;
    struct hasp_session *session = NULL;
    hasp_options_init(&options);
    options.ttl_ms = ttl_ms;
    options.linger_ms = linger_ms;
    EXPECT(hasp_open(&options, &session) == 0);
    return session;
}

static struct hasp_session *open_as(const char *name, uint32_t ttl_ms,
                                    bool own_connection)
{
    struct hasp_options options;
    struct hasp_session *session = NULL;
    hasp_options_init(&options);
    options.name = name;
    options.ttl_ms = ttl_ms;
    options.own_connection = own_connection;
    EXPECT(hasp_open(&options, &session) == 0);
    return session;
}

static int acquire(struct hasp_session *session, const char *name,
                   uint64_t wait_ms, struct hasp_hold **ret_hold)
{
    struct hasp_acquire_options options;
    hasp_acquire_options_init(&options);
    options.wait_ms = wait_ms;
    return hasp_acquire(session, name, &options, ret_hold);
}

/* --- Sharing -------------------------------------------------------------- */

static void keys(void)
{
    struct hasp_session *one = open_as("one", 0, false);
    EXPECT(count_connections() == 1);
    struct hasp_session *two = open_as("two", 0, false);
    EXPECT(count_connections() == 1);
    struct hasp_session *shorter = open_as("shorter", 1000, false);
    EXPECT(count_connections() == 2);
    struct hasp_session *lingering = open_lingering(0, 1000);
    struct hasp_session *own = open_as("own", 0, true);
    struct hasp_session *last = open_as("last", 0, true);
    EXPECT(count_connections() == 5);
    hasp_close(one);
    hasp_close(own);
    hasp_close(lingering);
    EXPECT(count_connections() == 3);
    struct hasp_hold *hold;
    EXPECT(acquire(two, "keys", 0, &hold) == 0);
    hasp_close(two);
    EXPECT(acquire(last, "keys", 0, &hold) == 0);
    EXPECT(count_connections() == 2);
    hasp_close(last);
    hasp_close(shorter);
    EXPECT(count_connections() == 0);
}

/* --- Many ----------------------------------------------------------------- */

static atomic_int inside[LOCKS];
static atomic_int steps;
static atomic_bool is_over;

/* Opens, holds and closes repeatedly, with one of a few locks. */
static void *work(void *data)
{
    unsigned number = (unsigned)(size_t)data;
    struct hasp_session *session = open_as("many", 4000, false);
    for (unsigned i = 0; !atomic_load(&is_over); i++) {
        char name[32];
        struct hasp_hold *hold;
        unsigned lock = (number + i) % LOCKS;
        snprintf(name, sizeof name, "many/%u", lock);
        int error = acquire(session, name, i % 7 == 6 ? 1 : 20000, &hold);
        EXPECT(error == 0 || (error == HASP_NOT_ACQUIRED && i % 7 == 6));
        if (error == 0) {
            EXPECT(atomic_fetch_add(&inside[lock], 1) == 0);
            EXPECT(hasp_guard(hold, 1) == 0);
            atomic_fetch_sub(&inside[lock], 1);
            EXPECT(hasp_release(hold) == 0);
            atomic_fetch_add(&steps, 1);
        }
        if (i % 10 == 9) {
            hasp_close(session);
            session = open_as("many", 4000, false);
        }
    }
    hasp_close(session);
    return NULL;
}

static void see_steps(const char *what, int count)
{
    int until = atomic_load(&steps) + count;
    for (int i = 0; atomic_load(&steps) < until; i++) {
        if (i == 3000) {
            fprintf(stderr, "%s: they do not go on\n", what);
            exit(1);
        }
        poll(NULL, 0, 10);
    }
    EXPECT(count_connections() <= 2); /* One to each node that was silent. */
}

static void many(void)
{
    pthread_t thread[SESSIONS];
    struct hasp_session *first = open_as("many", 4000, false);
    EXPECT(count_connections() == 1);
    for (size_t i = 0; i < SESSIONS; i++) {
        EXPECT(pthread_create(&thread[i], NULL, work, (void *)i) == 0);
    }
    see_steps("at first", 2 * SESSIONS);
    say("freeze 0");
    see_steps("a node is frozen", 2 * SESSIONS);
    say("resume all");
    say("freeze 1");
    see_steps("another node is frozen", 2 * SESSIONS);
    say("resume all");
    say("kill leader");
    see_steps("the leader is dead", 2 * SESSIONS);
    atomic_store(&is_over, true);
    for (size_t i = 0; i < SESSIONS; i++) {
        pthread_join(thread[i], NULL);
    }
    EXPECT(count_connections() == 1);
    hasp_close(first);
    EXPECT(count_connections() == 0);
}

/* --- Neighbours ----------------------------------------------------------- */

struct waiter {
    struct hasp_session *session;
    struct hasp_hold *hold;
    int error;
};

static void *wait_for_it(void *data)
{
    struct waiter *waiter = data;
    waiter->error = acquire(waiter->session, "near", 20000, &waiter->hold);
    return NULL;
}

static void expect_no_event(struct hasp_session *session)
{
    struct hasp_event event;
    EXPECT(!hasp_event_next(session, &event));
}

/* One is refused, one gives up, one closes: the others are not affected. */
static void neighbours(void)
{
    pthread_t thread;
    struct hasp_hold *held, *hold;
    struct hasp_event event;
    struct hasp_session *holder = open_as("holder", 2000, false);
    struct waiter waiter = {.session = open_as("waiter", 2000, false)};
    struct hasp_session *bad = open_as("bad", 2000, false);
    struct hasp_session *hasty = open_as("hasty", 2000, false);
    EXPECT(acquire(holder, "near", 0, &held) == 0);
    EXPECT(acquire(bad, "bad", 0, &hold) == 0);
    EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiter) == 0);
    say("queue near 1");
    EXPECT(acquire(hasty, "near", 1, &hold) == HASP_NOT_ACQUIRED);
    EXPECT(acquire(hasty, "near", 50, &hold) == HASP_NOT_ACQUIRED);
    hasp_close(hasty);
    say("blacklist bad");
    int fd = hasp_event_fd(bad);
    EXPECT(poll(&(struct pollfd){fd, POLLIN, 0}, 1, 5000) == 1);
    EXPECT(hasp_event_next(bad, &event) && event.kind == HASP_EVENT_LOST);
    EXPECT(acquire(bad, "bad", 0, &hold) == HASP_ELOST);
    EXPECT(count_connections() == 1);
    EXPECT(hasp_guard(held, 1) == 0);
    hasp_close(bad);
    EXPECT(hasp_release(held) == 0);
    pthread_join(thread, NULL);
    EXPECT(waiter.error == 0 && hasp_guard(waiter.hold, 1) == 0);
    expect_no_event(holder);
    expect_no_event(waiter.session);
    EXPECT(count_connections() == 1);
    hasp_close(holder);
    hasp_close(waiter.session);
}

/* Each message goes only to the session that it names. */
static void messages(void)
{
    struct hasp_event event;
    struct hasp_hold *hold;
    uint64_t count;
    struct hasp_session *one = open_as("one", 0, false);
    struct hasp_session *two = open_as("two", 0, false);
    EXPECT(acquire(one, "asked-for", 0, &hold) == 0);
    EXPECT(hasp_please(two, "asked-for", "soon", &count) == 0 && count == 1);
    int fd = hasp_event_fd(one);
    EXPECT(poll(&(struct pollfd){fd, POLLIN, 0}, 1, 5000) == 1);
    EXPECT(hasp_event_next(one, &event) && event.kind == HASP_EVENT_PLEASE);
    EXPECT(strcmp(event.text, "soon") == 0);
    expect_no_event(one);
    expect_no_event(two);
    hasp_close(two);
    hasp_close(one);
}

/* A session that is handed over by a process which keeps other sessions on the
 * connection lingers no longer than its limit: nobody resumes this one. */
static void lingers(void)
{
    struct hasp_session *other = open_lingering(20000, 500);
    struct hasp_session *left = open_lingering(20000, 500);
    struct hasp_hold *hold;
    EXPECT(count_connections() == 1);
    EXPECT(acquire(left, "lingers", 0, &hold) == 0);
    EXPECT(hasp_detach(left) == 0);
    EXPECT(acquire(other, "lingers", 5000, &hold) == 0);
    EXPECT(count_connections() == 1);
    hasp_close(other);
}

/* The node takes two sessions on a connection. */
static void full(void)
{
    struct hasp_session *session[5];
    struct hasp_hold *hold;
    for (int i = 0; i < 5; i++) {
        session[i] = open_as("full", 0, false);
        EXPECT(acquire(session[i], "full", 0, &hold) == 0);
        EXPECT(hasp_release(hold) == 0);
        EXPECT(count_connections() == i / 2 + 1);
    }
    for (int i = 0; i < 5; i++) {
        hasp_close(session[i]);
    }
    EXPECT(count_connections() == 0);
}

/* --- Fork ----------------------------------------------------------------- */

/* A child has copies of its parent's sessions. It must not use their
 * connection, and makes its own. */
static void be_child(struct hasp_session **session)
{
    struct hasp_hold *hold;
    struct hasp_session *own = open_as("child", 0, false);
    EXPECT(count_connections() == 2);
    EXPECT(acquire(own, "in-the-child", 0, &hold) == 0);
    for (int i = 0; i < 3; i++) {
        EXPECT(acquire(session[i], "forked", 0, &hold) == HASP_EFORKED);
        hasp_close(session[i]);
    }
    EXPECT(count_connections() == 1);
    hasp_close(own);
    EXPECT(count_connections() == 0);
}

static void forks(void)
{
    struct hasp_session *session[3];
    struct hasp_hold *hold[3];
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "forked/%d", i);
        session[i] = open_as("parent", 0, false);
        EXPECT(acquire(session[i], name, 0, &hold[i]) == 0);
    }
    for (int round = 0; round < 5; round++) {
        int status;
        pid_t pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0) {
            be_child(session);
            _exit(0);
        }
        EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    }
    EXPECT(count_connections() == 1);
    for (int i = 0; i < 3; i++) {
        EXPECT(hasp_guard(hold[i], 1) == 0);
        EXPECT(hasp_release(hold[i]) == 0);
        hasp_close(session[i]);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenarios[] = {{"keys", keys},
                     {"many", many},
                     {"neighbours", neighbours},
                     {"messages", messages},
                     {"lingers", lingers},
                     {"full", full},
                     {"forks", forks}};
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (argc == 2 && strcmp(argv[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            return 0;
        }
    }
    fprintf(stderr, "no such scenario\n");
    return 2;
}
