/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/run/child.h"

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

#include "base/minmax.h"
#include "cmd/hasp/run/process_tree.h"
#include "cmd/hasp/tool.h"

/* The lease is checked at least this often. */
#define LOOK_NS (500 * NS_PER_MS)

void child_signals(sigset_t *ret_signals)
{
    sigemptyset(ret_signals);
    sigaddset(ret_signals, SIGTERM);
    sigaddset(ret_signals, SIGINT);
    sigaddset(ret_signals, SIGHUP);
    sigaddset(ret_signals, SIGQUIT);
    sigaddset(ret_signals, SIGUSR1);
    sigaddset(ret_signals, SIGUSR2);
}

/* Handles the signals that matter while the command runs: its end, and job
 * control. */
static void take_more_signals(struct child *child)
{
    sigset_t signals;
    child_signals(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTSTP);
    sigaddset(&signals, SIGCONT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signalfd(child->signal_fd, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void signal_group(const struct child *child, int number)
{
    /* Before the command's own setpgid() there is no such group. */
    if (kill(-child->pid, number) != 0) {
        kill(child->pid, number);
    }
}

/* Makes 'group' the foreground group of the terminal. This process is in the
 * background when it takes the terminal back, and SIGTTOU would stop it. */
static void give_terminal(pid_t group)
{
    sigset_t ttou, before;
    sigemptyset(&ttou);
    sigaddset(&ttou, SIGTTOU);
    sigprocmask(SIG_BLOCK, &ttou, &before);
    tcsetpgrp(STDIN_FILENO, group);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* How long the lock can be trusted, counted from the returned time. The clock
 * is read first, so a pause in between makes the time shorter, never longer.
 * */
static struct lease_clock child_look(const struct child *child,
                                     struct hasp_lease *ret_lease)
{
    struct lease_clock at = client_clock_read();
    /* A hold that cannot be read counts as lost. */
    (void)!hasp_look(child->hold, ret_lease);
    return at;
}

static uint64_t child_less(uint64_t time_ns, uint64_t by_ns)
{
    return time_ns > by_ns ? time_ns - by_ns : 0;
}

/* Passes this process's plan to the guardian, which does each step a little
 * later, but in time. */
static void tell_guardian(struct child *child, struct lease_clock at,
                          const struct hasp_lease *lease)
{
    uint64_t reserve_ns = child->margin_ns / 2;
    uint64_t first_ns = GUARDIAN_NEVER;
    uint64_t kill_ns = child_less(lease->remaining_ns, reserve_ns);
    if (child->on_lost == ON_LOST_IGNORE) {
        kill_ns = GUARDIAN_NEVER;
    } else if (child->on_lost == ON_LOST_FREEZE) {
        first_ns = kill_ns;
        kill_ns = child_less(lease->sure_ns, reserve_ns);
    } else if (child->on_lost == ON_LOST_TERM && !child->is_termed) {
        first_ns = child_less(lease->remaining_ns, child->grace_ns / 4 * 3);
    }
    guardian_trust(&child->guardian, at, first_ns, kill_ns);
}

/* Starts the guardian, which enforces the deadline from then on. The command
 * must start only after that. */
static int start_guardian(struct child *child, int go[2])
{
    struct guardian_ward ward = {
        .command = child->pid,
        .run_id = child->run_id,
        .first_signal = child->on_lost == ON_LOST_FREEZE ? SIGSTOP : SIGTERM,
        .go_fd = go[1],
        .report = child->report,
        .report_text = child->report_text};
    struct hasp_lease lease;
    tell_guardian(child, child_look(child, &lease), &lease);
    int code = guardian_start(&child->guardian, &ward) == 0 ? 0 : errno;
    close(go[0]);
    close(go[1]);
    return code;
}

static void become_command(struct child *child, int error_fd, int go_fd)
{
    char go;
    pid_t parent = getppid();
    setpgid(0, 0);
    if (child->has_terminal && isatty(STDOUT_FILENO)) {
        give_terminal(getpid());
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(128 + SIGKILL); /* The parent died in between. */
    }
    int code = EAGAIN; /* There is no guardian, or the lease has run out. */
    if (read(go_fd, &go, 1) == 1) {
        sigprocmask(SIG_SETMASK, &child->mask, NULL);
        execvpe(child->argv[0], child->argv, child->environment);
        code = errno;
    }
    (void)!write(error_fd, &code, sizeof code);
    _exit(code == ENOENT ? 127 : 126);
}

/* Explains why the command did not start, such as 'hasp run A B -- COMMAND',
 * which does not mean two locks. */
static int fail_to_run(char *const *argv, int code)
{
    bool has_dashes = false;
    for (size_t i = 1; argv[i] != NULL; i++) {
        has_dashes |= strcmp(argv[i], "--") == 0;
    }
    if (code == ENOENT && has_dashes) {
        return tool_fail(127,
                         "cannot run '%s': %s; if it is a second lock: "
                         "hasp run NAME --with %s -- COMMAND",
                         argv[0], strerror(code), argv[0]);
    }
    return tool_fail(code == ENOENT ? 127 : 126, "cannot run '%s': %s", argv[0],
                     strerror(code));
}

int child_start(struct child *child)
{
    int error_pipe[2], go_pipe[2], code = 0;
    child->has_terminal = tcgetpgrp(STDIN_FILENO) == getpgrp();
    child->timer_fd = timerfd_create(CLOCK_BOOTTIME,
                                     TFD_CLOEXEC | TFD_NONBLOCK);
    if (child->timer_fd < 0 || guardian_init(&child->guardian) != 0 ||
        pipe2(error_pipe, O_CLOEXEC) != 0 || pipe2(go_pipe, O_CLOEXEC) != 0) {
        return tool_fail(EX_OSERR, "cannot start '%s': %s", child->argv[0],
                         strerror(errno));
    }
    prctl(PR_SET_NAME, PROCESS_TREE_RUN_NAME);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    take_more_signals(child);
    fflush(stdout);
    child->started_ns = client_now_ns();
    child->pid = fork();
    if (child->pid == 0) {
        close(go_pipe[1]);
        become_command(child, error_pipe[1], go_pipe[0]);
    }
    code = child->pid < 0 ? errno : 0;
    close(error_pipe[1]);
    if (child->pid > 0) {
        /* Parent and child both do this, since either can be first. */
        setpgid(child->pid, child->pid);
        code = start_guardian(child, go_pipe);
        /* exec closes the pipe; bytes in it are the errno of a failed exec. */
        if (code != 0 ||
            read(error_pipe[0], &code, sizeof code) == sizeof code) {
            kill(child->pid, SIGKILL);
            guardian_dismiss(&child->guardian);
            waitpid(child->pid, NULL, 0);
            if (child->has_terminal) {
                give_terminal(getpgrp());
            }
        }
    }
    close(error_pipe[0]);
    if (code != 0) {
        struct hasp_lease lease;
        child_look(child, &lease);
        guardian_done(&child->guardian);
        close(child->timer_fd);
        if (lease.remaining_ns == 0 && child->on_lost != ON_LOST_IGNORE) {
            return tool_fail(EXIT_LOCK_LOST,
                             "the lock %s was lost before the command could "
                             "be started",
                             child->name);
        }
        return fail_to_run(child->argv, code);
    }
    return 0;
}

/* Continues the command after a stop, if the lock is still held. */
static void child_wake(struct child *child)
{
    struct hasp_lease lease;
    child_look(child, &lease);
    if (!child->is_frozen &&
        (lease.remaining_ns > 0 || child->on_lost == ON_LOST_IGNORE)) {
        signal_group(child, SIGCONT);
    }
}

/* Ctrl-Z stopped the command: give the terminal to the shell, and stop as
 * well. While we are stopped nobody sends heartbeats. That is safe: the
 * command is stopped, too, and is continued only if the lease is still held.
 * */
static void stop_along(struct child *child)
{
    child->stops_along = false;
    if (child->has_terminal) {
        give_terminal(getpgrp());
    }
    kill(getpid(), SIGSTOP);
    if (child->has_terminal && tcgetpgrp(STDIN_FILENO) == getpgrp()) {
        give_terminal(child->pid);
    }
    child_wake(child);
}

static void take_stop(struct child *child, int number)
{
    if (child->is_frozen || guardian_has_warned(&child->guardian)) {
        return;
    }
    bool wants_terminal = number == SIGTTIN || number == SIGTTOU;
    if (wants_terminal && child->has_terminal &&
        tcgetpgrp(STDIN_FILENO) == getpgrp()) {
        give_terminal(child->pid);
        child_wake(child);
    } else if (child->has_terminal || child->stops_along) {
        stop_along(child);
    }
}

static struct process_tree family_of(const struct child *child)
{
    return (struct process_tree){
        .command = child->pid, .run = getpid(), .run_id = child->run_id};
}

/* Handles the end of the command. It is not reaped yet, so the id of its group
 * cannot be reused. */
static void take_end(struct child *child)
{
    struct hasp_lease lease;
    child_look(child, &lease);
    child->has_ended = true;
    if (child->on_lost != ON_LOST_IGNORE) {
        child->was_lost = child->is_lost || child->is_termed ||
                          child->unguarded_ns != 0 || lease.remaining_ns == 0 ||
                          guardian_has_killed(&child->guardian) ||
                          (child->on_lost == ON_LOST_TERM &&
                           guardian_has_warned(&child->guardian));
    }
    if (child->was_lost || child->is_late) {
        /* Background processes of the command must not survive the lost lock.
         * */
        struct process_tree tree = family_of(child);
        child->has_survivors = !process_tree_kill(&tree);
    }
    guardian_dismiss(&child->guardian);
}

/* Kills the command: without its guardian it could outlive its lock. */
static void take_guardian_death(struct child *child)
{
    if (child->on_lost == ON_LOST_IGNORE || child->unguarded_ns != 0 ||
        guardian_has_killed(&child->guardian)) {
        return;
    }
    child->unguarded_ns = client_now_ns();
    tool_fail(0, "the guardian of %s was killed; the command is being stopped",
              child->name);
}

/* Handles the ends of the command, of its guardian, and of orphans, which this
 * process inherits. */
static void take_ends(struct child *child)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) ==
               0 &&
           info.si_pid != 0) {
        bool has_stopped = info.si_code == CLD_STOPPED;
        bool is_command = info.si_pid == child->pid;
        if (is_command && !has_stopped) {
            take_end(child);
        }
        int status = 0;
        waitpid(info.si_pid, &status, WUNTRACED | WNOHANG);
        if (is_command && has_stopped) {
            take_stop(child, info.si_status);
        } else if (is_command) {
            child->status = status;
            return;
        } else if (!has_stopped &&
                   guardian_take_death(&child->guardian, info.si_pid)) {
            take_guardian_death(child);
        }
        info.si_pid = 0;
    }
}

static void child_take_signals(struct child *child)
{
    struct signalfd_siginfo info;
    while (read(child->signal_fd, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD) {
            take_ends(child);
        } else if (child->has_ended) {
            continue;
        } else if (number == SIGCONT) {
            child_wake(child);
        } else {
            child->stops_along |= number == SIGTSTP;
            signal_group(child, number);
        }
    }
}

/* Handles what other threads have learnt about the holds. */
static void take_events(struct child *child)
{
    struct hasp_event event;
    while (hasp_event_next(child->session, &event)) {
        if (event.kind == HASP_EVENT_LOST && event.name[0] != '\0') {
            tool_fail(0, "the hold of '%s' has ended: %s", event.name,
                      event.text);
        } else if (event.kind == HASP_EVENT_NOTICE) {
            tool_fail(0, "%s", event.text);
        } else if (event.kind == HASP_EVENT_PLEASE && !child->is_quiet) {
            tool_fail(0, "a client asks you to release '%s'%s%s", event.name,
                      event.text[0] != '\0' ? ": " : "", event.text);
        }
    }
}

static void child_say(const struct child *child, const char *text,
                      const struct hasp_lease *lease)
{
    if (!child->is_quiet) {
        tool_fail(0, "the lock %s %s%s%s", child->name, text,
                  lease->why[0] != '\0' ? ": " : "", lease->why);
    }
}

static void act_on_loss(struct child *child, const struct hasp_lease *lease)
{
    if (child->is_lost) {
        return;
    }
    child->is_lost = true;
    if (child->on_lost == ON_LOST_IGNORE) {
        child_say(child, "is lost; the command continues without it", lease);
        return;
    }
    struct process_tree tree = family_of(child);
    process_tree_signal(&tree, SIGKILL);
    child_say(child,
              child->unguarded_ns != 0
                  ? "has no guardian; the command was killed"
                  : "is lost; the command was killed",
              lease);
}

static void act_on_term(struct child *child, const struct hasp_lease *lease,
                        bool is_near, bool is_due)
{
    if (guardian_has_warned(&child->guardian)) {
        child->is_termed = true;
    }
    if (is_near && !child->is_termed) {
        child->is_termed = true;
        signal_group(child, SIGTERM);
        signal_group(child, SIGCONT);
        child_say(child, "cannot be kept; the command is being stopped", lease);
    }
    if (is_due) {
        act_on_loss(child, lease);
    }
}

static void act_on_freeze(struct child *child, const struct hasp_lease *lease,
                          bool is_near)
{
    struct process_tree tree = family_of(child);
    bool was_frozen = child->is_frozen || guardian_has_warned(&child->guardian);
    if (child->unguarded_ns != 0 || lease->sure_ns <= child->margin_ns) {
        act_on_loss(child, lease);
        return;
    }
    child->is_frozen = is_near;
    if (is_near && !was_frozen) {
        process_tree_signal(&tree, SIGSTOP);
        child_say(child, "is in jeopardy; the command is frozen", lease);
    } else if (!is_near && was_frozen) {
        guardian_forget_warning(&child->guardian);
        process_tree_signal(&tree, SIGCONT);
        child_say(child, "is safe again; the command continues", lease);
    }
}

/* How long the command has run. */
static uint64_t run_ns(const struct child *child)
{
    return client_now_ns() - child->started_ns;
}

static void act_on_limit(struct child *child)
{
    if (child->limit_ns == 0 || child->is_late ||
        run_ns(child) < child->limit_ns) {
        return;
    }
    struct process_tree tree = family_of(child);
    child->is_late = true;
    process_tree_signal(&tree, SIGKILL);
}

/* Sets the timer to the next time at which act_on_lease() has to act. */
static void child_set_timer(struct child *child, const struct hasp_lease *lease)
{
    uint64_t next_ns = LOOK_NS;
    uint64_t limits_ns[] = {child->grace_ns, child->margin_ns, 0};
    if (child->limit_ns != 0 && !child->is_late) {
        next_ns = u64_min(next_ns, child_less(child->limit_ns, run_ns(child)));
    }
    for (size_t i = 0; i < 3; i++) {
        if (lease->remaining_ns > limits_ns[i] &&
            lease->remaining_ns - limits_ns[i] < next_ns) {
            next_ns = lease->remaining_ns - limits_ns[i];
        }
        if (lease->sure_ns > limits_ns[i] &&
            lease->sure_ns - limits_ns[i] < next_ns) {
            next_ns = lease->sure_ns - limits_ns[i];
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

static void act_on_lease(struct child *child)
{
    struct hasp_lease lease;
    struct lease_clock at = child_look(child, &lease);
    tell_guardian(child, at, &lease);
    if (guardian_is_alone(&child->guardian)) {
        take_guardian_death(child);
    }
    uint64_t alone_ns = child->unguarded_ns != 0
                            ? client_now_ns() - child->unguarded_ns
                            : 0;
    bool is_alone = child->unguarded_ns != 0;
    bool is_near = lease.remaining_ns <= child->grace_ns || lease.is_refused ||
                   is_alone;
    bool is_due = lease.remaining_ns <= child->margin_ns ||
                  (is_alone && (alone_ns >= child->grace_ns ||
                                child->on_lost != ON_LOST_TERM));
    if (lease.sure_ns == 0) {
        act_on_loss(child, &lease);
    } else {
        switch (child->on_lost) {
        case ON_LOST_TERM:
            act_on_term(child, &lease, is_near, is_due);
            break;
        case ON_LOST_KILL:
            if (is_due) {
                act_on_loss(child, &lease);
            }
            break;
        case ON_LOST_FREEZE:
            act_on_freeze(child, &lease, is_near);
            break;
        case ON_LOST_IGNORE:
            break;
        }
    }
    /* The guardian need not repeat what has just been done. */
    tell_guardian(child, at, &lease);
    child_set_timer(child, &lease);
}

int child_watch(struct child *child)
{
    while (!child->has_ended) {
        act_on_limit(child);
        act_on_lease(child);
        struct pollfd fds[3] = {
            {.fd = child->signal_fd, .events = POLLIN},
            {.fd = child->timer_fd, .events = POLLIN},
            {.fd = hasp_event_fd(child->session), .events = POLLIN},
        };
        poll(fds, 3, -1);
        uint64_t ignored;
        if (fds[1].revents != 0 &&
            read(fds[1].fd, &ignored, sizeof ignored) < 0) {
            continue; /* The next wake-up tries again. */
        }
        take_events(child);
        if (fds[0].revents != 0) {
            child_take_signals(child);
        }
    }
    take_events(child);
    if (child->has_terminal) {
        give_terminal(getpgrp());
    }
    close(child->timer_fd);
    guardian_done(&child->guardian);
    if (child->was_lost) {
        return tool_fail(EXIT_LOCK_LOST,
                         "the lock %s was lost before the command had ended",
                         child->name);
    }
    return WIFEXITED(child->status) ? WEXITSTATUS(child->status)
                                    : 128 + WTERMSIG(child->status);
}
