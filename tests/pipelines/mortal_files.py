"""A file store that dies at a chosen change, as a process does that is killed."""

from collections.abc import Callable
from typing import Any

from barnabas_pipelines.storage.file_store import FileStore

CHANGES = ("write", "publish", "delete")


class Killed(BaseException):
    """The process is gone: nothing catches it."""


class MortalFiles:
    """Files that die at one of the changes that are made, before it or after it."""

    def __init__(self, store: FileStore, fatal: int = -1, *, is_after: bool = False) -> None:
        self._store = store
        self._fatal = fatal
        self._is_after = is_after
        self.changes: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return self._mortal(name, method) if name in CHANGES else method

    def _mortal(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def change(*arguments: Any) -> Any:
            is_fatal = len(self.changes) == self._fatal
            self.changes.append(f"{name} {arguments[0]}")
            if is_fatal and not self._is_after:
                raise Killed
            result = method(*arguments)
            if is_fatal:
                raise Killed
            return result

        return change
