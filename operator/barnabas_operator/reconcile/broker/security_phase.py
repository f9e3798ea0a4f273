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
somebody says that it is to close. Invariant: the phase stands in the status before any broker gets
it, so that an operator which starts anew goes on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas_operator.security_spec import PlainListener, SecurityPhase, SecuritySpec


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
    plain listener, None where brokers do not say.
    """

    present: SecurityPhase | None
    behind: tuple[int, ...] = ()
    plain_connections: int | None = None


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
    if following is SecurityPhase.SECURE and (waiting := _waits_for_clients(spec, facts)):
        return PhasePlan(phase=present, target=target, waiting_on=waiting)
    return PhasePlan(phase=following, target=target, waiting_on=f"phase {following.text} begins")


def read_phase(status: Mapping[str, Any], *, is_new: bool) -> SecurityPhase | None:
    """The phase of a status; Plain where brokers run and nothing is noted, None for a new one."""
    name = str((status.get("security") or {}).get("phase") or "")
    for phase in SecurityPhase:
        if phase.text == name:
            return phase
    return None if is_new else SecurityPhase.PLAIN


def _waits_for_clients(spec: SecuritySpec, facts: PhaseFacts) -> str:
    match spec.plain_listener:
        case PlainListener.CLOSED:
            return ""
        case PlainListener.OPEN:
            return "plainListener is Open"
        case PlainListener.UNTIL_UNUSED:
            if facts.plain_connections is None:
                return "brokers do not tell who comes by the plain listener"
            count = facts.plain_connections
            return f"{count} connections of clients in plain text" if count else ""
