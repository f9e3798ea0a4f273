"""What the operator asks of an API server, and how that can fail.

A Protocol: `dynamic_api` is the real one, tests have others. Objects are manifests as the API
server gives them. No call retries: reconciling again is the retry.

Invariants: `apply` takes the whole intent for an object each time, because a field that is left out
of a server-side apply is removed; a pod keeps its grace period (brokers need it to drain) unless it
never served; a status is written only onto the version that it was computed from.
"""

from __future__ import annotations

# `list` is a method below, so that annotations there need the type by another name.
from builtins import list as List
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from barnabas_operator.kubernetes.kinds import Kind

Object: TypeAlias = dict[str, Any]

FIELD_MANAGER = "barnabas-operator"


class KubernetesError(Exception):
    """The API server refused or could not be asked. `code` is the HTTP status, 0 without one."""

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class NotFoundError(KubernetesError):
    """The object, its namespace or its kind is not there: 404, or 410 of a watch."""


class ConflictError(KubernetesError):
    """The object has changed meanwhile, is another one, or exists already: 409. Read it again."""


class InvalidError(KubernetesError):
    """The API server will not take this object: 400 or 422. Sending it again does not help."""


class ForbiddenError(KubernetesError):
    """The operator's account may not do this, or its credentials are bad: 401 or 403."""


class UnavailableError(KubernetesError):
    """No useful answer: network, 5xx or 429. What was asked may have been done or not.

    `retry_after_seconds` is what the server asked for, 0 where it said nothing.
    """

    def __init__(self, message: str, *, code: int = 0, retry_after_seconds: float = 0) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds


class KubernetesApi(Protocol):
    """Reads and writes objects; each method raises KubernetesError."""

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """The object, or None where it is not there."""
        ...

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> List[Object]:
        """All objects, of one namespace or of the cluster, each with apiVersion and kind.

        Selectors are written as `kubectl` takes them.
        """
        ...

    async def create(self, manifest: Object) -> Object:
        """The object as it was made. Raises: ConflictError if one of its name exists."""
        ...

    async def apply(self, manifest: Object) -> Object:
        """The object after a server-side apply of all that the operator wants of it.

        Fields of other owners stay; where they disagree the operator wins.
        """
        ...

    async def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        patch: Mapping[str, Any],
        *,
        uid: str | None = None,
    ) -> Object:
        """The object after a JSON merge patch.

        Raises: ConflictError if it does not have this `uid`; NotFoundError.
        """
        ...

    async def patch_status(self, manifest: Object, status: Mapping[str, Any]) -> Object:
        """The object after a JSON merge patch of its status: None removes a field.

        Raises: ConflictError if it is no longer the version that `manifest` is; NotFoundError.
        """
        ...

    async def delete(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        """Whether there was one to delete; it may still be going.

        A pod has its own grace period, in which brokers drain, unless `grace_seconds` are given.
        Raises: ConflictError if it does not have this `uid`.
        """
        ...
