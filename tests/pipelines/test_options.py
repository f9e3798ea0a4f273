"""The options of the source and the sink are refused or understood, never ignored."""

import re
from pathlib import Path

import pytest

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.option_table import ROWS, Use
from barnabas_pipelines.options import Options, parse_options, render
from barnabas_protocol.ids import TopicPartition

ROOT = Path(__file__).resolve().parents[2]
LEAST = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


def parse(use: Use = Use.BATCH_READ, *, via: str = "python", **more: str) -> Options:
    given = {name.replace("__", "."): text for name, text in more.items()}
    return parse_options({**LEAST, **given}, use, via=via)


def refusal(given: dict[str, str], use: Use = Use.BATCH_READ, *, via: str = "python") -> str:
    with pytest.raises(OptionsError) as raised:
        parse_options(given, use, via=via)
    return str(raised.value)


def test_names_are_compared_without_case_as_spark_does() -> None:
    """Spark's options are case-insensitive, and a dict made of them is lower case."""
    options = parse_options(
        {"bootstrapservers": "broker:9092", "SUBSCRIBE": "a, b ,a", "maxoffsetspertrigger": "7"},
        Use.STREAM_READ,
    )
    assert options["subscribe"] == ("a", "b")
    assert options["maxOffsetsPerTrigger"] == 7
    assert options.client_settings["bootstrap_servers"] == "broker:9092"


def test_a_beginning_has_the_default_of_its_use() -> None:
    """As the connector: a batch reads everything, a stream what comes."""
    assert parse(Use.BATCH_READ)["startingOffsets"] == "earliest"
    assert parse(Use.STREAM_READ)["startingOffsets"] == "latest"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("subscibe", "subscribe"),
        ("startingoffset", "startingOffsets"),
        ("maxRecordPerPartition", "maxRecordsPerPartition"),
        ("bootstrapServer", "bootstrapServers"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_name(name: str, nearest: str) -> None:
    """An ignored limit shows only when memory is gone."""
    text = refusal({**LEAST, name: "1"})
    assert f"unknown option {name}" in text
    assert f"did you mean {nearest}?" in text


@pytest.mark.parametrize(
    ("name", "text", "use"),
    [
        ("endingOffsets", "latest", Use.STREAM_READ),
        ("maxOffsetsPerTrigger", "5", Use.BATCH_READ),
        ("topic", "orders", Use.BATCH_READ),
    ],
)
def test_an_option_of_another_use_is_refused(name: str, text: str, use: Use) -> None:
    """It would have no effect, which the user does not expect."""
    assert f"{name} is not for a {use.value}" in refusal({**LEAST, name: text}, use)


@pytest.mark.parametrize("count", [0, 2])
def test_exactly_one_subscription_is_wanted(count: int) -> None:
    """The connector's rule."""
    given = {"kafka.bootstrap.servers": "broker:9092"}
    given |= dict(list({"subscribe": "a", "assign": '{"a": [0]}'}.items())[:count])
    assert "give one of subscribe, subscribePattern, assign" in refusal(given)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("minPartitions", "0", "the least is 1"),
        ("minPartitions", "many", "whole number"),
        ("failOnDataLoss", "perhaps", "true or false"),
        ("subscribe", " , ", "one name, or several"),
        ("startingOffsets", "first", "earliest, latest or JSON"),
        ("startingOffsets", '{"a": {"0": -3}}', "earliest, latest or JSON"),
        ("startingOffsets", '{"a": {"x": 3}}', "earliest, latest or JSON"),
        ("startingOffsets", '{"a": {"0": true}}', "earliest, latest or JSON"),
        ("startingOffsets", "latest", "reads nothing"),
        ("startingOffsets", '{"a": {"0": -1}}', "reads nothing"),
        ("endingOffsets", '{"a": {"0": -2}}', "reads nothing"),
        ("endingOffsets", "earliest", "reads nothing"),
        ("startingTimestamp", "-1", "the least is 0"),
        ("endingOffsetsByTimestamp", '{"a": 5}', "JSON such as"),
        ("kafka.isolation.level", "committed", "must be read_uncommitted or read_committed"),
        ("kafka.bootstrap.servers", "broker", "host and a port"),
        ("kafka.fetch.max.bytes", "-7", "the least is 0"),
        ("arrowBatchRecords", "2000000", "the most is 1000000"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_wanted(name: str, text: str, reason: str) -> None:
    """Before anything is connected to, in the driver."""
    assert reason in refusal({**LEAST, name: text})


def test_a_wrong_assignment_or_pattern_is_refused() -> None:
    """The other two ways to say what to read."""
    servers = {"kafka.bootstrap.servers": "broker:9092"}
    for text in ('{"a": []}', '{"a": [-1]}', '["a"]', "a", '{"a": ["0"]}'):
        assert "JSON such as" in refusal({**servers, "assign": text})
    assert "no regular expression" in refusal({**servers, "subscribePattern": "a("})
    parsed = parse_options({**servers, "assign": '{"b": [1], "a": [2, 0, 2]}'}, Use.BATCH_READ)
    expected = [("a", 0), ("a", 2), ("b", 1)]
    assert parsed["assign"] == tuple(TopicPartition(*one) for one in expected)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500", 500), ("500ms", 500), ("10s", 10_000), ("15m", 900_000), ("2h", 7_200_000)],
)
def test_durations_are_spelled_as_spark_spells_them(text: str, milliseconds: int) -> None:
    """`15m` is the connector's own default."""
    assert parse(Use.STREAM_READ, maxTriggerDelay=text)["maxTriggerDelay"] == milliseconds


def test_limits_that_contradict_each_other_are_refused() -> None:
    """Such a query would always wait for the whole delay."""
    given = {**LEAST, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "9"}
    assert "minOffsetsPerTrigger=10 is more" in refusal(given, Use.STREAM_READ)


def test_client_settings_go_to_the_client() -> None:
    """With Kafka's dots, as text."""
    settings = parse(kafka__fetch__max__bytes="1000000", kafka__client__id="night").client_settings
    assert settings["fetch_max_bytes"] == "1000000"
    assert settings["client_id"] == "night"
    assert settings["isolation_level"] == "read_uncommitted"
    assert settings["allow_auto_create_topics"] is False


def test_a_client_setting_that_does_not_exist_is_refused_by_name() -> None:
    """What only Java has may not be dropped in silence."""
    text = refusal({**LEAST, "kafka.fetch.max.byte": "1"})
    assert "kafka.fetch.max.byte is no setting" in text
    assert "did you mean kafka.fetch.max.bytes?" in text
    assert "metric.reporters" in refusal({**LEAST, "kafka.metric.reporters": "x"})


@pytest.mark.parametrize("via", ["python", "connector"])
@pytest.mark.parametrize("name", ["auto.offset.reset", "enable.auto.commit", "key.deserializer"])
def test_what_the_connector_decides_is_decided_here_too(name: str, via: str) -> None:
    """Each refusal says what to use instead."""
    text = refusal({**LEAST, f"kafka.{name}": "x"}, via=via)
    assert f"kafka.{name} cannot be set: " in text


def test_settings_of_group_members_have_no_effect_on_reading() -> None:
    """Programs that name a group because of access rules of theirs go on."""
    settings = parse(kafka__group__id="g", groupIdPrefix="p", kafka__max__poll__records="9")
    assert not {"group_id", "max_poll_records"} & set(settings.client_settings)


def test_a_java_login_is_understood() -> None:
    """Most secured programs have it; what it says may not come out in an error."""
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" '
    options = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "SCRAM-SHA-512"}
    given = {**LEAST, **options, "kafka.sasl.jaas.config": login + 'password="s\\"3;";'}
    parsed = parse_options(given, Use.BATCH_READ)
    assert parsed.client_settings["sasl_username"] == "u"
    assert parsed.client_settings["sasl_password"] == 's"3;'
    assert "s\\" not in repr(parsed)
    text = refusal({**given, "kafka.sasl.jaas.config": 'Krb5LoginModule password="s3cret"'})
    assert "PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule" in text
    assert "s3cret" not in text


def test_java_key_stores_are_refused_and_pem_files_taken() -> None:
    """The client reads PEM only."""
    given = {**LEAST, "kafka.security.protocol": "SSL"}
    location = "kafka.ssl.truststore.location"
    assert "only PEM" in refusal({**given, location: "/secrets/trust.jks"})
    assert "only PEM" in refusal({**given, "kafka.ssl.truststore.type": "JKS"})
    options = {location: "/secrets/ca.pem", "kafka.ssl.endpoint.identification.algorithm": ""}
    settings = parse_options({**given, **options}, Use.BATCH_READ).client_settings
    assert settings["ssl_cafile"] == "/secrets/ca.pem"
    assert settings["ssl_check_hostname"] is False


def test_the_connector_gets_the_same_options_in_its_spelling() -> None:
    """One table for both ways in; Java's own settings pass."""
    options = parse_options(
        {"bootstrapServers": "b:1", "SUBSCRIBE": "a", "kafka.metric.reporters": "x"},
        Use.BATCH_READ,
        via="connector",
    )
    assert options.connector_options() == {
        "kafka.bootstrap.servers": "b:1",
        "subscribe": "a",
        "kafka.metric.reporters": "x",
    }
    text = refusal({**LEAST, "arrowBatchRecords": "5"}, via="connector")
    assert 'arrowBatchRecords is not known to format("kafka")' in text


def test_an_option_given_twice_must_say_the_same() -> None:
    """The short and the long name of the brokers."""
    assert "given twice" in refusal({**LEAST, "bootstrapServers": "other:9092"})
    parse_options({**LEAST, "bootstrapServers": "broker:9092"}, Use.BATCH_READ)


def test_writes_have_their_own_options() -> None:
    """No subscription, the producer's settings."""
    given = {"bootstrapServers": "b:1", "topic": "t", "kafka.compression.type": "zstd"}
    options = parse_options(given, Use.STREAM_WRITE)
    assert options["topic"] == "t"
    assert options.client_settings == {"bootstrap_servers": "b:1", "compression_type": "zstd"}
    assert "kafka.acks is no setting" in refusal({**LEAST, "kafka.acks": "1"})


def test_the_reference_is_current() -> None:
    """Copy what `python -m barnabas_pipelines.options` prints when the rows have changed."""
    page = (ROOT / "docs/reference/pipelines.md").read_text(encoding="utf-8")
    match = re.search(r"<!-- options: begin -->\n(.*)<!-- options: end -->", page, re.DOTALL)
    assert match is not None
    assert match[1] == render()


def test_every_default_is_a_valid_value() -> None:
    """A row whose default it refuses itself would fail for every user."""
    for row in ROWS:
        if row.default is not None:
            row.value(row.default)
