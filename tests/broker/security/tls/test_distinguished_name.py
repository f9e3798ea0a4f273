"""Subjects of certificates as RFC 2253 has them."""

import contextlib
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.security.tls.distinguished_name import read_shown
from tests.support.certificates import Authority

AUTHORITY = Authority()


def subject(*parts: x509.NameAttribute | list[x509.NameAttribute]) -> str:
    """The name of a certificate whose subject has these parts, the least specific first."""
    name = x509.Name(
        [x509.RelativeDistinguishedName(one if isinstance(one, list) else [one]) for one in parts]
    )
    return read_shown(AUTHORITY.issue(name).der).subject


def test_the_most_specific_part_comes_first_without_blanks() -> None:
    """SEC-4: as Kafka's principals have it."""
    assert (
        subject(
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(NameOID.STATE_OR_PROVINCE_NAME, "B"),
            x509.NameAttribute(NameOID.LOCALITY_NAME, "Berlin"),
            x509.NameAttribute(NameOID.STREET_ADDRESS, "Way 1"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Org"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "Unit"),
            x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "example"),
            x509.NameAttribute(NameOID.USER_ID, "u1"),
            x509.NameAttribute(NameOID.COMMON_NAME, "Ädam, b"),
        )
        == "CN=Ädam\\, b,UID=u1,DC=example,OU=Unit,O=Org,STREET=Way 1,L=Berlin,ST=B,C=DE"
    )


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ('a,b=c+d<e>f#g;h"i\\j', r"a\,b\=c\+d\<e\>f\#g\;h\"i\\j"),
        (" both ends ", r"\ both ends\ "),
        ("  ", r"\ \ "),
        ("null\0byte", r"null\00byte"),
        ("CN=x,O=admin", r"CN\=x\,O\=admin"),
    ],
)
def test_what_means_something_in_a_name_is_escaped(text: str, escaped: str) -> None:
    """SEC-4: nobody gets another's name by a comma in their own."""
    assert subject(x509.NameAttribute(NameOID.COMMON_NAME, text)) == f"CN={escaped}"


def test_types_without_a_name_and_values_that_are_no_text_are_hexadecimal() -> None:
    """SEC-4: OID=#DER."""
    email = x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b", _type=_ASN1Type.IA5String)
    assert subject(email) == "1.2.840.113549.1.9.1=#1603614062"
    serial = x509.NameAttribute(NameOID.SERIAL_NUMBER, "7", _type=_ASN1Type.PrintableString)
    assert subject(serial) == "2.5.4.5=#130137"
    wide = x509.NameAttribute(NameOID.COMMON_NAME, "ä", _type=_ASN1Type.BMPString)
    assert subject(wide) == "CN=ä"


def test_a_part_of_several_attributes_is_joined_by_plus() -> None:
    """SEC-4: in the order of the certificate."""
    both = [
        x509.NameAttribute(NameOID.COMMON_NAME, "a"),
        x509.NameAttribute(NameOID.USER_ID, "b"),
    ]
    assert subject(both) in ("CN=a+UID=b", "UID=b+CN=a")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=16))
@settings(deadline=None, max_examples=50)
def test_names_that_differ_are_different_principals(text: str) -> None:
    """SEC-4: the text of a name says which name it is."""
    written = subject(x509.NameAttribute(NameOID.COMMON_NAME, text))
    assert written.startswith("CN=")
    out, position, body = [], 0, written[3:]
    while position < len(body):
        if body[position] == "\\":
            if body[position + 1 : position + 3] == "00":
                out.append("\0")
                position += 3
                continue
            position += 1
        out.append(body[position])
        position += 1
    assert "".join(out) == text


@given(st.binary(max_size=200), st.integers(0, 600), st.integers(1, 255))
@settings(deadline=None)
def test_bytes_that_are_no_certificate_are_refused(junk: bytes, place: int, change: int) -> None:
    """SEC-4: with a ValueError and nothing else, whatever was changed."""
    whole = bytearray(AUTHORITY.certificate.public_bytes(Encoding.DER))
    whole[place % len(whole)] ^= change
    for candidate in (junk, bytes(whole)):
        with contextlib.suppress(ValueError):
            assert isinstance(read_shown(candidate).subject, str)


@pytest.mark.parametrize("years", [1, 22, 30, 200])
def test_when_a_certificate_ends_is_read_in_both_forms(years: int) -> None:
    """SEC-6, SEC-30: years are two digits until 2049, and four from then on."""
    issued = AUTHORITY.issue(ends=datetime.timedelta(days=365 * years))
    expected = issued.certificate.not_valid_after_utc.timestamp() * 1000
    assert read_shown(issued.der).not_after_ms == expected
