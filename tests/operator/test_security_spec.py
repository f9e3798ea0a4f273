"""The `security` block of a Broker as a value."""

from datetime import timedelta

import pytest

from barnabas_operator.security_spec import SecureListeners, SecuritySpec


@pytest.mark.parametrize(
    ("text", "settle"),
    [
        (None, timedelta(minutes=10)),
        ("0m", timedelta(0)),
        ("90m", timedelta(minutes=90)),
        ("6h", timedelta(hours=6)),
        ("14d", timedelta(days=14)),
    ],
)
def test_clients_have_ten_minutes_to_load_a_bundle_unless_more_are_given(
    text: str | None, settle: timedelta
) -> None:
    """SEC-81."""
    certificates = {} if text is None else {"clientsSettle": text}
    broker = {"spec": {"security": {"enabled": True, "certificates": certificates}}}
    assert SecuritySpec.from_manifest(broker).settle == settle


def test_secure_listeners_close_when_unused_or_at_once() -> None:
    """SEC-89."""
    closed = {"spec": {"security": {"enabled": False, "secureListeners": "Closed"}}}
    assert SecuritySpec.from_manifest(closed).secure_listeners is SecureListeners.CLOSED
    assert SecuritySpec.from_manifest({}).secure_listeners is SecureListeners.UNTIL_UNUSED
