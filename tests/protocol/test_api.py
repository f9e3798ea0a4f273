"""The list of APIs: ranges, flexible versions, headers."""

import pytest
from kio.schema.index import api_key_map

from barnabas_protocol.api import (
    INTERNAL,
    KNOWN,
    SERVED,
    ApiKey,
    newest_version,
    request_header_version,
    response_header_version,
)
from tests.protocol import kio_oracle


def test_what_is_served_is_known() -> None:
    """Produce alone is listed below what can be read: see the module."""
    for key, (first, last) in SERVED.items():
        assert KNOWN[key][0] <= first or key is ApiKey.PRODUCE
        assert last <= KNOWN[key][1]
    assert SERVED[ApiKey.PRODUCE] == (0, 13)


def test_ranges_that_librdkafka_checks_for_compression_are_served() -> None:
    """Up to 2.11 it sends uncompressed data unless single versions are inside our ranges."""
    needed = [(ApiKey.PRODUCE, 0), (ApiKey.FETCH, 4), (ApiKey.FETCH, 10), (ApiKey.LIST_OFFSETS, 1)]
    needed += [(ApiKey.OFFSET_FETCH, 1), (ApiKey.FIND_COORDINATOR, 0), (ApiKey.JOIN_GROUP, 0)]
    for key, version in [*needed, (ApiKey.INIT_PRODUCER_ID, 0)]:
        first, last = SERVED[key]
        assert first <= version <= last


def test_keys_have_the_names_of_kafka() -> None:
    """Module and class names follow from them."""
    for number, name in api_key_map.items():
        assert ApiKey(number).name.lower() == name


@pytest.mark.parametrize("key", KNOWN, ids=lambda key: key.name.lower())
def test_header_versions_are_those_of_kio(key: ApiKey) -> None:
    """A header with tags too many or too few shifts everything behind it."""
    first, last = KNOWN[key]
    for version in range(first, last + 1):
        request = kio_oracle.kio_class(key.name.lower(), version, "request")
        response = kio_oracle.kio_class(key.name.lower(), version, "response")
        if request is None:
            continue
        assert request.__header_schema__.__version__ == request_header_version(key, version)
        assert response.__header_schema__.__version__ == response_header_version(key, version)


def test_an_unknown_key_has_the_oldest_headers() -> None:
    """Nothing behind them can be read anyway."""
    assert request_header_version(4, 9) == 1
    assert response_header_version(999, 9) == 0


def test_what_brokers_ask_one_another_is_not_advertised() -> None:
    """NET-16: a client would find keys there that Kafka's own brokers do not list either."""
    assert not set(INTERNAL) & set(SERVED)
    for key, (first, last) in INTERNAL.items():
        if key in KNOWN:
            assert KNOWN[key][0] <= first <= last <= KNOWN[key][1]
        else:
            assert key > max(KNOWN)


def test_brokers_ask_in_the_newest_version_that_they_answer() -> None:
    assert newest_version(ApiKey.ALTER_PARTITION) == 3
    assert newest_version(ApiKey.CREATE_TOPICS) == 7
    assert newest_version(ApiKey.METADATA_FETCH) == 0
