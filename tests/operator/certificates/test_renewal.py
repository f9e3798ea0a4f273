"""When certificates are made anew, by a clock that tests turn."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_operator.certificates.authority import (
    LeafRequest,
    hosts_of,
    new_authority,
)
from barnabas_operator.certificates.leaf_names import leaf_hosts
from barnabas_operator.certificates.pem import ends
from barnabas_operator.certificates.renewal import is_due, renewal_time, renewed, why_renewed

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
REQUEST = LeafRequest(common_name="broker-0", hosts=("a", "10.0.0.1"), is_server=True)
AUTHORITY = new_authority("cluster", NOW)


def test_a_leaf_of_ninety_days_is_renewed_after_sixty() -> None:
    """SEC-81: at two thirds, so that a month is left."""
    leaf = AUTHORITY.issue(REQUEST, NOW)
    assert abs(renewal_time(leaf.certificate) - (NOW + timedelta(days=60))) < timedelta(minutes=10)
    assert renewed(leaf, AUTHORITY, REQUEST, NOW + timedelta(days=59)) is leaf
    later = renewed(leaf, AUTHORITY, REQUEST, NOW + timedelta(days=60))
    assert ends(later.certificate) == NOW + timedelta(days=150)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (LeafRequest(common_name="broker-0", hosts=("a", "b"), is_server=True), "it lacks b"),
        (LeafRequest(common_name="broker-1", hosts=("a",), is_server=True), "its subject changed"),
        (LeafRequest(common_name="broker-0", hosts=("a",), is_server=True), ""),
    ],
)
def test_a_leaf_is_renewed_for_what_it_does_not_say(request_: LeafRequest, why: str) -> None:
    """SEC-82: names that are added; one too many does no harm."""
    leaf = AUTHORITY.issue(REQUEST, NOW)
    assert why_renewed(leaf, AUTHORITY, request_, NOW) == why


def test_a_leaf_of_another_authority_or_with_another_key_is_renewed() -> None:
    """SEC-5, SEC-81: pairs that do not fit are never kept."""
    leaf, other = AUTHORITY.issue(REQUEST, NOW), AUTHORITY.issue(REQUEST, NOW)
    successor = new_authority("cluster", NOW + timedelta(days=1))
    assert why_renewed(leaf, successor, REQUEST, NOW) == "another authority signs"
    mixed = type(leaf)(chain=leaf.chain, key=other.key)
    assert why_renewed(mixed, AUTHORITY, REQUEST, NOW) == "the key is not that of the certificate"


def test_a_leaf_that_ends_with_its_authority_is_not_renewed_for_nothing() -> None:
    """A new one would end at the same time, each pass another one."""
    authority = new_authority("short", NOW, timedelta(days=30))
    leaf = authority.issue(REQUEST, NOW)
    assert why_renewed(leaf, authority, REQUEST, NOW + timedelta(days=29)) == ""
    assert why_renewed(leaf, authority, REQUEST, NOW + timedelta(days=31)) == "it has expired"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_whenever_it_is_looked_at_a_leaf_is_valid_and_settled(days: list[int]) -> None:
    """SEC-81: an operator that was away for up to a month misses nothing; looking twice is idle."""
    now, leaf, authority = NOW, renewed(None, AUTHORITY, REQUEST, NOW), AUTHORITY
    for wait in days:
        now += timedelta(days=min(wait, 29))
        assert now < ends(leaf.certificate)
        leaf = renewed(leaf, authority, REQUEST, now)
        assert not is_due(leaf.certificate, now)
        assert renewed(leaf, authority, REQUEST, now) is leaf


def test_a_broker_has_all_forms_of_its_names() -> None:
    """SEC-82: bootstrap and own Service, headless name of the pod, advertised host, addresses."""
    hosts = leaf_hosts(
        namespace="kafka",
        services=("demo-bootstrap", "demo-broker-2"),
        headless="demo-brokers",
        pod="demo-2",
        advertised=("b2.example.com", "192.0.2.7"),
        cluster_domain="example.local",
    )
    for host in (
        "demo-bootstrap",
        "demo-bootstrap.kafka",
        "demo-bootstrap.kafka.svc",
        "demo-bootstrap.kafka.svc.example.local",
        "demo-broker-2.kafka.svc.example.local",
        "demo-brokers.kafka.svc",
        "demo-2.demo-brokers.kafka.svc.example.local",
        "b2.example.com",
        "192.0.2.7",
        "localhost",
    ):
        assert host in hosts
    leaf = AUTHORITY.issue(LeafRequest(common_name="x", hosts=hosts, is_server=True), NOW)
    assert hosts_of(leaf.certificate) == set(hosts)
