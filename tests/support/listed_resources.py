"""An API server that lists what a test says: our resources, pods and events, by pages.

It tells enough of itself that `kubectl` works with it: single objects are got, patched and deleted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from barnabas_console.kubernetes.api_reader import GROUP


def resource(kind: str, name: str, namespace: str = "shop") -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": name, "namespace": namespace}
    return {"kind": kind, "metadata": metadata, "spec": {}, "status": status}


Pages = dict[str, list[list[dict[str, Any]]]]
_CORE_KINDS = {"pods": "Pod", "events": "Event"}
_OUR_KINDS = {
    "brokers": "Broker",
    "topics": "Topic",
    "consumergroups": "ConsumerGroup",
    "users": "User",
}
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def api_server(pages: Pages) -> web.Application:
    """Answers lists by pages; what it does not know is refused, as RBAC does."""

    def found(path: str) -> list[list[dict[str, Any]]] | None:
        if path in pages:
            return pages[path]
        kind = path.rpartition("/")[2]  # of all namespaces
        some = [one for key, one in pages.items() if key.endswith(f"/{kind}")]
        return [[item for page in one for item in page] for one in some] or None

    async def listed(request: web.Request) -> web.Response:
        discovered = _DISCOVERY.get(request.path)
        if discovered is not None:
            return web.json_response(discovered)
        listed = found(request.path)
        if listed is None:
            return await single(request)
        page = int(request.query.get("continue", 0))
        goes_on = str(page + 1) if page + 1 < len(listed) else ""
        kind = {**_CORE_KINDS, **_OUR_KINDS}.get(request.path.rpartition("/")[2], "Unknown")
        items = [{**_version(request.path), "kind": kind, **item} for item in listed[page]]
        body = {**_version(request.path), "kind": "List", "items": items}
        return web.json_response({**body, "metadata": {"continue": goes_on}})

    async def single(request: web.Request) -> web.Response:
        where, _, name = request.path.rpartition("/")
        for page in found(where) or ():
            for item in page:
                if item.get("metadata", {}).get("name") != name:
                    continue
                if request.method == "PATCH":
                    _merge(item, json.loads(await request.text()))
                elif request.method == "DELETE":
                    page.remove(item)
                return web.json_response({**_version(request.path), **item})
        status = {"kind": "Status", "message": f"{request.path} is forbidden"}
        return web.json_response(status, status=403)

    async def reviewed(_: web.Request) -> web.Response:
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        return web.json_response({**kind, "status": {"allowed": True}})

    app = web.Application()
    app.router.add_post(_REVIEWS, reviewed)
    app.router.add_get("/{path:.*}", listed)
    for method in ("PATCH", "DELETE"):
        app.router.add_route(method, "/{path:.*}", single)
    return app


def _version(path: str) -> dict[str, str]:
    return {"apiVersion": "v1" if path.startswith("/api/") else GROUP.removeprefix("/apis/")}


def _merge(into: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def _kinds(version: str, kinds: dict[str, str]) -> dict[str, Any]:
    verbs = ["get", "list", "patch", "delete"]
    return {
        "kind": "APIResourceList",
        "groupVersion": version,
        "resources": [
            {
                "name": name,
                "singularName": kind.lower(),
                "namespaced": True,
                "kind": kind,
                "verbs": verbs,
            }
            for name, kind in kinds.items()
        ],
    }


def _group(name: str, version: str) -> dict[str, Any]:
    one = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [one], "preferredVersion": one}


_DISCOVERY: dict[str, dict[str, Any]] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group("barnabas.dev", "v1alpha1"), _group("authorization.k8s.io", "v1")],
    },
    "/api/v1": _kinds("v1", _CORE_KINDS),
    GROUP: _kinds(GROUP.removeprefix("/apis/"), _OUR_KINDS),
    "/apis/authorization.k8s.io/v1": _kinds("authorization.k8s.io/v1", {}),
}


def lists(namespace: str = "shop") -> Pages:
    ours = f"{GROUP}/namespaces/{namespace}"
    event = {
        "involvedObject": {"kind": "Topic", "name": "orders", "namespace": namespace},
        "reason": "Created",
        "lastTimestamp": "2026-11-26T12:00:00Z",
    }
    foreign = {"involvedObject": {"kind": "Pod", "name": "web", "namespace": namespace}}
    return {
        f"{ours}/brokers": [[resource("Broker", "demo")]],
        f"{ours}/topics": [[resource("Topic", "orders")], [resource("Topic", "refunds")]],
        f"{ours}/consumergroups": [[]],
        f"{ours}/users": [[]],
        f"/api/v1/namespaces/{namespace}/pods": [[]],
        f"/api/v1/namespaces/{namespace}/events": [[event, foreign]],
    }


@contextmanager
def serving(pages: Pages) -> Iterator[str]:
    """The address of an API server beside the test's own thread, which a browser keeps busy."""
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(api_server(pages))

    async def start() -> str:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    with ThreadPoolExecutor(1) as thread:
        address = thread.submit(loop.run_until_complete, start()).result()
        running = thread.submit(loop.run_forever)
        try:
            yield address
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            running.result()
    loop.close()
