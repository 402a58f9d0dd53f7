# SPDX-License-Identifier: MIT
"""RESP3, as much of it as hasp speaks: requests out, replies in. No I/O."""

from __future__ import annotations

from typing import Any, List, Tuple, Union

Argument = Union[str, bytes, int]


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
            value, at = self._value(0)
        except ValueError as error:  # UnicodeDecodeError is one.
            raise OSError(f'no RESP: {error}') from None
        self._data = self._data[at:]
        return value

    def _line(self, at: int) -> Tuple[bytes, int]:
        end = self._data.find(b'\r\n', at)
        if end < 0:
            raise Incomplete
        return self._data[at:end], end + 2

    def _values(self, count: int, at: int) -> Tuple[List[Any], int]:
        values = []
        for _ in range(count):
            value, at = self._value(at)
            values.append(value)
        return values, at

    def _value(self, at: int) -> Tuple[Any, int]:
        line, at = self._line(at)
        kind, rest = line[:1], line[1:]
        if kind == b'+':
            return rest.decode(), at
        if kind == b'-':
            return ReplyError(rest.decode(errors='replace')), at
        if kind == b':':
            return int(rest), at
        if kind == b'#':
            return rest == b't', at
        if kind == b',':
            return float(rest), at
        if kind == b'_' or (kind in b'$*' and rest == b'-1'):
            return None, at
        if kind in (b'$', b'='):
            end = at + int(rest)
            if len(self._data) < end + 2:
                raise Incomplete
            data = self._data[at:end]
            if kind == b'=':
                data = data[4:]
            return data.decode(errors='surrogateescape'), end + 2
        if kind in (b'*', b'~', b'>'):
            values, at = self._values(int(rest), at)
            return (Push(values) if kind == b'>' else values), at
        if kind == b'%':
            flat, at = self._values(2 * int(rest), at)
            return dict(zip(flat[::2], flat[1::2])), at
        raise ValueError(f'a reply that begins with {line[:20]!r}')
