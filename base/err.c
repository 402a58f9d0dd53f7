/* SPDX-License-Identifier: MIT */

#include "base/err.h"

const char *hasp_strerror(int error)
{
    switch (error) {
    case 0:
        return "success";
#define HASP_ERROR_CASE(name, value, text) \
    case name:                             \
        return text;
        HASP_ERRORS(HASP_ERROR_CASE)
#undef HASP_ERROR_CASE
    default:
        return "unknown error";
    }
}
