"""The first users of a cluster, in a file: whoever is to store the credentials of the others.

    line = name "=" password | "#" comment | nothing

A password is all that follows the first "=". Read while the cluster has no credential, and never
again: what is in the file later does not matter. Pure.

Source: SEC-61; `kafka-storage --add-scram` does the same when it formats directories (KIP-900).
"""

from __future__ import annotations

from typing import Final

FILE_BYTES_MAX: Final = 64 * 1024
USERS_MAX: Final = 200
"""Each costs some milliseconds of hashing at the start."""


def parse_bootstrap_users(data: bytes) -> dict[str, str]:
    """The passwords by name. Raises: ValueError that names a line and shows nothing of it."""
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"it has more than {FILE_BYTES_MAX} bytes")
    users: dict[str, str] = {}
    for number, line in enumerate(data.decode().splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, password = line.partition("=")
        name = name.strip()
        if not (separator and name and password):
            raise ValueError(f"line {number} is not of the form name=password")
        if name in users:
            raise ValueError(f"line {number} names a user for the second time")
        users[name] = password
    if len(users) > USERS_MAX:
        raise ValueError(f"it has {len(users)} users, {USERS_MAX} at most")
    return users
