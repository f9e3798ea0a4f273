"""Rights and quotas of a user: what is given, taken, left, and who may have them."""

from typing import Any

import pytest

from barnabas_operator.reconcile.user.user_limits import beyond_limits
from barnabas_operator.reconcile.user.user_plan import ObservedUser, plan_removal, plan_user
from barnabas_operator.security_spec import NamespaceLimit
from barnabas_operator.user_spec import UserSpec
from tests.operator.user_manifests import rights, user

LIMITS = {"shop": NamespaceLimit(prefixes=("shop.", "shared.shop."))}


def spec_of(**fields: Any) -> UserSpec:
    return UserSpec.from_manifest(user(**fields))


def test_what_is_missing_is_given_and_what_is_undeclared_is_taken() -> None:
    """SEC-84: driftPolicy Revert is the default."""
    spec = spec_of(authorization=rights("a.", "b."), quotas={"producerByteRate": 1000})
    other = next(iter(spec_of(authorization=rights("c.")).rights))
    kept, missing = sorted(spec.rights, key=lambda one: one.resource_name)
    observed = ObservedUser(
        rights=frozenset((kept, other)),
        quotas={"producer_byte_rate": 5.0, "consumer_byte_rate": 7.0},
    )
    plan = plan_user(spec, observed)
    assert (plan.given, plan.taken) == ({missing}, {other})
    assert dict(plan.quotas) == {"producer_byte_rate": 1000.0, "consumer_byte_rate": None}
    assert plan.drift == ()
    done = ObservedUser(rights=spec.rights, quotas=dict(spec.quotas))
    assert plan_user(spec, done).is_done


def test_warn_leaves_what_is_undeclared_and_tells_it() -> None:
    """SEC-84: the values that are declared are set all the same."""
    spec = spec_of(driftPolicy="Warn", quotas={"producerByteRate": 1000})
    other = spec_of(authorization=rights("c.")).rights
    observed = ObservedUser(rights=other, quotas={"consumer_byte_rate": 7.0})
    plan = plan_user(spec, observed)
    assert (plan.given, plan.taken) == (frozenset(), frozenset())
    assert dict(plan.quotas) == {"producer_byte_rate": 1000.0}
    assert plan.drift == ("allow READ on topic c.*", "consumer_byte_rate")


def test_deletion_takes_all_rights_and_quotas() -> None:
    """SEC-84: also what the resource never declared."""
    other = spec_of(authorization=rights("c.")).rights
    plan = plan_removal(ObservedUser(rights=other, quotas={"x": 1.0}))
    assert (plan.taken, dict(plan.quotas)) == (other, {"x": None})
    assert ObservedUser().is_nothing


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"authorization": rights("shop.", "shared.shop.x")}, ""),
        ({"authorization": rights("orders.")}, "READ on TOPIC orders."),
        ({"authorization": rights("shop")}, "READ on TOPIC shop"),
        ({"authorization": rights("s", permission="Deny")}, ""),
        (
            {
                "authorization": {
                    "acls": [{"resource": {"type": "topic", "name": "*"}, "operations": ["Read"]}]
                }
            },
            "READ on TOPIC *",
        ),
        (
            {"authorization": {"acls": [{"resource": {"type": "cluster"}, "operations": ["All"]}]}},
            "ALL on CLUSTER kafka-cluster",
        ),
        ({"quotas": {"producerByteRate": 1}}, "may not set quotas"),
    ],
)
def test_a_user_of_another_namespace_is_no_way_to_anothers_topics(
    fields: dict[str, Any], expected: str
) -> None:
    """SEC-86: within the prefixes of its place in the list; rights that only take are its own."""
    found = beyond_limits(spec_of(namespace="shop", **fields), LIMITS)
    assert expected in found
    assert bool(found) == bool(expected)
    # Whoever writes in the Broker's namespace runs the Broker.
    assert beyond_limits(spec_of(**fields), {}) == ""


def test_a_namespace_that_is_not_listed_has_no_users() -> None:
    """SEC-86: nothing is allowed by default, and an empty prefix is none."""
    assert "takes no Users of namespace evil" in beyond_limits(spec_of(namespace="evil"), LIMITS)
    empty = {"evil": NamespaceLimit(prefixes=("",))}
    asks = spec_of(namespace="evil", authorization=rights("orders."))
    assert "whose names begin with" in beyond_limits(asks, empty)
    quotas = {"evil": NamespaceLimit(prefixes=(), may_set_quotas=True)}
    assert beyond_limits(spec_of(namespace="evil", quotas={"producerByteRate": 1}), quotas) == ""
