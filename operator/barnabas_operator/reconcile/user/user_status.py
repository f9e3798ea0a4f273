"""The status of a User. Pure.

Invariant: nothing in it changes by itself, and nothing in it is secret: versions and times, never
a password nor anything made of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from barnabas_operator.conditions import (
    PAUSED,
    Condition,
    holding,
    merged_manifests,
    timestamp,
    with_progressing,
)
from barnabas_operator.reconcile.user.password import Credential, credential_fields, next_look
from barnabas_operator.user_spec import UserSpec

DRIFT = "DriftDetected"
NOT_ENFORCED = "NotEnforced"
_DRIFT_TOLD_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFacts:
    """What is known of a User after a pass; None stands for what is not.

    `unenforced` says what of the spec the Broker does not enforce. `broker` is the Broker's name.
    Without `is_settled` nothing was done about the credential, and what was known of it stays:
    which salts were used up must not be forgotten.
    """

    acl_count: int | None = None
    drift: tuple[str, ...] = ()
    certificate_ends: datetime | None = None
    credential: Credential = field(default_factory=Credential)
    secret: str | None = None
    unenforced: str = ""
    broker: str = ""
    is_settled: bool = True


def user_status(
    spec: UserSpec,
    facts: UserFacts,
    verdict: Sequence[Condition],
    *,
    generation: int,
    before: Mapping[str, Any],
    now: datetime,
) -> dict[str, Any]:
    """The whole status."""
    conditions = list(with_progressing(tuple(verdict)))
    if facts.drift:
        text = ", ".join(facts.drift[:_DRIFT_TOLD_MAX])
        conditions.append(holding(DRIFT, "Undeclared", text, generation=generation))
    if facts.unenforced:
        conditions.append(
            holding(NOT_ENFORCED, "SecurityIsOff", facts.unenforced, generation=generation)
        )
    if spec.is_paused:
        text = "nothing is changed while it is paused"
        conditions.append(holding(PAUSED, PAUSED, text, generation=generation))
    return {
        "observedGeneration": generation,
        "principal": spec.principal,
        # Where the spec names none, for when there are several.
        "broker": facts.broker or None if spec.broker is None else None,
        "acls": facts.acl_count,
        "drift": ", ".join(facts.drift[:_DRIFT_TOLD_MAX]) or None,
        "expires": _expires(spec, facts) if facts.is_settled else before.get("expires"),
        "secret": facts.secret,
        "credential": (
            credential_fields(facts.credential) if facts.is_settled else before.get("credential")
        )
        or None,
        "conditions": merged_manifests(before, conditions, now),
    }


def status_of_refused(
    verdict: Sequence[Condition],
    *,
    generation: int,
    before: Mapping[str, Any],
    now: datetime,
) -> dict[str, Any]:
    """The status of a User for which nothing is done; what was known of it stays."""
    conditions = merged_manifests(before, list(with_progressing(tuple(verdict))), now)
    return {**before, "observedGeneration": generation, "conditions": conditions}


def _expires(spec: UserSpec, facts: UserFacts) -> str | None:
    if facts.certificate_ends is not None:
        return timestamp(facts.certificate_ends)
    if spec.rotation is None or facts.credential.changed is None:
        return None
    due = next_look(Credential(changed=facts.credential.changed), spec.rotation)
    return None if due is None else timestamp(due)
