# SPDX-License-Identifier: MIT
"""Bounds each test in time."""

from bounded import bounded_to

bounded = bounded_to(120)
