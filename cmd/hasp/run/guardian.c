/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/run/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/minmax.h"
#include "client/clock.h"
#include "cmd/hasp/run/process_tree.h"

/* Parent and lease are checked at least this often. */
#define LOOK_NS (500 * NS_PER_MS)
/* Interval at first, while a command starts its processes. */
#define LOOK_FIRST_NS (10 * NS_PER_MS)
/* Delay of the deputy after the guardian, so that the command gets one TERM.
 * STOP and KILL may be sent twice, and are never late. */
#define DEPUTY_LATER_NS (20 * NS_PER_MS)

struct deadline {
    _Atomic uint64_t monotonic_ns;
    _Atomic uint64_t boottime_ns;
};

struct guardian_page {
    struct deadline first;
    struct deadline kill;
    atomic_bool has_warned;
    atomic_bool has_killed;
    atomic_bool is_alone;
    /* The guardian is dismissed and must not act. */
    atomic_bool is_over;
    _Atomic pid_t deputy;
};

struct guardian_watch {
    struct guardian_page *page;
    struct guardian_ward ward;
    pid_t run;
    int life_fd;
    int timer_fd;
    pid_t deputy; /* 0 in the deputy itself. */
    struct process_tree_roll roll;
};

static void guardian_begin(struct guardian_watch *watch)
    __attribute__((noreturn));

static void set_deadline(struct deadline *deadline, struct lease_clock at,
                         uint64_t time_ns)
{
    bool is_never = time_ns == GUARDIAN_NEVER;
    atomic_store(&deadline->monotonic_ns,
                 is_never ? GUARDIAN_NEVER : at.monotonic_ns + time_ns);
    atomic_store(&deadline->boottime_ns,
                 is_never ? GUARDIAN_NEVER : at.boottime_ns + time_ns);
}

int guardian_init(struct guardian *guardian)
{
    *guardian = (struct guardian){.life_fd = -1};
    void *page = mmap(NULL, sizeof *guardian->page, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return HASP_ENOMEM;
    }
    guardian->page = page;
    guardian_trust(guardian, (struct lease_clock){0}, GUARDIAN_NEVER,
                   GUARDIAN_NEVER);
    return 0;
}

int guardian_start(struct guardian *guardian, const struct guardian_ward *ward)
{
    int life[2];
    struct guardian_watch watch = {
        .page = guardian->page, .ward = *ward, .run = getpid()};
    if (pipe2(life, O_CLOEXEC) != 0) {
        return HASP_EIO;
    }
    watch.life_fd = life[0];
    guardian->pid = fork();
    if (guardian->pid == 0) {
        guardian_begin(&watch);
    }
    close(life[0]);
    if (guardian->pid < 0) {
        int code = errno;
        guardian->pid = 0;
        close(life[1]);
        errno = code;
        return HASP_EIO;
    }
    guardian->life_fd = life[1];
    return 0;
}

void guardian_trust(struct guardian *guardian, struct lease_clock at,
                    uint64_t first_ns, uint64_t kill_ns)
{
    set_deadline(&guardian->page->first, at, first_ns);
    set_deadline(&guardian->page->kill, at, kill_ns);
}

bool guardian_has_warned(const struct guardian *guardian)
{
    return atomic_load(&guardian->page->has_warned);
}

bool guardian_has_killed(const struct guardian *guardian)
{
    return atomic_load(&guardian->page->has_killed);
}

void guardian_forget_warning(struct guardian *guardian)
{
    atomic_store(&guardian->page->has_warned, false);
}

bool guardian_is_alone(const struct guardian *guardian)
{
    return atomic_load(&guardian->page->is_alone);
}

static void guardian_end(pid_t pid)
{
    if (pid != 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

void guardian_dismiss(struct guardian *guardian)
{
    atomic_store(&guardian->page->is_over, true);
    guardian_end(guardian->pid);
    guardian->pid = 0;
    guardian_end(atomic_exchange(&guardian->page->deputy, 0));
}

bool guardian_take_death(struct guardian *guardian, pid_t pid)
{
    pid_t deputy = pid;
    if (pid == guardian->pid) {
        guardian->pid = 0;
        return true;
    }
    return atomic_compare_exchange_strong(&guardian->page->deputy, &deputy, 0);
}

void guardian_done(struct guardian *guardian)
{
    if (guardian->page != NULL) {
        guardian_dismiss(guardian);
    }
    if (guardian->life_fd >= 0) {
        close(guardian->life_fd);
    }
    if (guardian->page != NULL) {
        munmap(guardian->page, sizeof *guardian->page);
    }
}

/* --- The guardian's process ----------------------------------------------- */

static uint64_t left_of(struct deadline *deadline, struct lease_clock now)
{
    uint64_t monotonic_ns = atomic_load(&deadline->monotonic_ns);
    uint64_t boottime_ns = atomic_load(&deadline->boottime_ns);
    if (monotonic_ns <= now.monotonic_ns || boottime_ns <= now.boottime_ns) {
        return 0;
    }
    monotonic_ns -= now.monotonic_ns;
    boottime_ns -= now.boottime_ns;
    return u64_min(monotonic_ns, boottime_ns);
}

/* True if SIGKILL has ended the whole family. */
static bool signal_family(const struct guardian_watch *watch, int number,
                          bool is_dead)
{
    struct process_tree tree = {.command = watch->ward.command,
                                .run = is_dead ? 0 : watch->run,
                                .run_id = watch->ward.run_id,
                                .roll = &watch->roll};
    if (number == SIGKILL) {
        return process_tree_kill(&tree);
    }
    if (number == SIGSTOP) {
        process_tree_signal(&tree, number);
    } else {
        kill(-watch->ward.command, number);
        kill(-watch->ward.command, SIGCONT);
    }
    return false;
}

/* No process believes in the lock: 'hasp run' is dead, and so is all that its
 * command has started. Otherwise the TTL decides. Returns on failure. */
static void guardian_report(const struct guardian_watch *watch)
{
    int fds[2];
    sigset_t none;
    if (watch->ward.report == NULL || pipe2(fds, O_CLOEXEC) != 0) {
        return;
    }
    size_t size = strlen(watch->ward.report_text);
    bool is_written = write(fds[1], watch->ward.report_text, size) ==
                      (ssize_t)size;
    close(fds[1]);
    if (is_written && dup2(fds[0], STDIN_FILENO) >= 0) {
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execv("/proc/self/exe", watch->ward.report);
    }
}

/* Closes inherited descriptors: connections must close with 'hasp run', and
 * the command's pipes must not be kept open here. */
static void guardian_let_go(struct guardian_watch *watch)
{
    int keep[2] = {watch->life_fd, watch->ward.go_fd};
    int low = keep[0] < keep[1] ? keep[0] : keep[1];
    int high = keep[0] < keep[1] ? keep[1] : keep[0];
    if (low > 3) {
        close_range(3, (unsigned)low - 1, 0);
    }
    if (high > low + 1) {
        close_range((unsigned)low + 1, (unsigned)high - 1, 0);
    }
    close_range((unsigned)high + 1, ~0U, 0);
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null_fd >= 0; fd++) {
        dup2(null_fd, fd);
    }
    (void)!chdir("/");
}

static void wait_until_due(const struct guardian_watch *watch, uint64_t left_ns)
{
    uint64_t ignored;
    struct pollfd fds[2] = {{.fd = watch->life_fd, .events = POLLIN},
                            {.fd = watch->timer_fd, .events = POLLIN}};
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(left_ns / NS_PER_S),
                     .tv_nsec = (long)(left_ns % NS_PER_S)}};
    if (when.it_value.tv_sec == 0 && when.it_value.tv_nsec == 0) {
        when.it_value.tv_nsec = 1;
    }
    timerfd_settime(watch->timer_fd, 0, &when, NULL);
    /* The time limit replaces a timer that could not be created. */
    poll(fds, 2, (int)(left_ns / NS_PER_MS) + 1);
    if (read(watch->timer_fd, &ignored, sizeof ignored) < 0) {
        ignored = 0; /* The timer is not due. */
    }
}

static bool is_run_dead(const struct guardian_watch *watch)
{
    struct pollfd life = {.fd = watch->life_fd, .events = POLLIN};
    return poll(&life, 1, 0) > 0;
}

static void look_after_deputy(const struct guardian_watch *watch)
{
    siginfo_t info = {0};
    /* The deputy stays a zombie, so that its pid is not reused before the
     * guardian is dismissed. */
    if (watch->deputy != 0 &&
        waitid(P_PID, (id_t)watch->deputy, &info,
               WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0) {
        atomic_store(&watch->page->is_alone, true);
    }
}

static uint64_t first_left_of(const struct guardian_watch *watch,
                              struct lease_clock now)
{
    if (atomic_load(&watch->page->has_warned)) {
        return GUARDIAN_NEVER;
    }
    if (watch->deputy == 0 && watch->ward.first_signal == SIGTERM) {
        now.monotonic_ns -= DEPUTY_LATER_NS;
        now.boottime_ns -= DEPUTY_LATER_NS;
    }
    return left_of(&watch->page->first, now);
}

static void guardian_guard(struct guardian_watch *watch)
{
    struct guardian_page *page = watch->page;
    struct process_tree tree = {.command = watch->ward.command,
                                .run = watch->run};
    uint64_t look_ns = LOOK_FIRST_NS;
    while (!atomic_load(&page->is_over)) {
        struct lease_clock now = client_clock_read();
        uint64_t first_ns = first_left_of(watch, now);
        uint64_t kill_ns = left_of(&page->kill, now);
        if (kill_ns == 0) {
            bool is_dead = is_run_dead(watch);
            atomic_store(&page->has_killed, true);
            if (signal_family(watch, SIGKILL, is_dead) && is_dead) {
                guardian_report(watch);
            }
            break;
        }
        if (first_ns == 0) {
            signal_family(watch, watch->ward.first_signal, false);
            /* Set after the signal: a process that sends SIGCONT because of it
             * must not be earlier than the signal. */
            atomic_store(&page->has_warned, true);
            continue;
        }
        uint64_t left_ns = u64_min(first_ns, kill_ns);
        process_tree_note(&tree, &watch->roll);
        wait_until_due(watch, u64_min(left_ns, look_ns));
        look_ns = look_ns * 2 < LOOK_NS ? look_ns * 2 : LOOK_NS;
        look_after_deputy(watch);
        if (is_run_dead(watch) && !atomic_load(&page->is_over)) {
            if (signal_family(watch, SIGKILL, true)) {
                guardian_report(watch);
            }
            break;
        }
    }
}

static void guardian_begin(struct guardian_watch *watch)
{
    struct guardian_page *page = watch->page;
    sigset_t all;
    setsid();
    prctl(PR_SET_NAME, PROCESS_TREE_GUARDIAN_NAME);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    guardian_let_go(watch);
    watch->deputy = fork();
    if (watch->deputy == 0) {
        setsid();
        close(watch->ward.go_fd);
    } else if (watch->deputy > 0) {
        atomic_store(&page->deputy, watch->deputy);
    }
    watch->timer_fd = timerfd_create(CLOCK_BOOTTIME,
                                     TFD_CLOEXEC | TFD_NONBLOCK);
    if (watch->deputy != 0) {
        if (watch->deputy < 0 ||
            left_of(&page->kill, client_clock_read()) == 0 ||
            write(watch->ward.go_fd, "", 1) != 1) {
            _exit(1); /* It is too late to begin, or unsafe. */
        }
        close(watch->ward.go_fd);
    }
    guardian_guard(watch);
    _exit(0);
}
