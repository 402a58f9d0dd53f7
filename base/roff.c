/* SPDX-License-Identifier: MIT */

/* Text for a manual page. */

#include "base/roff.h"

#include <string.h>

void roff_put_title(FILE *out, const char *name, int section,
                    const char *volume)
{
    fprintf(out, ".TH %s %d \"%s\" \"hasp %s\" \"%s\"\n", name, section,
            HASP_RELEASED, HASP_VERSION, volume);
}

void roff_put(FILE *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\\') {
            fputs("\\e", out);
        } else if (text[i] == '-') {
            fputs("\\-", out);
        } else if ((text[i] == '.' || text[i] == '\'') &&
                   (i == 0 || text[i - 1] == '\n')) {
            fprintf(out, "\\&%c", text[i]);
        } else {
            putc(text[i], out);
        }
    }
}

void roff_put_text(FILE *out, const char *text)
{
    roff_put(out, text, strlen(text));
}

void roff_put_marked(FILE *out, const char *text, size_t size)
{
    const char *end = text + size;
    const char *font = "\\fB";
    while (text < end) {
        const char *mark = memchr(text, '`', (size_t)(end - text));
        roff_put(out, text, (size_t)((mark != NULL ? mark : end) - text));
        if (mark == NULL) {
            break;
        }
        fputs(font, out);
        font = font[2] == 'B' ? "\\fR" : "\\fB";
        text = mark + 1;
    }
}
