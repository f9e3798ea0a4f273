"""A Kubernetes API server as far as Leases go: optimistic concurrency, uids, statuses, tokens.

It models what a real one does with `coordination.k8s.io/v1` Leases of one namespace: a create of
what exists and a write with another version or uid are conflicts, resource versions rise over all
objects, fields are checked, a request without a token that it knows is refused. Faults are for the
`FaultyGateway` before it.
"""

import copy
import re
import ssl
import uuid
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.support.tls_files import TlsFiles

_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


class FakeApiServer:
    """Listens on a free port of the loopback address while it is open."""

    def __init__(
        self,
        namespace: str = "messages",
        tokens: set[str] | None = None,
        tls: TlsFiles | None = None,
    ) -> None:
        """Without tokens everybody is let in."""
        self.namespace = namespace
        self._tls = tls
        self.tokens = tokens
        self.leases: dict[str, dict[str, Any]] = {}
        self.authorizations: list[str | None] = []
        self._version = 1000

    @property
    def address(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aenter__(self) -> Self:
        application = web.Application(middlewares=[self._check])
        router = application.router
        router.add_get(_LEASES + "/{name}", self._get)
        router.add_post(_LEASES, self._create)
        router.add_put(_LEASES + "/{name}", self._replace)
        router.add_delete(_LEASES + "/{name}", self._delete)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        context = None
        if self._tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(self._tls.broker_certificate, self._tls.broker_key)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    def put(self, name: str, lease: dict[str, Any]) -> None:
        """Store a Lease as another client would."""
        self._version += 1
        stored = copy.deepcopy(lease)
        stored["metadata"]["resourceVersion"] = str(self._version)
        stored["metadata"].setdefault("uid", str(uuid.uuid4()))
        self.leases[name] = stored

    @web.middleware
    async def _check(self, request: web.Request, handler: Any) -> web.StreamResponse:
        authorization = request.headers.get("Authorization")
        self.authorizations.append(authorization)
        known = {f"Bearer {token}" for token in self.tokens or ()}
        if self.tokens is not None and authorization not in known:
            return _status(401, "Unauthorized", "Unauthorized")
        response: web.StreamResponse = await handler(request)
        return response

    async def _get(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        assert "resourceVersion" not in request.query, "may be answered from an old cache"
        if request.match_info["namespace"] != self.namespace or name not in self.leases:
            return _status(404, "NotFound", f'leases.coordination.k8s.io "{name}" not found')
        return web.json_response(self.leases[name])

    async def _create(self, request: web.Request) -> web.Response:
        lease = await request.json()
        name = lease["metadata"]["name"]
        if request.match_info["namespace"] != self.namespace:
            return _status(404, "NotFound", "namespaces not found")
        if lease["metadata"].get("resourceVersion"):
            return _status(400, "BadRequest", "resourceVersion should not be set")
        if complaint := _complaint(lease, self.namespace):
            return _status(422, "Invalid", complaint)
        if name in self.leases:
            return _status(409, "AlreadyExists", f'leases "{name}" already exists')
        self.put(name, lease)
        return web.json_response(self.leases[name], status=201)

    async def _replace(self, request: web.Request) -> web.Response:
        lease, name = await request.json(), request.match_info["name"]
        if complaint := _complaint(lease, self.namespace):
            return _status(422, "Invalid", complaint)
        old, metadata = self.leases.get(name), lease["metadata"]
        if old is None:
            # A Lease may be created by PUT, but not with the uid of one that is gone.
            if metadata.get("uid"):
                return _status(409, "Conflict", "Precondition failed: UID in precondition")
            self.put(name, lease)
            return web.json_response(self.leases[name], status=201)
        if metadata.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            return _status(409, "Conflict", "Precondition failed: UID in precondition")
        if not metadata.get("resourceVersion"):
            return _status(422, "Invalid", "resourceVersion must be specified for an update")
        if metadata["resourceVersion"] != old["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified")
        self.put(name, lease)
        return web.json_response(self.leases[name])

    async def _delete(self, request: web.Request) -> web.Response:
        self.leases.pop(request.match_info["name"], None)
        return _status(200, "", "")


def _complaint(lease: dict[str, Any], namespace: str) -> str:
    """What the API server would not accept about a Lease."""
    metadata, spec = lease["metadata"], lease["spec"]
    if (lease["apiVersion"], lease["kind"]) != ("coordination.k8s.io/v1", "Lease"):
        return "apiVersion or kind"
    if metadata.get("namespace", namespace) != namespace:
        return "the namespace does not match the request"
    if not all(isinstance(value, str) for value in metadata.get("annotations", {}).values()):
        return "annotations must be strings"
    for key in ("renewTime", "acquireTime"):
        if key in spec and not _MICRO_TIME.fullmatch(spec[key]):
            return f"{key} is not a MicroTime"
    if spec.get("holderIdentity") == "":
        return "holderIdentity must not be empty"
    transitions = spec.get("leaseTransitions", 0)
    if not isinstance(transitions, int) or not 0 <= transitions < 1 << 31:
        return "leaseTransitions"
    return ""


def _status(code: int, reason: str, message: str) -> web.Response:
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure" if code >= 400 else "Success",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return web.json_response(document, status=code)
