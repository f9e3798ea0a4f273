"""The operator's client of the API server, against the fake one over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas_operator.kubernetes.api import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubernetesError,
    NotFoundError,
    UnavailableError,
)
from barnabas_operator.kubernetes.connection import load_configuration, new_client
from barnabas_operator.kubernetes.dynamic_api import DynamicApi
from barnabas_operator.kubernetes.kinds import CONFIG_MAP, SERVICE, TLS_ROUTE, TOPIC, Kind
from tests.support.fake_kubernetes import FakeKubernetes, kubeconfig_of
from tests.support.processes import free_port


def config_map(name: str = "settings", **data: str) -> dict[str, Any]:
    metadata = {"namespace": "default", "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@asynccontextmanager
async def connected(kubeconfig: Path, **settings: Any) -> AsyncIterator[DynamicApi]:
    async with new_client(await load_configuration(str(kubeconfig))) as client:
        yield DynamicApi(client, **settings)


def run(
    tmp_path: Path, test: Callable[[DynamicApi, FakeKubernetes], Awaitable[None]], **settings: Any
) -> None:
    async def body() -> None:
        async with (
            FakeKubernetes() as server,
            connected(server.write_kubeconfig(tmp_path / "config"), **settings) as api,
        ):
            await test(api, server)

    asyncio.run(body())


def test_objects_are_made_read_changed_and_deleted(tmp_path: Path) -> None:
    async def test(api: DynamicApi, server: FakeKubernetes) -> None:
        made = await api.create(config_map(a="1"))
        assert await api.get(CONFIG_MAP, "default", "settings") == made
        assert await api.get(CONFIG_MAP, "default", "other") is None
        patched = await api.patch(CONFIG_MAP, "default", "settings", {"data": {"b": "2"}})
        assert patched["data"] == {"a": "1", "b": "2"}
        uid = made["metadata"]["uid"]
        with pytest.raises(ConflictError):
            await api.delete(CONFIG_MAP, "default", "settings", uid="another")
        assert await api.delete(CONFIG_MAP, "default", "settings", uid=uid)
        assert not await api.delete(CONFIG_MAP, "default", "settings")
        # The grace period is the pods' own affair.
        deletions = [write.body for write in server.writes if write.method == "DELETE"]
        assert all("gracePeriodSeconds" not in body for body in deletions)

    run(tmp_path, test)


def test_an_apply_takes_away_what_it_no_longer_names_and_leaves_others_fields(
    tmp_path: Path,
) -> None:
    """operator.md 7, pitfall 5: a fixed field manager, force, the full intent."""

    async def test(api: DynamicApi, server: FakeKubernetes) -> None:
        await api.apply(config_map(a="1", b="2"))
        server.change(CONFIG_MAP, "default", "settings", {"data": {"theirs": "3"}})
        applied = await api.apply(config_map(b="4"))
        assert applied["data"] == {"b": "4", "theirs": "3"}
        assert applied["apiVersion"] == "v1"

    run(tmp_path, test)


def test_long_lists_come_in_pages_and_each_object_says_what_it_is(tmp_path: Path) -> None:
    """A list leaves the kind of its objects out; whoever reads one object wants it."""
    listed: list[tuple[Kind, int]] = []

    async def test(api: DynamicApi, server: FakeKubernetes) -> None:
        for number in range(1203):
            server.put(config_map(f"map-{number}"))
        found = await api.list(CONFIG_MAP, namespace="default")
        assert len({one["metadata"]["name"] for one in found}) == 1203
        assert {one["kind"] for one in found} == {"ConfigMap"}
        assert listed == [(CONFIG_MAP, 1203)]

    run(tmp_path, test, on_list=lambda kind, found, *_: listed.append((kind, len(found))))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, InvalidError),
        (422, InvalidError),
        (401, ForbiddenError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, NotFoundError),
        (429, UnavailableError),
        (500, UnavailableError),
        (503, UnavailableError),
        (0, UnavailableError),
    ],
)
def test_a_refusal_says_what_the_caller_may_do(
    tmp_path: Path, code: int, error: type[KubernetesError]
) -> None:
    async def test(api: DynamicApi, server: FakeKubernetes) -> None:
        server.fail("POST", "/configmaps$", code)
        with pytest.raises(error) as caught:
            await api.create(config_map())
        assert caught.value.code == code
        if code:
            assert str(caught.value) == f"create ConfigMap: injected {code}"
        if isinstance(caught.value, UnavailableError):
            assert caught.value.retry_after_seconds == (1 if code == 429 else 0)
        # Nothing was repeated behind the caller's back.
        assert len(server.writes) == 1

    run(tmp_path, test)


def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    async def body() -> None:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(kubeconfig_of(f"http://127.0.0.1:{free_port()}"))
        async with connected(kubeconfig) as api:
            with pytest.raises(UnavailableError):
                await api.list(SERVICE)

    asyncio.run(body())


def test_nothing_is_written_without_leave(tmp_path: Path) -> None:
    """operator.md 6, rule 6: the deadline of the Lease is checked at each write."""

    class NoLeave(KubernetesError):
        pass

    def guard() -> None:
        raise NoLeave("not now")

    async def test(api: DynamicApi, server: FakeKubernetes) -> None:
        assert await api.list(TOPIC) == []
        with pytest.raises(NoLeave):
            await api.apply(config_map())
        with pytest.raises(NoLeave):
            await api.delete(CONFIG_MAP, "default", "settings")
        assert server.writes == []

    run(tmp_path, test, guard=guard)


def test_every_request_is_told_for_the_metrics(tmp_path: Path) -> None:
    told: list[tuple[str, str, int]] = []

    async def test(api: DynamicApi, server: FakeKubernetes) -> None:
        await api.create(config_map())
        with pytest.raises(ConflictError):
            await api.create(config_map())
        await api.get(CONFIG_MAP, "default", "none")
        assert told == [
            ("create", "ConfigMap", 201),
            ("create", "ConfigMap", 409),
            ("get", "ConfigMap", 404),
        ]

    run(tmp_path, test, observe=lambda verb, kind, code: told.append((verb, kind.kind, code)))


def route(name: str = "first") -> dict[str, Any]:
    metadata = {"namespace": "default", "name": name}
    return {"apiVersion": TLS_ROUTE.api_version, "kind": "TLSRoute", "metadata": metadata}


@pytest.mark.parametrize("version", ["v1", "v1alpha3", "v1alpha2"])
def test_a_kind_is_written_in_the_version_that_the_server_has(tmp_path: Path, version: str) -> None:
    """SEC-87: Gateway API's standard channel has v1 of TLSRoute only, older ones v1alpha2."""

    async def test(api: DynamicApi, server: FakeKubernetes) -> None:
        server.serve(TLS_ROUTE, version)
        made = await api.apply({**route(), "spec": {"hostnames": ["a.example.com"]}})
        (write,) = server.writes
        assert write.path.startswith(f"/apis/gateway.networking.k8s.io/{version}/")
        # Who asks knows of one version only.
        assert made["apiVersion"] == TLS_ROUTE.api_version
        assert await api.get(TLS_ROUTE, "default", "first") == made
        assert await api.list(TLS_ROUTE, namespace="default") == [made]
        assert await api.delete(TLS_ROUTE, "default", "first")

    run(tmp_path, test)


def test_another_version_is_found_when_the_former_one_is_gone(tmp_path: Path) -> None:
    """SEC-87: definitions are upgraded under a running operator."""

    async def test(api: DynamicApi, server: FakeKubernetes) -> None:
        server.serve(TLS_ROUTE, "v1alpha2")
        await api.apply(route())
        server.serve(TLS_ROUTE, "v1")
        with pytest.raises(NotFoundError):
            await api.list(TLS_ROUTE, namespace="default")
        assert [one["metadata"]["name"] for one in await api.list(TLS_ROUTE)] == ["first"]

    run(tmp_path, test)


def test_a_kind_that_the_server_does_not_have_is_not_found(tmp_path: Path) -> None:
    async def test(api: DynamicApi, server: FakeKubernetes) -> None:
        server.serve(TLS_ROUTE, None)
        with pytest.raises(NotFoundError):
            await api.list(TLS_ROUTE, namespace="default")
        with pytest.raises(NotFoundError):
            await api.apply(route())

    run(tmp_path, test)
