# SPDX-License-Identifier: MIT
"""The descriptions of lock and session options that help() shows."""

from __future__ import annotations

import inspect
from typing import Callable, TypeVar

T = TypeVar('T')

LOCK = """\
Options, by keyword; durations in seconds:

shared: True: held together with other shared holders.
slots: number of concurrent holders; all users must give the same number.
value: a text shown to people; in an Election, to the other candidates.
trace: a W3C traceparent, shown with the hold or the wait.
delay: how long the lock stays closed after its holder died.
hold: maximum duration of a hold; it ends then in any case.
barge: True: skips the queue; holders are not affected.
owner: the same owner can acquire again, and must release as often.
timeout: default timeout of acquire() and `with`.
on_grant: called with each name and its token before the lock is reported as
    acquired, to close the resource to earlier holders. If it raises, or takes
    longer than seal_time, the lock is given back: SealFailed. Not called when
    the owner acquires the lock again, nor by convert().
seal_time: limit of on_grant; default: as long as the lease can be trusted."""

CANCEL_ON_LOSS = """
cancel_on_loss: True: the task in `async with` is cancelled as soon as the
    hold cannot be trusted."""

SESSION = """\
Options, by keyword except the first one; durations in seconds:

endpoints: 'host:port,...' or a list; 'unix:/path' is a node's listen.local on
    this machine. None: HASP_ENDPOINTS, or three nodes on loopback.
name: shown to people; default: program and pid.
ttl: time from the last heartbeat until the session's locks pass on; default:
    10, or 60 with a tie.
linger: the same, from the loss of the last connection; 0: 'ttl' counts.
timeout: limit of one request, without the wait for a lock.
alive: interval in which alive() must be called; otherwise the lease is not
    renewed.
tls: a folder with ca.crt, and client.crt with client.key ('hasp cert user'
    makes it), or an ssl.SSLContext; None: HASP_TLS, or plain.
secret_file: a file with the secret of a user ('hasp secret add' writes it,
    0600); None: HASP_SECRET_FILE, or the user of the certificate, or anyone.
durable: True: the session never expires. Its holds outlive the program until
    somebody releases or breaks them.
reason: reason of a durable session, shown to people who wait for its locks.
own_connection: True: a connection that is not shared. By default sessions of
    a process with the same endpoints, credentials and lease share one.
tie: 'try' or 'must': the agent of this host (hasp agent) ends the session as
    soon as this process is dead. What the process has sent can still arrive:
    check the token, or acquire with a delay. 'must': opening fails without.
agent: the agent's socket; None: HASP_AGENT, or /run/hasp-agent/agent.sock.
on_event: called with each Event.
hooks: a Hooks object, called for each acquisition: traces and metrics."""


def explains(text: str) -> Callable[[T], T]:
    """Appends the text to the docstring of a class or a function."""
    def add(documented: T) -> T:
        documented.__doc__ = '%s\n\n%s' % (
            inspect.cleandoc(documented.__doc__ or ''), text)
        return documented
    return add
