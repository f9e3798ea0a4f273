"""A principal in an envelope, in Apache Kafka's bytes (SEC-62)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_broker.security.principal_data import decode_principal, encode_principal
from barnabas_protocol.errors import ParseError

# Version 0, compact strings (length + 1), token flag, no tagged fields: as Kafka's
# DefaultKafkaPrincipalBuilder writes User:alice.
ALICE = b"\x00\x00\x05User\x06alice\x00\x00"


def test_bytes_are_those_of_kafka() -> None:
    assert encode_principal(Principal("User", "alice")) == ALICE
    assert decode_principal(ALICE) == Principal("User", "alice")
    assert decode_principal(memoryview(ALICE)) == Principal("User", "alice")


def test_a_login_by_token_is_the_same_principal() -> None:
    """Kafka compares type and name only."""
    assert decode_principal(ALICE[:-2] + b"\x01\x00") == Principal("User", "alice")


def test_tagged_fields_of_a_later_release_are_skipped() -> None:
    assert decode_principal(ALICE[:-1] + b"\x01\x07\x02xy") == Principal("User", "alice")


@given(st.text(min_size=1).map(lambda text: text.encode(errors="ignore").decode() or "x"))
def test_every_name_comes_back(name: str) -> None:
    principal = Principal("User", name)
    assert decode_principal(encode_principal(principal)) == principal


@pytest.mark.parametrize("size", range(len(ALICE)))
def test_a_principal_that_is_cut_short_is_none(size: int) -> None:
    with pytest.raises(ParseError):
        decode_principal(ALICE[:size])


@pytest.mark.parametrize(
    "encoded",
    [
        None,
        b"\x00\x01" + ALICE[2:],
        b"\xff\xff" + ALICE[2:],
        ALICE + b"\x00",
        b"\x00\x00\x05User\x01\x00\x00",  # no name
        b"\x00\x00\x01\x06alice\x00\x00",  # no type
        b"\x00\x00\x05User\x00\x00\x00",  # null
        b"\x00\x00\x05User\x03\xff\xfe\x00\x00",  # not UTF-8
    ],
)
def test_what_is_no_principal_is_refused(encoded: bytes | None) -> None:
    """Nobody may turn into somebody else, or into nobody, by bytes that are read leniently."""
    with pytest.raises(ParseError):
        decode_principal(encoded)


def test_who_has_not_logged_in_is_told_so() -> None:
    assert decode_principal(encode_principal(ANONYMOUS)) == ANONYMOUS
