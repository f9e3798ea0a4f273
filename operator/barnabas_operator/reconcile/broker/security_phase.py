"""How a plain cluster becomes a secure one, and back: one phase after the other (SEC-89). Pure.

| phase | listeners | brokers talk by | rights |
|---|---|---|---|
| Plain | plain | plain | none |
| Listeners | plain and secure | plain | none |
| Brokers | plain and secure | TLS, both are accepted | none |
| Audit | plain and secure | TLS only | what would be denied is told |
| Secure | secure | TLS only | denied |

Each phase is a restart of one broker after the other, and the next begins when all of them have the
present one, so any two brokers that meet are one phase apart at most, and understand each other.
The way back is the same in the other direction. A cluster that is made new begins where it is to
end, since nobody uses it yet.

Between Audit and Secure the plain listener closes: that waits until nobody comes by it any more, or
somebody says that it is to close. So do the secure listeners on the way back, between Listeners and
Plain. Invariant: the phase stands in the status before any broker gets
it, so that an operator which starts anew goes on with it; where there is no status, it is what the
brokers that run were made with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from barnabas_operator.security_spec import (
    PlainListener,
    SecureListeners,
    SecurityPhase,
    SecuritySpec,
)

_SILENT = "brokers do not tell who comes by the listeners that are to close"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePlan:
    """The phase that brokers are to have now, the one at the end, and what the next waits for."""

    phase: SecurityPhase = SecurityPhase.PLAIN
    target: SecurityPhase = SecurityPhase.PLAIN
    waiting_on: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the way is at its end."""
        return self.phase is self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseFacts:
    """What decides about the next phase.

    `present` is the one of the status, None for a cluster that is made new. `behind` are brokers
    that do not serve with the present one yet; `plain_connections` how many clients are on the
    plain listener and `secure_connections` on the secure ones, None where brokers do not say.
    """

    present: SecurityPhase | None
    behind: tuple[int, ...] = ()
    plain_connections: int | None = None
    secure_connections: int | None = None


def target_of(spec: SecuritySpec) -> SecurityPhase:
    """Where a Broker is to end."""
    return SecurityPhase.SECURE if spec.has_tls else SecurityPhase.PLAIN


def plan_phase(spec: SecuritySpec, facts: PhaseFacts) -> PhasePlan:
    """The phase to have now: the present one, or the next where all have the present one."""
    target = target_of(spec)
    if facts.present is None:
        return PhasePlan(phase=target, target=target)
    present = facts.present
    if present is target:
        return PhasePlan(phase=present, target=target)
    if facts.behind:
        ids = ", ".join(map(str, facts.behind))
        text = f"brokers {ids} do not serve in phase {present.text} yet"
        return PhasePlan(phase=present, target=target, waiting_on=text)
    following = SecurityPhase(present + (1 if target > present else -1))
    if waiting := _waits_for_clients(spec, facts, following):
        return PhasePlan(phase=present, target=target, waiting_on=waiting)
    return PhasePlan(phase=following, target=target, waiting_on=f"phase {following.text} begins")


def read_phase(status: Mapping[str, Any]) -> SecurityPhase | None:
    """The phase of a status, None where nothing is noted."""
    return _named(str((status.get("security") or {}).get("phase") or ""))


def present_phase(
    status: Mapping[str, Any],
    template: Mapping[str, str] | None,
    pods: Iterable[Mapping[str, str]],
) -> SecurityPhase | None:
    """The phase that brokers have, None for a cluster that is made new.

    A status is lost where a Broker is made again over brokers that run, or comes from a backup.
    What these are made from tells then: `template` is the revision of the StatefulSet's template,
    None without one, `pods` those of the pods. Brokers that differ are one phase apart, so any of
    the two will do.
    """
    if (noted := read_phase(status)) is not None:
        return noted
    if template is not None:
        return phase_of_revision(template)
    return max(map(phase_of_revision, pods), default=None)


def phase_of_revision(revision: Mapping[str, str]) -> SecurityPhase:
    """The phase of a pod; of a plain one, also of an earlier operator, nothing is noted."""
    return _named(revision.get("security", "").partition(" ")[0]) or SecurityPhase.PLAIN


def _named(name: str) -> SecurityPhase | None:
    return next((phase for phase in SecurityPhase if phase.text == name), None)


def _waits_for_clients(spec: SecuritySpec, facts: PhaseFacts, following: SecurityPhase) -> str:
    """Who still comes by the listeners that the next phase closes, empty where nobody does."""
    match following:
        case SecurityPhase.SECURE:
            return _waits_for_plain(spec, facts)
        case SecurityPhase.PLAIN:
            return _waits_for_secure(spec, facts)
        case _:
            return ""


def _waits_for_plain(spec: SecuritySpec, facts: PhaseFacts) -> str:
    match spec.plain_listener:
        case PlainListener.CLOSED:
            return ""
        case PlainListener.OPEN:
            return "plainListener is Open"
        case PlainListener.UNTIL_UNUSED:
            if facts.plain_connections is None:
                return _SILENT
            count = facts.plain_connections
            return f"{count} connections of clients in plain text" if count else ""


def _waits_for_secure(spec: SecuritySpec, facts: PhaseFacts) -> str:
    if spec.secure_listeners is SecureListeners.CLOSED:
        return ""
    if facts.secure_connections is None:
        return _SILENT
    count = facts.secure_connections
    return f"{count} connections of clients by TLS" if count else ""
