"""`barnabas dev --brokers N`: what each broker is started with, and whose data it may use."""

from pathlib import Path

import click
import pytest

from barnabas_broker.config.parse import BrokerConfig, parse_properties
from barnabas_cli.dev_cluster import DevCluster, brokers_in
from tests.support.command_line import CommandLine


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
