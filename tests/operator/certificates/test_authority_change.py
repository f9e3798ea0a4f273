"""A change of authority: walked through, and as a property of any order of events."""

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_operator.certificates.authority import (
    Authority,
    KeyPair,
    LeafRequest,
    new_authority,
)
from barnabas_operator.certificates.authority_change import (
    CLIENTS_SETTLE,
    AuthorityStep,
    AuthorityUse,
    HeldAuthority,
    advanced,
    waits_for,
    wants_successor,
)
from barnabas_operator.certificates.pem import (
    CertificateError,
    certificates_of,
    digest_of,
    ends,
)
from barnabas_operator.certificates.renewal import renewed

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
ONE, TWO, THREE = (new_authority(f"number {number}", NOW) for number in range(3))
BROKERS = range(3)


def reported(held: HeldAuthority, *, but: int | None = None) -> dict[int, str | None]:
    return {one: None if one == but else held.digest for one in BROKERS}


def test_a_change_goes_through_its_steps_in_order() -> None:
    """SEC-81: publish both, wait for each broker and the clients, sign anew, drop the old one."""
    held = HeldAuthority(signer=ONE)
    assert held.step is AuthorityStep.STABLE
    assert advanced(held, ONE, AuthorityUse(bundles={}), NOW) == held

    held = advanced(held, TWO, AuthorityUse(bundles=reported(held)), NOW)
    assert (held.step, held.signer) == (AuthorityStep.DISTRIBUTING, ONE)
    assert set(certificates_of(held.bundle)) == {ONE.certificate, TWO.certificate}

    late = NOW + timedelta(days=1)
    behind = AuthorityUse(bundles=reported(held, but=2))
    assert waits_for(held, behind, late) == "brokers 2 have not loaded the bundle"
    assert advanced(held, TWO, behind, late) == held
    all_have_it = AuthorityUse(bundles=reported(held))
    assert "clients have until" in waits_for(held, all_have_it, NOW)
    assert advanced(held, TWO, all_have_it, NOW) == held

    held = advanced(held, TWO, all_have_it, NOW + CLIENTS_SETTLE)
    assert (held.step, held.signer, held.next) == (AuthorityStep.REPLACING, TWO, None)
    assert set(held.anchors) == {ONE.certificate, TWO.certificate}

    shown = AuthorityUse(bundles=reported(held), old_leaves=("broker 1",))
    assert waits_for(held, shown, late) == "leaves of the former authority: broker 1"
    until = AuthorityUse(bundles=reported(held), old_leaves_end=late + timedelta(hours=1))
    assert advanced(held, TWO, until, late) == held
    held = advanced(held, TWO, AuthorityUse(bundles=reported(held)), late)
    assert held == HeldAuthority(signer=TWO)


@pytest.mark.parametrize(("settle", "is_over"), [(timedelta(0), True), (timedelta(days=14), False)])
def test_clients_have_as_long_as_somebody_says(settle: timedelta, is_over: bool) -> None:
    """SEC-81: those that read the bundle once have to be restarted in this time."""
    held = HeldAuthority(signer=ONE, next=TWO, since=NOW)
    use = AuthorityUse(bundles=reported(held), settle=settle)
    assert (waits_for(held, use, NOW + CLIENTS_SETTLE) == "") is is_over
    after = advanced(held, None, use, NOW + CLIENTS_SETTLE)
    assert (after.step is AuthorityStep.REPLACING) is is_over


def test_what_is_offered_meanwhile_waits_for_the_end_of_the_change() -> None:
    """SEC-81: never three in a bundle; the last one that is offered comes next."""
    held = HeldAuthority(signer=TWO, previous=ONE.certificate)
    held = advanced(held, THREE, AuthorityUse(bundles=reported(held)), NOW)
    assert held == HeldAuthority(signer=TWO)
    held = advanced(held, THREE, AuthorityUse(bundles=reported(held)), NOW)
    assert held.next == THREE


def test_an_authority_that_has_ended_is_followed_at_once() -> None:
    """It signs nothing any more, not even the certificates by which brokers would tell that they
    have the bundle: a change by the usual steps would wait for that for ever."""
    late = ONE.ends + timedelta(seconds=1)
    new, nobody = new_authority("late", late), AuthorityUse(bundles=dict.fromkeys(BROKERS))
    for held in (
        HeldAuthority(signer=ONE),
        HeldAuthority(signer=ONE, previous=THREE.certificate, since=NOW),
        HeldAuthority(signer=ONE, next=TWO, since=NOW),
    ):
        assert wants_successor(held, late)
        assert advanced(held, new, nobody, late) == HeldAuthority(signer=new)
        assert advanced(held, TWO, nobody, late).signer == ONE
        with pytest.raises(CertificateError, match="has ended at"):
            ONE.issue(LeafRequest(common_name="x"), late)
    distributing = HeldAuthority(signer=ONE, next=new, since=NOW)
    assert advanced(distributing, None, nobody, late) == HeldAuthority(signer=new)


def test_an_authority_gets_its_successor_at_two_thirds_of_its_life() -> None:
    """SEC-81: five years; more than a year is left for the change."""
    held = HeldAuthority(signer=ONE)
    assert not wants_successor(held, NOW + timedelta(days=3 * 365))
    assert wants_successor(held, NOW + timedelta(days=3 * 365 + 130))
    assert not wants_successor(replace(held, next=TWO), NOW + timedelta(days=1500))


@dataclass
class Side:
    """A broker or a client: what it has loaded, which may be old."""

    leaf: KeyPair
    bundle: tuple[x509.Certificate, ...]


@dataclass
class World:
    """Brokers and clients that load what is published at some later time, in any order."""

    seed: int
    now: datetime = NOW
    held: HeldAuthority = field(default_factory=lambda: HeldAuthority(signer=ONE))

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.published = {
            one: ONE.issue(LeafRequest(common_name=f"broker-{one}"), NOW) for one in BROKERS
        }
        self.sides = {one: Side(leaf, self.held.anchors) for one, leaf in self.published.items()}
        self.changes = 0

    def offered(self) -> Authority | None:
        """The age of the signer asks for a successor, as the operator does."""
        return new_authority("next", self.now) if wants_successor(self.held, self.now) else None

    def operator(self) -> None:
        """One pass of the operator: advance, then sign what is due."""
        previous = self.held.previous
        old = [
            f"broker {one}"
            for one, side in self.sides.items()
            if previous is not None and not self.held.signer.has_signed(side.leaf.certificate)
        ]
        digests: dict[int, str | None] = {
            one: digest_of(side.bundle) for one, side in self.sides.items()
        }
        use = AuthorityUse(bundles=digests, old_leaves=tuple(old))
        before = self.held.step
        self.held = advanced(self.held, self.offered(), use, self.now)
        self.changes += before is AuthorityStep.REPLACING and self.held.step is AuthorityStep.STABLE
        for one in BROKERS:
            self.published[one] = renewed(
                self.published[one],
                self.held.signer,
                LeafRequest(common_name=f"broker-{one}"),
                self.now,
            )

    def kubelet(self) -> None:
        """One broker loads what is published, all of it at once (SEC-5)."""
        one = self.random.choice(BROKERS)
        self.sides[one] = Side(self.published[one], self.held.anchors)

    def check(self) -> None:
        """Any two of them can connect, at any time."""
        for one in self.sides.values():
            assert self.now < ends(one.leaf.certificate)
            for other in self.sides.values():
                assert any(
                    one.leaf.certificate.issuer == anchor.subject for anchor in other.bundle
                ), f"seed {self.seed} at {self.now}, {self.held.step}"


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32))
def test_no_connection_fails_at_any_time_of_many_changes(seed: int) -> None:
    """SEC-81, SEC-113: whoever loads late, leaves are covered by every bundle that is in use."""
    world = World(seed)
    for _ in range(800):
        world.operator()
        for _ in range(world.random.randint(0, 4)):
            world.kubelet()
            world.check()
        world.now += timedelta(days=world.random.choice((0, 0, 2, 6)))
        # A broker that is behind for a month is dead: not what this is about.
        for one in BROKERS:
            if ends(world.sides[one].leaf.certificate) < world.now + timedelta(days=8):
                world.sides[one] = Side(world.published[one], world.held.anchors)
        world.check()
    assert world.changes >= 1


def test_ten_changes_in_a_row_end_where_they_should() -> None:
    """SEC-113: ten changes of authority, one after the other."""
    held, now = HeldAuthority(signer=ONE), NOW
    for number in range(10):
        wanted = new_authority(f"change {number}", now)
        for _ in range(4):
            held = advanced(held, wanted, AuthorityUse(bundles=reported(held)), now)
            now += CLIENTS_SETTLE
        assert held == HeldAuthority(signer=wanted)
