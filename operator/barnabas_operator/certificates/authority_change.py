"""The change of an authority, one named step after the other (SEC-81). Pure.

| step | the bundle has | leaves are signed by | goes on when |
|---|---|---|---|
| Stable | signer | signer | another authority is offered, or the signer is due |
| Distributing | signer, next | signer | every broker reports this bundle, and clients had time |
| Replacing | previous, signer | signer | the last leaf of the previous one is gone |

A connection breaks only where one side shows a leaf that the other side's bundle does not cover. So
no leaf of the next authority is signed before all have its anchor, and no anchor goes before the
last leaf of it has. Only an authority that has ended is followed at once: all of it has ended as
well. Invariant: a step follows from what is kept in the Secret of the authority and
from what brokers report, never from memory, so a change goes on after any crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from cryptography import x509

from barnabas_operator.certificates.authority import CLOCK_SKEW, Authority
from barnabas_operator.certificates.pem import bundle_of, digest_of
from barnabas_operator.certificates.renewal import is_due

# The kubelet takes a minute or two to bring a Secret into pods (SEC-83), clients' pods included.
CLIENTS_SETTLE = timedelta(minutes=10)


class AuthorityStep(StrEnum):
    """Where a change is; the values appear in the status of a Broker."""

    STABLE = "Stable"
    DISTRIBUTING = "Distributing"
    REPLACING = "Replacing"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAuthority:
    """What the Secret of an authority keeps.

    `next` waits for its anchor to be everywhere; of the `previous` one only the certificate is
    kept: nothing is signed with it any more. `since` is when the present step began.
    """

    signer: Authority
    next: Authority | None = None
    since: datetime | None = None
    previous: x509.Certificate | None = None

    @property
    def step(self) -> AuthorityStep:
        """Where the change is."""
        if self.next is not None:
            return AuthorityStep.DISTRIBUTING
        return AuthorityStep.STABLE if self.previous is None else AuthorityStep.REPLACING

    @property
    def anchors(self) -> tuple[x509.Certificate, ...]:
        """The certificates of the bundle."""
        beside = () if self.next is None else (self.next.certificate,)
        before = () if self.previous is None else (self.previous,)
        return (self.signer.certificate, *beside, *before)

    @property
    def bundle(self) -> str:
        """The bundle, as PEM."""
        return bundle_of(self.anchors)

    @property
    def digest(self) -> str:
        """What a broker reports that has loaded the bundle."""
        return digest_of(self.anchors)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityUse:
    """How far an authority has got.

    `bundles` are the digests that brokers report, by id; None for one that does not answer.
    `old_leaves` names what still shows a leaf of the previous authority, until `old_leaves_end`
    where that is known. `settle` is how long clients have to load a bundle.
    """

    bundles: Mapping[int, str | None]
    old_leaves: tuple[str, ...] = ()
    old_leaves_end: datetime | None = None
    settle: timedelta = CLIENTS_SETTLE


def advanced(
    held: HeldAuthority, offered: Authority | None, use: AuthorityUse, now: datetime
) -> HeldAuthority:
    """What is to be kept next: the same where nothing goes on.

    `offered` is the authority that is wanted: one that somebody gives, or a new one where the
    signer is due or was asked to go; None for no other one.
    """
    if held.signer.has_ended(now):
        # Nothing trusts the former one any more, and no leaf of it is left to wait for.
        for one in (held.next, offered):
            if one is not None and not one.has_ended(now):
                return HeldAuthority(signer=one)
    if held.next is not None:
        if waits_for(held, use, now):
            return held
        return HeldAuthority(signer=held.next, previous=held.signer.certificate, since=now)
    if held.previous is not None:
        return held if waits_for(held, use, now) else replace(held, previous=None, since=None)
    if offered is None or offered.certificate == held.signer.certificate:
        return held
    return replace(held, next=offered, since=now)


def wants_successor(held: HeldAuthority, now: datetime) -> bool:
    """Whether an authority of the operator's own is to get a successor by its age."""
    has_none = held.step is AuthorityStep.STABLE or held.signer.has_ended(now)
    return has_none and is_due(held.signer.certificate, now)


def waits_for(held: HeldAuthority, use: AuthorityUse, now: datetime) -> str:
    """What the present step waits for, empty where it is over or there is none."""
    if held.step is AuthorityStep.DISTRIBUTING:
        if behind := _behind(held, use):
            return f"brokers {behind} have not loaded the bundle"
        since = held.since or now
        if now < since + use.settle:
            return f"clients have until {since + use.settle:%Y-%m-%dT%H:%MZ} to load the bundle"
        return ""
    if held.step is AuthorityStep.REPLACING:
        if behind := _behind(held, use):
            return f"brokers {behind} have not loaded the bundle"
        if use.old_leaves:
            named = ", ".join(use.old_leaves[:5])
            more = len(use.old_leaves) - 5
            return f"leaves of the former authority: {named}{f' and {more} more' * (more > 0)}"
        if use.old_leaves_end is not None and now < use.old_leaves_end + CLOCK_SKEW:
            return (
                f"the last leaf of the former authority ends {use.old_leaves_end:%Y-%m-%dT%H:%MZ}"
            )
    return ""


def _behind(held: HeldAuthority, use: AuthorityUse) -> str:
    """The ids of brokers that do not report the present bundle."""
    wanted = held.digest
    return ", ".join(str(one) for one, told in sorted(use.bundles.items()) if told != wanted)
