"""`GET kubernetes`: our resources, the brokers' pods and their events, as Kubernetes has them.

It is read by the console's own account, so that it is there only where nobody logs in: who may
connect is then Kubernetes' own affair (CON-132, CON-141).
"""

from __future__ import annotations

from aiohttp import web

from barnabas_console.api.broker_rows import with_safety
from barnabas_console.api.responses import ApiError, json_response
from barnabas_console.context import ConsoleContext
from barnabas_console.kubernetes.api_reader import KubernetesError
from barnabas_console.kubernetes.objects import read_objects
from barnabas_console.settings import NO_LOGIN


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""

    async def kubernetes(request: web.Request) -> web.Response:
        reader = context.kubernetes
        if reader is None:
            raise ApiError(
                501,
                "NOT_ON_KUBERNETES",
                "this console does not read Kubernetes",
                hint="barnabas console --kubernetes http://127.0.0.1:8001 reads it through"
                " 'kubectl proxy'; the chart's console reads its own cluster.",
            )
        if context.settings.login != NO_LOGIN:
            raise ApiError(
                501,
                "NOT_BY_LOGIN",
                "with a login the console shows nothing that it reads by an account of its own",
            )
        viewer = context.viewer(request)
        read = viewer.shared("kubernetes", lambda: read_objects(reader))
        try:
            facts = await read
        except KubernetesError as error:
            hint = rights_hint(error, reader.namespace)
            raise ApiError(502, "KUBERNETES", str(error), hint=hint) from error
        brokers = facts["brokers"]
        told = {**brokers, "rows": await with_safety(viewer, brokers["rows"])}
        as_of_ms = context.clock.wall_ms()
        return json_response(request, {**facts, "brokers": told, "as_of_ms": as_of_ms})

    return [web.get("/api/v1/kubernetes", kubernetes)]


def rights_hint(error: KubernetesError, namespace: str | None) -> str:
    """Where the account was refused, how to look which rights it has."""
    if error.status != 403:
        return ""
    where = f" -n {namespace}" if namespace else " -A"
    return f"Its account may not: kubectl auth can-i list brokers.barnabas.dev{where}"
