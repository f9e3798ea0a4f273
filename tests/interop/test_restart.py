"""Groups and their offsets outlive the broker: clean stops, kill -9, members at work meanwhile."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.clients.steps import Item, read_items
from tests.interop.sample_records import CLIENTS, sample, with_offsets, write_items_in_order
from tests.interop.started_brokers import PROPERTIES, AnyBroker, start_broker
from tests.support.client_programs import ClientProgram

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

NAMES = ("confluent-kafka", "java-4.1.1", "kafka-python-3", "aiokafka")


@pytest.fixture
def restartable(broker_kind: str, tmp_path: Path) -> Iterator[AnyBroker]:
    running = start_broker(broker_kind, tmp_path / "broker", PROPERTIES)
    yield running
    if running.process is not None and running.process.is_running():
        running.stop()


def end(broker: AnyBroker, how: str) -> None:
    if how == "stop":
        broker.stop()
    else:
        broker.kill()


def batches(client: ClientProgram, directory: Path) -> tuple[list[Item], list[Item]]:
    """Two dozens of records, in files `first.txt` and `second.txt`."""
    first, second = sample(client, "none", 0), sample(client, "none", 12)
    write_items_in_order(directory / "first.txt", first)
    write_items_in_order(directory / "second.txt", second)
    return first, second


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_group_goes_on_where_it_committed_before_a_restart(
    how: str, restartable: AnyBroker, tmp_path: Path
) -> None:
    """Commits are in `__consumer_offsets`: the restarted broker knows all groups."""
    expected = {}
    for name in NAMES:
        client = CLIENTS[name]
        directory = tmp_path / name
        directory.mkdir()
        first, second = batches(client, directory)
        expected[name] = with_offsets(first + second)
        plan = [
            ["create", f"kept-{name}", "3", "retention.ms=-1"],
            ["produce", f"kept-{name}", "none", "1", str(directory / "first.txt")],
            ["consume", f"kept-{name}", f"keeping-{name}", "12", str(directory / "read.txt")],
        ]
        client.run(restartable.bootstrap, plan, directory)
    end(restartable, how)
    restartable.start()
    for name in NAMES:
        directory = tmp_path / name
        plan = [
            ["committed", f"keeping-{name}", f"kept-{name}"],
            ["groups"],
            ["produce", f"kept-{name}", "none", "1", str(directory / "second.txt")],
            ["consume", f"kept-{name}", f"keeping-{name}", "12", str(directory / "again.txt")],
        ]
        answers = CLIENTS[name].run(restartable.bootstrap, plan, directory)
        assert answers[0] == "0:4,1:4,2:4"
        assert f"keeping-{name}" in answers[1].split(",")
        found = read_items(str(directory / "read.txt")) + read_items(str(directory / "again.txt"))
        assert sorted(found, key=lambda item: item[:2]) == expected[name]


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("name", ["confluent-kafka", "java-4.1.1", "java-3.4.1", "kafka-python-3"])
def test_a_member_at_work_lives_through_a_restart(
    name: str, how: str, restartable: AnyBroker, tmp_path: Path
) -> None:
    """The same consumer reads what was there before and what comes after, each record once."""
    client = CLIENTS[name]
    first, second = batches(client, tmp_path)
    plan = [
        ["create", "lived", "3", "retention.ms=-1"],
        ["produce", "lived", "none", "1", str(tmp_path / "first.txt")],
    ]
    client.run(restartable.bootstrap, plan, tmp_path)

    read, other = tmp_path / "read.txt", tmp_path / "other"
    other.mkdir()
    failures: list[BaseException] = []

    def consume() -> None:
        try:
            steps = [["consume", "lived", "living", "24", str(read)]]
            client.run(restartable.bootstrap, steps, tmp_path)
        except BaseException as error:
            failures.append(error)

    member = threading.Thread(target=consume)
    member.start()
    CLIENTS["confluent-kafka"].run(restartable.bootstrap, [["stable", "living"]], other)
    end(restartable, how)
    restartable.start()
    steps = [["produce", "lived", "none", "1", str(tmp_path / "second.txt")]]
    CLIENTS["confluent-kafka"].run(restartable.bootstrap, steps, other)
    member.join(120)
    assert not failures, failures[0]
    assert not member.is_alive()
    assert read_items(str(read)) == with_offsets(first + second)
