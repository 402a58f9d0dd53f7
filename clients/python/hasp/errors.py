# SPDX-License-Identifier: MIT
"""The exceptions, one for each thing that a caller can do about an error."""


class HaspError(Exception):
    """Base class of all errors of this package."""


class Unreachable(HaspError):
    """No node answered in time, or none knew a leader. Nothing was done."""


class Unknown(HaspError):
    """No answer in time: the request might have been done. The session finds
    out in the background."""


class Refused(HaspError):
    """The cluster refused; 'code' is the error word: LIMIT, DEADLOCK ..."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.split(' ', 1)[0]


class NotHeld(HaspError):
    """The lock is not held, or no longer held, by this owner."""


class TimedOut(HaspError, TimeoutError):
    """The lock was not granted within its timeout; raised on entry to `with`."""


class SealFailed(HaspError):
    """The hook of on_grant failed or took too long, so the lock was given back.
    __cause__ is the exception of the hook."""


class LeaseLost(HaspError):
    """The lease cannot be trusted: stop using what the lock protects."""


class LeaseShort(LeaseLost):
    """The lock is held, but the step might not end within the lease."""
