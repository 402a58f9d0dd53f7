# SPDX-License-Identifier: MIT
"""An agent (cmd/hasp/agent/visitor.h) that answers what a test sets."""

import os
import re
import socket
import tempfile
import threading

from cluster import wait_until

SOON_S = 20
TIE = re.compile(r'TIE (\d+) ([0-9a-f]{32}) START (\d+) TTL (\d+)')
UNTIE = re.compile(r'UNTIE (\d+) ([0-9a-f]{32}) START (\d+)')


class FakeAgent:
    """Answers each line as 'answer' says; None: not at all."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='hasp-agent-')
        self.path = os.path.join(self.folder, 'a.sock')
        self.answer = lambda line: 'OK tied' if line.startswith('TIE') \
            else 'OK untied'
        self.lines, self.connections, self.count = [], [], 0
        self.listener = None
        self.start()

    def start(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self._accept, args=[self.listener],
                         daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            self.count += 1
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=[connection],
                             daemon=True).start()

    def _serve(self, connection):
        try:
            for line in connection.makefile('r', encoding='ascii'):
                self.lines.append(line.rstrip('\n'))
                answer = self.answer(self.lines[-1])
                if answer is not None:
                    connection.sendall(answer.encode() + b'\n')
        except OSError:
            pass  # The client has left.

    def cut(self):
        connections, self.connections = self.connections, []
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # The client was quicker.
            connection.close()

    def stop(self):
        """Ends as a killed agent does."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)
        self.cut()

    def said(self, pattern):
        return [found for found in map(pattern.fullmatch, list(self.lines))
                if found]

    def wait_for(self, pattern, count=1):
        return wait_until(
            lambda: (self.said(pattern)[count - 1:] or [None])[0], SOON_S,
            f'line {count} of {pattern.pattern}')

    def end(self):
        if os.path.exists(self.path):
            self.stop()
        os.rmdir(self.folder)
