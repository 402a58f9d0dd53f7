# SPDX-License-Identifier: MIT
"""The subset of RESP3 that hasp uses: requests out, replies in. No I/O."""

from __future__ import annotations

import re
from typing import Any, List, NoReturn, Tuple, Union

Argument = Union[str, bytes, int]
LINE_MAX = 64 << 10
REPLY_MAX = 64 << 20  # Bytes of one reply, and the parts of a list.
DEPTH_MAX = 16
NUMBER = re.compile(rb'[+-]?[0-9]{1,19}')
SINGLE = {b'_': None, b'$-1': None, b'*-1': None, b'#t': True, b'#f': False}


class ReplyError(Exception):
    """The server refused. 'code' is the first word: NOTHELD, LIMIT, ..."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.split(' ', 1)[0]


class Push(list):  # type: ignore[type-arg]
    """A message that no request asked for: [name, kind, map]."""


class Incomplete(Exception):
    """Is raised when more bytes are needed."""


def encode(*arguments: Argument) -> bytes:
    parts = [b'*%d\r\n' % len(arguments)]
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else \
            str(argument).encode()
        parts.append(b'$%d\r\n%s\r\n' % (len(data), data))
    return b''.join(parts)


class Parser:
    """Feed it bytes; next() returns one reply. The parsed part of an incomplete
    reply is kept, so each byte is parsed once."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._at = 0  # Everything before this offset was parsed.
        self._seen = 0  # No line ends before this offset.
        self._size = 0  # Parsed bytes of the current reply.
        # Incomplete lists, outermost first: kind, size, parts so far.
        self._open: List[Tuple[bytes, int, List[Any]]] = [(b'', 1, [])]

    def feed(self, data: bytes) -> None:
        del self._data[:self._at]
        self._seen -= self._at
        self._at = 0
        self._data += data

    def next(self) -> Any:
        """The next reply. Incomplete: feed more bytes. OSError: the input is not
        RESP, so the connection must be closed."""
        try:
            while True:
                kind, count, parts = self._open[-1]
                if len(parts) < count:
                    self._element(parts)
                elif len(self._open) > 1:
                    self._open.pop()
                    self._open[-1][2].append(whole(kind, parts))
                else:
                    self._open, self._size = [(b'', 1, [])], 0
                    return parts[0]
        except (ValueError, TypeError) as error:  # A key that is a list.
            raise OSError(f'the peer is not a hasp node: {error}') from None

    def _element(self, parts: List[Any]) -> None:
        """Adds the next value, or opens a list."""
        end = self._data.find(b'\r\n', max(self._at, self._seen))
        if end < 0:
            self._seen = len(self._data) - 1
        if (end if end >= 0 else len(self._data)) - self._at > LINE_MAX:
            raise ValueError('a line without CR LF')
        if end < 0:
            self._wait()
        line = bytes(self._data[self._at:end])
        end += 2
        kind, rest = line[:1], line[1:]
        if kind == b'+':
            parts.append(rest.decode())
        elif kind == b'-':
            parts.append(ReplyError(rest.decode(errors='replace')))
        elif line in SINGLE:
            parts.append(SINGLE[line])
        elif not NUMBER.fullmatch(rest):
            raise ValueError(f'a reply that begins with {line[:20]!r}')
        elif kind == b':':
            parts.append(int(rest))
        else:
            end = self._sized(parts, kind, int(rest), end)
        self._size += end - self._at
        self._at = end

    def _sized(self, parts: List[Any], kind: bytes, size: int, at: int) -> int:
        """Reads a value that begins with its size; gives its end."""
        if not 0 <= size <= REPLY_MAX or len(self._open) > DEPTH_MAX:
            raise ValueError(f'a size of {size}')
        if kind == b'$':
            if len(self._data) < at + size + 2:
                self._wait()
            if self._data[at + size:at + size + 2] != b'\r\n':
                raise ValueError('a string longer than its size')
            parts.append(self._data[at:at + size].decode(
                errors='surrogateescape'))
            return at + size + 2
        if kind not in (b'*', b'>', b'%'):
            raise ValueError(f'a reply that begins with {kind!r}')
        self._open.append((kind, size * 2 if kind == b'%' else size, []))
        return at

    def _wait(self) -> NoReturn:
        if self._size + len(self._data) - self._at > REPLY_MAX:
            raise ValueError(f'a reply of more than {REPLY_MAX >> 20} MiB')
        raise Incomplete


def whole(kind: bytes, parts: List[Any]) -> Any:
    if kind == b'%':
        return dict(zip(parts[::2], parts[1::2]))
    return Push(parts) if kind == b'>' else parts
