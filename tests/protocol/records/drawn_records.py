"""Records that Hypothesis draws, and what a batch of them holds."""

from typing import Any

from hypothesis import strategies as st

from barnabas_protocol.records.record import Record

contents = st.none() | st.binary(max_size=300)
header_lists = st.lists(st.tuples(st.text(max_size=5), contents), max_size=3).map(tuple)


@st.composite
def record_lists(draw: Any, min_size: int = 0) -> list[Record]:
    """Records with rising offsets from 100 on, with gaps, and any timestamps."""
    count = draw(st.integers(min_size, 6))
    records, offset = [], 100
    base = draw(st.integers(0, 2**41))
    for _ in range(count):
        timestamp = base + draw(st.integers(-base, 2**35))
        records.append(
            Record(offset, timestamp, draw(contents), draw(contents), draw(header_lists))
        )
        offset += draw(st.integers(1, 20000))
    return records
