"""Metadata records: bytes and back, known and unknown."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.metadata.record_codec import decode, encode
from barnabas_broker.metadata.records import (
    AclRecord,
    BrokerRecord,
    BrokerStateRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EpochRecord,
    FeatureRecord,
    ListenerAddress,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAclRecord,
    RemoveBrokerRecord,
    RemoveTopicRecord,
    SnapshotRecord,
    SupportedFeature,
    TopicRecord,
)
from barnabas_broker.metadata.scram_records import (
    DecoySecretRecord,
    FormerKeys,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
)
from barnabas_broker.security.acl.acl import Acl
from barnabas_protocol.errors import ParseError

NUMBERS = st.integers(0, (1 << 63) - 1)
UUIDS = st.binary(min_size=16, max_size=16)
KEYS = st.binary(max_size=64)
TEXTS = st.text(max_size=20)
NODES = st.lists(st.integers(0, 1 << 31), max_size=4).map(tuple)
RECORDS = st.one_of(
    st.builds(EpochRecord, NUMBERS, NUMBERS, TEXTS),
    st.builds(
        BrokerRecord,
        node_id=NUMBERS,
        broker_epoch=NUMBERS,
        incarnation_id=UUIDS,
        listeners=st.lists(
            st.builds(ListenerAddress, TEXTS, TEXTS, st.integers(0, 65535), TEXTS), max_size=3
        ).map(tuple),
        rack=st.none() | TEXTS,
        directories=st.lists(UUIDS, max_size=3).map(tuple),
        is_fenced=st.booleans(),
        features=st.lists(st.builds(SupportedFeature, TEXTS, NUMBERS, NUMBERS), max_size=3).map(
            tuple
        ),
    ),
    st.builds(BrokerStateRecord, NUMBERS, NUMBERS, st.booleans(), st.booleans()),
    st.builds(TopicRecord, TEXTS, UUIDS),
    st.builds(RemoveTopicRecord, UUIDS),
    st.builds(
        PartitionRecord,
        UUIDS,
        NUMBERS,
        NODES,
        NODES,
        st.integers(-1, 1 << 31),
        NUMBERS,
        NUMBERS,
        st.lists(UUIDS, max_size=3).map(tuple),
    ),
    st.builds(ConfigRecord, st.integers(0, 255), TEXTS, TEXTS, st.none() | TEXTS),
    st.builds(ProducerIdsRecord, NUMBERS, NUMBERS, NUMBERS),
    st.builds(SnapshotRecord, NUMBERS, NUMBERS, NUMBERS),
    st.builds(FeatureRecord, st.text(max_size=20), NUMBERS),
    st.builds(RemoveBrokerRecord, NUMBERS, NUMBERS),
    st.builds(
        AclRecord,
        UUIDS,
        st.builds(Acl, NUMBERS, TEXTS, NUMBERS, TEXTS, TEXTS, NUMBERS, NUMBERS),
    ),
    st.builds(RemoveAclRecord, st.lists(UUIDS, max_size=3).map(tuple)),
    st.builds(
        ClientQuotaRecord,
        st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=3).map(tuple),
        TEXTS,
        st.none() | st.floats(allow_nan=False),
    ),
    st.builds(
        ScramCredentialRecord,
        user=TEXTS,
        mechanism=NUMBERS,
        iterations=NUMBERS,
        salt=KEYS,
        stored_key=KEYS,
        server_key=KEYS,
        former=st.none() | st.builds(FormerKeys, NUMBERS, KEYS, KEYS),
    ),
    st.builds(RemoveScramCredentialRecord, TEXTS, NUMBERS),
    st.builds(DecoySecretRecord, KEYS),
)


@given(RECORDS)
def test_any_record_is_read_back_as_it_was_written(record: MetadataRecord) -> None:
    """The format loses nothing."""
    assert decode(encode(record)) == record


@given(RECORDS, st.integers(0, 60))
def test_cut_record_is_a_parse_error_or_an_unknown_type(record: MetadataRecord, cut: int) -> None:
    """Damage is told, never guessed at."""
    data = encode(record)
    if cut < len(data):
        with pytest.raises(ParseError):
            decode(data[:cut])


@given(st.binary(max_size=60))
def test_noise_is_a_parse_error_or_a_record(data: bytes) -> None:
    """Nothing but ParseError comes out of a reader."""
    with contextlib.suppress(ParseError):
        decode(data)


def test_bytes_are_those_of_the_document() -> None:
    """The example of docs/formats/metadata.md."""
    record = PartitionRecord(bytes(range(16)), 300, (1, 2), (1,), -1, 5, 6)
    assert encode(record).hex(" ") == (
        "06 01 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f ac 02 02 01 02 01 01 01 05 06 00"
        " 00 00"
    )


def test_keys_of_a_credential_are_not_shown() -> None:
    """SEC-114: a record in a log line or an exception gives nothing to guess passwords from."""
    keys = FormerKeys(7, b"former-stored", b"former-server")
    record = ScramCredentialRecord("alice", 2, 4096, b"salt", b"stored", b"server", keys)
    shown = repr(record) + repr(keys) + repr(DecoySecretRecord(b"secret-bytes"))
    for secret in ("salt=", "stored", "server", "secret-bytes"):
        assert secret not in shown.replace("DecoySecretRecord", "")


def test_partition_record_of_version_0_has_no_reassignment() -> None:
    """Metadata logs of earlier versions stay readable."""
    record = PartitionRecord(bytes(range(16)), 300, (1, 2), (1,), -1, 5, 6)
    data = encode(record)
    assert decode(data[:1] + b"\x00" + data[2:-2]) == record


def test_newer_types_are_skipped_and_newer_fields_ignored() -> None:
    """A broker of this version follows a log that a newer one writes."""
    assert decode(b"\x7f\x00whatever") is None
    record = TopicRecord("a", bytes(16))
    data = encode(record)
    assert decode(data[:1] + b"\x01" + data[2:] + b"a field of version 1") == record
    with pytest.raises(ParseError):
        decode(None)
