/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "client/clock.h"
#include "cmd/hasp/agent/upstream.h"
#include "cmd/hasp/agent/visitor.h"
#include "cmd/hasp/tool.h"
#include "net/rights.h"

#define EVENTS_MAX 64
#define ACCEPTS_MAX 1024 /* In one turn. */
#define VISITOR_MAX 8192
/* A connection has its socket and a process descriptor; the rest is ours. */
#define FILES_OWN 64
#define FILES_EACH 2
#define TURN_MS 1000

bool agent_watch(struct agent *agent, struct watched *watched, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watched};
    return epoll_ctl(agent->epoll_fd, EPOLL_CTL_ADD, watched->fd, &event) == 0;
}

/* --- Processes ------------------------------------------------------------ */

/* The process descriptor of the first connection becomes the process's own. */
static struct agent_ward *process_new(struct agent *agent,
                                      struct visitor *visitor, uint64_t start)
{
    struct tied_process *tied = ties_add(agent->ties, visitor->proof.pid, start,
                                         visitor->proof.uid);
    if (tied == NULL) {
        return NULL;
    }
    struct agent_ward *process = memory_new(sizeof *process);
    process->watched = (struct watched){WATCHED_PROCESS, visitor->proof.pidfd};
    process->tied = tied;
    list_init(&process->visitors);
    ties_join(tied); /* The visitor's, as agent_process() does. */
    if (!agent_watch(agent, &process->watched, EPOLLIN)) {
        (void)ties_leave(agent->ties, tied);
        free(process);
        return NULL;
    }
    tied->driver = process;
    visitor->proof.pidfd = -1;
    return process;
}

struct agent_ward *agent_process(struct agent *agent, struct visitor *visitor,
                                 uint64_t start)
{
    struct tied_process *tied = ties_find(agent->ties, visitor->proof.pid,
                                          start);
    struct agent_ward *process = NULL;
    if (tied != NULL) {
        process = tied->driver;
        ties_join(tied);
    } else {
        process = process_new(agent, visitor, start);
    }
    if (process != NULL) {
        list_push_back(&process->visitors, &visitor->in_process);
        visitor->process = process;
    }
    return process;
}

static void process_free(struct agent *agent, struct agent_ward *process)
{
    (void)epoll_ctl(agent->epoll_fd, EPOLL_CTL_DEL, process->watched.fd, NULL);
    close(process->watched.fd);
    free(process);
}

void agent_leave(struct agent *agent, struct visitor *visitor)
{
    struct agent_ward *process = visitor->process;
    if (process != NULL) {
        list_remove(&visitor->in_process);
        visitor->process = NULL;
        if (ties_leave(agent->ties, process->tied)) {
            process_free(agent, process);
        }
    }
}

/* An event can be stale; the descriptor itself decides. Only here do ties
 * become deaths. */
static void process_ready(struct agent *agent, struct agent_ward *process)
{
    if (!proof_is_dead(process->watched.fd)) {
        return;
    }
    LIST_FOR_SAFE (struct visitor, visitor, &process->visitors, in_process) {
        list_remove(&visitor->in_process);
        visitor->process = NULL;
    }
    ties_died(agent->ties, process->tied, agent->now_ns);
    process_free(agent, process);
}

static void agent_report(struct agent *agent)
{
    struct tie_death deaths[TIE_BATCH_MAX];
    enum tie_result result;
    if (upstream_take(agent->upstream, &result)) {
        ties_batch_end(agent->ties, result);
    }
    uint32_t count = ties_batch(agent->ties, agent->now_ns, deaths);
    if (count > 0) {
        upstream_report(agent->upstream, deaths, count);
    }
}

/* --- Connections ---------------------------------------------------------- */

/* No descriptor is left: without this the listening socket would stay readable
 * and the loop would spin. */
static void turn_away(struct agent *agent)
{
    close(agent->spare_fd);
    int fd = accept4(agent->listener.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        agent->closed++;
    }
    agent->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void agent_accept(struct agent *agent)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct ucred peer = {0};
        socklen_t size = sizeof peer;
        int fd = accept4(agent->listener.fd, NULL, NULL,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            turn_away(agent);
        }
        if (fd < 0) {
            return;
        }
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
            !ties_admit(agent->ties, peer.uid)) {
            (void)!write(fd, "ERR too many connections\n", 25);
            if (agent->is_refusing || rights_drain(fd) ||
                !rights_close_apart(fd, true)) {
                close(fd);
            }
            agent->closed++;
            continue;
        }
        visitor_new(agent, fd, peer.uid);
    }
}

/* A connection that ties nothing is of no use. */
static void agent_close_idle(struct agent *agent)
{
    LIST_FOR_SAFE (struct visitor, visitor, &agent->visitors, in_agent) {
        bool is_tied = visitor->process != NULL &&
                       visitor->process->tied->count > 0;
        if (!is_tied &&
            agent->now_ns >= visitor->heard_ns + VISITOR_IDLE_MS * NS_PER_MS) {
            visitor_free(visitor);
        }
    }
}

/* --- The loop ------------------------------------------------------------- */

static void agent_event(struct agent *agent, const struct epoll_event *event)
{
    struct watched *watched = event->data.ptr;
    switch (watched->kind) {
    case WATCHED_LISTENER:
        break; /* agent_accept() comes first. */
    case WATCHED_VISITOR:
        visitor_ready(LIST_ENTRY(watched, struct visitor, watched),
                      event->events);
        break;
    case WATCHED_PROCESS:
        break; /* After the others: it frees what they refer to. */
    case WATCHED_SIGNAL:
        agent->is_stopping = true;
        break;
    case WATCHED_UPSTREAM:
        break; /* agent_report() takes it. */
    }
}

static void agent_turn(struct agent *agent)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(agent->epoll_fd, events, EVENTS_MAX, TURN_MS);
    agent->now_ns = client_now_ns();
    /* In each turn: those who are connected and flood us must not keep others
     * from being heard. */
    agent_accept(agent);
    for (int i = 0; i < count; i++) {
        agent_event(agent, &events[i]);
    }
    for (int i = 0; i < count; i++) {
        struct watched *watched = events[i].data.ptr;
        if (watched->kind == WATCHED_PROCESS) {
            process_ready(agent,
                          LIST_ENTRY(watched, struct agent_ward, watched));
        }
    }
    LIST_FOR_SAFE (struct visitor, visitor, &agent->gone, in_agent) {
        visitor_free(visitor);
    }
    if (agent->now_ns >= agent->idle_ns) {
        agent_close_idle(agent);
        agent->idle_ns = agent->now_ns + TURN_MS * NS_PER_MS;
    }
    agent_report(agent);
}

/* As many connections as there are descriptors for. */
static uint32_t count_room(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return TIE_USER_LEAST;
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    uint64_t files = limit.rlim_cur < FILES_OWN ? 0
                                                : limit.rlim_cur - FILES_OWN;
    return (uint32_t)u64_max(u64_min(files / FILES_EACH, VISITOR_MAX), 1);
}

static int agent_begin(struct agent *agent)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    agent->listener.fd = listen_inherited();
    if (agent->listener.fd < 0) {
        agent->is_own_path = true;
        agent->listener.fd = listen_bind(agent->path);
    }
    if (agent->listener.fd < 0) {
        return EX_UNAVAILABLE;
    }
    agent->is_refusing = !agent->is_old && rights_refuse(agent->listener.fd);
    agent->visitor_max = count_room();
    agent->ties = ties_new(agent->visitor_max);
    agent->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    agent->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    agent->signals.fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (upstream_start(agent->tool, &agent->upstream) != 0 ||
        agent->epoll_fd < 0 || agent->signals.fd < 0) {
        return tool_fail(EX_OSERR, "agent: no thread or no descriptor is left");
    }
    agent->upstream_news.fd = upstream_fd(agent->upstream);
    return agent_watch(agent, &agent->listener, EPOLLIN) &&
                   agent_watch(agent, &agent->signals, EPOLLIN) &&
                   agent_watch(agent, &agent->upstream_news, EPOLLIN)
               ? 0
               : tool_fail(EX_OSERR, "agent: out of memory");
}

static void agent_end(struct agent *agent)
{
    LIST_FOR_SAFE (struct visitor, visitor, &agent->visitors, in_agent) {
        visitor_free(visitor);
    }
    if (agent->is_own_path && agent->listener.fd >= 0) {
        (void)unlink(agent->path);
    }
    upstream_stop(agent->upstream);
}

int run_agent(struct tool *tool, char **argv)
{
    struct agent agent = {
        .tool = tool,
        .path = AGENT_SOCKET_DEFAULT,
        .epoll_fd = -1,
        .listener = {WATCHED_LISTENER, -1},
        .upstream_news = {WATCHED_UPSTREAM, -1},
        .signals = {WATCHED_SIGNAL, -1},
        .now_ns = client_now_ns(),
    };
    const struct option_row rows[] = {
        {"listen", OPTION_TEXT, .value = &agent.path},
        {"old-kernel", OPTION_FLAG, .value = &agent.is_old},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 0, 0);
    if (exit_code != 0) {
        return exit_code;
    }
    list_init(&agent.visitors);
    list_init(&agent.gone);
    exit_code = agent_begin(&agent);
    if (exit_code == 0) {
        tool_say(tool,
                 "agent: listening on %s for at most %" PRIu32 " processes",
                 agent.path, agent.visitor_max);
        listen_notify("READY=1");
        while (!agent.is_stopping) {
            agent_turn(&agent);
        }
        listen_notify("STOPPING=1");
    }
    agent_end(&agent);
    return exit_code;
}
