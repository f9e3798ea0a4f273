"""What becomes of the Secret of a Topic, also where the API server refuses something."""

import asyncio
from typing import Any

import pytest

from barnabas_operator.kubernetes.api import ConflictError, ForbiddenError, KubernetesError
from barnabas_operator.kubernetes.kinds import SECRET, TOPIC
from barnabas_operator.reconcile.connection_secret import (
    SecretState,
    as_before,
    connection_secret,
    settle,
)
from tests.support.store_api import StoreApi

BROKER: dict[str, Any] = {"metadata": {"namespace": "default", "name": "demo"}}


async def world() -> tuple[StoreApi, dict[str, Any]]:
    api = StoreApi()
    metadata = {"namespace": "default", "name": "orders"}
    manifest = {"apiVersion": TOPIC.api_version, "kind": "Topic", "metadata": metadata, "spec": {}}
    return api, await api.create(manifest)


def wanted(topic: dict[str, Any], name: str) -> dict[str, Any]:
    return connection_secret(topic, name, "orders", BROKER)


def reason(state: SecretState) -> str | None:
    return None if state.condition is None else state.condition.reason


def test_a_secret_whose_removal_is_refused_is_remembered_and_removed_later() -> None:
    """It was forgotten after one conflict, and stayed for as long as its Topic."""

    async def run() -> None:
        api, topic = await world()
        state, _ = await settle(api, topic, wanted(topic, "old"), {})
        assert (state.name, reason(state)) == ("old", "Written")
        status = {"connectionSecret": "old"}
        api.refused["delete"] = [ConflictError("changed", code=409)]
        state, error = await settle(api, topic, wanted(topic, "new"), status)
        assert isinstance(error, ConflictError)
        assert state.name == "old"
        assert await api.get(SECRET, "default", "new") is None
        state, error = await settle(api, topic, wanted(topic, "new"), status)
        assert (state.name, error) == ("new", None)
        assert await api.get(SECRET, "default", "old") is None
        state, _ = await settle(api, topic, None, {"connectionSecret": "new"})
        assert state == SecretState()
        assert await api.get(SECRET, "default", "new") is None

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ForbiddenError("no", code=403), "NotWritten"),
        (ConflictError("changed", code=409), "Before"),
    ],
)
def test_a_refusal_is_told_and_what_may_go_well_next_time_changes_nothing(
    error: KubernetesError, told: str
) -> None:
    """operator.md 3.8: a status neither hides what stands nor flips for a moment's conflict."""
    before = {"type": "ConnectionSecret", "status": "True", "reason": "Before"}

    async def run() -> None:
        api, topic = await world()
        api.refused["apply"] = [error]
        state, failed = await settle(api, topic, wanted(topic, "way"), {"conditions": [before]})
        assert failed is error
        assert reason(state) == told
        # It may have been made although the answer was lost.
        assert state.name == "way"

    asyncio.run(run())


def test_a_status_is_read_back_as_it_was_told() -> None:
    """A Topic that is paused keeps its Secret and what is said of it."""
    assert as_before({}) == SecretState()
    condition = {"type": "ConnectionSecret", "status": "True", "reason": "Written"}
    state = as_before({"connectionSecret": "way", "conditions": [condition]})
    assert (state.name, reason(state)) == ("way", "Written")
