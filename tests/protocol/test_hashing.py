import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.hashing import coordinator_partition, java_string_hash, murmur2
from tests.support.kafka_python import other_murmur2


@pytest.mark.parametrize(
    ("text", "hashed", "partition"),
    [
        ("test", 3556498, 48),
        ("my-group", -1906497762, 12),
        ("console-consumer-1", 35782224, 24),
        ("barnabas", -1741437618, 18),
        ("payments-service", 332086293, 43),
        ("polygenelubricants", -2147483648, 0),
        ("", 0, 0),
        ("a", 97, 47),
    ],
)
def test_groups_land_where_kafka_puts_them(text: str, hashed: int, partition: int) -> None:
    """formats.md 12: abs(-2^31) is 0, otherwise the arithmetic absolute value."""
    assert java_string_hash(text) == hashed
    assert coordinator_partition(text, 50) == partition


@pytest.mark.parametrize("length", [128, 129, 20_000])
def test_names_of_any_length_have_a_partition(length: int) -> None:
    """Hashes of short names are kept; long ones would fill the memory."""
    name = "n" * length
    for _ in range(2):
        assert coordinator_partition(name, 50) == abs(java_string_hash(name)) % 50


def test_characters_outside_the_basic_plane_count_as_two_units() -> None:
    """Java hashes UTF-16 units: U+1F600 is d83d de00."""
    assert java_string_hash("\U0001f600") == 0xD83D * 31 + 0xDE00


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_golden_values(data: bytes, hashed: int) -> None:
    """formats.md 12."""
    assert murmur2(data) == hashed


@given(st.binary(max_size=64))
def test_murmur2_agrees_with_kafka_python(data: bytes) -> None:
    """A second implementation agrees; it prints the number unsigned."""
    assert murmur2(data) & 0xFFFFFFFF == other_murmur2(data) & 0xFFFFFFFF
