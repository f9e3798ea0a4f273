"""Tells who keeps a secret in a file that everybody on the machine can read, as `ssh` does.

Not here: which files those are, and what is told (`barnabas_protocol.settings.secret_files`).
"""

from __future__ import annotations

import logging
from functools import lru_cache
from pathlib import Path
from typing import Final

from barnabas_protocol.settings.secret_files import mount_link, warning_of

_log: Final = logging.getLogger(__name__)
_WARNINGS_KEPT: Final = 100


def warn_if_others_read(path: str | Path, setting: str) -> None:
    """Write a warning where others may read the file of a setting; once a file and mode."""
    try:
        mode = Path(path).stat().st_mode
        is_mounted = Path(mount_link(path)).is_symlink()
    except OSError:
        return  # whoever reads it tells
    warning = warning_of(setting, path, mode, is_mounted=is_mounted)
    if warning is not None:
        _warn(warning)


@lru_cache(_WARNINGS_KEPT)
def _warn(warning: str) -> None:
    _log.warning("%s", warning)
