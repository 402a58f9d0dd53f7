# SPDX-License-Identifier: MIT
"""The credentials of a connection: certificates and a user's secret, from files
that are read again before each connection."""

from __future__ import annotations

import logging
import os
import ssl
import weakref
from typing import Dict, Hashable, NamedTuple, Optional, Tuple

from .secret import SecretFile, greeting_of, path_of
from .tls import Texts, Tls, context_from, folder_of, read_folder

LOG = logging.getLogger('hasp')


class _Read(NamedTuple):
    """The contents of the files."""
    texts: Optional[Texts]
    user: Tuple[str, ...]


class Credentials:
    """The credentials of a folder and a secret file, shared by all links of the
    process that use them. If the files are half written, or belong to another
    user, the last good credentials stay in use. An SSLContext that the program
    passed is never replaced."""

    def __init__(self, tls: Tls, secret_file: SecretFile) -> None:
        self._given = tls if isinstance(tls, ssl.SSLContext) else None
        self._folder = '' if self._given else folder_of(tls)
        self._path = path_of(secret_file)
        self._refused: Optional[str] = None
        self.is_known = False  # A node has done a request.
        self._read = self._read_files()
        self.context, self._name = self._made(self._read)
        self.user = self._read.user

    def _read_files(self) -> _Read:
        return _Read(read_folder(self._folder) if self._folder else None,
                     greeting_of(self._path))

    def _made(self, found: _Read) -> Tuple[Optional[ssl.SSLContext], str]:
        """Returns a context, and the user that its certificate names."""
        if found.texts is None:
            return self._given, ''
        return context_from(found.texts)

    def who(self) -> Tuple[str, ...]:
        """The users named by the secret and by the certificate."""
        return self.user[1:2] + (self._name,)

    def renew(self) -> Tuple[bool, str]:
        """Reads the files again. Returns whether they changed and are now in use,
        and, once for each reason, why they are not."""
        # No mutex: an interrupted thread would leave it locked, and the loop
        # that keeps all sessions would wait for it. Two loops that renew at
        # once read the same files.
        try:
            found = self._read_files()
            if found == self._read:
                self._refused = None
                return False, ''
            context, name = self._made(found)
            if found.user[1:2] + (name,) != self.who():
                raise ValueError('they belong to another user, which has no '
                                 'rights to this session')
        except (OSError, ValueError) as error:
            text = not_taken(error)
            is_news, self._refused = text != self._refused, text
            return False, text if is_news else ''
        self.context, self.user, self._name = context, found.user, name
        self._read, self._refused = found, None
        return True, ''


_known: Dict[Hashable, Credentials] = {}  # The credentials of files.


def credentials_of(tls: Tls, secret_file: SecretFile) -> Credentials:
    """Returns the same object for the same connections: while a session of the
    process uses the files, they can be half written when another one is
    opened."""
    if isinstance(tls, ssl.SSLContext):
        key: Hashable = (id(tls), path_of(secret_file))
        return _in_memory(key, tls, secret_file)
    key = (folder_of(tls), path_of(secret_file))
    known = _known.get(key)
    try:
        made = Credentials(tls, secret_file)
    except (OSError, ValueError) as error:
        if known is None or not known.is_known:
            raise
        LOG.warning('%s', not_taken(error))
        return known
    if known is None:
        return _known.setdefault(key, made)  # Another thread can be faster.
    if known.who() != made.who():
        _known[key] = known = made
    return known


_of_contexts: weakref.WeakValueDictionary[Hashable, Credentials] = \
    weakref.WeakValueDictionary()


def _in_memory(key: Hashable, tls: Tls, secret_file: SecretFile) -> Credentials:
    """The credentials of a context that the program passed, kept as long as a
    session uses it."""
    made = Credentials(tls, secret_file)
    known = _of_contexts.get(key)
    if known is None or known.who() != made.who():
        _of_contexts[key] = known = made
    return known


def not_taken(error: Exception) -> str:
    return f'the new certificates or secret are not taken: {error}'
