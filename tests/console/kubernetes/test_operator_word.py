"""What the operator says of brokers (`operator_word`)."""

from typing import Any

from barnabas_console.kubernetes.operator_word import safe_to_drain
from barnabas_console.kubernetes.resource_rows import broker_row
from tests.support.listed_resources import resource


def row(cluster_id: str | None, *says: object) -> dict[str, Any]:
    """A Broker of brokers 0, 1, …, of each of which this is said."""
    broker = resource("Broker", "demo")
    members = [{"id": number, "safeToDrain": one} for number, one in enumerate(says)]
    broker["status"].update(clusterId=cluster_id, brokers=members)
    return broker_row(broker)


def test_it_is_of_the_cluster_that_is_asked_about_and_of_no_other() -> None:
    """CON-110: a namespace may have several; one that was never reached has no cluster."""
    rows = [row("ours", True, False), row("theirs", False, True), row(None, False)]
    assert safe_to_drain(rows, "ours") == {0: True, 1: False}
    assert safe_to_drain(rows, None) == {}


def test_where_two_resources_do_not_agree_the_broker_may_not_go() -> None:
    """CON-110: one may be a reference to brokers that the other runs."""
    for rows in ([row("c", True), row("c", False)], [row("c", False), row("c", True)]):
        assert safe_to_drain(rows, "c") == {0: False}


def test_what_is_not_told_is_no_word() -> None:
    assert safe_to_drain([row("c", None, "yes", True)], "c") == {2: True}
