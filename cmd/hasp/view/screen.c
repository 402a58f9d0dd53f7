/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/view/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "client/clock.h"

#define LINES_UNLIMITED 1000000

/* ECMA-48 and xterm: alternate screen, no cursor, lines are cut and not
 * wrapped. */
static const char enter[] = "\033[?1049h\033[?25l\033[?7l";
static const char leave[] = "\033[?7h\033[?25h\033[?1049l";

static void set_up(struct screen *screen)
{
    struct termios raw = screen->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    fputs(enter, stdout);
    fflush(stdout);
}

static void put_back(struct screen *screen)
{
    fputs(leave, stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &screen->before);
}

void screen_begin(struct screen *screen)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    screen->is_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
                          tcgetattr(STDIN_FILENO, &screen->before) == 0;
    if (screen->is_terminal) {
        sigaddset(&signals, SIGTSTP);
        sigaddset(&signals, SIGWINCH);
    }
    sigprocmask(SIG_BLOCK, &signals, NULL);
    screen->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (screen->is_terminal) {
        set_up(screen);
    }
}

void screen_end(struct screen *screen)
{
    if (screen->is_terminal) {
        put_back(screen);
    }
    close(screen->signal_fd);
}

unsigned screen_lines(const struct screen *screen)
{
    struct winsize size;
    if (!screen->is_terminal) {
        return LINES_UNLIMITED;
    }
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0
               ? size.ws_row
               : 24;
}

unsigned screen_width(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                : 80;
}

/* Draws in memory first: a picture that is too high would scroll its top away,
 * and a partial one would flicker. stdout is a variable in the C libraries of
 * Linux. */
void screen_draw_begin(struct screen *screen)
{
    FILE *memory = screen->is_terminal
                       ? open_memstream(&screen->picture, &screen->picture_size)
                       : NULL;
    screen->out = NULL;
    if (memory != NULL) {
        screen->out = stdout;
        stdout = memory;
    }
}

static void screen_show(const struct screen *screen)
{
    const char *from = screen->picture;
    unsigned left = screen_lines(screen);
    fputs("\033[H", stdout);
    while (*from != '\0' && left-- > 0) {
        size_t size = strcspn(from, "\n");
        fwrite(from, 1, size, stdout);
        from += size + (from[size] == '\n');
        /* The last line has no line break, which would scroll the screen. */
        fputs(*from != '\0' && left > 0 ? "\033[K\n" : "\033[K", stdout);
    }
    fputs("\033[J", stdout);
}

void screen_draw_end(struct screen *screen)
{
    if (screen->out != NULL) {
        fclose(stdout);
        stdout = screen->out;
        screen_show(screen);
        free(screen->picture);
        screen->picture = NULL;
    }
    fflush(stdout);
}

static enum screen_event take_signal(struct screen *screen, int *ret_key)
{
    struct signalfd_siginfo info;
    if (read(screen->signal_fd, &info, sizeof info) != sizeof info) {
        return SCREEN_RESIZE;
    }
    if (info.ssi_signo == SIGTSTP) {
        put_back(screen);
        kill(getpid(), SIGSTOP);
        set_up(screen);
        return SCREEN_RESIZE;
    }
    if (info.ssi_signo == SIGWINCH) {
        return SCREEN_RESIZE;
    }
    *ret_key = (int)info.ssi_signo;
    return SCREEN_END;
}

enum screen_event screen_wait(struct screen *screen, uint64_t until_ns,
                              int *ret_key)
{
    struct pollfd fds[2] = {
        {.fd = screen->signal_fd, .events = POLLIN},
        {.fd = screen->is_terminal ? STDIN_FILENO : -1, .events = POLLIN},
    };
    unsigned char key;
    int count = poll(fds, 2, client_poll_ms(until_ns));
    if (count <= 0) {
        return SCREEN_TIME;
    }
    if (fds[0].revents != 0) {
        return take_signal(screen, ret_key);
    }
    if (read(STDIN_FILENO, &key, 1) != 1) {
        *ret_key = SIGHUP; /* The terminal is gone. */
        return SCREEN_END;
    }
    *ret_key = key;
    return SCREEN_KEY;
}
