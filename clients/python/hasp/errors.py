# SPDX-License-Identifier: MIT
"""What can go wrong, told apart by what the caller can do about it."""


class HaspError(Exception):
    """Base of all."""


class Unreachable(HaspError):
    """No node answered, or none knows a leader, in time. Nothing was done."""


class Unknown(HaspError):
    """The connection was lost and asking again has not told the outcome."""


class Refused(HaspError):
    """The server said no; 'code' is its word: LIMIT, DEADLOCK and so on."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.split(' ', 1)[0]


class NotHeld(HaspError):
    """The lock is not held (any more) by this owner."""


class LeaseLost(HaspError):
    """The session's lease cannot be trusted any more: stop using its locks."""
