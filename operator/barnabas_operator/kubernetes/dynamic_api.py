"""`KubernetesApi` on a real API server, with the dynamic client of `kubernetes.aio`.

The dynamic client would find out by discovery what the server serves; the operator knows its kinds,
so it names their paths and saves those requests. Only of a kind that clusters serve in different
versions it asks once which one this is; callers always see the newest.

Invariants: a write is sent only if `guard` lets it, which is how an operator that has lost its
Lease stops in the middle of a pass; every answer, good or bad, is told to `observe`.
"""

from __future__ import annotations

import asyncio
import json
from builtins import list as List
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import aiohttp
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.dynamic.client import DynamicClient
from kubernetes.aio.dynamic.resource import Resource

from barnabas_operator.kubernetes.api import (
    FIELD_MANAGER,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubernetesError,
    NotFoundError,
    Object,
    UnavailableError,
)
from barnabas_operator.kubernetes.kinds import Kind, kind_of
from barnabas_operator.kubernetes.objects import name_of, namespace_of, resource_version_of, uid_of

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

# They are not annotated; named here, the checker need not be told at each use.
_NewClient: Any = DynamicClient
_NewResource: Any = Resource

_MERGE_PATCH = "application/merge-patch+json"
# A page is parsed at one go, which must not take long: a Topic has two to four kilobytes.
_PAGE_OBJECTS = 200


class RequestObserver(Protocol):
    """Hears of every request: what was asked of which kind and the status, 0 without one."""

    def __call__(self, verb: str, kind: Kind, code: int) -> None:
        """Take note."""
        ...


# Told of each whole list: the objects, and the namespace and labels that were asked for.
ListObserver: TypeAlias = Callable[[Kind, List[Object], str | None, str], None]


class DynamicApi:
    """The API server behind one client, which stays its owner's to close."""

    def __init__(
        self,
        client: ApiClient,
        *,
        guard: Callable[[], None] = lambda: None,
        observe: RequestObserver = lambda verb, kind, code: None,
        on_list: ListObserver = lambda kind, found, namespace, label_selector: None,
        request_timeout_seconds: float = 10,
    ) -> None:
        """Take the client; `guard` raises KubernetesError where nothing may be written."""
        self._client = _NewClient(client)
        self._guard = guard
        self._observe = observe
        self._on_list = on_list
        self._timeout = aiohttp.ClientTimeout(total=request_timeout_seconds, sock_connect=5)
        self._served_as: dict[Kind, Kind] = {}

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """The object, or None where it is not there."""
        try:
            served = await self._served(kind)
            found = await self._request("get", kind, served.path(namespace, name))
        except NotFoundError:
            return None
        return _as(kind, found)

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> List[Object]:
        """All objects, page by page."""
        found: List[Object] = []
        more: str | None = None
        served = await self._served(kind)
        while True:
            page = await self._request(
                "list",
                kind,
                served.path(namespace),
                label_selector=label_selector or None,
                field_selector=field_selector or None,
                limit=_PAGE_OBJECTS,
                _continue=more,
            )
            # Lists leave out what all of their objects have in common.
            common = {"apiVersion": kind.api_version, "kind": kind.kind}
            found += [{**one, **common} for one in page.get("items") or ()]
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                if not field_selector:
                    # Neither the last page nor what comes after is in the same stretch of work.
                    await asyncio.sleep(0)
                    self._on_list(kind, found, namespace, label_selector)
                    await asyncio.sleep(0)
                return found

    async def create(self, manifest: Object) -> Object:
        """The object as it was made."""
        kind = _kind(manifest)
        served = await self._served(kind)
        path, body = served.path(namespace_of(manifest)), _as(served, manifest)
        made = await self._request("create", kind, path, body=body, field_manager=FIELD_MANAGER)
        return _as(kind, made)

    async def apply(self, manifest: Object) -> Object:
        """The object after a server-side apply."""
        kind = _kind(manifest)
        served = await self._served(kind)
        after = await self._answer(
            "apply",
            kind,
            self._client.server_side_apply(
                _resource(served),
                body=_as(served, manifest),
                namespace=namespace_of(manifest) or None,
                field_manager=FIELD_MANAGER,
                force_conflicts=True,
                serialize=False,
                _request_timeout=self._timeout,
            ),
        )
        return _as(kind, after)

    async def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        patch: Mapping[str, Any],
        *,
        uid: str | None = None,
    ) -> Object:
        """The object after a merge patch."""
        body = dict(patch)
        if uid is not None:
            body["metadata"] = {**(body.get("metadata") or {}), "uid": uid}
        path = (await self._served(kind)).path(namespace, name)
        after = await self._request("patch", kind, path, body=body, content_type=_MERGE_PATCH)
        return _as(kind, after)

    async def patch_status(self, manifest: Object, status: Mapping[str, Any]) -> Object:
        """The object after a merge patch of its status, if it is still this version."""
        kind = _kind(manifest)
        path = kind.path(namespace_of(manifest), name_of(manifest)) + "/status"
        metadata = {"resourceVersion": resource_version_of(manifest), "uid": uid_of(manifest)}
        body = {"metadata": metadata, "status": dict(status)}
        return await self._request("patch_status", kind, path, body=body, content_type=_MERGE_PATCH)

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
        """Whether there was one to delete."""
        options: dict[str, Any] = {"propagationPolicy": propagation}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            served = await self._served(kind)
            await self._request("delete", kind, served.path(namespace, name), body=options)
        except NotFoundError:
            return False
        return True

    async def _served(self, kind: Kind) -> Kind:
        """The kind in the newest of its versions that the server has, the newest if it has none."""
        if not kind.older:
            return kind
        known = self._served_as.get(kind)
        if known is not None:
            return known
        for version in kind.versions():
            try:
                found = await self._request("list", kind, f"/apis/{version.api_version}")
            except NotFoundError:
                continue
            if any(one.get("name") == kind.plural for one in found.get("resources") or ()):
                self._served_as[kind] = version
                return version
        return kind

    async def _request(self, verb: str, kind: Kind, path: str, **params: Any) -> Object:
        call = self._client.request(
            _METHODS[verb], path, serialize=False, _request_timeout=self._timeout, **params
        )
        return await self._answer(verb, kind, call)

    async def _answer(self, verb: str, kind: Kind, call: Any) -> Object:
        """Send what was prepared; every failure becomes one of ours.

        Raises: KubernetesError.
        """
        code = 0
        try:
            if verb not in _READS:
                self._guard()
            response = await call
            code = response.status
            document: Object = json.loads(await response.read())
        except ApiException as error:
            code = error.status or 0
            if code == 404:
                # It may be served in another version by now; of others nothing is kept.
                self._served_as.pop(kind, None)
            raise _refusal(error, f"{verb} {kind.kind}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise UnavailableError(f"{verb} {kind.kind}: {reason}") from error
        except ValueError as error:
            raise UnavailableError(f"{verb} {kind.kind}: no JSON in the answer") from error
        finally:
            # Where the guard has raised, nothing was awaited and nothing was sent.
            call.close()
            self._observe(verb, kind, code)
        return document


_METHODS = {
    "get": "get",
    "list": "get",
    "create": "post",
    "patch": "patch",
    "patch_status": "patch",
    "delete": "delete",
}
_READS = frozenset({"get", "list"})


def _kind(manifest: Mapping[str, Any]) -> Kind:
    return kind_of(manifest["apiVersion"], manifest["kind"])


def _as(kind: Kind, document: Object) -> Object:
    """An object as one of that version of its kind."""
    if document.get("apiVersion") == kind.api_version:
        return document
    return {**document, "apiVersion": kind.api_version}


def _resource(kind: Kind) -> Any:
    return _NewResource(
        prefix="apis" if kind.group else "api",
        group=kind.group,
        api_version=kind.version,
        kind=kind.kind,
        namespaced=kind.is_namespaced,
        name=kind.plural,
    )


def _refusal(error: ApiException, action: str) -> KubernetesError:
    """The error for an answer that is none of 2xx."""
    code = error.status or 0
    message = f"{action}: {_message(error)}"
    match code:
        case 400 | 422:
            return InvalidError(message, code=code)
        case 401 | 403:
            return ForbiddenError(message, code=code)
        case 404 | 410:
            return NotFoundError(message, code=code)
        case 409:
            return ConflictError(message, code=code)
        case 429:
            return UnavailableError(
                message, code=code, retry_after_seconds=_retry_after_seconds(error)
            )
        case _ if code >= 500:
            return UnavailableError(
                message, code=code, retry_after_seconds=_retry_after_seconds(error)
            )
        case _:
            return KubernetesError(message, code=code)


def _message(error: ApiException) -> str:
    """What the server says in its Status, or the bare HTTP reason."""
    try:
        document = json.loads(error.body or "")
    except ValueError:
        document = None
    if isinstance(document, dict) and document.get("message"):
        return str(document["message"])
    return f"{error.status} {error.reason}"


def _retry_after_seconds(error: ApiException) -> float:
    try:
        return max(0.0, float((error.headers or {}).get("Retry-After", 0)))
    except ValueError:
        return 0.0
