/* SPDX-License-Identifier: MIT */

#include "base/doing.h"

_Thread_local struct doing doing_now;
