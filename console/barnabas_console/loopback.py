"""Which names and addresses mean this machine. Pure."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine, whoever resolves it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
