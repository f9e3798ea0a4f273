"""What tests of the operator share: brokers of the client's tests, and API servers."""

from collections.abc import Iterator

import pytest

from tests.support.client_fixtures import bootstrap, client_brokers, unique
from tests.support.real_api_server import RealApiServer, hyperkube

__all__ = ["bootstrap", "client_brokers", "real_api_server", "real_or_fake", "unique"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on the real API server belong to `make interop`: it is slow and may be missing."""
    for item in items:
        if "real_api_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def real_api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealApiServer]:
    """One real API server for all tests that ask for it."""
    if hyperkube() is None:
        pytest.skip("no hyperkube in the cache of the lab: tests/e2e/lab/build.sh builds it")
    with RealApiServer(tmp_path_factory.mktemp("api-server")) as server:
        yield server


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.interop)])
def real_or_fake(request: pytest.FixtureRequest) -> RealApiServer | None:
    """The real API server, or None for the fake one: a test that takes this runs on both."""
    if request.param == "fake":
        return None
    server: RealApiServer = request.getfixturevalue("real_api_server")
    return server
