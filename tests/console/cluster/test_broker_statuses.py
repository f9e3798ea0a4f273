"""What brokers tell of themselves alone, by their `/status` (CON-111, CON-135)."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from barnabas_client.admin.values.configs import ConfigEntry
from barnabas_console.cluster.broker_statuses import BrokerStatus, address_of, broker_statuses
from tests.support.console_server import running_console, told
from tests.support.in_process_broker import eventually, running_broker
from tests.support.processes import free_port

#: Of another program it may hold anything.
RIGHT = {"loop_lag_ms_max": 1.5, "bytes_in": 7, "bytes_out": "many", "drain": "draining"}


@pytest.mark.parametrize(
    ("broker", "listening", "address"),
    [
        ("127.0.0.1", "127.0.0.1", "http://127.0.0.1:9644/status"),
        ("10.0.0.7", "127.0.0.1", ""),  # that would be this machine's own
        ("10.0.0.7", "0.0.0.0", "http://10.0.0.7:9644/status"),
        ("fd00::7", "::", "http://[fd00::7]:9644/status"),
        ("kafka", "10.0.0.8", "http://10.0.0.8:9644/status"),
    ],
)
def test_address_is_where_the_broker_can_be_reached(
    broker: str, listening: str, address: str
) -> None:
    settings = {"host": listening, "port": "9644", "protocol": "http"}
    assert address_of(broker, entries(**settings)) == address


def test_brokers_without_an_open_admin_port_have_no_address() -> None:
    """Apache Kafka has no such settings; https wants a login of its own."""
    assert address_of("127.0.0.1", {}) == ""
    settings = {"host": "127.0.0.1", "port": "9644", "protocol": "http"}
    for changed in ({"port": "-1"}, {"port": "0"}, {"protocol": "https"}):
        assert address_of("127.0.0.1", entries(**{**settings, **changed})) == ""


def entries(**settings: str) -> dict[str, ConfigEntry]:
    return {
        f"admin.http.{name}": ConfigEntry(name=f"admin.http.{name}", value=value)
        for name, value in settings.items()
    }


def test_broker_tells_how_late_its_loop_runs(tmp_path: Path) -> None:
    """CON-111: beside the broker's other facts."""

    async def run() -> None:
        async with (
            running_broker(tmp_path, admin_http_port=str(free_port())) as broker,
            running_console(f"127.0.0.1:{broker.port}") as console,
        ):

            async def is_told() -> bool:
                (row,) = (await told(console, "/brokers"))["rows"]
                return isinstance(row["loop_lag_ms"], float) and row["drain"] is None

            await eventually(is_told)

    asyncio.run(run())


def test_whatever_else_answers_is_unknown() -> None:
    """Redirects, endless and wrong answers of whatever listens there."""

    async def answer(request: web.Request) -> web.StreamResponse:
        match request.path:
            case "/right":
                return web.json_response(RIGHT)
            case "/moved":
                raise web.HTTPFound("/right")
            case "/list":
                return web.json_response([1])
            case "/endless":
                return web.Response(body=b" " * 2_000_000)
            case _:
                raise web.HTTPNotFound

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        async with TestServer(app) as server:
            paths = ("right", "moved", "list", "endless", "none")
            statuses = await broker_statuses(
                {place: str(server.make_url(f"/{path}")) for place, path in enumerate(paths)}
            )
        assert statuses == {
            0: BrokerStatus(loop_lag_ms=1.5, bytes_in=7, bytes_out=None, drain="draining")
        }
        assert await broker_statuses({0: f"http://127.0.0.1:{free_port()}/status"}) == {}

    asyncio.run(run())
