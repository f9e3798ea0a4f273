"""The stores that every test of conformance runs on, and one etcd for all tests that need it."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.arbiter_stores import (
    REAL_API_SERVER,
    MakeStore,
    etcd_store,
    file_store,
    kubernetes_store,
    memory_store,
    real_kubernetes_store,
)
from tests.support.etcd_process import EtcdProcess

STORES = ["memory", "file", "kubernetes", pytest.param("etcd", marks=pytest.mark.interop)]
if REAL_API_SERVER is not None:
    STORES.append(pytest.param("real kubernetes", marks=pytest.mark.interop))


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """A real etcd; tests use keys of their own."""
    with EtcdProcess(tmp_path_factory.mktemp("etcd")) as process:
        yield process


@pytest.fixture(params=STORES)
def make_store(request: pytest.FixtureRequest) -> MakeStore:
    """An empty store of each kind, to be opened in the test's loop."""
    match request.param:
        case "memory":
            return memory_store
        case "file":
            return file_store
        case "kubernetes":
            return kubernetes_store
        case "etcd":
            return partial(etcd_store, request.getfixturevalue("etcd").endpoint)
        case _:
            return real_kubernetes_store
