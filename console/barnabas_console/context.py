"""`ConsoleContext`: what all routes of the console take, made once by `server.py`."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web

from barnabas_client.env import Clock
from barnabas_console.cluster_connection import ClusterConnection
from barnabas_console.history.sampler import Sampler
from barnabas_console.kubernetes.api_reader import ApiReader
from barnabas_console.metrics import ConsoleMetrics
from barnabas_console.records.records_desk import RecordsDesk
from barnabas_console.security.audit_log import AuditLog
from barnabas_console.security.tickets import Tickets
from barnabas_console.settings import ConsoleSettings
from barnabas_console.viewer import Viewer
from barnabas_console.viewers import Viewers

if TYPE_CHECKING:
    from barnabas_console.oidc.provider import Provider


class ConsoleContext:
    """Settings, clock, viewers and history of one console."""

    def __init__(
        self,
        settings: ConsoleSettings,
        connection: ClusterConnection,
        sampler: Sampler,
        clock: Clock,
    ) -> None:
        self.settings = settings
        self.connection = connection
        self.version = importlib.metadata.version("barnabas")
        self.metrics = ConsoleMetrics()
        self.tickets = Tickets(clock)
        self.clock = clock
        self.provider = _provider(settings, clock)
        self.viewers = Viewers(settings, connection, clock)
        self.sampler = sampler
        self.kubernetes = _api_reader(settings)
        self.records = RecordsDesk(settings.decoding, settings.masks, clock)
        self._audit_log = AuditLog(clock, settings.write_audit_line)

    def audit(self, request: web.Request, act: str, **facts: Any) -> None:
        """Note in the audit log who does what (CON-145)."""
        self.auditor(request)(act, facts)

    def auditor(self, request: web.Request) -> Callable[[str, dict[str, Any]], None]:
        """What notes who does what, also after the session of who asked for it has ended."""
        principal, address = self.viewers.of(request).principal, request.remote
        return lambda act, facts: self._audit_log.add(act, principal, address, facts)

    def holder(self, request: web.Request) -> str:
        """Who a ticket, a plan or an undo file is for."""
        return self.viewers.of(request).identity

    def address(self, request: web.Request) -> str:
        """Where browsers have this console, with its path prefix and without a slash at the end."""
        named = "" if self.settings.oidc is None else self.settings.oidc.address.rstrip("/")
        return f"{named or f'http://{request.host}'}{self.settings.path_prefix}"

    def viewer(self, request: web.Request) -> Viewer:
        """The viewer of the request's browser; its admin client is started before a route runs.

        Raises: ApiError where a login is wanted.
        """
        viewer = self.viewers.of(request)
        self.sampler.viewed()
        return viewer


def _api_reader(settings: ConsoleSettings) -> ApiReader | None:
    if not settings.kubernetes:
        return None
    return ApiReader.of_setting(settings.kubernetes, settings.kubernetes_namespace)


def _provider(settings: ConsoleSettings, clock: Clock) -> Provider | None:
    """The OpenID provider; its library of cryptography is loaded for those alone who have one."""
    if settings.oidc is None:
        return None
    from barnabas_console.oidc.provider import Provider

    return Provider(settings.oidc, clock)
