"""A Lease and the arbiter's record in it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.arbiter.arbiter import (
    ArbiterError,
    ArbiterRecord,
    Leader,
    LeaderListener,
    Member,
    Stored,
)
from barnabas_broker.arbiter.lease_document import lease_with, stored_in

RECORD = ArbiterRecord(
    "cluster",
    7,
    Leader(2, "broker-2.brokers", 9092),
    (Member(0, b"a" * 16), Member(2, b"c" * 16)),
    1_700_000_000_123,
)


def lease_of(record: ArbiterRecord, version: str = "12") -> dict[str, Any]:
    lease = lease_with(record, None, "messages", "arbiter")
    lease["metadata"]["resourceVersion"] = version
    return lease


def test_lease_has_the_documented_fields() -> None:
    """`docs/formats/arbiter.md`: people and tools read them."""
    assert lease_with(RECORD, None, "messages", "arbiter") == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "arbiter",
            "namespace": "messages",
            "annotations": {
                "barnabas.dev/arbiter-version": "1",
                "barnabas.dev/cluster-id": "cluster",
                "barnabas.dev/leader": "2@broker-2.brokers:9092",
                "barnabas.dev/members": "0:YWFhYWFhYWFhYWFhYWFhYQ,2:Y2NjY2NjY2NjY2NjY2NjYw",
            },
        },
        "spec": {
            "holderIdentity": "2",
            "leaseTransitions": 7,
            "acquireTime": "2023-11-14T22:13:20.123000Z",
            "renewTime": "2023-11-14T22:13:20.123000Z",
        },
    }


def test_the_leader_s_listeners_are_there_as_long_as_it_has_more_than_one() -> None:
    """`docs/formats/arbiter.md`, SEC-89: brokers that change listeners look for their own."""
    assert RECORD.leader is not None
    both = (LeaderListener("REPLICATION", "b2", 9091), LeaderListener("TLS", "b2", 9090))
    record = RECORD._replace(leader=RECORD.leader._replace(listeners=both))
    lease = lease_of(record)
    named = "barnabas.dev/leader-listeners"
    text = '[["REPLICATION","b2",9091],["TLS","b2",9090]]'
    assert lease["metadata"]["annotations"][named] == text
    assert lease["metadata"]["annotations"]["barnabas.dev/leader-listeners-epoch"] == "7"
    assert stored_in(lease).record == record
    assert record.leader is not None
    assert record.leader.address_by("TLS") == ("b2", 9090)
    assert record.leader.address_by("OTHER") == ("broker-2.brokers", 9092)
    after = lease_with(RECORD, lease, "messages", "arbiter")
    assert not [key for key in after["metadata"]["annotations"] if named in key]


@pytest.mark.parametrize("node_id", [0, 2])
def test_listeners_that_a_broker_of_an_older_release_has_kept_are_not_its_own(node_id: int) -> None:
    """`docs/formats/arbiter.md`, SEC-89: it takes them for somebody's, in its own epoch, too."""
    assert RECORD.leader is not None
    both = (LeaderListener("REPLICATION", "b2", 9091), LeaderListener("TLS", "b2", 9090))
    lease = lease_of(RECORD._replace(leader=RECORD.leader._replace(listeners=both)))
    kept = {
        key: value
        for key, value in lease["metadata"]["annotations"].items()
        if "leader-listeners" in key
    }
    older = RECORD._replace(controller_epoch=8, leader=Leader(node_id, "older", 9092))
    lease = lease_with(older, lease, "messages", "arbiter")
    lease["metadata"]["annotations"] |= kept
    assert stored_in(lease).record == older


def test_listeners_that_were_taken_out_by_hand_are_none() -> None:
    """`docs/formats/arbiter.md`: the leader is still at its own, and the record can be read."""
    lease = lease_of(RECORD)
    lease["metadata"]["annotations"]["barnabas.dev/leader-listeners-epoch"] = "7"
    assert stored_in(lease).record == RECORD


def test_what_others_have_put_into_the_lease_is_kept() -> None:
    """Labels, owners and annotations belong to the operator or to people."""
    found = lease_of(RECORD)
    found["metadata"] |= {"uid": "u", "labels": {"a": "b"}, "ownerReferences": [{"name": "x"}]}
    found["metadata"]["annotations"]["theirs"] = "1"
    found["spec"]["leaseDurationSeconds"] = 15
    renewed = lease_with(RECORD._replace(renewed_ms=1_700_000_001_000), found, "messages", "other")
    assert renewed["metadata"] == found["metadata"]
    assert renewed["spec"] == {**found["spec"], "renewTime": "2023-11-14T22:13:21.000000Z"}
    taken = lease_with(RECORD._replace(controller_epoch=8, renewed_ms=0), found, "messages", "a")
    assert taken["spec"]["acquireTime"] == "1970-01-01T00:00:00.000000Z"


def test_released_lease_has_no_holder() -> None:
    """An empty one is not valid everywhere."""
    lease = lease_with(RECORD._replace(leader=None), lease_of(RECORD), "messages", "arbiter")
    assert "holderIdentity" not in lease["spec"]
    assert "barnabas.dev/leader" not in lease["metadata"]["annotations"]


@pytest.mark.parametrize("holder", [None, "", "somebody", "1"])
def test_holder_written_by_hand_means_that_nobody_leads(holder: str | None) -> None:
    """CTL-10: the leader sees it and resigns, and an election begins."""
    lease = lease_of(RECORD)
    lease["spec"]["holderIdentity"] = holder
    assert stored_in(lease) == Stored(RECORD._replace(leader=None), 12)


def test_lease_that_nobody_has_used_holds_no_record() -> None:
    """An operator may make it beforehand, so that brokers need no right to create Leases."""
    lease = {"metadata": {"name": "arbiter", "resourceVersion": "5", "annotations": {"a": "b"}}}
    assert stored_in(lease) == Stored(None, 5)
    assert stored_in({**lease, "spec": {"leaseDurationSeconds": 15}}) == Stored(None, 5)


def changed(path: str, value: object) -> dict[str, Any]:
    lease = lease_of(RECORD)
    target: Any = lease
    *parents, last = path.split("|")
    for key in parents:
        target = target[key]
    target[last] = value
    return lease


def listening(listeners: str | None) -> dict[str, Any]:
    lease = changed("metadata|annotations|barnabas.dev/leader-listeners", listeners)
    lease["metadata"]["annotations"]["barnabas.dev/leader-listeners-epoch"] = "7"
    return lease


@pytest.mark.parametrize(
    "lease",
    [
        {},
        {"metadata": {}},
        {"metadata": None},
        changed("metadata|resourceVersion", "abc"),
        changed("metadata|resourceVersion", "0"),
        changed("metadata|annotations", {}),
        changed("metadata|annotations|barnabas.dev/arbiter-version", "2"),
        changed("metadata|annotations|barnabas.dev/members", "0"),
        changed("metadata|annotations|barnabas.dev/members", None),
        changed("metadata|annotations|barnabas.dev/leader", "host:1"),
        changed("metadata|annotations|barnabas.dev/leader", "2@host"),
        listening("[["),
        listening('[["TLS","host"]]'),
        listening("[" * 100_000),
        listening(None),
        changed("spec|leaseTransitions", None),
        changed("spec|renewTime", "yesterday"),
        changed("spec", None),
    ],
)
def test_lease_that_holds_something_else_is_an_error(lease: dict[str, Any]) -> None:
    """Never taken for one without a record: the epoch would begin anew."""
    with pytest.raises(ArbiterError):
        stored_in(lease)


@given(
    st.builds(
        ArbiterRecord,
        st.text(max_size=5),
        st.integers(1, (1 << 31) - 1),
        st.none()
        | st.builds(
            Leader,
            st.integers(0, 99),
            st.text(max_size=9),
            st.integers(0, 65535),
            st.lists(
                st.builds(
                    LeaderListener, st.text(max_size=5), st.text(max_size=9), st.integers(0, 65535)
                ),
                max_size=3,
            ).map(tuple),
        ),
        st.lists(
            st.builds(Member, st.integers(0, 9), st.binary(min_size=16, max_size=16)), max_size=3
        ).map(tuple),
        st.integers(0, 1 << 46),
        st.lists(st.binary(min_size=16, max_size=16), max_size=3).map(tuple),
        st.lists(st.tuples(st.integers(-1, 9), st.integers(0, 1 << 40)), max_size=3).map(tuple),
    )
)
def test_any_record_is_read_back_as_it_was_written(record: ArbiterRecord) -> None:
    """Rule 7 rests on it."""
    assert stored_in(lease_of(record)) == Stored(record, 12)
