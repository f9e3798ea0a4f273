"""Whose an object is that has the name of a Broker's child. Pure.

Names are short, and a namespace has more in it than Brokers: a StatefulSet `postgres` and a Broker
`postgres` may meet. What the operator makes has its Broker as owner; children that were set free
(`--cascade=orphan`) have its labels and no owner. Anything else belongs to somebody: it is told in
a condition, and neither written nor deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.kubernetes.objects import BROKER_LABEL, labels_of, metadata, name_of


def is_ours(found: Mapping[str, Any], spec: BrokerSpec) -> bool:
    """Whether an object that was found belongs to this very Broker, or to nobody else."""
    owners = metadata(found).get("ownerReferences") or ()
    if any(owner.get("uid") == spec.uid for owner in owners):
        return True
    return not owners and labels_of(found).get(BROKER_LABEL) == spec.name


def not_ours_text(kind: str, found: Mapping[str, Any], spec: BrokerSpec) -> str:
    """What to say of an object of somebody else that is in the way."""
    owners = metadata(found).get("ownerReferences") or ()
    owner = next((one for one in owners if one.get("controller")), next(iter(owners), None))
    what = f"{kind} {name_of(found)}"
    if owner is not None:
        return f"{what} belongs to {owner.get('kind')} {owner.get('name')}"
    return (
        f"{what} was not made for this Broker; if it may have it, give it the label"
        f" {BROKER_LABEL}: {spec.name}"
    )
