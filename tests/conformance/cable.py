# SPDX-License-Identifier: MIT
"""Between a program and the nodes: a cable that can be cut, and a front that
speaks TLS for nodes that do not."""

import asyncio
import socket
import ssl
import threading


class Cable:
    """Bytes sent while it is cut are lost without an error."""

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
                # A stream with a hole in it cannot continue.
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


class TlsFront:
    """Shows the certificate of the folder, on a port for each of 'endpoints'.
    An event loop, since a connection is read and written at once."""

    def __init__(self, endpoints, folder):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.load_cert_chain(folder + '/node.crt', folder + '/node.key')
        self.loop = asyncio.new_event_loop()
        self.servers = [self.loop.run_until_complete(self._listen(one))
                        for one in endpoints]
        self.endpoints = ['127.0.0.1:%d' % one.sockets[0].getsockname()[1]
                          for one in self.servers]
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    async def _listen(self, endpoint):
        async def serve(reader, writer):
            try:
                to = await asyncio.open_connection(*endpoint.split(':'))
            except OSError:
                writer.close()
                return
            await asyncio.gather(self._copy(reader, to[1]),
                                 self._copy(to[0], writer))

        return await asyncio.start_server(serve, '127.0.0.1', 0,
                                          ssl=self.context)

    @staticmethod
    async def _copy(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except (OSError, ssl.SSLError):
            pass
        writer.close()

    async def _end(self):
        for one in self.servers:
            one.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def close(self):
        asyncio.run_coroutine_threadsafe(self._end(), self.loop).result(20)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(20)
        self.loop.close()
