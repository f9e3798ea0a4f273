"""What a producer's program has said was acknowledged, line by line, and that a broker has it."""

import subprocess
from pathlib import Path

from tests.interop.clients.steps import read_items
from tests.interop.started_brokers import AnyBroker
from tests.support.client_programs import all_clients
from tests.support.history import read_acknowledged, violations
from tests.support.waiting import wait_until

TOPIC = "killed"


def line_count(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def wait_for_lines(
    path: Path, count: int, load: "subprocess.Popen[str]", broker: AnyBroker
) -> None:
    """Waits until so many records were acknowledged."""

    def is_there() -> bool:
        assert load.poll() is None, load.communicate()[0]
        assert broker.process is not None
        assert broker.process.is_running(), broker.process.log_tail()
        return line_count(path) >= count

    wait_until(is_there, 60, lambda: f"{line_count(path)} of {count} acknowledged")


def check(broker: AnyBroker, acknowledged_path: Path, directory: Path) -> None:
    """Compares all that was acknowledged with all that is there."""
    acknowledged = read_acknowledged(acknowledged_path.read_text().splitlines())
    client = all_clients()[0]
    (ends,) = client.run(broker.bootstrap, [["offsets", TOPIC]], directory)
    total = sum(int(entry.split(":")[2]) for entry in ends.split(","))
    path = directory / "everything.txt"
    client.run(broker.bootstrap, [["read", TOPIC, str(total), str(path)]], directory)
    found: dict[int, list[tuple[int, int]]] = {}
    for item in read_items(str(path)):
        assert item.key is not None
        found.setdefault(item.partition, []).append((item.offset, int(item.key)))
    problems = violations(acknowledged, found)
    assert not problems, f"{len(problems)} problems: {problems[:20]}"
