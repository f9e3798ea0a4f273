"""Who wrote what to the API server of the lab, from its audit log."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write that the API server has answered."""

    user: str
    verb: str
    resource: str  # with its group and subresource, as in topics.barnabas.dev/status
    namespace: str
    name: str
    code: int
    at: str

    def __str__(self) -> str:
        return f"{self.at} {self.verb} {self.resource} {self.namespace}/{self.name} → {self.code}"


class AuditLog:
    """What is appended to the file from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size

    def writes_by(self, service_account: str) -> list[Write]:
        """Writes of `namespace:name` since this was made."""
        user = f"system:serviceaccount:{service_account}"
        return [write for write in self._writes() if write.user == user]

    def _writes(self) -> Iterator[Write]:
        with self._path.open("rb") as file:
            file.seek(self._position)
            # The last line may be half written; the API server ends each with a line feed.
            whole, _, _ = file.read().rpartition(b"\n")
        for line in whole.splitlines():
            event = json.loads(line)
            if event["verb"] in WRITES and event["stage"] in ("ResponseComplete", "Panic"):
                yield _write(event)


def _write(event: dict[str, object]) -> Write:
    reference = event.get("objectRef")
    reference = reference if isinstance(reference, dict) else {}
    status = event.get("responseStatus")
    user = event["user"]
    assert isinstance(user, dict)
    resource = str(reference.get("resource", event["requestURI"]))
    if reference.get("apiGroup"):
        resource += f".{reference['apiGroup']}"
    if reference.get("subresource"):
        resource += f"/{reference['subresource']}"
    return Write(
        user=str(user["username"]),
        verb=str(event["verb"]),
        resource=resource,
        namespace=str(reference.get("namespace", "")),
        name=str(reference.get("name", "")),
        code=int(status["code"]) if isinstance(status, dict) else 0,
        at=str(event["stageTimestamp"]),
    )
