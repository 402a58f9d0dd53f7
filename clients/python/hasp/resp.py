# SPDX-License-Identifier: MIT
"""RESP3, as much of it as hasp speaks: requests out, replies in. No I/O."""

from __future__ import annotations

import re
from typing import Any, Tuple, Union

Argument = Union[str, bytes, int]
LINE_MAX = 64 << 10
SIZE_MAX = 64 << 20
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
    """More bytes are needed."""


def encode(*arguments: Argument) -> bytes:
    parts = [b'*%d\r\n' % len(arguments)]
    for argument in arguments:
        data = argument if isinstance(argument, bytes) else \
            str(argument).encode()
        parts.append(b'$%d\r\n%s\r\n' % (len(data), data))
    return b''.join(parts)


class Parser:
    """Feed it bytes; next() gives one reply."""

    def __init__(self) -> None:
        self._data = b''

    def feed(self, data: bytes) -> None:
        self._data += data

    def next(self) -> Any:
        """Incomplete: feed it more. OSError: it is not RESP, so the connection
        is of no use any more."""
        try:
            value, at = self._value(0, 0)
        except (ValueError, TypeError) as error:  # A key that is a list.
            raise OSError(f'no RESP: {error}') from None
        self._data = self._data[at:]
        return value

    def _line(self, at: int) -> Tuple[bytes, int]:
        end = self._data.find(b'\r\n', at)
        if end < 0 and len(self._data) - at <= LINE_MAX:
            raise Incomplete
        if not 0 <= end - at <= LINE_MAX:
            raise ValueError('a line without an end')
        return self._data[at:end], end + 2

    def _value(self, at: int, depth: int) -> Tuple[Any, int]:
        line, at = self._line(at)
        kind, rest = line[:1], line[1:]
        if kind == b'+':
            return rest.decode(), at
        if kind == b'-':
            return ReplyError(rest.decode(errors='replace')), at
        if line in SINGLE:
            return SINGLE[line], at
        if not NUMBER.fullmatch(rest):
            raise ValueError(f'a reply that begins with {line[:20]!r}')
        number = int(rest)
        if kind == b':':
            return number, at
        if not 0 <= number <= SIZE_MAX or depth == DEPTH_MAX:
            raise ValueError(f'a size of {number}')
        if kind == b'$':
            end = at + number
            if len(self._data) < end + 2:
                raise Incomplete
            if self._data[end:end + 2] != b'\r\n':
                raise ValueError('a text that does not end where it said')
            return self._data[at:end].decode(errors='surrogateescape'), end + 2
        if kind not in (b'*', b'>', b'%'):
            raise ValueError(f'a reply that begins with {line[:20]!r}')
        values = []
        for _ in range(2 * number if kind == b'%' else number):
            value, at = self._value(at, depth + 1)
            values.append(value)
        if kind == b'%':
            return dict(zip(values[::2], values[1::2])), at
        return (Push(values) if kind == b'>' else values), at
