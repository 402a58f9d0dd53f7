# SPDX-License-Identifier: MIT
"""The programs of an election (examples of the clients), and what they say.

On a busy machine a leader can miss its lease at any time, so leadership may
change unasked. Each hold is therefore known by its token, and a line that was
said before is never taken for one that is awaited."""

import signal
import subprocess
import threading
import time

PATIENCE_S = 90


class Candidate:
    """'leads with token N' begins a hold, 'leads no longer' ends it."""

    def __init__(self, news, *words, **env):
        self.news = news
        self.process = subprocess.Popen(words, env=env, encoding="utf-8",
                                        stdout=subprocess.PIPE)
        self.tokens, self.ended, self.lines = [], set(), []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.news:
                self.lines.append(line)
                if line.startswith("leads with token "):
                    self.tokens.append(int(line.split()[-1]))
                elif line.startswith("leads no longer"):
                    self.ended.add(self.tokens[-1])
                self.news.notify_all()

    def leads(self):
        return bool(self.tokens) and self.tokens[-1] not in self.ended

    def token(self):
        return self.tokens[-1] if self.tokens else 0

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Candidates:
    """Two that want the same."""

    def __init__(self, *words, **env):
        self.news = threading.Condition()
        self.all = [Candidate(self.news, *words, **env) for _ in range(2)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.all:
            one.close()

    def until(self, what, fact):
        with self.news:
            until = time.monotonic() + PATIENCE_S
            while not fact():
                left = until - time.monotonic()
                assert left > 0, "%s: %s" % (what, [one.lines
                                                    for one in self.all])
                self.news.wait(left)

    def leader(self):
        """The leader, and the other node."""
        self.until("nobody leads", lambda: any(one.leads() for one in self.all))
        newest = max(self.all, key=Candidate.token)
        return newest, self.all[1 - self.all.index(newest)]

    def is_told(self):
        """Each of them says who leads, also of the other one."""
        ends = tuple(":%d" % one.process.pid for one in self.all)
        for one in self.all:
            self.until("the leader gets no answer", lambda one=one: any(
                line.startswith("leader is ") and line.strip().endswith(ends)
                for line in one.lines))

    def freeze_leader(self):
        """A leader that is stopped for longer than its lease notices it."""
        leader, other = self.leader()
        first = leader.token()
        leader.process.send_signal(signal.SIGSTOP)
        try:
            self.until("nobody follows", lambda: other.token() > first)
        finally:
            leader.process.send_signal(signal.SIGCONT)
        self.until("it leads still", lambda: first in leader.ended)

    def end_leader(self, number):
        """Its successor leads with a larger token; gives how it ended."""
        leader, other = self.leader()
        leader.process.send_signal(number)
        status = leader.process.wait(PATIENCE_S)
        leader.reader.join()
        self.until("nobody follows", lambda: other.leads() and
                   other.token() > leader.token())
        assert number == signal.SIGKILL or not leader.leads(), leader.lines
        return status
