# SPDX-License-Identifier: MIT
"""test_interrupts.py and test_holds.py see what could go wrong: each of these
is planted into a copy of the client."""

import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
PLANTED = [  # Name, file, text, planted text; tests.
    ('what was granted is kept', 'bridge.py',
     '        if undo and self.error is None:', '        if False:',
     'test_at_each_line and acquire'),
    ('the end of a block is in Python alone', 'bridge.py',
     '        if self.block and self.block.call:', '        if False:',
     'test_at_each_line and with'),
    ('a session that the program has lost is kept', 'bridge.py',
     '        if self.own:', '        if False:', 'between_a_session'),
    ('the loop has what the program has', 'threads.py',
     'super().__init__(session._own, *names', 'super().__init__(session, *names',
     'program_has_lost'),
    ('a release that was interrupted is abandoned', 'threads.py',
     'self.release = surely(', 'self.other = surely(',
     'test_at_each_line and release'),
    ('the loop logs by itself', 'bridge.py',
     '            self._logs.put((text, *arguments))',
     '            LOG.debug(text, *arguments)', 'no_mutex'),
    ('a turn that came is lost', 'hold.py',
     '            if turn.done() and not turn.cancelled() and turn.result():',
     '            if False:', 'test_at_each_await and turn'),
    ('a close that is cancelled is abandoned', 'aio.py',
     'await asyncio.shield(self._ending)', 'await self._ending',
     'closed_at_each_await'),
    ('dropped notices are nothing', 'keeper.py',
     'if dropped <= beliefs.seen or not beliefs.are_older(dropped):', 'if True:',
     'more_holds_end and False'),
    ('a list ends what is newer than it', 'grant.py',
     'end_of(one for one in self if one.as_of < number)', 'end_of(self)',
     'list_that_fails'),
    ('a release names no token', 'hold.py',
     '        if of:\n            more +=', '        if False:\n            more +=',
     'release_of_what_has_ended'),
    ('what has ended is released', 'hold.py',
     'for one in grant if not one.is_over}', 'for one in grant}',
     'notice_ends_the_hold'),
    ('a later hold leaves the former believed in', 'grant.py',
     'ended = self.end(*key, 0, belief.first - 1)', 'ended = []',
     'later_hold_of_the_owner'),
    ('a limit is what was asked for', 'grant.py',
     'self._left_ms, self._sent = told.left_ms, sent',
     'self._left_ms, self._sent = None, sent', 'limit_is_believed'),
    ('an older answer is believed', 'hold.py', 'is_old = any(',
     'is_old = False and any(', 'older_than_a_notice'),
    ('an upgrade is known to one object', 'grant.py',
     'one.first, one.token = told.first, told.token', 'pass',
     'upgrade_is_known')]


@pytest.mark.parametrize('path, old, new, tests', [
    one[1:] for one in PLANTED], ids=[one[0] for one in PLANTED])
def test_a_mistake_is_seen(tmp_path, path, old, new, tests):
    shutil.copytree(os.path.join(HERE, '..', 'hasp'), tmp_path / 'hasp')
    text = (tmp_path / 'hasp' / path).read_text()
    assert text.count(old) == 1, f'{path} no longer has {old!r}'
    (tmp_path / 'hasp' / path).write_text(text.replace(old, new))
    try:
        ended = subprocess.run(
            [sys.executable, '-m', 'pytest', '-q', '-x', '-p',
             'no:cacheprovider', os.path.join(HERE, 'test_interrupts.py'),
             os.path.join(HERE, 'test_holds.py'), '-k', tests],
            env=dict(os.environ, HASP_CLIENT=str(tmp_path)),
            timeout=30, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False)
    except subprocess.TimeoutExpired:
        return  # It hangs, and so do its threads.
    assert ended.returncode == 1, ended.stdout
