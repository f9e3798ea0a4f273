"""Which version both sides know."""

import pytest

from barnabas_client.network.served_apis import CLIENT_THROTTLES_FROM, ServedApis, api_of
from barnabas_protocol import codec
from barnabas_protocol.api import KNOWN, ApiKey
from barnabas_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse


def served(low: int, high: int, api: ApiKey = ApiKey.FETCH) -> ServedApis:
    row = ApiVersion(api_key=api, min_version=low, max_version=high)
    return ServedApis.from_answer(ApiVersionsResponse(api_keys=[row]))


@pytest.mark.parametrize(
    ("low", "high", "maximum", "minimum", "newest"),
    [
        (0, 11, None, 0, 11),
        (0, 99, None, 0, KNOWN[ApiKey.FETCH][1]),
        (0, 11, 8, 0, 8),
        (0, 11, None, 12, None),
        (0, 3, None, 0, None),
        (90, 99, None, 0, None),
    ],
)
def test_the_newest_common_version_is_found(
    low: int, high: int, maximum: int | None, minimum: int, newest: int | None
) -> None:
    """KIP-35: ranges may overlap or not."""
    assert served(low, high).newest(ApiKey.FETCH, maximum=maximum, minimum=minimum) == newest
    assert served(low, high).newest(ApiKey.PRODUCE) is None


def test_unstable_versions_are_left_alone() -> None:
    """InitProducerId 6 (two-phase commit) is not offered to clients by Kafka itself."""
    assert served(0, 6, ApiKey.INIT_PRODUCER_ID).newest(ApiKey.INIT_PRODUCER_ID) == 5


@pytest.mark.parametrize("api", list(ApiKey), ids=lambda api: api.name)
def test_the_api_of_every_request_is_known(api: ApiKey) -> None:
    """By the module that its class lives in."""
    assert api_of(codec.request_class(api)()) is api


def test_throttling_begins_with_a_version_that_has_a_throttle_time() -> None:
    """KIP-219 came after the field."""
    for key, version in CLIENT_THROTTLES_FROM.items():
        fields = {field.name: field for field in codec.response_class(key).__fields__}
        assert fields["throttle_time_ms"].exists_in(version)
