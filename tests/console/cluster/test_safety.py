"""Whether a broker may be stopped now, and why not (`safety`)."""

from dataclasses import replace

import pytest

from barnabas_client.admin.values.acls import AclOperation
from barnabas_client.admin.values.cluster import BrokerDescription, ClusterDescription
from barnabas_console.cluster.cluster_watch import ClusterFacts
from barnabas_console.cluster.overview import brokers, health
from barnabas_console.cluster.reading import Reading
from barnabas_console.cluster.safety import Safety, safety_by_operator, safety_of
from barnabas_operator.reconcile.broker.cluster_state import MetadataMembers

ALL = frozenset({0, 1, 2})


def facts(*, fenced: frozenset[int] = frozenset()) -> ClusterFacts:
    described = ClusterDescription(
        cluster_id="c",
        controller_id=0,
        brokers=tuple(
            BrokerDescription(node_id=one, host="h", port=1, is_fenced=one in fenced) for one in ALL
        ),
        authorized_operations=frozenset(AclOperation),
    )
    return ClusterFacts(
        described=described,
        members=MetadataMembers(ids=ALL, in_touch=ALL - fenced),
        roles={},
        disks={},
        statuses={},
        reading=Reading({}),
        read_ms=0,
    )


def test_broker_of_a_healthy_cluster_may_be_stopped() -> None:
    assert [safety_of(facts(), one) for one in ALL] == [Safety(safe="yes")] * 3


def test_fenced_broker_is_never_safe() -> None:
    """CON-110: it is away, and nobody knows how it comes back; it is not called to stay, either."""
    found = facts(fenced=frozenset({2}))
    assert safety_of(found, 2) == Safety(safe="no", reason="it is fenced")
    assert safety_of(replace(found, outdated="read long ago"), 2).safe == "no"
    sentence = health(found, brokers(found))["sentence"]
    assert "broker 2 is fenced" in sentence
    assert sentence.endswith("brokers 0, 1 must stay")


def test_what_is_unknown_is_never_safe() -> None:
    """CON-110."""
    known = facts()
    assert safety_of(replace(known, outdated="read long ago"), 0).safe == "unknown"
    blind = replace(known.described, authorized_operations=None)
    assert safety_of(replace(known, described=blind), 0).safe == "unknown"
    nobody = MetadataMembers(ids=frozenset(), in_touch=frozenset())
    assert safety_of(replace(known, members=nobody), 0).safe == "unknown"


def test_the_operator_s_yes_counts_where_topics_may_be_hidden() -> None:
    """CON-110: on Kubernetes the console's user has few rights, and the operator sees all."""
    known = facts()
    few = replace(known, described=replace(known.described, authorized_operations=None))
    assert safety_of(few, 0).safe == "unknown"
    told = safety_of(few, 0, operator_says=True)
    assert (told.safe, told.reason) == (
        "yes",
        "the operator says so; topics may be hidden from you",
    )


def test_the_operator_s_yes_is_no_word_about_what_came_after_it() -> None:
    """A broker that has gone, is fenced, or left the metadata log without a majority."""
    known = facts()
    few = replace(known, described=replace(known.described, authorized_operations=None))
    assert (
        safety_of(replace(few, outdated="read long ago"), 0, operator_says=True).safe == "unknown"
    )
    nobody = MetadataMembers(ids=frozenset(), in_touch=frozenset())
    assert safety_of(replace(few, members=nobody), 0, operator_says=True).safe == "unknown"
    one_away = facts(fenced=frozenset({2}))
    assert [safety_of(one_away, one, operator_says=True).safe for one in ALL] == ["no"] * 3


@pytest.mark.parametrize("outdated", ["", "read long ago"])
def test_the_operator_s_no_counts_always(outdated: str) -> None:
    found = replace(facts(), outdated=outdated)
    assert safety_of(found, 0, operator_says=False) == Safety(
        safe="no", reason="the operator says so"
    )


def test_of_what_the_console_does_not_see_the_operator_s_word_is_all_there_is() -> None:
    """Another cluster's brokers; its own that do not respond now may be in any state."""
    words = (True, False, None)
    other = [safety_by_operator(one, of_another_cluster=True).safe for one in words]
    assert other == ["yes", "no", "unknown"]
    silent = [safety_by_operator(one, of_another_cluster=False).safe for one in words]
    assert silent == ["unknown", "no", "unknown"]
