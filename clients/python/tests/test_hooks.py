# SPDX-License-Identifier: MIT
"""The events of hooks, without a cluster; the scripts hooks*.txt of
tests/conformance have the rest."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..'))

from hasp import Hooks  # noqa: E402
from hasp.hooks import LATE_MAX, Reporter  # noqa: E402


def test_what_hooks_cannot_keep_up_with_is_counted():
    queue, notices = [], []
    reporter = Reporter(Hooks(), queue.append, lambda: len(queue),
                        notices.append)
    first = reporter.begin('a', '')
    while len(queue) < LATE_MAX:
        reporter.begin('b', '')
    for _ in range(3):
        skipped = reporter.begin('c', '')
        skipped.granted(5)
        skipped.released()
    assert len(queue) == LATE_MAX
    first.granted(7)  # An acquisition that was begun is ended.
    first.released()
    assert [(one.kind, one.skipped) for one in queue[-2:]] == [
        ('granted', 3), ('released', 0)]
    queue.clear()
    reporter.begin('d', '')
    assert [one.id for one in queue] == [LATE_MAX + 1]


def test_the_first_failure_is_reported_and_only_that():
    class Failing(Hooks):
        def acquire(self, event):
            raise ValueError(f'no {event.name}')

    notices = []
    reporter = Reporter(Failing(), lambda event: reporter.call(event),
                        lambda: 0, notices.append)
    reporter.begin('a', '')
    reporter.begin('b', '')
    assert len(notices) == 1 and 'no a' in notices[0]


def test_without_hooks_there_is_one_object_for_all():
    reporter = Reporter(None, None, None, None)
    assert reporter.begin('a', '') is reporter.begin('b', '')
