# SPDX-License-Identifier: MIT
"""What help() says of the options of locks and sessions, wherever they are
given."""

from __future__ import annotations

import inspect
from typing import Callable, TypeVar

T = TypeVar('T')

LOCK = """\
Options, by keyword; durations in seconds:

shared: True: held together with other shared holders.
slots: held by so many at once; all must say the same number.
value: a text that is shown to people; an Election's to the others.
delay: it stays closed for so long after its holder died.
hold: a hold ends after so long, whatever happens.
barge: True: passes those who wait, never those who hold.
owner: the same owner acquires again, and must release as often.
timeout: for acquire() and `with`, where they say none."""

CANCEL_ON_LOSS = """
cancel_on_loss: True: the task inside `async with` is cancelled as soon as the
    hold cannot be trusted."""

SESSION = """\
Options, by keyword but for the first one; durations in seconds:

endpoints: 'host:port,...' or a list; 'unix:/path' is a node's listen.local on
    this machine. None: HASP_ENDPOINTS, or three nodes on loopback.
name: shown to people; by default program and pid.
ttl: locks pass on so long after the last heartbeat.
linger: and so long after the connections are gone; 0: after 'ttl'.
timeout: for one request, apart from the wait for a lock.
alive: unless alive() is called so often, the lease is not renewed.
tls: a folder with ca.crt, and client.crt with client.key ('hasp cert user'
    makes it), or an ssl.SSLContext; None: HASP_TLS, or plain.
secret_file: a file with the secret of a user ('hasp secret add' writes it,
    0600); None: HASP_SECRET_FILE, or the user of the certificate, or anyone.
durable: True: a session without end, which no time ends; what it holds
    outlives the program until somebody gives it back or breaks it.
reason: of a durable session, for people who find the lock closed.
own_connection: True: not shared with the other sessions of the process, which
    have one for all that ask the same nodes in the same way.
on_event: is called with each Event."""


def explains(text: str) -> Callable[[T], T]:
    """Adds the text to the documentation of a class or a function."""
    def add(documented: T) -> T:
        documented.__doc__ = '%s\n\n%s' % (
            inspect.cleandoc(documented.__doc__ or ''), text)
        return documented
    return add
