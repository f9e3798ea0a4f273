"""Every message version that kio has: the same bytes as kio, in both directions."""

import pytest

from barnabas_protocol.api import KNOWN, ApiKey
from barnabas_protocol.codec import decode, encode, request_class, response_class
from tests.protocol import kio_oracle
from tests.protocol.random_messages import RandomMessages

CASES_PER_VERSION = 4

# Versions that this package knows and kio 0.6 does not: they have round trips in test_codec.
NOT_IN_KIO = {
    (ApiKey.API_VERSIONS, 5),
    (ApiKey.TXN_OFFSET_COMMIT, 6),
    (ApiKey.DELETE_GROUPS, 3),
    (ApiKey.DESCRIBE_LOG_DIRS, 0),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 1),
    (ApiKey.STREAMS_GROUP_DESCRIBE, 1),
    (ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0),
    (ApiKey.UNREGISTER_CONTROLLER, 0),
}


@pytest.mark.parametrize("role", ["request", "response"])
@pytest.mark.parametrize("key", KNOWN, ids=lambda key: key.name.lower())
def test_messages_are_byte_for_byte_those_of_kio(key: ApiKey, role: str) -> None:
    """A second, independent codec guards the schema table against a wrong line."""
    ours = request_class(key) if role == "request" else response_class(key)
    first, last = KNOWN[key]
    for version in range(first, last + 1):
        theirs = kio_oracle.kio_class(key.name.lower(), version, role)
        assert (theirs is None) == ((key, version) in NOT_IN_KIO)
        if theirs is None:
            continue
        for seed in range(CASES_PER_VERSION):
            message = RandomMessages(seed).message(ours, version)
            entity = kio_oracle.convert(message, theirs)
            payload = encode(message, version)
            case = f"version {version}, seed {seed}"
            assert payload == kio_oracle.write(entity), case
            assert decode(ours, payload, version) == (message, len(payload)), case
            assert kio_oracle.read(theirs, payload) == entity, case
