"""How far the security of a Broker has got: the phase to have, and what its status says. Pure.

On the way back to plain what was on stays on until its phase is over, so the status remembers it:
the spec says only that it is to go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.conditions import Condition, holding, timestamp
from barnabas_operator.reconcile.broker.authorities import Authorities
from barnabas_operator.reconcile.broker.observed import Observed, PodView, ProcessView, SetView
from barnabas_operator.reconcile.broker.revision import revision_of
from barnabas_operator.reconcile.broker.security_phase import (
    PhaseFacts,
    PhasePlan,
    plan_phase,
    present_phase,
    read_phase,
)
from barnabas_operator.security_spec import SecurityPhase, SecuritySpec

INSECURE = "Insecure"
EXPIRING = "CertificatesExpire"
# A leaf is renewed a month before its end: half of that is left to somebody who reads this.
_EXPIRY_TOLD = timedelta(days=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityReport:
    """What a pass has come to."""

    plan: PhasePlan = field(default_factory=PhasePlan)
    authorities: Authorities = field(default_factory=Authorities)
    plain_connections: int | None = None
    has_authentication: bool = False
    has_authorization: bool = False

    def to_manifest(self) -> dict[str, Any] | None:
        """As it stands in a status; None for a plain Broker that is to stay so."""
        plan = self.plan
        if plan.is_done and not plan.phase.has_certificates:
            return None
        end = self.authorities.leaves_end
        fields: dict[str, Any] = {
            "phase": plan.phase.text,
            "target": plan.target.text,
            "waitingOn": plan.waiting_on or None,
            "plainConnections": self.plain_connections,
            "authentication": self.has_authentication,
            "authorization": self.has_authorization,
            "certificatesExpire": None if end is None else timestamp(end),
            "authorities": [one.to_manifest() for one in self.authorities.reports] or None,
        }
        return {key: value for key, value in fields.items() if value is not None}

    def conditions(self, generation: int, now: datetime) -> Iterator[Condition]:
        """What should be known: that nothing is encrypted, or will not be for long."""
        phase, end = self.plan.phase, self.authorities.leaves_end
        if not phase.has_certificates:
            text = "spec.security is off: anybody who reaches a listener may read and write all"
            yield holding(INSECURE, "SecurityIsOff", text, generation=generation)
        elif phase is not SecurityPhase.SECURE:
            text = f"in phase {phase.text} the plain listener is open"
            yield holding(INSECURE, "PlainListenerOpen", text, generation=generation)
        if end is not None and end - now < _EXPIRY_TOLD:
            text = f"the first certificate of a broker ends {timestamp(end)} and was not renewed"
            yield holding(EXPIRING, "NotRenewed", text, generation=generation)


def phased(
    spec: BrokerSpec, observed: Observed, status: Mapping[str, Any], *, image: str
) -> tuple[BrokerSpec, PhasePlan]:
    """The spec with the phase that brokers are to have now."""
    present = phase_of_brokers(status, observed.stateful_set, observed.pods)
    spec = replace(spec, security=_in_force(spec.security, present, status))
    facts = PhaseFacts(
        present=present,
        behind=() if present is None else _behind(replace(spec, phase=present), observed, image),
        plain_connections=plain_connections(observed),
        secure_connections=secure_connections(observed),
    )
    plan = plan_phase(spec.security, facts)
    if spec.is_paused and present is not None:
        plan = replace(plan, phase=present)
    return replace(spec, phase=plan.phase), plan


def present_security(broker: Mapping[str, Any]) -> tuple[SecuritySpec, SecurityPhase]:
    """What of a Broker's security is in force, on the way back too, and the phase of its status.

    There are rights from phase Audit on. Raises: SpecError.
    """
    spec, status = SecuritySpec.from_manifest(broker), broker.get("status") or {}
    phase = read_phase(status)
    if phase is None:
        return spec, SecurityPhase.PLAIN
    security = _in_force(spec, phase, status)
    if phase < SecurityPhase.AUDIT:
        security = replace(security, has_authorization=False)
    return security, phase


def phase_of_brokers(
    status: Mapping[str, Any], stateful_set: SetView | None, pods: Mapping[int, PodView]
) -> SecurityPhase | None:
    """The phase of brokers by a status, or by what they were made from; None for new ones."""
    template = None if stateful_set is None else stateful_set.revision
    return present_phase(status, template, (pod.revision for pod in pods.values()))


def plain_connections(observed: Observed) -> int | None:
    """Clients on the plain listeners of all brokers; None where one of them does not tell."""
    return _connections(observed, lambda process: process.plain_connections)


def secure_connections(observed: Observed) -> int | None:
    """Clients on the secure listeners of all brokers; None where one of them does not tell."""
    return _connections(observed, lambda process: process.secure_connections)


def _connections(observed: Observed, told_by: Callable[[ProcessView], int | None]) -> int | None:
    told = [
        told_by(process) if process is not None else None
        for process in (observed.processes.get(node_id) for node_id in observed.pods)
    ]
    return None if not told or None in told else sum(one or 0 for one in told)


def _in_force(
    security: SecuritySpec, present: SecurityPhase | None, status: Mapping[str, Any]
) -> SecuritySpec:
    """On the way back: what was on, which a status remembers."""
    if security.has_tls or present is None or not present.has_certificates:
        return security
    remembered = status.get("security") or {}
    return replace(
        security,
        has_authentication=bool(remembered.get("authentication")),
        has_authorization=bool(remembered.get("authorization")),
    )


def _behind(spec: BrokerSpec, observed: Observed, image: str) -> tuple[int, ...]:
    """The brokers that do not serve with what this phase sets."""
    wanted = revision_of(spec, image)["security"]
    replicas = observed.stateful_set.replicas if observed.stateful_set is not None else 0
    found = []
    for node_id in range(replicas):
        if node_id in spec.parked:
            continue
        pod, process = observed.pods.get(node_id), observed.processes.get(node_id)
        is_there = pod is not None and pod.is_ready and not pod.is_terminating
        is_serving = process is not None and not process.is_fenced
        has_it = pod is not None and pod.revision.get("security", "") == wanted
        if not (is_there and is_serving and has_it):
            found.append(node_id)
    return tuple(found)
