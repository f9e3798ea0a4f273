"""A file store in memory that dies at a chosen step, and what a reader of an archive sees of it."""

import errno
import json
from collections.abc import Callable


class Killed(BaseException):
    """The process is gone: nothing that it does from now on has an effect."""


class MemoryFiles:
    """The interface of `FileStore`; every single change is a step at which it may end.

    With `renames`, publishing is one step, as on a disk; without, files are copied and then deleted
    one by one, as object stores do.
    """

    def __init__(self, *, renames: bool = True) -> None:
        self.contents: dict[str, str] = {}
        self.renames = renames
        self.steps = 0
        self.last_step: int | None = None
        self.watch: Callable[[], None] = lambda: None

    def url(self, path: str = "") -> str:
        return f"memory:/{path}"

    def names(self, path: str = "") -> tuple[str, ...]:
        prefix = f"{path}/" if path else ""
        found = {
            one.removeprefix(prefix).partition("/")[0]
            for one in self.contents
            if one.startswith(prefix)
        }
        return tuple(sorted(found))

    def files(self, path: str) -> dict[str, int]:
        prefix = f"{path}/"
        return {
            one.removeprefix(prefix): len(text)
            for one, text in sorted(self.contents.items())
            if one.startswith(prefix)
        }

    def read(self, path: str) -> str | None:
        return self.contents.get(path)

    def write(self, path: str, text: str) -> None:
        self._step()
        self.contents[path] = text

    def publish(self, source: str, target: str) -> None:
        if not self.files(source):
            raise FileNotFoundError(errno.ENOENT, "missing", source)
        if self.files(target):
            raise FileExistsError(errno.EEXIST, "it exists already", target)
        if self.renames:
            self._step()
            for below in self.files(source):
                self.contents[f"{target}/{below}"] = self.contents.pop(f"{source}/{below}")
            return
        copied = self.files(source)
        for below in copied:
            self._step()
            self.contents[f"{target}/{below}"] = self.contents[f"{source}/{below}"]
        for below in copied:
            self._step()
            del self.contents[f"{source}/{below}"]

    def delete(self, path: str) -> None:
        for one in sorted(self.contents):
            if one == path or one.startswith(f"{path}/"):
                self._step()
                del self.contents[one]

    def _step(self) -> None:
        self.watch()
        self.steps += 1
        if self.last_step is not None and self.steps > self.last_step:
            raise Killed


def visible_rows(store: MemoryFiles) -> list[tuple[int, int]]:
    """What a reader finds, as `StoryStager` writes it: partition and offset of every record."""
    found: list[tuple[int, int]] = []
    for path, text in store.contents.items():
        if path.startswith("batch=") and path.endswith(".parquet"):
            found += [(partition, offset) for partition, offset in json.loads(text)]
    return sorted(found)
