"""The brokers of the console's cluster, each with one answer whether it may be stopped (CON-110).

The start page, the pages of brokers and the page of Kubernetes have it from here, so that they
never differ. Kubernetes is read by the console's own account, so that with a login its word is left
out (CON-132, CON-141).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from barnabas_client.errors import BarnabasError
from barnabas_console.cluster import overview as words
from barnabas_console.cluster.cluster_watch import ClusterFacts
from barnabas_console.cluster.safety import safety_by_operator, safety_of
from barnabas_console.context import ConsoleContext
from barnabas_console.kubernetes.api_reader import ApiReader, KubernetesError
from barnabas_console.kubernetes.operator_word import safe_to_drain
from barnabas_console.kubernetes.resource_rows import broker_row
from barnabas_console.settings import NO_LOGIN
from barnabas_console.viewer import Viewer

#: The operator looks every few seconds, too.
_WORD_MS: Final = 4_000
#: Neither an API server nor brokers that do not respond hold up a page about the other.
_WAIT_SECONDS: Final = 1.0


async def broker_rows(
    context: ConsoleContext, viewer: Viewer
) -> tuple[ClusterFacts, list[dict[str, Any]]]:
    """What is known, and the rows of all brokers. Raises: the client's errors."""
    facts, resources = await asyncio.gather(
        viewer.cluster.facts(), _operators_brokers(context, viewer)
    )
    says = safe_to_drain(resources, facts.described.cluster_id)
    return facts, words.brokers(facts, says)


async def with_safety(
    viewer: Viewer, resources: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Rows of Broker resources; each of their brokers with `safe` and `reason`, as other pages."""
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            facts = await viewer.cluster.facts()
    except (BarnabasError, TimeoutError):
        facts = None
    rows = [dict(row) for row in resources]
    says = {} if facts is None else safe_to_drain(rows, facts.described.cluster_id)
    for row in rows:
        row["brokers"] = [{**one, **_safety(one, row, facts, says)} for one in row["brokers"]]
    return rows


def _safety(
    one: Mapping[str, Any],
    row: Mapping[str, Any],
    facts: ClusterFacts | None,
    says: Mapping[int, bool],
) -> dict[str, Any]:
    node_id, cluster_id = one["id"], row["cluster_id"]
    if facts is not None and cluster_id and cluster_id == facts.described.cluster_id:
        return asdict(safety_of(facts, node_id, says.get(node_id)))
    word = one["safe_to_drain"]
    return asdict(safety_by_operator(word, of_another_cluster=facts is not None))


async def _operators_brokers(context: ConsoleContext, viewer: Viewer) -> list[dict[str, Any]]:
    """The Broker resources; none where they are not read, or cannot be now."""
    reader = context.kubernetes
    if reader is None or context.settings.login != NO_LOGIN:
        return []
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            return await viewer.shared(
                "brokers of Kubernetes", lambda: _listed(reader), ttl_ms=_WORD_MS
            )
    except (KubernetesError, TimeoutError):
        return []


async def _listed(reader: ApiReader) -> list[dict[str, Any]]:
    return [broker_row(one) for one in await reader.brokers()]
