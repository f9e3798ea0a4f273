"""Who is at the other end of a connection.

Source: KIP-11; `Type:name`, split at the first colon, so that names may have colons themselves.
"""

from __future__ import annotations

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """Somebody who can log in."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @staticmethod
    def parse(text: str) -> Principal:
        """The principal of `Type:name`. Raises: ValueError."""
        kind, separator, name = text.partition(":")
        if not (kind and separator and name):
            raise ValueError(f"{text!r} is not of the form Type:name, as in User:alice")
        return Principal(kind, name)

    @staticmethod
    def user(name: str) -> Principal:
        """The principal of a user's name."""
        return Principal(USER, name)


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Who has not said who they are."""
