# SPDX-License-Identifier: MIT
"""Between a program and the nodes; it can be cut."""

import socket
import threading


class Cable:
    """What is sent while it is cut is lost, and nobody is told."""

    def __init__(self, ports):
        self.is_cut = False
        self.open = []
        self.listeners = [socket.create_server(('127.0.0.1', 0))
                          for _ in ports]
        self.endpoints = ','.join('127.0.0.1:%d' % one.getsockname()[1]
                                  for one in self.listeners)
        for listener, port in zip(self.listeners, ports):
            threading.Thread(target=self._accept, args=(listener, port),
                             daemon=True).start()

    def _accept(self, listener, port):
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            try:
                other = socket.create_connection(('127.0.0.1', port))
            except OSError:
                one.close()
                continue
            self.open += [one, other]
            for pair in (one, other), (other, one):
                threading.Thread(target=self._copy, args=pair,
                                 daemon=True).start()

    def _copy(self, one, other):
        is_lossy = False
        try:
            while True:
                data = one.recv(65536)
                # A stream with a hole in it cannot go on.
                is_lossy = is_lossy or self.is_cut
                if not is_lossy and data:
                    other.sendall(data)
                elif not data and is_lossy:
                    return
                elif not data or not self.is_cut:
                    break
        except OSError:
            pass
        for end in one, other:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def close(self):
        for end in [*self.listeners, *self.open]:
            end.close()
