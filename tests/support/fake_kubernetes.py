"""A Kubernetes API server on the loopback address, for kopf and for the operator's own client.

    async with FakeKubernetes() as server:
        server.put(manifest)                       # as a user would
        server.fail("PATCH", "/status$", 422)      # the next such request
        server.writes                              # what others have written, Leases left out

It serves discovery, lists in pages, watches with bookmarks, creates, updates, JSON merge patches,
server-side applies, statuses, deletions and evictions of what `fake_kubernetes_store` keeps.
"""

import asyncio
import copy
import json
import re
import ssl
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from barnabas_operator.kubernetes.kinds import LEASE, POD, Kind, kind_of
from tests.support.admission import asked_about_eviction
from tests.support.fake_kubernetes_discovery import discovery, selector
from tests.support.fake_kubernetes_store import (
    SERVED,
    WITH_STATUS,
    Event,
    FakeStore,
    Manifest,
    Refused,
    merge_patched,
)

_BOOKMARK_SECONDS = 1.0
_PATH = re.compile(
    r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>status|eviction))?$"
)


@dataclass(frozen=True, kw_only=True)
class Write:
    """One request that wanted to change something, with the status that it got."""

    method: str
    path: str
    code: int
    body: Any
    agent: str = ""


@dataclass(kw_only=True)
class Fault:
    """What happens to the next `times` requests that match, instead of (or after) serving them."""

    method: str
    path: re.Pattern[str]
    code: int
    times: int
    is_done_first: bool


class FakeKubernetes:
    """Listens on a free port while it is open."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.requests: list[Write] = []
        self.is_away = False
        self.eviction_webhook: tuple[str, ssl.SSLContext] | None = None
        self._faults: list[Fault] = []
        self._served_as: dict[Kind, str | None] = {}
        self._watches: dict[Kind, list[asyncio.Queue[Event | None]]] = defaultdict(list)
        self.store.listeners.append(self._spread)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    @property
    def writes(self) -> list[Write]:
        """Requests that were to change something, without renewals of Leases."""
        return [
            write
            for write in self.requests
            if write.method != "GET" and f"/{LEASE.plural}" not in write.path
        ]

    async def __aenter__(self) -> Self:
        application = web.Application(middlewares=[self._answer], client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end_watches()
        await self._runner.cleanup()

    def write_kubeconfig(self, path: Path) -> Path:
        """A kubeconfig that leads here."""
        path.write_text(kubeconfig_of(self.address))
        return path

    def put(self, manifest: Manifest) -> Manifest:
        """Create or replace an object as a user would; a status may come along."""
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        namespace = manifest["metadata"].get("namespace", "")
        name = manifest["metadata"]["name"]
        if (namespace, name) not in self.store.objects[kind]:
            made = self.store.create(kind, namespace, manifest)
        else:
            made = self.store.update(
                kind,
                namespace,
                name,
                lambda old: {
                    **old,
                    **copy.deepcopy(manifest),
                    "metadata": {**old["metadata"], **manifest["metadata"]},
                },
            )
        if "status" in manifest and kind in WITH_STATUS:
            status = copy.deepcopy(manifest["status"])
            made = self.store.update(
                kind, namespace, name, lambda old: {**old, "status": status}, is_status=True
            )
        return copy.deepcopy(made)

    def change(self, kind: Kind, namespace: str, name: str, patch: Manifest) -> Manifest:
        """Merge a patch into an object as a user would."""
        return copy.deepcopy(
            self.store.update(kind, namespace, name, lambda old: merge_patched(old, patch))
        )

    def find(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """The object as it is now."""
        found = self.store.objects[kind].get((namespace, name))
        return copy.deepcopy(found)

    def all(self, kind: Kind) -> list[Manifest]:
        """All objects of a kind."""
        return [copy.deepcopy(one) for _, one in sorted(self.store.objects[kind].items())]

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object as a user would."""
        self.store.delete(kind, namespace, name)

    def fail(
        self, method: str, path: str, code: int, *, times: int = 1, is_done_first: bool = False
    ) -> None:
        """Answer the next requests with an error; code 0 closes the connection."""
        self._faults.append(
            Fault(
                method=method,
                path=re.compile(path),
                code=code,
                times=times,
                is_done_first=is_done_first,
            )
        )

    def serve(self, kind: Kind, version: str | None) -> None:
        """From now on this kind, alone in its group, is served in that version only, or in none."""
        self._served_as[kind] = version

    def end_watches(self) -> None:
        """End all watches, as a server does from time to time."""
        for queues in self._watches.values():
            for queue in queues:
                queue.put_nowait(None)

    @web.middleware
    async def _answer(self, request: web.Request, handler: Any) -> web.StreamResponse:
        body = await _body(request)
        fault = self._fault(request)
        if self.is_away:
            fault = Fault(method="", path=re.compile(""), code=0, times=1, is_done_first=False)
        response: web.StreamResponse
        try:
            if fault is not None and not fault.is_done_first:
                raise Refused(fault.code, "Injected", f"injected {fault.code}")
            response = await handler(request)
            if fault is not None:
                raise Refused(fault.code, "Injected", f"injected {fault.code}")
        except Refused as refused:
            self._note(request, refused.code, body)
            if refused.code == 0:
                assert request.transport is not None
                request.transport.abort()
            return _status(refused.code or 500, refused.reason, str(refused))
        self._note(request, response.status, body)
        return response

    def _note(self, request: web.Request, code: int, body: Any) -> None:
        self.requests.append(
            Write(
                method=request.method,
                path=request.path,
                code=code,
                body=body,
                agent=request.headers.get("User-Agent", ""),
            )
        )

    def _fault(self, request: web.Request) -> Fault | None:
        for fault in self._faults:
            if fault.method == request.method and fault.path.search(request.path):
                fault.times -= 1
                if fault.times == 0:
                    self._faults.remove(fault)
                return fault
        return None

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        for kind_of_group, version in self._served_as.items():
            path = _known_path(path, kind_of_group, version)
        if (document := discovery(path)) is not None:
            return web.json_response(document)
        match = _PATH.match(path)
        kind = match and _served(match)
        if match is None or kind is None:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        namespace, name = match["namespace"] or "", match["name"] or ""
        # What was read once is kept by the request.
        body = await _body(request)
        if match["sub"] == "eviction":
            return await self._evict(namespace, name, body)
        match request.method:
            case "GET" if name:
                return web.json_response(self.store.get(kind, namespace, name))
            case "GET" if request.query.get("watch") in ("true", "1"):
                return await self._watch(request, kind, namespace)
            case "GET":
                return web.json_response(self._list(request, kind, namespace))
            case "POST":
                made = self.store.create(kind, namespace, body)
                return web.json_response(made, status=201)
            case "PUT" | "PATCH":
                return web.json_response(
                    self._write(request, body, kind, namespace, name, match["sub"] == "status")
                )
            case "DELETE":
                options = body or {}
                uid = (options.get("preconditions") or {}).get("uid")
                return web.json_response(self.store.delete(kind, namespace, name, uid))
        raise Refused(405, "MethodNotAllowed", request.method)

    async def _evict(self, namespace: str, name: str, eviction: Manifest) -> web.Response:
        """Ask the webhook, whose silence is ignored, as the API server does; then delete."""
        if self.eviction_webhook is not None:
            refusal, warnings = await asked_about_eviction(
                *self.eviction_webhook, namespace, name, eviction
            )
            if refusal is not None:
                raise Refused(refusal["code"], refusal["reason"], refusal["message"])
        else:
            warnings = []
        is_dry_run = (eviction.get("deleteOptions") or {}).get("dryRun")
        one = self.store.get(POD, namespace, name)
        done = one if is_dry_run else self.store.delete(POD, namespace, name)
        headers = {"Warning": ", ".join(f'299 - "{text}"' for text in warnings)}
        return web.json_response(done, status=201, headers=headers if warnings else None)

    def _write(
        self,
        request: web.Request,
        body: Any,
        kind: Kind,
        namespace: str,
        name: str,
        is_status: bool,
    ) -> Manifest:
        change: Callable[[Manifest], Manifest]
        if request.method == "PUT":
            if not body["metadata"].get("resourceVersion"):
                raise Refused(422, "Invalid", "resourceVersion must be specified for an update")
            change = lambda old: body  # noqa: E731
        elif request.content_type == "application/apply-patch+yaml":
            manager = request.query.get("fieldManager")
            if not manager:
                raise Refused(400, "BadRequest", "fieldManager is required for apply")
            return self.store.apply(kind, namespace, name, manager, body)
        elif request.content_type == "application/merge-patch+json":
            change = lambda old: merge_patched(old, body)  # noqa: E731
        else:
            raise Refused(415, "UnsupportedMediaType", request.content_type)
        return self.store.update(kind, namespace, name, change, is_status=is_status)

    def _list(self, request: web.Request, kind: Kind, namespace: str) -> Manifest:
        found = self.store.list(kind, namespace, selector(request))
        start = int(request.query.get("continue", 0))
        limit = int(request.query.get("limit", 0)) or len(found)
        more = {"continue": str(start + limit)} if start + limit < len(found) else {}
        bare = [
            {key: value for key, value in one.items() if key not in ("apiVersion", "kind")}
            for one in found[start : start + limit]
        ]
        return {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(self.store.version), **more},
            "items": bare,
        }

    async def _watch(self, request: web.Request, kind: Kind, namespace: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        since = int(request.query.get("resourceVersion") or self.store.version)
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        for event in self.store.events:
            if event[0] > since:
                queue.put_nowait(event)
        self._watches[kind].append(queue)
        matches = selector(request)
        try:
            await response.prepare(request)
            while True:
                try:
                    event_or_end = await asyncio.wait_for(queue.get(), _BOOKMARK_SECONDS)
                except TimeoutError:
                    version = {"metadata": {"resourceVersion": str(self.store.version)}}
                    await _send(response, "BOOKMARK", {**_type_of(kind), **version})
                    continue
                if event_or_end is None or self.is_away:
                    return response
                _, changed, type_, one = event_or_end
                where = one["metadata"].get("namespace", "")
                if changed is kind and namespace in ("", where) and matches(one):
                    await _send(response, type_, one)
        except ConnectionError:
            return response
        finally:
            self._watches[kind].remove(queue)

    def _spread(self, event: Event) -> None:
        for queue in self._watches[event[1]]:
            queue.put_nowait(event)


def kubeconfig_of(address: str) -> str:
    """A kubeconfig for a server without credentials."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": address}}],
            "users": [{"name": "test", "user": {"token": "test"}}],
        }
    )


async def _body(request: web.Request) -> Any:
    text = await request.read()
    return json.loads(text) if text else None


async def _send(response: web.StreamResponse, type_: str, one: Manifest) -> None:
    await response.write(json.dumps({"type": type_, "object": one}).encode() + b"\n")


def _type_of(kind: Kind) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def _known_path(path: str, kind: Kind, version: str | None) -> str:
    """The path in the version that the store knows, if it is one in the version that is served."""
    prefix = f"/apis/{kind.group}/"
    if not path.startswith(prefix):
        return path
    asked, slash, rest = path.removeprefix(prefix).partition("/")
    return f"{prefix}{kind.version if asked == version else 'not-served'}{slash}{rest}"


def _served(match: re.Match[str]) -> Kind | None:
    api_version = match["core"] or f"{match['group']}/{match['version']}"
    for kind in SERVED:
        if (kind.api_version, kind.plural) == (api_version, match["plural"]):
            return kind
    return None


def _status(code: int, reason: str, message: str) -> web.Response:
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    headers = {"Retry-After": "1"} if code == 429 else None
    return web.json_response(document, status=code, headers=headers)
