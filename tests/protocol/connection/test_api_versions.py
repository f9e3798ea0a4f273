"""Which version both sides of a connection know."""

import pytest

from barnabas_protocol import codec
from barnabas_protocol.api import KNOWN, ApiKey
from barnabas_protocol.connection.api_versions import (
    NodeApiVersions,
    decode_response,
    unsupported_version_response,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse


def served(low: int, high: int, api: ApiKey = ApiKey.FETCH) -> NodeApiVersions:
    row = ApiVersion(api_key=api, min_version=low, max_version=high)
    return NodeApiVersions.from_response(ApiVersionsResponse(api_keys=[row]))


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
    assert codec.api_key_of(codec.request_class(api)) is api


@pytest.mark.parametrize("version", range(5))
def test_a_refused_version_is_named_in_a_form_that_every_client_reads(version: int) -> None:
    """KIP-511: a server that lacks the version responds in version 0, with its own range."""
    response = unsupported_version_response(1, 3)
    frame = codec.encode_response(response, ApiKey.API_VERSIONS, 0, 7)
    read = decode_response(frame, version)
    assert read.error_code == ErrorCode.UNSUPPORTED_VERSION
    offered = NodeApiVersions.from_response(read)
    assert offered.ranges == {ApiKey.API_VERSIONS: (1, 3)}
    assert offered.newest(ApiKey.API_VERSIONS, maximum=4) == 3


@pytest.mark.parametrize("version", range(5))
def test_any_other_response_is_read_in_the_version_of_its_request(version: int) -> None:
    """Also one of another error."""
    rows = [ApiVersion(api_key=1, min_version=2, max_version=3)]
    for code in (ErrorCode.NONE, ErrorCode.INVALID_REQUEST):
        sent = ApiVersionsResponse(error_code=code, api_keys=rows)
        frame = codec.encode_response(sent, ApiKey.API_VERSIONS, version, 7)
        assert decode_response(frame, version) == sent
