"""`POST plans`, `POST plans/{id}/apply`, `GET undo-files`: changes with a preview (CON-120).

A change that has begun is carried out to its end, also when the browser goes away meanwhile. What
knows of kinds of changes, the operator's planner of topics among it, is loaded by the first plan.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from aiohttp import web

from barnabas_client.errors import AuthorizationError, BarnabasError
from barnabas_console.api.event_stream import EventStream
from barnabas_console.api.request_body import json_object
from barnabas_console.api.responses import ApiError, denied, json_response, of_client, rows_response
from barnabas_console.api.route_kinds import stream
from barnabas_console.context import ConsoleContext
from barnabas_console.kubernetes.api_reader import KubernetesError
from barnabas_console.loop_slices import LoopSlices
from barnabas_console.plans.change import Change, ChangeRequestError, Draft, ItemResult, MovedError
from barnabas_console.plans.plans import PLAN_MS, Plan, PlanGoneError, Plans, WrongWordsError
from barnabas_console.rights.held import first_lock
from barnabas_console.rights.needed import lock_of
from barnabas_console.viewer import Viewer

logger = logging.getLogger(__name__)

#: Of a change, so many items are in the audit log with their old and new values.
_AUDITED_ROWS_MAX: Final = 100
_AUDITED_CHARACTERS_MAX: Final = 300
_BUG = "the console has a bug: see its log"
_AGAIN = "Make the plan again, and look at it."
_KINDS: Final = tuple(
    f"barnabas_console.plans.{name}" for name in ("acts", "change_requests", "declared")
)


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""
    plans = Plans(context.clock)

    async def draw_up(request: web.Request) -> web.StreamResponse:
        viewer = context.viewer(request)
        now_ms = context.clock.wall_ms()
        try:
            body: Mapping[str, Any] = await json_object(request)
            if body.get("kind") == "undo":
                body = _undo_request(plans, body, context.holder(request))
            change = await _asked(viewer, body, now_ms)
            cluster_id = (await viewer.admin.cluster.describe()).cluster_id
            draft = await _as_declared(context, change, await _drafted(viewer, change))
            plan = await plans.keep(change, draft, context.holder(request), cluster_id)
        except ChangeRequestError as error:
            raise ApiError(400, "BAD_REQUEST", str(error)) from None
        told = plan.as_data(expires_ms=now_ms + PLAN_MS)
        return await rows_response(told, (row.as_data() for row in draft.rows))

    @stream
    async def apply(request: web.Request) -> web.StreamResponse:
        viewer = context.viewer(request)
        body = await json_object(request)
        plan = await _taken(plans, request.match_info["id"], body, viewer, context.holder(request))
        note = context.auditor(request)
        changes = (row for row in plan.draft.rows if row.is_change)
        changed = [
            f"{row.item}: {row.old} → {row.new}"[:_AUDITED_CHARACTERS_MAX]
            for row in islice(changes, _AUDITED_ROWS_MAX)
        ]
        facts = {"title": plan.draft.title, "plan": plan.id, "items": plan.change_count}
        note("change", {**facts, "rows": changed})
        results: asyncio.Queue[ItemResult | None] = asyncio.Queue()

        def ended(done: int, failed: int) -> None:
            note("change ended", {**facts, "done": done, "failed": failed})
            from barnabas_console.plans.acts import act_of

            act = act_of(plan.change, plan.draft, viewer.principal, done=done, failed=failed)
            context.sampler.timeline.add([act], context.clock.wall_ms())

        slices = LoopSlices(context.clock)
        work = asyncio.ensure_future(_carry_out(plans, plan, viewer, results, ended, slices))
        return await _told(request, plan, results, work, slices)

    async def undo_files(request: web.Request) -> web.Response:
        files = plans.undo_files(context.holder(request))
        return json_response(request, {"rows": [file.as_data() for file in files]})

    async def undo_file(request: web.Request) -> web.Response:
        file = plans.undo_file(request.match_info["id"], context.holder(request))
        if file is None:
            raise ApiError(404, "NOT_FOUND", "this undo file is not kept any more")
        return web.Response(
            body=file.undo.text.encode(),
            content_type="text/csv",
            headers={"Content-Disposition": f'attachment; filename="{file.undo.file_name}"'},
        )

    return [
        web.post("/api/v1/plans", draw_up),
        web.post("/api/v1/plans/{id}/apply", apply),
        web.get("/api/v1/undo-files", undo_files),
        web.get("/api/v1/undo-files/{id}", undo_file),
    ]


async def _asked(viewer: Viewer, body: Mapping[str, Any], now_ms: int) -> Change:
    """The change that a request is for. Raises: ChangeRequestError."""
    # Beside the loop: it is as much as several turns may take.
    await asyncio.to_thread(_load_kinds)
    from barnabas_console.plans.change_requests import Circumstances, change_of

    bootstrap = viewer.connection.bootstrap_servers
    return change_of(body, Circumstances(bootstrap=bootstrap, now_ms=now_ms))


def _load_kinds() -> None:
    for module in _KINDS:
        importlib.import_module(module)


async def _drafted(viewer: Viewer, change: Change) -> Draft:
    """The draft; where a right is missing, with that as its refusal.

    Raises: ApiError with the right where it takes one to draw up the change; as `draft` does.
    """
    try:
        draft = await change.draft(viewer.admin)
    except AuthorizationError as error:
        needed = change.needs()
        lock = await first_lock(viewer, needed)
        if lock is None and needed:
            lock = lock_of(viewer.principal, needed[0])
        raise of_client(error) if lock is None else denied(error, lock) from None
    # Of a reset of 20,000 partitions each topic is a right of its own.
    needed = await asyncio.to_thread(change.needs, draft.rows)
    lock = await first_lock(viewer, needed)
    if lock is None or draft.refusal is not None:
        return draft
    return replace(draft, refusal=lock["words"], lock=lock)


async def _as_declared(context: ConsoleContext, change: Change, draft: Draft) -> Draft:
    """The draft, with what the resource says that declares what the change is about.

    Raises: ApiError where nobody can say whether there is one.
    """
    from barnabas_console.plans.declared import declaring, kept, topic_of

    topic = topic_of(change)
    if topic is None or context.kubernetes is None:
        return draft
    try:
        resource = declaring(topic, await context.kubernetes.topics())
    except KubernetesError as error:
        raise ApiError(
            502, "KUBERNETES", f"whether a resource declares topic '{topic}' is not known: {error}"
        ) from error
    return draft if resource is None else kept(draft, change, resource)


def _undo_request(plans: Plans, body: Mapping[str, Any], holder: str) -> Mapping[str, Any]:
    """The request that an undo file stands for. Raises: ApiError."""
    file = plans.undo_file(str(body.get("id")), holder)
    if file is None:
        raise ApiError(404, "NOT_FOUND", "this undo file is not kept any more")
    return file.undo.request


async def _taken(
    plans: Plans, plan_id: str, body: dict[str, Any], viewer: Viewer, holder: str
) -> Plan:
    """The plan to be carried out. Raises: ApiError; the client's errors."""
    told_hash, typed = str(body.get("hash", "")), str(body.get("typed", ""))
    try:
        return await plans.take(plan_id, viewer.admin, holder, told_hash=told_hash, typed=typed)
    except PlanGoneError as error:
        raise ApiError(404, "PLAN_GONE", str(error), hint=_AGAIN) from None
    except WrongWordsError as error:
        raise ApiError(400, "BAD_REQUEST", str(error)) from None
    except (MovedError, ChangeRequestError) as error:
        raise ApiError(409, "MOVED", str(error), hint=_AGAIN) from None


async def _carry_out(
    plans: Plans,
    plan: Plan,
    viewer: Viewer,
    results: asyncio.Queue[ItemResult | None],
    ended: Callable[[int, int], None],
    slices: LoopSlices,
) -> None:
    """Do it, whoever still listens; None is the end."""
    done = failed = 0
    try:
        async for result in plans.carry_out(plan, viewer.admin):
            done, failed = done + (not result.error), failed + bool(result.error)
            results.put_nowait(result)
            await slices.pause_if_due()
    except BarnabasError as error:
        failed += 1
        results.put_nowait(ItemResult(item=plan.draft.title, error=str(error)))
    except Exception:
        logger.exception("the plan %r failed", plan.draft.title)
        failed += 1
        results.put_nowait(ItemResult(item=plan.draft.title, error=_BUG))
    finally:
        ended(done, failed)
        viewer.changed()
        results.put_nowait(None)


async def _told(
    request: web.Request,
    plan: Plan,
    results: asyncio.Queue[ItemResult | None],
    work: asyncio.Future[None],
    slices: LoopSlices,
) -> web.StreamResponse:
    """The results as events, and at the end how many there were."""
    events = EventStream(request)
    done, failed = 0, 0
    try:
        await events.begin()
        while (result := await results.get()) is not None:
            done += not result.error
            failed += bool(result.error)
            await events.send("item", {"item": result.item, "error": result.error})
            await slices.pause_if_due()
        undo = plan.draft.undo
        told = None if undo is None else {"id": plan.id, "file_name": undo.file_name}
        command = None if undo is None else undo.command
        await events.send(
            "end", {"done": done, "failed": failed, "undo": told, "undo_command": command}
        )
        return await events.end()
    except (TimeoutError, ConnectionResetError):
        # Nobody reads; what has begun goes on.
        events.let_go()
        return events.response
    finally:
        await asyncio.shield(work)
