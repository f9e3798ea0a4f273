"""Whatever brokers and network do, an idempotent producer loses, doubles and reorders nothing."""

import os
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.errors import BarnabasError, RetriableError
from barnabas_protocol.errors import ErrorCode
from tests.client.producer.scripted_cluster import ScriptedCluster

partitions = st.integers(0, 1)
nodes = st.sampled_from((1, 2))
errors = st.sampled_from(
    (
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
doubts = st.sampled_from(
    (
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), partitions, st.integers(0, 40)),
        st.tuples(st.just("send"), partitions, st.integers(0, 40)),
        st.tuples(st.just("turn")),
        st.tuples(st.just("turn")),
        st.tuples(st.just("take"), nodes),
        st.tuples(st.just("answer"), nodes),
        st.tuples(st.just("disconnect"), nodes),
        st.tuples(st.just("move"), partitions, nodes),
        st.tuples(st.just("refresh")),
        st.tuples(st.just("refuse"), partitions, errors),
        st.tuples(st.just("doubt"), partitions, doubts),
        st.tuples(st.just("stale")),
        st.tuples(st.just("wait"), st.integers(1, 200)),
        # Sequences that chance alone seldom makes.
        st.tuples(st.just("lose reply"), partitions, st.integers(0, 40)),
        st.tuples(st.just("lose reply, refuse"), partitions, st.integers(0, 40), errors),
        st.tuples(st.just("send, doubt"), partitions, st.integers(0, 40), doubts),
        st.tuples(st.just("pipeline"), partitions, st.integers(2, 4)),
        st.tuples(st.just("expire")),
    ),
    max_size=40,
)
Steps = list[tuple[object, ...]]
# More of them: BARNABAS_MODEL_EXAMPLES=20000.
MODEL_EXAMPLES = int(os.environ.get("BARNABAS_MODEL_EXAMPLES", "300"))


@dataclass
class Verdict:
    """What the history says about one partition."""

    numbers: list[int]
    acknowledged: dict[int, int]


def settings_of(**changes: object) -> ProducerSettings:
    return ProducerSettings.create(
        {
            "bootstrap_servers": "b:1",
            "batch_size": 50,
            "linger_ms": 5,
            "buffer_memory": 400,
            "max_block_ms": 100000,
            "request_timeout_ms": 100,
            "delivery_timeout_ms": 400,
            **changes,
        }
    )


def run(steps: Steps, settings: ProducerSettings) -> ScriptedCluster:
    cluster = ScriptedCluster(settings)
    for step in steps:
        take_step(cluster, step)
    cluster.settle()
    return cluster


def take_step(cluster: ScriptedCluster, step: tuple[object, ...]) -> None:
    match step:
        case ("send", int(partition), int(padding)):
            send(cluster, partition, padding)
        case ("lose reply", int(partition), int(padding)):
            send(cluster, partition, padding)
            cluster.now_ms += 20
            cluster.turn()
            cluster.take(cluster.leaders[partition])
            cluster.disconnect(cluster.leaders[partition])
        case ("lose reply, refuse", int(partition), int(padding), code):
            assert isinstance(code, ErrorCode)
            take_step(cluster, ("lose reply", partition, padding))
            cluster.refused_once[partition] = code
        case ("send, doubt", int(partition), int(padding), code):
            take_step(cluster, ("doubt", partition, code))
            send(cluster, partition, padding)
            cluster.now_ms += 20
            cluster.turn()
            cluster.take(cluster.leaders[partition])
            cluster.answer(cluster.leaders[partition])
        case ("doubt", int(partition), code):
            assert isinstance(code, ErrorCode)
            cluster.doubtful_once[partition] = code
        case ("stale",):
            cluster.refresh(known_partitions=1)
        case ("pipeline", int(partition), int(count)):
            for _ in range(count):
                send(cluster, partition, 40)
                cluster.now_ms += 20
                cluster.turn()
        case ("expire",):
            cluster.now_ms += 450
            cluster.turn()
        case ("turn",):
            cluster.turn()
        case ("take", int(node)):
            cluster.take(node)
        case ("answer", int(node)):
            cluster.answer(node)
        case ("disconnect", int(node)):
            cluster.disconnect(node)
        case ("move", int(partition), int(node)):
            cluster.leaders[partition] = node
        case ("refresh",):
            cluster.refresh()
        case ("refuse", int(partition), code):
            assert isinstance(code, ErrorCode)
            cluster.refused_once[partition] = code
        case ("wait", int(duration_ms)):
            cluster.now_ms += duration_ms


def send(cluster: ScriptedCluster, partition: int, padding: int) -> None:
    if cluster.admission.waiting_bytes < 200:
        cluster.send(partition, padding)


def check_nothing_is_left(cluster: ScriptedCluster) -> None:
    """PRD-4: all memory is back, nothing waits, every promise is kept."""
    accumulator = cluster.accumulator
    assert accumulator.used_bytes == 0
    assert not accumulator.unfinished
    assert not accumulator.active
    assert not cluster.admission.waiting
    assert cluster.admission.waiting_bytes == 0
    assert all(delivery.done() for _, _, delivery in cluster.deliveries)


@settings(max_examples=MODEL_EXAMPLES)
@given(steps)
@example(
    [
        ("send", 0, 40),
        ("turn",),
        ("send", 0, 40),
        ("turn",),
        ("refuse", 0, ErrorCode.INVALID_RECORD),
        ("take", 1),
        ("take", 1),
        ("answer", 1),
        ("answer", 1),
    ]
)
def test_what_is_acknowledged_is_there_once_and_in_order(steps: Steps) -> None:
    """PRD-8, PRD-9: five requests in flight, lost replies, moved leaders, refusals of what is in
    the log already; and what has failed without a doubt is not there."""
    cluster = run(steps, settings_of())
    check_nothing_is_left(cluster)
    for partition, log in enumerate(cluster.logs):
        assert log.numbers == sorted(set(log.numbers)), "doubled or out of order"
        for sent_to, number, delivery in cluster.deliveries:
            if sent_to != partition:
                continue
            error = delivery.exception()
            if error is None:
                assert log.numbers[delivery.result().offset] == number
            else:
                assert isinstance(error, BarnabasError)
                assert error.is_in_doubt or number not in log.numbers, "certainly not written"


@settings(max_examples=150)
@given(steps)
def test_with_time_all_arrives_but_what_is_refused_for_good(steps: Steps) -> None:
    """Retriable errors and the refusal of other batches cost time, never records."""
    cluster = run(steps, settings_of(delivery_timeout_ms=10**6))
    check_nothing_is_left(cluster)
    refused, doubted = set(), set()
    for partition, number, delivery in cluster.deliveries:
        error = delivery.exception()
        assert not isinstance(error, RetriableError)
        if error is not None:
            assert isinstance(error, BarnabasError)
            (doubted if error.is_in_doubt else refused).add((partition, number))
    sent = {(partition, number) for partition, number, _ in cluster.deliveries}
    found = sorted((p, number) for p, log in enumerate(cluster.logs) for number in log.numbers)
    assert sorted({*found} | doubted) == sorted(sent - refused)
    assert len(found) == len({*found})


@settings(max_examples=100)
@given(steps)
def test_one_request_in_flight_keeps_the_order_without_idempotence(steps: Steps) -> None:
    """PRD-8: then the partition is muted; a lost reply makes duplicates, never disorder."""
    plain = settings_of(enable_idempotence=False, max_in_flight_requests_per_connection=1)
    cluster = run(steps, plain)
    check_nothing_is_left(cluster)
    for log in cluster.logs:
        first_seen = list(dict.fromkeys(log.numbers))
        assert first_seen == sorted(first_seen)


def test_memory_comes_back_when_a_batch_is_done_and_not_before() -> None:
    """PRD-4; records beyond it stand in line and are admitted in order."""
    cluster = ScriptedCluster(settings_of(buffer_memory=120))
    for _ in range(4):
        cluster.send(0, 40)
    assert cluster.accumulator.is_exhausted
    assert len(cluster.admission.waiting["t"]) == 2
    cluster.turn()
    cluster.take(1)
    assert cluster.accumulator.used_bytes > 0
    cluster.answer(1)
    cluster.settle()
    check_nothing_is_left(cluster)
    assert cluster.logs[0].numbers == [0, 1, 2, 3]


def test_a_batch_that_is_too_large_for_the_broker_goes_in_parts() -> None:
    """PRD-8: MESSAGE_TOO_LARGE with several records splits; each promise follows its record."""
    cluster = ScriptedCluster(settings_of(batch_size=300))
    for _ in range(5):
        cluster.send(0)
    cluster.refused_once[0] = ErrorCode.MESSAGE_TOO_LARGE
    cluster.accumulator.flush_count += 1
    cluster.turn()
    cluster.take(1)
    cluster.answer(1)
    cluster.settle()
    check_nothing_is_left(cluster)
    assert [delivery.result().offset for _, _, delivery in cluster.deliveries] == [0, 1, 2, 3, 4]
    assert cluster.identities is not None
    assert cluster.identities.current is not None
    assert cluster.identities.current.producer_epoch == 0


def test_numbers_outlive_a_topic_that_was_idle_and_forgotten() -> None:
    """Beginning anew at 0 under the same epoch, a record would pass for a repetition."""
    cluster = ScriptedCluster(settings_of())
    cluster.send(0)
    cluster.settle()
    assert not cluster.admission.is_idle("t", since_ms=0)
    assert cluster.admission.is_idle("t", since_ms=cluster.now_ms + 1)
    cluster.admission.forget("t")
    cluster.send(0)
    cluster.settle()
    assert cluster.logs[0].numbers == [0, 1]
    assert [last for _, last, _ in cluster.logs[0].recent] == [0, 1]
