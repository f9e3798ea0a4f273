"""The page's files as they are served: read once, compressed once, immutable under a version.

`index.html` is a template: `{{prefix}}` becomes the path prefix, `{{assets}}` the folder of the
version, both without a slash at their ends. The version has a digest of all files, so that a
browser never mixes two of them. Invariant: what is served was in the folder at the start, so no
path leads out of it.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "static"
_INDEX: Final = "index.html"
_COMPRESSED: Final = (".css", ".html", ".js", ".json", ".map", ".svg", ".txt")
_TYPES: Final = {".js": "text/javascript", ".map": "application/json", ".md": "text/plain"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file; `zipped` is None where gzip makes it no smaller."""

    body: bytes
    zipped: bytes | None
    content_type: str


class StaticAssets:
    """All files of the page."""

    def __init__(self, *, version: str, prefix: str, folder: Path = FOLDER) -> None:
        """Take the files as they are now, without links."""
        self._folder = folder
        self._known = {
            path.relative_to(folder).as_posix(): path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.is_symlink() and path.name != _INDEX
        }
        self._files: dict[str, StaticFile] = {}
        digest = hashlib.sha256()
        for name, path in self._known.items():
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
        self.version = f"{version}-{digest.hexdigest()[:12]}"
        template = (folder / _INDEX).read_text(encoding="utf-8")
        page = template.replace("{{prefix}}", prefix).replace(
            "{{assets}}", f"{prefix}/assets/{self.version}"
        )
        self.index = _served(page.encode(), ".html")

    def find(self, version: str, name: str) -> StaticFile | None:
        """The file of that name; None for another version, or where there is none."""
        path = self._known.get(name)
        if path is None or version != self.version:
            return None
        found = self._files.get(name)
        if found is None:
            found = self._files[name] = _served(path.read_bytes(), path.suffix)
        return found


def _served(body: bytes, suffix: str) -> StaticFile:
    zipped = gzip.compress(body, 6, mtime=0) if suffix in _COMPRESSED else None
    kind = _TYPES.get(suffix) or mimetypes.guess_type(f"x{suffix}")[0]
    return StaticFile(
        body,
        zipped if zipped is not None and len(zipped) < len(body) else None,
        kind or "application/octet-stream",
    )
