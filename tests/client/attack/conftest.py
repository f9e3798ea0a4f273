"""Brokers behind a proxy: they advertise the proxy's port, so that all traffic goes through it."""

from collections.abc import Callable, Iterator

import pytest

from tests.client.attack.behind_proxy import BehindProxy


@pytest.fixture(scope="session")
def behind_proxies(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], BehindProxy]]:
    """One broker of each kind for the session, started when it is first needed."""
    running: dict[str, BehindProxy] = {}

    def behind(kind: str) -> BehindProxy:
        if kind not in running:
            running[kind] = BehindProxy(kind, tmp_path_factory.mktemp("proxied") / kind)
        return running[kind]

    yield behind
    for one in running.values():
        one.broker.stop()


@pytest.fixture(params=["barnabas", pytest.param("apache", marks=pytest.mark.interop)])
def behind_proxy(
    request: pytest.FixtureRequest, behind_proxies: Callable[[str], BehindProxy]
) -> BehindProxy:
    """A broker that is reached through a proxy: Barnabas, in `make interop` Apache Kafka too."""
    return behind_proxies(request.param)
