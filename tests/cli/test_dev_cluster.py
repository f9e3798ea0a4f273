"""`barnabas dev --brokers N`: what each broker is started with, and whose data it may use."""

import os
import signal
from pathlib import Path

import click
import pytest

from barnabas_broker.config.parse import BrokerConfig, parse_properties
from barnabas_cli.dev_cluster import DevCluster, brokers_in
from tests.support.barnabas_process import barnabas_command
from tests.support.command_line import CommandLine
from tests.support.in_process_broker import DEADLINE_SECONDS
from tests.support.processes import ManagedProcess, free_ports
from tests.support.waiting import wait_until


def cluster(data: Path, count: int = 3, **settings: str) -> DevCluster:
    return DevCluster(count=count, port=9092, admin_port=9644, data=data, settings=settings)


def written(path: Path) -> BrokerConfig:
    return BrokerConfig.parse(parse_properties(path.read_text(encoding="utf-8")))


def test_brokers_share_a_cluster_and_nothing_else(tmp_path: Path) -> None:
    """Design 7: ports follow each other; one arbiter in a file; as many replicas as can be."""
    configs = [written(path) for path in cluster(tmp_path / "data", 4).write_properties()]
    assert [config.node_id for config in configs] == [0, 1, 2, 3]
    assert [config.listeners[0].port for config in configs] == [9092, 9093, 9094, 9095]
    assert [config.admin_http_port for config in configs] == [9644, 9645, 9646, 9647]
    assert len({config.cluster_id for config in configs}) == 1
    assert len({config.arbiter_file_path for config in configs}) == 1
    assert len({config.log_dirs for config in configs}) == 4
    assert {config.default_replication_factor for config in configs} == {3}


def test_a_second_start_is_the_same_cluster(tmp_path: Path) -> None:
    first, second = (
        written(cluster(tmp_path / "data").write_properties()[0]).cluster_id for _ in range(2)
    )
    assert first == second


def test_settings_of_the_command_line_win(tmp_path: Path) -> None:
    dev = DevCluster(
        count=2,
        port=9092,
        admin_port=-1,
        data=tmp_path,
        settings={"default.replication.factor": "1"},
    )
    config = written(dev.write_properties()[1])
    assert (config.default_replication_factor, config.admin_http_port) == (1, -1)


def test_the_data_of_another_number_of_brokers_is_left_alone(tmp_path: Path) -> None:
    """Fewer brokers than the data is of would wait for ever for a majority."""
    single = tmp_path / "single"
    single.mkdir()
    (single / "meta.properties").touch()
    with pytest.raises(click.UsageError, match="single broker"):
        cluster(single).check_data()
    several = tmp_path / "several"
    for number in range(3):
        (several / f"broker-{number}").mkdir(parents=True)
    assert brokers_in(several) == 3
    with pytest.raises(click.UsageError, match="--brokers 3"):
        cluster(several, 2).check_data()
    cluster(several, 5).check_data()
    error = CommandLine().error("dev", "--data", str(several), code=2)
    assert "--brokers 3" in error


class Running:
    """`barnabas dev --brokers N` as a process of its own."""

    def __init__(
        self, data: Path, *arguments: str, count: int = 2, port: int | None = None
    ) -> None:
        self.port = free_ports(count) if port is None else port
        log = data.with_suffix(".log")
        self.process = ManagedProcess(
            [
                str(barnabas_command()),
                "dev",
                "--brokers",
                str(count),
                "--port",
                str(self.port),
                "--admin-port",
                "-1",
                "--data",
                str(data),
                *arguments,
            ],
            log,
            {},
        )

    def shows(self, words: str) -> None:
        """Wait until something is printed."""
        wait_until(
            lambda: words in self.process.log_tail(1 << 20) or not self.process.is_running(),
            DEADLINE_SECONDS,
            lambda: self.process.log_tail(),
        )
        assert words in self.process.log_tail(1 << 20), self.process.log_tail()

    def brokers(self) -> list[int]:
        """The processes of the brokers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()] if children.exists() else []


def test_two_brokers_run_as_one_cluster_until_ctrl_c(tmp_path: Path) -> None:
    """BOOT-8, BOOT-9: manifests are applied, lines have the broker's number, no process is left."""
    manifest = tmp_path / "topic.yaml"
    manifest.write_text(
        "apiVersion: barnabas.dev/v1alpha1\nkind: Topic\nmetadata:\n  name: declared\n"
        "spec:\n  partitions: 2\n  replicas: 2\n"
    )
    running = Running(tmp_path / "data", "-f", str(manifest))
    try:
        running.shows("2 brokers of Barnabas are ready")
        cli = CommandLine(f"127.0.0.1:{running.port + 1}")
        running.shows("declared")
        # The topic is declared once the controller has it; the broker that is asked learns it next.
        wait_until(
            lambda: cli.json("cluster", "status")["partitions"] == 2,
            DEADLINE_SECONDS,
            lambda: running.process.log_tail(),
        )
        status = cli.json("cluster", "status")
        assert [one["state"] for one in status["brokers"]] == ["ready", "ready"]
        running.shows("0 | ")
        running.shows("1 | ")
        brokers = running.brokers()
        assert len(brokers) == 2
        running.process.process.send_signal(signal.SIGINT)
        assert running.process.process.wait(DEADLINE_SECONDS) == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in brokers)
    finally:
        running.process.stop()


def test_the_others_go_on_when_a_broker_is_killed(tmp_path: Path) -> None:
    """The README's promise; what is printed brings the broker back, and the end is still clean."""
    running = Running(tmp_path / "data", "--set", "barnabas.drain.budget.ms=200", count=3)
    cli = CommandLine(f"127.0.0.1:{running.port},127.0.0.1:{running.port + 1}")

    def states() -> list[str]:
        return [one["state"] for one in cli.json("cluster", "status")["brokers"]]

    try:
        running.shows("3 brokers of Barnabas are ready")
        os.kill(running.brokers()[2], signal.SIGKILL)
        file = tmp_path / "data" / "broker-2.properties"
        running.shows(
            "Error: broker 2 ended with exit code -9: the others go on."
            f" Bring it back with: barnabas broker --config {file}"
        )
        wait_until(lambda: states() == ["ready", "ready", "fenced"], DEADLINE_SECONDS, states)
        back = ManagedProcess(
            [str(barnabas_command()), "broker", "--config", str(file)], tmp_path / "back.log", {}
        )
        try:
            wait_until(lambda: states() == ["ready"] * 3, DEADLINE_SECONDS, states)
        finally:
            back.stop()
        running.process.process.send_signal(signal.SIGINT)
        assert running.process.process.wait(DEADLINE_SECONDS) == 0
    finally:
        running.process.stop()


def test_all_stop_when_a_broker_does_not_come_up(tmp_path: Path) -> None:
    """A folder that is a file, here: half a cluster would only be a riddle, told once."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "broker-1").touch()
    running = Running(data)
    try:
        running.shows("; stopping the others.")
        assert running.process.process.wait(DEADLINE_SECONDS) == 1
        assert not running.brokers()
        told = [
            line for line in running.process.log_tail(1 << 20).splitlines() if "Error: " in line
        ]
        assert len(told) == 1
        assert told[0].startswith("Error: broker 1: the broker cannot run: ")
        assert "broker-1" in told[0]
    finally:
        running.process.stop()


def test_nothing_is_left_when_the_last_broker_ends(tmp_path: Path) -> None:
    running = Running(tmp_path / "data")
    try:
        running.shows("2 brokers of Barnabas are ready")
        for pid in running.brokers():
            os.kill(pid, signal.SIGKILL)
        assert running.process.process.wait(DEADLINE_SECONDS) == 1
    finally:
        running.process.stop()
