/* SPDX-License-Identifier: MIT */

/* A clock that runs too fast or too slow: for LD_PRELOAD, in tests on real
 * processes.
 *
 * $ODD_CLOCK is the rate, 1.1 for a clock that is a tenth too fast. It holds of
 * CLOCK_MONOTONIC and CLOCK_BOOTTIME, from the moment at which the process
 * asked first, and of waiting by them: epoll, semaphores, conditions. Wall
 * clocks are as they are. */

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define NS_PER_S 1000000000LL
/* No machine has such an uptime; a wall clock shows more. */
#define UPTIME_MAX_S 1000000000LL

typedef int clock_fn(clockid_t clock, struct timespec *now);

static double rate = 1.0;
static int64_t start_ns;
static clock_fn *real_clock;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int64_t as_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * NS_PER_S + time->tv_nsec;
}

static struct timespec as_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

static void begin(void)
{
    const char *text = getenv("ODD_CLOCK");
    struct timespec now;
    *(void **)&real_clock = dlsym(RTLD_NEXT, "clock_gettime");
    real_clock(CLOCK_MONOTONIC, &now);
    start_ns = as_ns(&now);
    if (text != NULL && strtod(text, NULL) > 0) {
        rate = strtod(text, NULL);
    }
}

/* The odd clock at a moment of the true one, and the reverse. */
static struct timespec shown(const struct timespec *real)
{
    double since = (double)(as_ns(real) - start_ns);
    return as_timespec(start_ns + (int64_t)(since * rate));
}

static struct timespec real_of(const struct timespec *shown_at)
{
    double since = (double)(as_ns(shown_at) - start_ns);
    return as_timespec(start_ns + (int64_t)(since / rate));
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *now)
{
    pthread_once(&once, begin);
    int result = real_clock(clock, now);
    if (result == 0 &&
        (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ||
         clock == CLOCK_BOOTTIME)) {
        *now = shown(now);
    }
    return result;
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int count,
                       int timeout, const sigset_t *mask)
{
    int (*real)(int, struct epoll_event *, int, int, const sigset_t *);
    *(void **)&real = dlsym(RTLD_NEXT, "epoll_pwait");
    pthread_once(&once, begin);
    if (timeout > 0) {
        timeout = (int)(timeout / rate);
    }
    return real(fd, events, count, timeout, mask);
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int count,
                      int timeout)
{
    return epoll_pwait(fd, events, count, timeout, NULL);
}

EXPORT int sem_clockwait(sem_t *semaphore, clockid_t clock,
                         const struct timespec *until)
{
    int (*real)(sem_t *, clockid_t, const struct timespec *);
    *(void **)&real = dlsym(RTLD_NEXT, "sem_clockwait");
    pthread_once(&once, begin);
    struct timespec when = clock == CLOCK_MONOTONIC ? real_of(until) : *until;
    return real(semaphore, clock, &when);
}

/* The clock of a condition is not known here: a moment of the uptime can only
 * be one of CLOCK_MONOTONIC. */
EXPORT int pthread_cond_timedwait(pthread_cond_t *condition,
                                  pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    *(void **)&real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait",
                             "GLIBC_2.3.2");
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    }
    pthread_once(&once, begin);
    struct timespec when = until->tv_sec < UPTIME_MAX_S ? real_of(until)
                                                        : *until;
    return real(condition, mutex, &when);
}
