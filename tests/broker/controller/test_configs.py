"""Changes of settings: all operations, on topics and brokers, and what is refused."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from barnabas_broker.config.client_metrics_settings import VALUE_CHARS_MAX
from barnabas_broker.controller import configs
from barnabas_broker.controller.configs import (
    GROUP_NAME_LENGTH_MAX,
    SUBSCRIPTIONS_MAX,
    ConfigChange,
    Operation,
    ResourceChange,
    combined_list,
)
from barnabas_broker.controller.topics import VALUE_LENGTH_MAX, NewTopic
from barnabas_broker.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from barnabas_protocol.errors import ErrorCode
from tests.support.control_plane import ControlPlane

Work = Callable[[ControlPlane], Awaitable[None]]


def with_topic(work: Work, properties: dict[str, str] | None = None) -> None:
    async def run() -> None:
        plane = ControlPlane(properties)
        await plane.start()
        await plane.controller.create_topics(
            [NewTopic(name="t", configs={"retention.ms": "1000", "cleanup.policy": "compact"})]
        )
        await work(plane)
        await plane.controller.close()

    asyncio.run(run())


def change(
    *changes: tuple[str, int, str | None], type_: int = RESOURCE_TOPIC, name: str = "t"
) -> ResourceChange:
    return ResourceChange(
        resource_type=type_,
        resource_name=name,
        changes=[ConfigChange(*item) for item in changes],
    )


async def alter(plane: ControlPlane, *resources: ResourceChange) -> list[ErrorCode | None]:
    results = await plane.controller.incremental_alter_configs(resources)
    return [result.error and result.error.code for result in results]


def overrides(plane: ControlPlane) -> dict[str, str]:
    return dict(plane.image.config_overrides(RESOURCE_TOPIC, "t"))


def test_incremental_change_sets_deletes_appends_and_subtracts() -> None:
    """CFG-8: a list that is not overridden yet is appended to what the topic inherits."""

    async def work(plane: ControlPlane) -> None:
        assert await alter(
            plane,
            change(
                ("segment.ms", Operation.SET, "60000"),
                ("retention.ms", Operation.DELETE, None),
                ("cleanup.policy", Operation.APPEND, "delete"),
            ),
        ) == [None]
        assert overrides(plane) == {"segment.ms": "60000", "cleanup.policy": "compact,delete"}
        await alter(plane, change(("cleanup.policy", Operation.SUBTRACT, "compact")))
        assert overrides(plane)["cleanup.policy"] == "delete"
        await alter(plane, change(("cleanup.policy", Operation.DELETE, None)))
        await alter(plane, change(("cleanup.policy", Operation.APPEND, "compact")))
        assert overrides(plane)["cleanup.policy"] == "delete,compact"

    with_topic(work)


def test_a_list_is_appended_to_until_it_is_as_long_as_a_value_may_be() -> None:
    """A stored value is in the memory of every broker, so its length has an end, as in Kafka."""

    async def work(plane: ControlPlane) -> None:
        throttled, half = "leader.replication.throttled.replicas", VALUE_LENGTH_MAX // 2
        first, second = (
            ",".join(f"{n}:{broker}" for n in range(9999))[: half - 4].rpartition(",")[0]
            for broker in (1, 2)
        )
        third = ",".join(f"{n}:3" for n in range(100))
        assert await alter(plane, change((throttled, Operation.APPEND, first))) == [None]
        assert await alter(plane, change((throttled, Operation.APPEND, second))) == [None]
        refused = await alter(plane, change((throttled, Operation.APPEND, third)))
        assert refused == [ErrorCode.INVALID_CONFIG]
        assert overrides(plane)[throttled] == f"{first},{second}"
        assert await alter(plane, change((throttled, Operation.SUBTRACT, first))) == [None]
        assert overrides(plane)[throttled] == second

    with_topic(work)


def test_a_list_that_has_an_item_twice_loses_one_for_each_that_is_subtracted() -> None:
    """CFG-8: as before it took time in proportion to the items."""

    async def work(plane: ControlPlane) -> None:
        throttled = "leader.replication.throttled.replicas"
        await alter(plane, change((throttled, Operation.SET, "1:1,2:1,1:1,3:1")))
        assert await alter(plane, change((throttled, Operation.SUBTRACT, "1:1,4:1"))) == [None]
        assert overrides(plane)[throttled] == "2:1,1:1,3:1"
        assert await alter(plane, change((throttled, Operation.APPEND, "4:1,4:1,1:1"))) == [None]
        assert overrides(plane)[throttled] == "2:1,1:1,3:1,4:1"

    with_topic(work)


def test_appending_and_subtracting_take_time_in_proportion_to_the_items() -> None:
    """A hundred kilobytes of different items, of which eight megabytes fit, took 1.7 s a try."""
    items = ",".join(map(str, range(40_000)))
    for operation in (Operation.APPEND, Operation.SUBTRACT):
        began = time.thread_time()
        combined = combined_list(operation, tuple(items.split(",")), items)
        assert time.thread_time() - began < 0.5
        assert len(combined) == (0 if operation is Operation.SUBTRACT else 40_000)


def test_replacing_drops_what_is_not_named() -> None:
    """CFG-8: AlterConfigs."""

    async def work(plane: ControlPlane) -> None:
        await plane.controller.alter_configs([change(("segment.ms", Operation.SET, "60000"))])
        assert overrides(plane) == {"segment.ms": "60000"}

    with_topic(work)


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (change(("nonsense", 0, "1")), ErrorCode.INVALID_CONFIG),
        (change(("retention.ms", 0, "soon")), ErrorCode.INVALID_CONFIG),
        (change(("retention.ms", 0, "-2")), ErrorCode.INVALID_CONFIG),
        (change(("retention.ms", 2, "1")), ErrorCode.INVALID_CONFIG),
        (change(("retention.ms", 9, "1")), ErrorCode.INVALID_REQUEST),
        (change(("retention.ms", 0, None)), ErrorCode.INVALID_REQUEST),
        (change(("retention.ms", 0, "1"), ("retention.ms", 1, None)), ErrorCode.INVALID_REQUEST),
        (change(("min.compaction.lag.ms", 0, str(1 << 62)), ("max.compaction.lag.ms", 0, "1")),
         ErrorCode.INVALID_CONFIG),
        (change(("remote.storage.enable", 0, "true")), ErrorCode.INVALID_CONFIG),
        (change(("retention.ms", 0, "1"), name=""), ErrorCode.INVALID_REQUEST),
        (change(("ssl.keystore.type", 0, "JKS"), type_=RESOURCE_BROKER, name="0"),
         ErrorCode.INVALID_REQUEST),
        (change(("log.segment.bytes", 2, "1"), type_=RESOURCE_BROKER, name="0"),
         ErrorCode.INVALID_CONFIG),
        (change(("nonsense", 0, "1"), name="nowhere"), ErrorCode.INVALID_CONFIG),
        (change(("retention.ms", 0, "1"), name="nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (change(("a", 0, "1"), type_=16, name="x"), ErrorCode.INVALID_REQUEST),
        (change(("num.partitions", 0, "3"), type_=RESOURCE_BROKER, name="0"),
         ErrorCode.INVALID_REQUEST),
        (change(("message.max.bytes", 0, "x"), type_=RESOURCE_BROKER, name=""),
         ErrorCode.INVALID_REQUEST),
        (change(("message.max.bytes", 0, "1"), type_=RESOURCE_BROKER, name="7"),
         ErrorCode.INVALID_REQUEST),
        (change(("message.max.bytes", 0, "1"), type_=RESOURCE_BROKER, name="seven"),
         ErrorCode.INVALID_REQUEST),
        (change(("message.max.bytes", 0, "1"), type_=RESOURCE_BROKER, name="²"),
         ErrorCode.INVALID_REQUEST),
        (change(("message.max.bytes", 0, "1"), type_=RESOURCE_BROKER, name="7" * 5_000),
         ErrorCode.INVALID_REQUEST),
        (change(("min.cleanable.dirty.ratio", 0, "9" * 400)), ErrorCode.INVALID_CONFIG),
        (change(("cleanup.policy", 0, "d" * (VALUE_LENGTH_MAX + 1))), ErrorCode.INVALID_CONFIG),
        (change(("max.connections.per.ip.overrides", 0, "10.0.0.1:²"), type_=RESOURCE_BROKER,
                name="0"), ErrorCode.INVALID_REQUEST),
        (change(("listeners", 0, "PLAINTEXT://:1"), type_=RESOURCE_BROKER, name=""),
         ErrorCode.INVALID_REQUEST),
        (change(("num.io.threads", 0, "17"), type_=RESOURCE_BROKER, name="0"),
         ErrorCode.INVALID_REQUEST),
        (change(("log.cleaner.min.compaction.lag.ms", 0, "9"),
                ("log.cleaner.max.compaction.lag.ms", 0, "8"), type_=RESOURCE_BROKER, name=""),
         ErrorCode.INVALID_REQUEST),
    ],
)  # fmt: skip
def test_bad_changes_are_refused_before_anything_is_recorded(
    resource: ResourceChange, code: ErrorCode
) -> None:
    """CFG-5, CFG-7, CFG-8."""

    async def work(plane: ControlPlane) -> None:
        before = plane.image
        assert await alter(plane, resource) == [code]
        assert plane.image is before

    with_topic(work)


def test_resources_fail_alone_and_may_appear_once() -> None:
    """CFG-8."""

    async def work(plane: ControlPlane) -> None:
        good = change(("segment.ms", 0, "60000"))
        bad = change(("segment.ms", 0, "1"), name="nowhere")
        assert await alter(plane, good, bad) == [None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await alter(plane, good, good) == [ErrorCode.INVALID_REQUEST] * 2

    with_topic(work)


def test_trial_changes_nothing() -> None:
    """CFG-8: validateOnly."""

    async def work(plane: ControlPlane) -> None:
        before = plane.image
        (result,) = await plane.controller.incremental_alter_configs(
            [change(("segment.ms", 0, "60000"))], validate_only=True
        )
        assert result.error is None
        assert plane.image is before

    with_topic(work)


def test_broker_settings_reach_topics_by_precedence_and_survive_a_restart() -> None:
    """CFG-1, CFG-4: own dynamic value above the one of all brokers, above the file."""

    async def work(plane: ControlPlane) -> None:
        def segment_bytes() -> int:
            return plane.dynamic_config.log_config({}).segment_bytes

        assert segment_bytes() == 2_000_000
        everywhere = change(("log.segment.bytes", 0, "3000000"), type_=RESOURCE_BROKER, name="")
        here = change(("log.segment.bytes", 0, "4000000"), type_=RESOURCE_BROKER, name="0")
        assert await alter(plane, everywhere, here) == [None, None]
        assert segment_bytes() == 4_000_000
        await plane.restart()
        assert segment_bytes() == 4_000_000
        gone = change(("log.segment.bytes", 1, None), type_=RESOURCE_BROKER, name="0")
        assert await alter(plane, gone) == [None]
        assert segment_bytes() == 3_000_000

    with_topic(work, {"log.segment.bytes": "2000000"})


def subscription(key: str, value: str | None, name: str = "s") -> ResourceChange:
    operation = Operation.DELETE if value is None else Operation.SET
    return change((key, operation, value), type_=RESOURCE_CLIENT_METRICS, name=name)


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("metrics", "org.apache.kafka.producer., org.apache.kafka.consumer.", None),
        ("metrics", "*", None),
        ("interval.ms", "100", None),
        ("interval.ms", "99", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "3600001", ErrorCode.INVALID_REQUEST),
        ("interval.ms", "often", ErrorCode.INVALID_CONFIG),
        ("match", "client_software_name=apache.*, client_id=a", None),
        ("match", "client_colour=red", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=a=b", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=(a", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=(?=a)b", ErrorCode.INVALID_CONFIG),
        ("match", "client_id=" + "a" * VALUE_CHARS_MAX, ErrorCode.INVALID_REQUEST),
        ("colour", "red", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_subscription_to_metrics_of_clients_is_checked(
    key: str, value: str, code: ErrorCode | None
) -> None:
    """TEL-1: numbers, attributes and expressions; RE2 has no assertions, so none are taken."""

    async def work(plane: ControlPlane) -> None:
        assert await alter(plane, subscription(key, value)) == [code]
        expected = {} if code else {key: value}
        assert plane.image.config_overrides(RESOURCE_CLIENT_METRICS, "s") == expected
        assert await alter(plane, subscription(key, value, "")) == [ErrorCode.INVALID_REQUEST]

    with_topic(work)


def test_there_are_so_many_subscriptions_at_most() -> None:
    """TEL-1: those that there are can be changed, and one that goes makes room."""

    async def work(plane: ControlPlane) -> None:
        made = [subscription("metrics", "a", str(n)) for n in range(SUBSCRIPTIONS_MAX + 2)]
        refused = [ErrorCode.POLICY_VIOLATION] * 2
        assert await alter(plane, *made) == [None] * SUBSCRIPTIONS_MAX + refused
        assert await alter(plane, subscription("metrics", "a")) == [ErrorCode.POLICY_VIOLATION]
        assert await alter(plane, subscription("metrics", "b", "0")) == [None]
        assert await alter(plane, subscription("metrics", None, "0")) == [None]
        assert await alter(plane, subscription("metrics", "a")) == [None]

    with_topic(work)


def test_there_are_so_many_groups_with_settings_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """They need not exist: whoever may set those of some prefix made any number, kept for good."""
    monkeypatch.setitem(configs.COUNTED, RESOURCE_GROUP, (2, "groups with settings"))

    def group(name: str, value: str | None = "46000") -> ResourceChange:
        key = "consumer.session.timeout.ms"
        operation = Operation.DELETE if value is None else Operation.SET
        return change((key, operation, value), type_=RESOURCE_GROUP, name=name)

    async def work(plane: ControlPlane) -> None:
        refused = ErrorCode.POLICY_VIOLATION
        assert await alter(plane, *map(group, "abc")) == [None, None, refused]
        assert await alter(plane, group("c"), group("a", "47000")) == [refused, None]
        assert await alter(plane, group("a", None)) == [None]
        assert await alter(plane, group("c")) == [None]
        long = group("g" * (GROUP_NAME_LENGTH_MAX + 1))
        assert await alter(plane, long) == [ErrorCode.INVALID_REQUEST]

    with_topic(work)
