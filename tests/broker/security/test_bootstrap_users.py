"""The file of the first users: what it may hold, and that nothing of it is shown."""

import pytest

from barnabas_broker.security.bootstrap_users import (
    FILE_BYTES_MAX,
    USERS_MAX,
    parse_bootstrap_users,
)


def test_a_password_is_all_behind_the_first_sign() -> None:
    """SEC-61: with blanks and signs as they are; comments and empty lines are nobody."""
    text = "# first\n\nadmin=a=b # c\n  other = x \r\nüser=pässword"
    assert parse_bootstrap_users(text.encode()) == {
        "admin": "a=b # c",
        "other": " x ",
        "üser": "pässword",
    }


@pytest.mark.parametrize(
    "data",
    [
        b"secret",
        b"=secret",
        b"secret=",
        b"secret=1\nsecret=2",
        b"\xffsecret=1",
        b"secret=" + bytes(FILE_BYTES_MAX),
        b"\n".join(b"secret%d=1" % number for number in range(USERS_MAX + 1)),
    ],
)
def test_what_is_wrong_is_refused_without_showing_it(data: bytes) -> None:
    """SEC-61, SEC-114: the line's number is enough to find it."""
    with pytest.raises(ValueError, match=r".") as raised:
        parse_bootstrap_users(data)
    assert "secret" not in str(raised.value)
