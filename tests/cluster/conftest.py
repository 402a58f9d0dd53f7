# SPDX-License-Identifier: MIT
"""Bounds each test in time; the world that tests share knows its leader."""

import pytest

from bounded import (  # noqa: F401
    bounded_to,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)
from shares import pytest_xdist_make_scheduler  # noqa: F401

bounded = bounded_to(120)


@pytest.fixture(autouse=True)
def led(request, bounded):
    if "world" in request.fixturenames:
        request.getfixturevalue("world").find_again()
