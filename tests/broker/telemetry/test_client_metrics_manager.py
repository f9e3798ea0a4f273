"""What clients are to push, who they are, and how many of them are known."""

import logging

import pytest

from barnabas_broker.config.client_metrics_settings import parse_subscription
from barnabas_broker.telemetry.client_metrics_manager import (
    INSTANCE_LIFETIME_MS_MIN,
    INSTANCES_MAX,
    PREFIXES_MAX,
    ClientMetricsManager,
    requested_of,
)
from barnabas_broker.telemetry.push_reader import Push
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, uuid_to_text
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_random import SimulatedRandom

JAVA = {
    "client_id": "orders-1",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.1.1",
    "client_source_address": "10.0.0.1",
    "client_source_port": "5000",
}


def manager(clock: SimulatedClock | None = None, seed: int = 0) -> ClientMetricsManager:
    return ClientMetricsManager(
        clock or SimulatedClock(), SimulatedRandom(seed), bytes_max=1000, series_max=100
    )


def values(of: ClientMetricsManager) -> dict[str, object]:
    return {sample.name: sample.value for sample in of.samples()}


def test_without_a_subscription_nothing_is_requested() -> None:
    """TEL-2: and it is asked for again in five minutes."""
    instance = manager().get(ZERO_UUID, JAVA)
    assert instance.requested.metrics == ()
    assert instance.push_interval_ms == 300_000


def test_all_that_matches_is_requested_as_often_as_the_most_eager_wants() -> None:
    """TEL-2: expressions match the whole of an attribute, and all of a subscription must."""
    metrics = manager()
    metrics.update(
        {
            "a": {"metrics": "org.a,org.b", "interval.ms": "20000"},
            "b": {
                "metrics": "org.b,org.c",
                "match": "client_id=orders-[0-9]",
                "interval.ms": "5000",
            },
            "part": {"metrics": "part", "match": "client_id=orders", "interval.ms": "100"},
            "half": {
                "metrics": "half",
                "match": "client_id=orders-1,client_software_version=3.*",
            },
            "slow": {"metrics": "org.d", "interval.ms": "3600000"},
        }
    )
    instance = metrics.get(ZERO_UUID, JAVA)
    assert instance.requested.metrics == ("org.a", "org.b", "org.c", "org.d")
    assert instance.push_interval_ms == 5000


def test_an_attribute_that_a_client_does_not_tell_matches_nothing() -> None:
    """TEL-2: clients older than ApiVersions 3 have no name."""
    metrics = manager()
    metrics.update({"a": {"metrics": "*", "match": "client_software_name=.*"}})
    assert metrics.get(ZERO_UUID, {"client_id": "old"}).requested.metrics == ()


def test_an_instance_is_matched_by_its_id() -> None:
    """TEL-2."""
    metrics, known = manager(), b"\x01" * 16
    metrics.update({"a": {"metrics": "*", "match": f"client_instance_id={uuid_to_text(known)}"}})
    assert metrics.get(known, JAVA).requested.metrics == ("*",)
    assert metrics.get(ZERO_UUID, JAVA).requested.metrics == ()


def test_all_metrics_stand_for_every_other() -> None:
    """TEL-2: also for more prefixes than a client is told."""
    every = parse_subscription({"metrics": "*"})
    some = parse_subscription({"metrics": "org.a"})
    many = [
        parse_subscription({"metrics": ",".join(f"m{part}{n}" for n in range(PREFIXES_MAX // 2))})
        for part in ("a", "b", "c")
    ]
    assert requested_of((some, every), JAVA).metrics == ("*",)
    assert requested_of(tuple(many), JAVA).metrics == ("*",)
    assert len(requested_of(tuple(many[:2]), JAVA).metrics) == PREFIXES_MAX


def test_the_subscription_id_is_the_same_at_all_brokers_and_changes_with_what_it_stands_for() -> (
    None
):
    """TEL-2: a client pushes to whom it likes; in the range of a signed number."""
    one, other = manager(seed=1), manager(seed=2)
    subscriptions = {"a": {"metrics": "org.b,org.a"}, "b": {"interval.ms": "100"}}
    one.update(subscriptions)
    other.update(dict(reversed(subscriptions.items())))
    instance = one.get(ZERO_UUID, JAVA)
    first = instance.subscription_id
    assert other.get(instance.id, JAVA).subscription_id == first
    assert one.get(ZERO_UUID, JAVA).subscription_id != first
    ids = {first}
    for changed in ({"metrics": "org.a"}, {"metrics": "org.a", "interval.ms": "200"}, {}):
        one.update({"a": changed} if changed else {})
        ids.add(one.get(instance.id, JAVA).subscription_id)
    assert len(ids) == 4
    assert all(-(2**31) <= each < 2**31 for each in ids)


def test_a_client_without_an_id_gets_one_and_others_keep_theirs() -> None:
    """TEL-2."""
    metrics = manager()
    first, second = metrics.get(ZERO_UUID, JAVA).id, metrics.get(ZERO_UUID, JAVA).id
    assert len({first, second, ZERO_UUID}) == 3
    assert metrics.get(b"\x02" * 16, JAVA).id == b"\x02" * 16


@pytest.mark.parametrize("reserved", [ZERO_UUID, bytes(15) + b"\x01"])
def test_nobody_pushes_under_a_reserved_id(reserved: bytes) -> None:
    """TEL-4."""
    with pytest.raises(KafkaError) as error:
        manager().begin_push(reserved, JAVA, 0, is_terminating=False)
    assert error.value.code == ErrorCode.INVALID_REQUEST


def test_a_client_that_comes_from_another_broker_may_push() -> None:
    """TEL-2, TEL-4: its subscription id is right here as well."""
    there, here = manager(seed=1), manager(seed=2)
    instance = there.get(ZERO_UUID, JAVA)
    pushing = here.begin_push(instance.id, JAVA, instance.subscription_id, is_terminating=False)
    here.end_push(pushing, Push([], 0), object.__class__)
    assert values(here)["barnabas_client_telemetry_pushes_total"] == 1


def test_errors_are_counted_by_their_names() -> None:
    """TEL-6."""
    metrics = manager()
    instance = metrics.get(ZERO_UUID, JAVA)
    for _ in range(2):
        with pytest.raises(KafkaError):
            metrics.get(instance.id, JAVA)
    with pytest.raises(KafkaError):
        metrics.begin_push(instance.id, JAVA, 1, is_terminating=False)
    errors = {
        sample.labels["error"]: sample.value
        for sample in metrics.samples()
        if sample.name == "barnabas_client_telemetry_errors_total"
    }
    assert errors == {"THROTTLING_QUOTA_EXCEEDED": 2, "UNKNOWN_SUBSCRIPTION_ID": 1}


def test_instances_are_forgotten_after_three_intervals() -> None:
    """TEL-6: a minute at least; then all is as with one that was never seen."""
    clock = SimulatedClock()
    metrics = manager(clock)
    metrics.update({"a": {"interval.ms": "100"}})
    instance = metrics.get(ZERO_UUID, JAVA)
    clock.advance(INSTANCE_LIFETIME_MS_MIN - 1)
    assert values(metrics)["barnabas_client_telemetry_instances"] == 1
    clock.advance(1)
    assert values(metrics)["barnabas_client_telemetry_instances"] == 0
    assert metrics.get(instance.id, JAVA) is not instance


def test_of_too_many_instances_the_one_that_is_unused_for_longest_goes() -> None:
    """TEL-6: ids that somebody makes up fill no memory."""
    metrics = manager()
    first = metrics.get(b"\x01" * 16, JAVA)
    second = metrics.get(b"\x02" * 16, JAVA)
    for number in range(INSTANCES_MAX - 2):
        metrics.get(b"\x03" * 8 + number.to_bytes(8, "big"), JAVA)
    metrics.begin_push(first.id, JAVA, first.subscription_id, is_terminating=False)
    metrics.get(b"\x04" * 16, JAVA)
    assert values(metrics)["barnabas_client_telemetry_instances"] == INSTANCES_MAX
    with pytest.raises(KafkaError):
        metrics.get(first.id, JAVA)  # it is known, so it is too early
    assert metrics.get(second.id, JAVA) is not second


def test_a_subscription_that_cannot_be_used_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """CFG-5, TEL-1: an older broker in a newer cluster."""
    metrics = manager()
    with caplog.at_level(logging.WARNING):
        metrics.update({"bad": {"colour": "red"}, "good": {"metrics": "org.a"}})
    assert metrics.get(ZERO_UUID, JAVA).requested.metrics == ("org.a",)
    assert "client metrics subscription bad is not used" in caplog.text
