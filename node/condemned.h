/* SPDX-License-Identifier: MIT */

/* A data directory that must not be used any more, because it has lost what
 * this node has acknowledged (node/core/loss.h): the reason is written into it,
 * so that no later start takes it for good when nobody is left who knows. */

#ifndef HASP_NODE_CONDEMNED_H
#define HASP_NODE_CONDEMNED_H

#include "base/err.h"

/* Durable on return. */
MUST_CHECK int condemned_write(const char *folder, const char *reason,
                               char why[HASP_WHY_SIZE]);
/* 0 if the directory may be used; HASP_ECORRUPT and the reason if not. */
MUST_CHECK int condemned_check(const char *folder, char why[HASP_WHY_SIZE]);

#endif /* HASP_NODE_CONDEMNED_H */
