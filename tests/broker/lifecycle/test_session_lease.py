"""How long a broker may believe that it leads."""

import random

from barnabas_broker.lifecycle.session_lease import SessionLease

TIMEOUT_MS = 9_000


def test_a_lease_counts_from_when_the_heartbeat_was_sent() -> None:
    """Its answer may have been under way for long; the controller counts from its arrival."""
    lease = SessionLease(TIMEOUT_MS)
    assert lease.number(0) is None
    lease.renew(sent_ms=1_000, now_ms=5_000)
    assert lease.number(9_099) == 1
    assert lease.number(9_100) is None


def test_a_renewal_in_time_keeps_the_number_and_a_late_one_does_not() -> None:
    """What was read under another number may be another leader's by now."""
    lease = SessionLease(TIMEOUT_MS)
    lease.renew(sent_ms=0, now_ms=0)
    lease.renew(sent_ms=8_000, now_ms=8_099)
    assert lease.number(16_099) == 1
    lease.renew(sent_ms=16_000, now_ms=16_100)
    assert lease.number(16_100) == 2
    lease.lose()
    assert lease.number(16_101) is None
    lease.renew(sent_ms=16_102, now_ms=16_103)
    assert lease.number(16_104) == 3


def test_no_lease_outlasts_a_session_by_clocks_that_are_five_percent_off() -> None:
    """Whatever the delays: the controller's clock fast, the broker's slow."""
    for seed in range(1_000):
        draws = random.Random(seed)
        broker_rate, controller_rate = draws.uniform(0.95, 1.05), draws.uniform(0.95, 1.05)
        lease = SessionLease(TIMEOUT_MS)
        sent = draws.uniform(0, 1_000)
        arrived = sent + draws.uniform(0, 5_000)
        answered = arrived + draws.uniform(0, 5_000)
        lease.renew(int(sent * broker_rate), int(answered * broker_rate))
        fenced = arrived + TIMEOUT_MS / controller_rate
        assert lease.number(int(fenced * broker_rate)) is None
