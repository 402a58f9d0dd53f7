# SPDX-License-Identifier: MIT
"""What can go wrong, told apart by what the caller can do about it."""


class HaspError(Exception):
    """Base of all."""


class Unreachable(HaspError):
    """No node answered, or none knows a leader, in time. Nothing was done."""


class Unknown(HaspError):
    """No answer in time: it may have been done. The session clears it up."""


class Refused(HaspError):
    """The cluster said no; 'code' is its word: LIMIT, DEADLOCK and so on."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.split(' ', 1)[0]


class NotHeld(HaspError):
    """The lock was not held (any more) by this owner."""


class TimedOut(HaspError, TimeoutError):
    """A `with` block was not entered: no lock within the lock's timeout."""


class LeaseLost(HaspError):
    """The lease cannot be trusted: stop using what the lock protects."""


class LeaseShort(LeaseLost):
    """Held, but the step may not end inside the lease, or not for now."""
