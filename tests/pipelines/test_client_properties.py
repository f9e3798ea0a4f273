"""A mounted client.properties as options of source and sink (SEC-103)."""

from pathlib import Path
from typing import Any

import pytest

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs import JOB_NAMES
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts
from barnabas_pipelines.jobs.common_options import producer_settings
from barnabas_pipelines.jobs.job import load_job
from barnabas_pipelines.jobs.settings import JobSettings, settings_of
from barnabas_pipelines.jobs.streaming import source_options
from barnabas_pipelines.option_table import Use
from barnabas_pipelines.options import parse_options

CANARY = "canary-password-0001"
LINES = (
    "bootstrap.servers=one:9093\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
    "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
    f'  username="u" password="{CANARY}";\n'
    "ssl.truststore.type=PEM\nssl.truststore.location=/etc/kafka/ca.crt\n"
    "acks=all\ngroup.id=g\nfetch.max.bytes=1000000\nclient.dns.lookup=use_all_dns_ips\n"
    "key.serializer=org.apache.kafka.common.serialization.StringSerializer\n"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(LINES)
    return path


def aggregate(file: Path, **more: Any) -> JobSettings:
    """Settings of a job that reads and writes."""
    given = {
        "client-properties": str(file),
        "topic": "t",
        "target": "u",
        "checkpoint": "/c",
        "group-by": ["a"],
        "measure": ["count"],
        **more,
    }
    options = load_job("aggregate").options
    known = {option.name for option in options}
    return settings_of(options, {name: value for name, value in given.items() if name in known})


def test_each_setting_becomes_one_of_the_side_that_has_it(file: Path) -> None:
    """SEC-103: a file that programs of all kinds read; other roles' settings stay out."""
    settings = aggregate(file)
    assert settings["bootstrap-servers"] == "one:9093"
    shared = {
        "kafka.security.protocol",
        "kafka.sasl.mechanism",
        "kafka.sasl.jaas.config",
        "kafka.ssl.truststore.type",
        "kafka.ssl.truststore.location",
        "kafka.client.dns.lookup",
    }
    assert set(settings["source-option"]) == {*shared, "kafka.fetch.max.bytes"}
    assert set(settings["sink-option"]) == {*shared, "kafka.acks"}


def test_both_ways_and_the_plan_s_own_client_log_in_with_it(file: Path) -> None:
    """Source, sink, and what reads facts for a plan."""
    settings = aggregate(file)
    options = source_options(settings, ["t"])
    of_python = parse_options(options, Use.STREAM_READ).client_settings
    assert of_python["sasl_password"] == CANARY
    assert of_python["ssl_cafile"] == "/etc/kafka/ca.crt"
    of_java = parse_options(options, Use.STREAM_READ, via="connector").connector_options()
    assert CANARY in of_java["kafka.sasl.jaas.config"]
    assert producer_settings(settings, "u")["sasl_password"] == CANARY
    facts = ClusterFacts.of(settings).client_settings
    assert (facts["sasl_password"], facts["security_protocol"]) == (CANARY, "SASL_SSL")


def test_options_win_over_the_file(file: Path) -> None:
    """In any case of letters, as Spark compares them."""
    chosen = {"kafka.Fetch.max.bytes": "5", "kafka.security.protocol": "SSL"}
    settings = aggregate(file, **{"source-option": chosen, "bootstrap-servers": "two:1"})
    assert settings["bootstrap-servers"] == "two:1"
    assert settings["source-option"]["kafka.security.protocol"] == "SSL"
    assert "kafka.fetch.max.bytes" not in settings["source-option"]


@pytest.mark.parametrize("name", JOB_NAMES)
def test_every_job_takes_the_file(name: str) -> None:
    assert "client-properties" in {option.name for option in load_job(name).options}


def test_a_file_that_cannot_be_used_is_named_without_its_lines(tmp_path: Path) -> None:
    """SEC-114."""
    path = tmp_path / "client.properties"
    with pytest.raises(OptionsError, match=r"--client-properties .*cannot be read: No such file"):
        aggregate(path)
    path.write_text(f"sasl.jaas.config=com.sun.Krb5LoginModule password={CANARY}\n")
    with pytest.raises(OptionsError, match="Krb5LoginModule") as raised:
        ClusterFacts.of(aggregate(path, **{"bootstrap-servers": "a:1"}))
    assert CANARY not in str(raised.value)
    path.write_text("sasl.password=x\n")
    with pytest.raises(OptionsError, match="bootstrap-servers is missing"):
        aggregate(path)
