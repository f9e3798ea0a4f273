"""A status is written when it differs, and then whole."""

import asyncio
from typing import Any

import pytest

from barnabas_operator.kubernetes.api import ConflictError
from barnabas_operator.kubernetes.kinds import TOPIC
from barnabas_operator.kubernetes.status_write import merge_patch, write_status
from tests.support.fake_kubernetes_store import merge_patched
from tests.support.store_api import StoreApi

MANIFEST: dict[str, Any] = {
    "apiVersion": TOPIC.api_version,
    "kind": TOPIC.kind,
    "metadata": {"namespace": "default", "name": "orders"},
    "spec": {},
}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"a": 1}),
        ({"a": 1}, {}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}),
        ({"a": {"x": 1}}, {"a": [1]}),
        ({"a": [1, 2]}, {"a": [2]}),
        ({"a": 1, "b": 2}, {"b": 2, "c": {"d": None, "e": 1}}),
    ],
)
def test_the_patch_makes_the_one_of_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    """RFC 7386: what is left out would stay, so it is named with null."""
    found = merge_patched(before, merge_patch(before, after))
    assert merge_patch(found, after) == {}
    assert set(found) == {key for key, value in after.items() if value is not None}


def test_the_same_status_is_not_written() -> None:
    async def run() -> None:
        api = StoreApi()
        made = await api.create(MANIFEST)
        written = await write_status(api, made, {"leaders": "1/1", "size": None})
        assert written is not None
        assert await write_status(api, written, {"leaders": "1/1"}) is None
        assert api.calls == ["create", "patch_status"]

    asyncio.run(run())


def test_a_status_is_not_written_onto_another_version() -> None:
    """It was computed from a spec that is no longer the one."""

    async def run() -> None:
        api = StoreApi()
        made = await api.create(MANIFEST)
        await api.patch(TOPIC, "default", "orders", {"spec": {"partitions": 3}})
        with pytest.raises(ConflictError):
            await write_status(api, made, {"leaders": "1/1"})

    asyncio.run(run())
