"""`share.auto.offset.reset`: which texts a group may have, and where each begins."""

import pytest

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.group_settings import BY_KEY
from barnabas_broker.share.offset_reset import reset_offset
from tests.broker.share.share_bench import ShareBench, share
from tests.support.replica_nodes import soon

KEY = "share.auto.offset.reset"


@pytest.mark.parametrize("duration", ["PT1H", "P1D", "pt15m", "P1DT2H3M4.5S", "PT0S", "-PT-1H"])
def test_a_group_may_begin_by_any_duration(duration: str) -> None:
    """SHR-4: as Java reads them, days included."""
    assert BY_KEY[KEY].parse(f"by_duration:{duration}") == f"by_duration:{duration}"


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "EARLIEST",
        "by_duration",
        "by_duration:",
        "by_duration:PT",
        "by_duration:PTx",
        "by_duration:1h",
        "by_duration:-PT1H",
        "by_duration:P1M",
        "by_duration:pt-0.5s",
    ],
)
def test_anything_else_is_refused_in_kafkas_words(text: str) -> None:
    """SHR-4, SHR-38."""
    with pytest.raises(ConfigError, match=r"or of the format 'by_duration:<PnDTnHnMn\.nS>'\."):
        BY_KEY[KEY].parse(text)


@pytest.mark.parametrize(
    ("strategy", "offset"),
    [
        ("earliest", 0),
        ("latest", 4),
        ("by_duration:P3650000D", 0),
        ("by_duration:P2D", 0),
        ("by_duration:PT30H", 2),
        ("by_duration:PT1M", 4),
        ("by_duration:PTx", 4),
        ("nonsense", 4),
    ],
)
def test_a_group_begins_with_the_first_record_that_is_young_enough(
    strategy: str, offset: int
) -> None:
    """SHR-4: and at the end where there is none."""

    async def scenario(bench: ShareBench) -> None:
        partition, clock = bench.node.partition(), bench.node.clock
        bench.node.produce(b"a", b"b", age_ms=40 * 3_600_000)
        bench.node.produce(b"c", b"d", age_ms=2 * 3_600_000)
        await soon(lambda: partition.log.high_watermark == 4)
        assert await reset_offset(partition, strategy, clock.wall_ms()) == offset

    share(scenario)
