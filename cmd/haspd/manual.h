/* SPDX-License-Identifier: MIT */

/* The manual pages haspd(8) and haspd.conf(5), made from what the program
 * itself goes by: help.txt, the table of settings, settings.txt. */

#ifndef HASP_CMD_HASPD_MANUAL_H
#define HASP_CMD_HASPD_MANUAL_H

#include <stdio.h>

#include "base/err.h"

/* What haspd --help says. */
extern const char haspd_help[];

/* Writes the page of 'section', "5" or "8", to 'out'; HASP_EINVALID if it is
 * neither. */
MUST_CHECK int daemon_manual_print(const char *section, FILE *out);

#endif /* HASP_CMD_HASPD_MANUAL_H */
