# SPDX-License-Identifier: MIT
"""Bounds each test in time."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', '..', '..', 'tests', 'cluster'))

from bounded import (  # noqa: E402, F401
    bounded_to, pytest_runtest_call, pytest_runtest_setup,
    pytest_runtest_teardown)

bounded = bounded_to(240)
