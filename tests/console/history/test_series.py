"""Numbers of the last hour: bounded, in order, with gaps (CON-137)."""

from barnabas_console.history.series import SERIES_MAX, SLOTS, SeriesStore


def test_what_was_not_recorded_is_a_gap() -> None:
    """A line over a gap would claim what nobody saw."""
    store = SeriesStore()
    store.begin(1_000)
    store.record("group:lag:a", 5)
    store.begin(2_000)
    store.record("group:lag:b", 7)
    assert store.times() == [1_000, 2_000]
    assert store.column("group:lag:a") == [5, None]
    assert store.column("group:lag:b") == [None, 7]
    assert store.column("group:lag:b", since_ms=1_000) == [7]
    assert store.column("group:lag:c") is None


def test_after_an_hour_the_oldest_goes() -> None:
    """The ring turns; an old number never shows up as a new one."""
    store = SeriesStore()
    for number in range(SLOTS + 10):
        store.begin(number * 10_000)
        if number < 5 or number == SLOTS + 9:
            store.record("cluster:arriving:", number)
    column = store.column("cluster:arriving:")
    assert column is not None
    assert len(column) == len(store.times()) == SLOTS
    assert store.times()[0] == 100_000
    assert column == [None] * (SLOTS - 1) + [SLOTS + 9]


def test_there_are_no_more_than_a_thousand_and_the_least_used_goes() -> None:
    """CON-137: a cluster of ten thousand groups costs no more memory than that."""
    store = SeriesStore()
    store.begin(1)
    for number in range(SERIES_MAX + 5):
        store.record("kept", 1)
        store.record(f"group:lag:{number}", number)
    assert len(store) == SERIES_MAX
    assert store.column("kept") == [1]
    assert store.column("group:lag:0") is None


def test_a_clock_that_is_set_back_leaves_times_in_order() -> None:
    """Charts need an ascending axis."""
    store = SeriesStore()
    store.begin(5_000)
    store.begin(3_000)
    assert store.times() == [5_000, 5_001]


def test_a_trend_keeps_peaks() -> None:
    """The sparkline of a row shows that something was, not exactly when."""
    store = SeriesStore()
    for number in range(SLOTS):
        store.begin(number * 10_000)
        store.record("group:lag:a", 900 if number == 31 else 1)
    trend = store.trend("group:lag:a", 30)
    assert trend is not None
    assert (len(trend), trend[2], max(one for one in trend if one is not None)) == (30, 900, 900)
    assert store.trend("group:lag:b", 30) is None


def test_a_trend_goes_on_around_the_ring_and_over_gaps() -> None:
    """CON-137: after more than an hour the oldest slots are written again."""
    store = SeriesStore()
    for number in range(SLOTS + 100):
        store.begin(number * 10_000)
        store.record("group:lag:a", None if number % 2 else number)
        trend = store.trend("group:lag:a", 30)
    assert trend is not None
    last = SLOTS + 98
    assert trend == [float(last - 12 * (29 - part)) for part in range(30)]


def test_a_trend_is_an_hour_wide_from_the_first_look_on() -> None:
    """CON-137: half a minute is not shown as if it had been an hour; what is older is left out."""
    store = SeriesStore()
    store.begin(0)
    store.record("cluster:arriving:", 7)
    for number in range(3):
        store.begin(7_200_000 + number * 10_000)
        store.record("cluster:arriving:", number)
    assert store.trend("cluster:arriving:", 30) == [None] * 29 + [2]
    assert store.last("cluster:arriving:") == 2
    store.begin(7_300_000)
    assert store.last("cluster:arriving:") is None
    assert store.last("cluster:none:") is None
