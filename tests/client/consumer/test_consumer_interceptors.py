"""Interceptors of the consumer: what they see, and how often."""

from collections.abc import Callable

from barnabas_client.consumer import ConsumerRecord
from tests.client.consumer.raw_topic import RawTopic
from tests.client.consumer.reading import drain, reader, run_on

Names = Callable[[str], str]


def test_interceptors_see_records_before_the_program(bootstrap: str, unique: Names) -> None:
    """An interceptor's output feeds the next; what one raises is logged and goes no further."""

    class Upper:
        def on_consume(self, found: list[ConsumerRecord]) -> list[ConsumerRecord]:
            return [record._replace(value=record.value.upper()) for record in found]

    class Broken:
        def on_consume(self, found: list[ConsumerRecord]) -> list[ConsumerRecord]:
            raise RuntimeError("broken")

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("intercept"))
        await topics.append_values(partition, b"a", b"b")
        async with reader(bootstrap, interceptors=[Broken(), Upper()]) as consumer:
            consumer.assign([partition])
            assert [r.value for r in await drain(consumer, 2)] == [b"A", b"B"]
            consumer.seek(partition, 0)
            async for record in consumer:
                assert record.value == b"A"
                break

    run_on(bootstrap, body)


def test_what_an_iteration_leaves_over_is_not_shown_again(bootstrap: str, unique: Names) -> None:
    """An interceptor that counts or decrypts must have each record once, however it is read."""

    class Mark:
        def on_consume(self, found: list[ConsumerRecord]) -> list[ConsumerRecord]:
            return [record._replace(value=record.value + b"!") for record in found]

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("marked"))
        await topics.append_values(partition, b"a", b"b", b"c", b"d")
        async with reader(bootstrap, interceptors=[Mark()]) as consumer:
            consumer.assign([partition])
            async for record in consumer:
                assert record.value == b"a!"
                break
            async for record in consumer:
                assert record.value == b"b!"
                break
            assert [r.value for r in await drain(consumer, 2)] == [b"c!", b"d!"]

    run_on(bootstrap, body)
