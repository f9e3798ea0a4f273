"""Whose connections are those of brokers, and of which: `barnabas.broker.principals`.

A list of principals, separated by semicolons since names of certificates have commas. `{id}` in one
stands for the broker's node id: `User:CN=broker-{id},O=shop` lets the holder of that certificate
speak for that broker alone. One without it may speak for every broker: for clusters whose brokers
share a log-in, and, as `User:ANONYMOUS`, while they do not log in yet.

Source: SEC-60.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.security.principal import Principal

KEY: Final = "barnabas.broker.principals"
PLACE: Final = "{id}"
_NODE_ID_MAX: Final = 2**31 - 1
_DIGITS_MAX: Final = len(str(_NODE_ID_MAX))


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A principal; the name of one broker's stands between prefix and suffix."""

    type: str
    prefix: str
    suffix: str | None  # None: the prefix is the whole name, of every broker

    def node_id(self, principal: Principal) -> int | None:
        """Which broker a principal is; None where it does not fit."""
        name = principal.name
        assert self.suffix is not None
        if not (
            principal.type == self.type
            and len(name) > len(self.prefix) + len(self.suffix)
            and name.startswith(self.prefix)
            and name.endswith(self.suffix)
        ):
            return None
        digits = name[len(self.prefix) : len(name) - len(self.suffix)]
        # One spelling for each node: no signs, blanks, leading zeros or digits of other scripts.
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
            return None
        node_id = int(digits)
        return node_id if str(node_id) == digits and node_id <= _NODE_ID_MAX else None


class BrokerPrincipals:
    """Tells brokers from everybody else by their principals."""

    __slots__ = ("_bound", "_shared")

    def __init__(self, patterns: tuple[_Pattern, ...]) -> None:
        """See `parse`."""
        self._bound = tuple(pattern for pattern in patterns if pattern.suffix is not None)
        self._shared = frozenset(
            Principal(pattern.type, pattern.prefix)
            for pattern in patterns
            if pattern.suffix is None
        )

    @staticmethod
    def parse(text: str) -> BrokerPrincipals:
        """Those in the text of the setting; an empty one names nobody. Raises: ConfigError."""
        return BrokerPrincipals(
            tuple(_pattern(item.strip()) for item in text.split(";") if item.strip())
        )

    @property
    def shared(self) -> frozenset[Principal]:
        """Who may speak for every broker."""
        return self._shared

    def __contains__(self, principal: Principal) -> bool:
        """Whether a principal is a broker's."""
        return principal in self._shared or any(
            pattern.node_id(principal) is not None for pattern in self._bound
        )

    def may_speak_for(self, principal: Principal, node_id: int) -> bool:
        """Whether a principal is that of this broker."""
        return principal in self._shared or any(
            pattern.node_id(principal) == node_id for pattern in self._bound
        )


def _pattern(text: str) -> _Pattern:
    try:
        principal = Principal.parse(text)
    except ValueError as error:
        raise ConfigError(f"{KEY}: {error}") from None
    prefix, *suffixes = principal.name.split(PLACE)
    if len(suffixes) > 1:
        raise ConfigError(f"{KEY}: {text} has {PLACE} more than once")
    if not suffixes:
        return _Pattern(principal.type, prefix, None)
    if prefix[-1:].isdigit() or suffixes[0][:1].isdigit():
        # Whose name is broker-12: that of 12 by broker-{id}, or of 2 by broker-1{id}?
        raise ConfigError(f"{KEY}: {text} has a digit beside {PLACE}")
    return _Pattern(principal.type, prefix, suffixes[0])
