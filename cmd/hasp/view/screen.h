/* SPDX-License-Identifier: MIT */

/* A terminal that a program draws on again and again: keys come one by one, and
 * whatever ends the program, the terminal is as before. */

#ifndef HASP_CMD_HASP_VIEW_SCREEN_H
#define HASP_CMD_HASP_VIEW_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <termios.h>

enum screen_event {
    SCREEN_TIME,   /* The time is over. */
    SCREEN_KEY,    /* One was pressed. */
    SCREEN_RESIZE, /* The window has another size, or was away: draw. */
    SCREEN_END     /* A signal asks us to end; 'key' is its number. */
};

struct screen {
    bool is_terminal; /* Both of stdin and stdout are. */
    int signal_fd;
    struct termios before;
    FILE *out; /* While a picture is drawn: the terminal. */
    char *picture;
    size_t picture_size;
};

/* Blocks the signals, and sets the terminal up if there is one. */
void screen_begin(struct screen *screen);
void screen_end(struct screen *screen);
/* The number of its lines; many if it is no terminal. */
unsigned screen_lines(const struct screen *screen);
/* The columns of a terminal; 80 if 'fd' is none that tells. */
unsigned screen_width(int fd);
/* Before and after each picture, which is written to stdout: so many of its
 * lines are shown as there is room for. */
void screen_draw_begin(struct screen *screen);
void screen_draw_end(struct screen *screen);
/* Waits until 'until_ns' of CLOCK_MONOTONIC. */
enum screen_event screen_wait(struct screen *screen, uint64_t until_ns,
                              int *ret_key);

#endif /* HASP_CMD_HASP_VIEW_SCREEN_H */
