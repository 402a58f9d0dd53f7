/* SPDX-License-Identifier: MIT */

/* A terminal that a program redraws repeatedly: keys are read one by one, and
 * the terminal is restored however the program ends. */

#ifndef HASP_CMD_HASP_VIEW_SCREEN_H
#define HASP_CMD_HASP_VIEW_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <termios.h>

enum screen_event {
    SCREEN_TIME,   /* The time has passed. */
    SCREEN_KEY,    /* A key was pressed. */
    SCREEN_RESIZE, /* The window was resized or restored: redraw. */
    SCREEN_END     /* A signal requests the end; 'key' is its number. */
};

struct screen {
    bool is_terminal; /* Both stdin and stdout are terminals. */
    int signal_fd;
    struct termios before;
    FILE *out; /* The terminal, while a picture is drawn. */
    char *picture;
    size_t picture_size;
};

/* Blocks the signals, and sets the terminal up if there is one. */
void screen_begin(struct screen *screen);
void screen_end(struct screen *screen);
/* Number of lines; a large number if it is not a terminal. */
unsigned screen_lines(const struct screen *screen);
/* Columns of a terminal; 80 if 'fd' does not report them. */
unsigned screen_width(int fd);
/* Call them before and after each picture, which is written to stdout; lines
 * that do not fit are dropped. */
void screen_draw_begin(struct screen *screen);
void screen_draw_end(struct screen *screen);
/* Waits until 'until_ns' of CLOCK_MONOTONIC. */
enum screen_event screen_wait(struct screen *screen, uint64_t until_ns,
                              int *ret_key);

#endif /* HASP_CMD_HASP_VIEW_SCREEN_H */
