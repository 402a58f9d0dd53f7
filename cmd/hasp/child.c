/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/hasp/tool.h"

/* The lease is looked at at least so often, whatever was computed. */
#define LOOK_NS (500 * NS_PER_MS)

static void become_command(struct child *child, int error_fd)
    __attribute__((noreturn));
static void take_signals(struct child *child);
static void take_end(struct child *child);
static void act_on_lease(struct child *child);
static void set_timer(struct child *child, const struct keeper_view *view);

void child_signals(sigset_t *ret_signals)
{
    sigemptyset(ret_signals);
    sigaddset(ret_signals, SIGTERM);
    sigaddset(ret_signals, SIGINT);
    sigaddset(ret_signals, SIGHUP);
    sigaddset(ret_signals, SIGQUIT);
    sigaddset(ret_signals, SIGUSR1);
    sigaddset(ret_signals, SIGUSR2);
    sigaddset(ret_signals, SIGCHLD);
}

static void signal_group(const struct child *child, int number)
{
    /* Before the command's own setpgid() there is no such group yet. */
    if (kill(-child->pid, number) != 0) {
        kill(child->pid, number);
    }
}

/* Makes 'group' the one that reads from the terminal. We are in the background
 * when it is given back, which is what SIGTTOU would stop us for. */
static void give_terminal(pid_t group)
{
    sigset_t ttou, before;
    sigemptyset(&ttou);
    sigaddset(&ttou, SIGTTOU);
    sigprocmask(SIG_BLOCK, &ttou, &before);
    tcsetpgrp(STDIN_FILENO, group);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

int child_start(struct child *child)
{
    int error_pipe[2], code = 0;
    child->has_terminal = tcgetpgrp(STDIN_FILENO) == getpgrp();
    child->timer_fd = timerfd_create(CLOCK_BOOTTIME,
                                     TFD_CLOEXEC | TFD_NONBLOCK);
    if (child->timer_fd < 0 || pipe2(error_pipe, O_CLOEXEC) != 0) {
        return tool_fail(EX_OSERR, "cannot start '%s': %s", child->argv[0],
                         strerror(errno));
    }
    fflush(stdout);
    child->pid = fork();
    if (child->pid == 0) {
        become_command(child, error_pipe[1]);
    }
    code = child->pid < 0 ? errno : 0;
    close(error_pipe[1]);
    if (child->pid > 0) {
        /* In both processes, since either may come first. */
        setpgid(child->pid, child->pid);
        if (child->has_terminal) {
            give_terminal(child->pid);
        }
        /* The pipe closes with the exec; bytes in it tell why there was none.
         */
        if (read(error_pipe[0], &code, sizeof code) == sizeof code) {
            waitpid(child->pid, NULL, 0);
            if (child->has_terminal) {
                give_terminal(getpgrp());
            }
        }
    }
    close(error_pipe[0]);
    if (code != 0) {
        close(child->timer_fd);
        return tool_fail(code == ENOENT ? 127 : 126, "cannot run '%s': %s",
                         child->argv[0], strerror(code));
    }
    return 0;
}

int child_watch(struct child *child)
{
    while (!child->has_ended) {
        act_on_lease(child);
        struct pollfd fds[3] = {
            {.fd = child->signal_fd, .events = POLLIN},
            {.fd = child->timer_fd, .events = POLLIN},
            {.fd = keeper_fd(child->keeper), .events = POLLIN},
        };
        poll(fds, 3, -1);
        uint64_t ignored;
        for (int i = 1; i < 3; i++) {
            if (fds[i].revents != 0 &&
                read(fds[i].fd, &ignored, sizeof ignored) < 0) {
                continue; /* Another wake-up will come. */
            }
        }
        if (fds[0].revents != 0) {
            take_signals(child);
        }
    }
    if (child->has_terminal) {
        give_terminal(getpgrp());
    }
    close(child->timer_fd);
    if (child->was_lost) {
        return tool_fail(EXIT_LOCK_LOST,
                         "the lock '%s' was lost, the command did not run "
                         "under it to its end",
                         child->name);
    }
    return WIFEXITED(child->status) ? WEXITSTATUS(child->status)
                                    : 128 + WTERMSIG(child->status);
}

static void become_command(struct child *child, int error_fd)
{
    pid_t parent = getppid();
    setpgid(0, 0);
    if (child->has_terminal) {
        give_terminal(getpid());
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(128 + SIGKILL); /* It has died in between. */
    }
    sigprocmask(SIG_SETMASK, &child->mask, NULL);
    execvpe(child->argv[0], child->argv, child->environment);
    int code = errno;
    ssize_t ignored = write(error_fd, &code, sizeof code);
    (void)ignored;
    _exit(code == ENOENT ? 127 : 126);
}

static void take_signals(struct child *child)
{
    struct signalfd_siginfo info;
    while (read(child->signal_fd, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD) {
            take_end(child);
        } else if (!child->has_ended) {
            signal_group(child, number);
        }
    }
}

/* Ctrl-Z stopped the command: the shell gets its terminal, we stop as well.
 * While we are stopped nobody sends heartbeats; that is safe, for the command
 * stands still, too, and goes on only if the lease is held still. */
static void stop_along(struct child *child)
{
    struct keeper_view view;
    give_terminal(getpgrp());
    kill(getpid(), SIGSTOP);
    if (tcgetpgrp(STDIN_FILENO) == getpgrp()) {
        give_terminal(child->pid);
    }
    keeper_view(child->keeper, &view);
    if (view.state == LEASE_HELD || child->on_lost == ON_LOST_IGNORE) {
        signal_group(child, SIGCONT);
    }
}

/* The command has ended and is not reaped yet, so its group's number still is
 * its own. */
static void judge_end(struct child *child)
{
    struct keeper_view view;
    keeper_view(child->keeper, &view);
    child->has_ended = true;
    if (child->on_lost != ON_LOST_IGNORE) {
        child->was_lost = child->is_lost || child->is_termed ||
                          view.state != LEASE_HELD ||
                          atomic_load(child->hold_has_ended);
    }
    if (child->was_lost) {
        /* What the command has left behind in its group must not live on. */
        kill(-child->pid, SIGKILL);
    }
}

static void take_end(struct child *child)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)child->pid, &info,
                   WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0) {
            return;
        }
        bool has_stopped = info.si_code == CLD_STOPPED;
        if (!has_stopped) {
            judge_end(child);
        }
        waitpid(child->pid, &child->status, WUNTRACED);
        if (!has_stopped) {
            return;
        }
        if (!child->is_frozen && child->has_terminal) {
            stop_along(child);
        }
    }
}

static void say(const struct child *child, const char *text,
                const struct keeper_view *view)
{
    if (!child->is_quiet) {
        tool_fail(0, "the lock '%s' %s%s%s", child->name, text,
                  view->why[0] != '\0' ? ": " : "", view->why);
    }
}

static void act_on_loss(struct child *child, const struct keeper_view *view)
{
    if (child->is_lost) {
        return;
    }
    child->is_lost = true;
    if (child->on_lost == ON_LOST_IGNORE) {
        say(child, "is lost, the command goes on without it", view);
        return;
    }
    signal_group(child, SIGKILL);
    say(child, "is lost, the command was killed", view);
}

static void freeze(struct child *child, bool is_frozen,
                   const struct keeper_view *view)
{
    if (child->is_frozen != is_frozen) {
        child->is_frozen = is_frozen;
        signal_group(child, is_frozen ? SIGSTOP : SIGCONT);
        say(child,
            is_frozen ? "is in jeopardy, the command is frozen"
                      : "is safe again, the command goes on",
            view);
    }
}

static void act_on_lease(struct child *child)
{
    struct keeper_view view;
    keeper_view(child->keeper, &view);
    bool is_near = view.remaining_ns <= child->grace_ns || view.is_refused;
    bool is_due = view.remaining_ns <= child->margin_ns;
    if (view.state == LEASE_LOST || atomic_load(child->hold_has_ended)) {
        act_on_loss(child, &view);
    } else {
        switch (child->on_lost) {
        case ON_LOST_TERM:
            if (is_near && !child->is_termed) {
                child->is_termed = true;
                signal_group(child, SIGTERM);
                signal_group(child, SIGCONT);
                say(child, "cannot be kept, the command is being stopped",
                    &view);
            }
            if (is_due) {
                act_on_loss(child, &view);
            }
            break;
        case ON_LOST_KILL:
            if (is_due) {
                act_on_loss(child, &view);
            }
            break;
        case ON_LOST_FREEZE:
            freeze(child, is_near, &view);
            if (view.sure_ns <= child->margin_ns) {
                act_on_loss(child, &view);
            }
            break;
        case ON_LOST_IGNORE:
            break;
        }
    }
    set_timer(child, &view);
}

/* Due at the next of the moments at which act_on_lease() would do something. */
static void set_timer(struct child *child, const struct keeper_view *view)
{
    uint64_t next_ns = LOOK_NS;
    uint64_t limits_ns[] = {child->grace_ns, child->margin_ns, 0};
    for (size_t i = 0; i < 3; i++) {
        if (view->remaining_ns > limits_ns[i] &&
            view->remaining_ns - limits_ns[i] < next_ns) {
            next_ns = view->remaining_ns - limits_ns[i];
        }
        if (view->sure_ns > limits_ns[i] &&
            view->sure_ns - limits_ns[i] < next_ns) {
            next_ns = view->sure_ns - limits_ns[i];
        }
    }
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(next_ns / NS_PER_S),
                     .tv_nsec = (long)(next_ns % NS_PER_S) + 1}};
    if (when.it_value.tv_nsec >= (long)NS_PER_S) {
        when.it_value.tv_nsec = (long)NS_PER_S - 1;
    }
    timerfd_settime(child->timer_fd, 0, &when, NULL);
}
