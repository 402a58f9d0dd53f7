/* SPDX-License-Identifier: MIT */

/* The table of routes as an OpenAPI 3.1 document
 * (https://spec.openapis.org/oas/v3.1.1). */

#ifndef HASP_HTTP_OPENAPI_H
#define HASP_HTTP_OPENAPI_H

#include "base/bytes.h"

/* Appends the document. */
void openapi_put(struct buffer *out);

#endif /* HASP_HTTP_OPENAPI_H */
