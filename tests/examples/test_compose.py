"""The compose files: by the compose specification's schema, and as the brokers they describe.

`compose-spec.json` is the specification's own schema, from github.com/compose-spec/compose-spec at
170098ba07d9 (Apache-2.0). There is no container runtime here: each service runs as a process, with
the properties that are mounted and the command that is given, at other addresses.
"""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from barnabas_broker.config.parse import parse_properties
from barnabas_client import Consumer, Producer
from barnabas_client.admin import Admin
from releases.images import image_name
from tests.support.processes import ManagedProcess, free_port

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "compose"
FILES = sorted(FOLDER.glob("*.yaml"))
SCHEMA = jsonschema.Draft7Validator(
    json.loads((Path(__file__).parent / "compose-spec.json").read_text(encoding="utf-8"))
)
MOUNTED = "/etc/barnabas/broker.properties"
DATA = "/var/lib/barnabas"
ADMIN_PORT = 9644
CONSOLE = "console"
_ADDRESS = re.compile(r"(\w+)://([\w.-]*):(\d+)")


class Service:
    """One broker of a compose file, and the ports of this machine that stand for its own."""

    def __init__(self, name: str, declared: dict[str, Any]) -> None:
        self.name = name
        self.declared = declared
        command = declared.get("command", ["broker", f"--config={MOUNTED}"])
        assert command[:2] == ["broker", f"--config={MOUNTED}"]
        mounts = dict(reversed(volume.split(":")[:2]) for volume in declared["volumes"])
        text = (FOLDER / mounts[MOUNTED]).read_text(encoding="utf-8")
        settings = [word.removeprefix("--set=").partition("=") for word in command[2:]]
        self.properties = parse_properties(text) | {key: value for key, _, value in settings}
        self.port_here = {
            port: free_port() for port in (*self.listener_ports().values(), ADMIN_PORT)
        }

    def listener_ports(self) -> dict[str, int]:
        """The port of each listener, within the container."""
        found = _ADDRESS.findall(self.properties["listeners"])
        return {name: int(port) for name, _, port in found}

    def advertised(self) -> dict[str, tuple[str, int]]:
        found = _ADDRESS.findall(self.properties["advertised.listeners"])
        return {name: (host, int(port)) for name, host, port in found}

    def published(self) -> dict[tuple[str, int], int]:
        """The addresses of the host, and the port of the container behind each."""
        parts = (mapping.rsplit(":", 2) for mapping in self.declared["ports"])
        return {(host, int(port)): int(inside) for host, port, inside in parts}

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.port_here[self.listener_ports()[listener]]}"

    def properties_here(self, data: Path) -> dict[str, str]:
        """The same broker on this machine."""
        addresses = ",".join(f"{name}://{self.address(name)}" for name in self.listener_ports())
        return {key: value.replace(DATA, str(data)) for key, value in self.properties.items()} | {
            "listeners": addresses,
            "advertised.listeners": addresses,
            "admin.http.host": "127.0.0.1",
            "admin.http.port": str(self.port_here[ADMIN_PORT]),
            "group.initial.rebalance.delay.ms": "0",
        }


def declared_in(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["services"]
    return found


def services(path: Path) -> list[Service]:
    """The brokers."""
    return [
        Service(name, one)
        for name, one in declared_in(path).items()
        if "barnabas-broker" in one["image"] and name != CONSOLE
    ]


@contextmanager
def running(path: Path, folder: Path) -> Iterator[list[Service]]:
    """The brokers of a compose file as processes."""
    found = services(path)
    processes = []
    (folder / "data").mkdir()
    try:
        for service in found:
            file = folder / f"{service.name}.properties"
            properties = service.properties_here(folder / "data")
            file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
            command = [sys.executable, "-m", "barnabas_broker", str(file)]
            processes.append(ManagedProcess(command, folder / f"{service.name}.log", {}))
        for service, process in zip(found, processes, strict=True):
            process.wait_for_port(service.port_here[9092], 60)
        yield found
    finally:
        for process in processes:
            process.stop()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_compose_file_is_one_by_the_specification(path: Path) -> None:
    SCHEMA.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_the_schema_refuses_what_is_none() -> None:
    """It is not one that takes everything."""
    with pytest.raises(jsonschema.ValidationError):
        SCHEMA.validate({"services": {"broker": {"imagee": "x"}}})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_services_have_the_image_that_make_images_makes(path: Path) -> None:
    assert {one["image"] for one in declared_in(path).values()} == {image_name("broker")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_console_reaches_all_brokers_and_only_this_machine_reaches_it(path: Path) -> None:
    """On the host's network it has the loopback address that the brokers' ports are published at.

    Nobody logs in there, so that any other address would be refused at the start (CON-140).
    """
    console = declared_in(path)[CONSOLE]
    assert console["network_mode"] == "host"
    assert "ports" not in console
    word, bootstrap = console["command"]
    assert word == "console"
    wanted = [
        f"{host}:{port}"
        for one in services(path)
        for (host, port), inside in one.published().items()
        if inside != ADMIN_PORT
    ]
    assert bootstrap == f"--bootstrap-server={','.join(wanted)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_is_advertised_is_published_or_the_name_of_the_service(path: Path) -> None:
    """Else a client would be sent to where nobody is."""
    for service in services(path):
        ports, advertised = service.listener_ports(), service.advertised()
        outside = advertised.pop("OUTSIDE")
        assert service.published()[outside] == ports["OUTSIDE"]
        for listener, address in advertised.items():
            assert address == (service.name, ports[listener])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_listener_is_where_the_one_for_brokers_is_added(path: Path) -> None:
    """It is added 10,000 ports above the first where a file has none, and then nobody starts."""
    for service in services(path):
        ports = service.listener_ports()
        assert "REPLICATION" in ports or ports["OUTSIDE"] + 10_000 not in ports.values()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_brokers_of_a_compose_file_serve(path: Path, tmp_path: Path) -> None:
    """From inside and outside, with a copy on each broker, and healthy by the file's own check."""
    with running(path, tmp_path) as brokers:
        outside = [broker.address("OUTSIDE") for broker in brokers]
        inside = [broker.address("INSIDE") for broker in brokers]
        replicas, values = asyncio.run(_exchange(",".join(outside), ",".join(inside)))
        assert replicas == len(brokers)
        assert values == [b"hello"]
        for broker in brokers:
            word, *command = broker.declared["healthcheck"]["test"]
            assert (word, command[0]) == ("CMD", "python3")
            program = command[2].replace(str(ADMIN_PORT), str(broker.port_here[ADMIN_PORT]))
            subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


async def _exchange(outside: str, inside: str) -> tuple[int, list[bytes | None]]:
    """How many replicas a topic gets, and what is read by the one listener of the other's."""
    async with Producer(outside) as producer:
        await producer.send("greetings", b"hello")
    async with Admin(inside) as admin:
        described = (await admin.topics.describe(["greetings"])).unwrap()["greetings"]
    async with Consumer(inside, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["greetings"])
        async for record in consumer:
            return len(described.partitions[0].replica_ids), [record.value]
    raise AssertionError("no record")
