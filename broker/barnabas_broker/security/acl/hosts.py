"""The hosts of ACLs: every host, one address, or a range of addresses in CIDR notation. Pure.

Addresses are compared as numbers, so that each spelling of one is the same: a client may not leave
a DENY behind by another one. An IPv4 address that came through an IPv6 socket counts as IPv4, in
ACLs too. What is neither an address nor a range is compared as text, and no client has it.

Source: SEC-41; KIP-1276, whose refusals' texts are Kafka's. **ours:** ranges with a zone, a sign,
brackets or leading zeros in an address are refused: what they mean is not the same everywhere.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Final, NamedTuple

from barnabas_broker.security.acl.acl import WILDCARD

_IPV4_CIDR: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_DIGITS: Final = re.compile(r"-?\d+", re.ASCII)
_ADDRESSES_KEPT: Final = 4096


class HostRange(NamedTuple):
    """Addresses of one family that have some bits in common."""

    bits: int  # of an address of the family: 32 or 128
    shift: int  # how many bits of an address do not count
    prefix: int

    def has(self, address: tuple[int, int] | None) -> bool:
        """Whether an address, as of `address_of`, is one of them."""
        return (
            address is not None
            and address[0] == self.bits
            and address[1] >> self.shift == self.prefix
        )


@lru_cache(_ADDRESSES_KEPT)
def address_of(host: str) -> tuple[int, int] | None:
    """The family of an address, by its bits, and its number; None for what is no address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if address.version == 4:
        return 32, int(address)
    if address.scope_id is not None:
        return None
    mapped = address.ipv4_mapped
    return (128, int(address)) if mapped is None else (32, int(mapped))


def range_of(host: str) -> HostRange | str | None:
    """What the host of an ACL stands for: None for every host, a text for one without an address.

    A range that cannot be read stands for nobody.
    """
    if host == WILDCARD:
        return None
    if "/" in host:
        try:
            return parse_cidr(host)
        except ValueError:
            return host
    address = address_of(host)
    return host if address is None else HostRange(address[0], 0, address[1])


def parse_cidr(text: str) -> HostRange:
    """The addresses of a range. Raises: ValueError with Kafka's words."""
    return _parse_ipv6(text) if ":" in text else _parse_ipv4(text)


def _parse_ipv4(text: str) -> HostRange:
    match = _IPV4_CIDR.fullmatch(text)
    if match is None:
        raise ValueError(f"Could not parse [{text}]")
    number = 0
    for octet in match.groups()[:4]:
        if octet != str(int(octet)):
            raise ValueError(f"Could not parse [{text}]")
        number = number << 8 | _in_range(int(octet), 255)
    shift = 32 - _in_range(int(match[5]), 32)
    return HostRange(32, shift, number >> shift)


def _in_range(value: int, maximum: int) -> int:
    if value > maximum:
        raise ValueError(f"Value [{value}] not in range [0,{maximum}]")
    return value


def _parse_ipv6(text: str) -> HostRange:
    address, _, length = text.partition("/")
    if _DIGITS.fullmatch(length) is None:
        raise ValueError(f"Could not parse [{text}] - invalid prefix length")
    # Before it is a number: thousands of digits would take long.
    if len(length) > 4 or not 0 <= int(length) <= 128:
        raise ValueError(f"Could not parse [{text}] - prefix length must be between 0 and 128")
    parsed = address_of(address)
    if parsed is None:
        raise ValueError(f"Could not parse [{address}]")
    if parsed[0] != 128:
        raise ValueError(f"Could not parse [{address}] - not an IPv6 address")
    shift = 128 - int(length)
    return HostRange(128, shift, parsed[1] >> shift)
