"""Three real brokers, a real console and a real Chromium, once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_console.kubernetes.api_reader import GROUP as OUR_KINDS
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.chromium import WatchedPage, installed_browser, window
from tests.support.console_process import ConsoleProcess, WatchedCluster, run
from tests.support.listed_resources import lists, resource, serving
from tests.support.processes import free_port

# Only `make console` installs the driver of the browser; all other tests do without it.
collect_ignore_glob = [] if find_spec("playwright") else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder needs a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.console)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedCluster]:
    """Three brokers that know each other, and a console."""
    directory = tmp_path_factory.mktemp("console")
    with BarnabasCluster(directory) as brokers:

        async def form() -> None:
            async with Admin(bootstrap_servers=brokers.bootstrap) as admin:
                await brokers.until_formed(admin)

        run(form)
        with ConsoleProcess(directory, brokers.bootstrap) as console:
            yield WatchedCluster(brokers, console)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium."""
    with installed_browser() as running:
        yield running


@pytest.fixture
def watched(browser: Any, cluster: WatchedCluster) -> Iterator[WatchedPage]:
    """A fresh window at the console of three brokers; nothing may have gone wrong in it."""
    yield from window(browser, cluster.console.address)


@pytest.fixture(scope="session")
def lonely_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console without a cluster, whose files are all that is wanted of it."""
    nobody = f"127.0.0.1:{free_port()}"
    with ConsoleProcess(tmp_path_factory.mktemp("lonely"), nobody) as console:
        yield console


@pytest.fixture
def scripted(browser: Any, lonely_console: ConsoleProcess) -> Iterator[WatchedPage]:
    """A fresh window whose API the test writes (`ScriptedApi`)."""
    yield from window(browser, lonely_console.address)


@pytest.fixture
def operator_api() -> Iterator[str]:
    """The address of an API server with what an operator plans."""
    demo = resource("Broker", "demo")
    demo["metadata"].update(generation=1)
    demo["spec"] = {"updatePolicy": "OnApproval"}
    demo["status"].update(
        observedGeneration=1,
        plan={
            "hash": "9f3c",
            "summary": "restart 2",
            "waitingOn": "approval",
            "restarts": [{"broker": 2, "reasons": ["image"]}],
        },
        brokers=[
            {"id": 1, "phase": "Ready", "safeToDrain": True, "drain": "running"},
            {"id": 2, "phase": "Ready", "safeToDrain": True, "waitingOn": "orders-0 in sync"},
        ],
    )
    pages = lists()
    pages[f"{OUR_KINDS}/namespaces/shop/brokers"] = [[demo]]
    with serving(pages) as address:
        yield address


@pytest.fixture
def operated(
    browser: Any, cluster: WatchedCluster, operator_api: str, tmp_path: Path
) -> Iterator[WatchedPage]:
    """A window at a console that reads an operator's plan from an API server."""
    options = ("--kubernetes", operator_api, "--namespace", "shop")
    with ConsoleProcess(tmp_path, cluster.brokers.bootstrap, *options) as console:
        yield from window(browser, console.address)
