"""Which files with secrets are open to everybody, and what to tell of one, as `ssh` does. Pure.

A group may read them: that is how the operator mounts Secrets. In a volume of Kubernetes everybody
may: its mode is 0644 unless somebody says otherwise, and whoever is in the container is the pod.
Brokers and clients look at their files themselves, and use them all the same.
"""

from __future__ import annotations

import stat
from pathlib import PurePath
from typing import Final

_MOUNT_LINK: Final = "..data"


def mount_link(path: str | PurePath) -> PurePath:
    """What is a link beside a file of a Secret that is mounted: the kubelet exchanges it whole."""
    return PurePath(path).parent / _MOUNT_LINK


def warning_of(setting: str, path: str | PurePath, mode: int, *, is_mounted: bool) -> str | None:
    """What to tell of the file of a setting, None where it is as it should be."""
    if is_mounted or not mode & stat.S_IROTH:
        return None
    return (
        f"{setting}: everybody on this machine can read {path}, which holds secrets "
        f"(mode {stat.S_IMODE(mode):04o}): chmod 600"
    )
