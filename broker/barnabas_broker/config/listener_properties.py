"""Settings of a single listener: `listener.name.<lower case>.<key>` comes before `<key>` (SEC-1).

Which keys may be given so is said by the tables that own them; a mechanism's keys have its name in
front of theirs once more: `listener.name.x.scram-sha-512.sasl.jaas.config`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

LISTENER_PREFIX: Final = "listener.name."


class ListenerKey(NamedTuple):
    """A key that was given for one listener."""

    listener: str  # upper case, as endpoints have it
    key: str  # without the listener's prefix


def split_listener_key(key: str) -> ListenerKey | None:
    """The listener and the rest of a key with a listener's prefix; None for any other key."""
    if not key.startswith(LISTENER_PREFIX):
        return None
    listener, dot, rest = key[len(LISTENER_PREFIX) :].partition(".")
    return ListenerKey(listener.upper(), rest) if dot and listener and rest else None


def listener_key(listener: str, key: str) -> str:
    """A key as it is given for one listener."""
    return f"{LISTENER_PREFIX}{listener.lower()}.{key}"


class ListenerProperties:
    """What was given for one listener: its own values before those of all listeners."""

    __slots__ = ("_own", "_properties", "listener")

    def __init__(self, listener: str, properties: Mapping[str, str]) -> None:
        self.listener = listener
        self._properties = properties
        self._own: dict[str, tuple[str, str]] = {}
        for name, text in properties.items():
            split = split_listener_key(name)
            # Names of listeners differ in more than their case, and prefixes are lower case.
            if split is not None and name == listener_key(listener, split.key):
                self._own[split.key] = name, text

    def get(self, key: str) -> str | None:
        """The text of a key; None where it is not given."""
        own = self._own.get(key)
        return own[1] if own is not None else self._properties.get(key)

    def own(self, key: str) -> str | None:
        """The text that was given with the listener's prefix."""
        own = self._own.get(key)
        return None if own is None else own[1]

    def name_of(self, key: str) -> str:
        """The key as it was given, for messages."""
        own = self._own.get(key)
        return key if own is None else own[0]

    def has_any(self, keys: Iterable[str]) -> bool:
        """Whether one of the keys was given."""
        return any(self.get(key) for key in keys)
