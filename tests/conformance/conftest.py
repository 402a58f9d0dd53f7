# SPDX-License-Identifier: MIT
"""Bounds each test in time."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'cluster'))

from bounded import bounded_to  # noqa: E402

bounded = bounded_to(240)
