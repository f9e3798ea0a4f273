"""What a ConsumerGroup manifest means, and which ones are refused."""

from typing import Any

import pytest

from barnabas_operator.crd import definition, problems
from barnabas_operator.group_spec import (
    GroupSpec,
    ResetTarget,
    Thresholds,
    TopicSelection,
    WhenActive,
)
from barnabas_operator.spec import SpecError
from tests.operator.schema_nodes import nodes


def group(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "barnabas.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "billing", "namespace": "shop"},
        "spec": spec,
    }


def schema() -> dict[str, Any]:
    (version,) = definition("ConsumerGroup")["spec"]["versions"]
    loaded: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return loaded


def test_a_complete_manifest_is_accepted_and_means_what_it_says() -> None:
    manifest = group(
        brokerRef={"name": "main", "namespace": "kafka"},
        groupId="billing.v2",
        thresholds={"lagRecords": 1000, "lagSeconds": 60},
        reset={
            "id": "replay",
            "to": "timestamp",
            "timestamp": "2026-01-31T12:00:00Z",
            "topics": [{"name": "orders", "partitions": [2, 0]}, {"name": "refunds"}],
            "dryRun": True,
            "whenActive": "Wait",
        },
        undo={"id": "replay"},
        delete={"id": "away", "whenActive": "Wait"},
        paused=True,
    )
    assert problems(manifest) == []
    spec = GroupSpec.from_manifest(manifest)
    assert (spec.group_id, spec.broker, spec.broker_namespace) == ("billing.v2", "main", "kafka")
    assert spec.thresholds == Thresholds(lag_records=1000, lag_seconds=60)
    reset = spec.reset
    assert reset is not None
    assert (reset.target, reset.timestamp_ms) == (ResetTarget.TIMESTAMP, 1769860800000)
    assert reset.topics == (
        TopicSelection(name="orders", partitions=(0, 2)),
        TopicSelection(name="refunds"),
    )
    assert reset.text == (
        "orders:0,2, refunds to timestamp 2026-01-31T12:00:00.000+00:00; when active: Wait; dry run"
    )
    assert spec.undo is not None
    assert spec.undo.when_active is WhenActive.REFUSE
    assert spec.deletion is not None
    assert spec.is_paused


def test_what_is_left_out_has_its_default() -> None:
    spec = GroupSpec.from_manifest(group())
    assert spec == GroupSpec(
        resource="shop/billing",
        group_id="billing",
        age=("", 0, "shop/billing"),
        broker_namespace="shop",
    )


@pytest.mark.parametrize(
    ("reset", "field", "message"),
    [
        ({"to": "offset"}, "offset", "is missing: it goes with to: offset"),
        ({"to": "earliest", "offset": 5}, "offset", "goes with to: offset, not with to: earliest"),
        ({"to": "offset", "offset": 5, "shiftBy": 1}, "shiftBy", "not with to: offset"),
        ({"to": "timestamp", "timestamp": "yesterday"}, "timestamp", "yesterday is no moment"),
        ({"to": "timestamp", "timestamp": "2026-01-31T12:00:00"}, "timestamp", "is no moment"),
        ({"to": "timestamp", "timestamp": "1960-01-01T00:00:00Z"}, "timestamp", "before 1970"),
        ({"to": "timestamp", "timestamp": "0001-01-01T00:00:00+23:59"}, "timestamp", "before 1970"),
        (
            {"to": "timestamp", "timestamp": "9999-12-31T23:59:59.9996Z"},
            "timestamp",
            "before the year 10000",
        ),
        (
            {"to": "timestamp", "timestamp": "9999-12-31T23:59:59-01:00"},
            "timestamp",
            "before the year 10000",
        ),
        ({"to": "latest", "topics": [{"name": "a"}, {"name": "a"}]}, "topics", "named twice"),
    ],
)
def test_a_reset_that_cannot_be_meant_is_refused_also_without_an_api_server(
    reset: dict[str, Any], field: str, message: str
) -> None:
    """The CRD's rules say the same, but a server may be older than the rule."""
    with pytest.raises(SpecError, match=message) as caught:
        GroupSpec.from_manifest(group(reset={"id": "r1", **reset}))
    assert caught.value.path == ("spec", "reset", field)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"reset": {"to": "earliest"}}, "spec.reset: 'id' is missing"),
        ({"reset": {"id": "a", "to": "first"}}, "spec.reset.to: 'first' is not 'earliest' or"),
        ({"reset": {"id": "a", "to": "offset", "offset": -1}}, "spec.reset.offset: must be at"),
        ({"thresholds": {"lagRecord": 1}}, "spec.thresholds.lagRecord: unknown field, did you"),
        ({"undo": {}}, "spec.undo: 'id' is missing"),
    ],
)
def test_each_mistake_is_told_with_its_field(spec: dict[str, Any], expected: str) -> None:
    (problem,) = problems(group(**spec))
    assert str(problem).startswith(expected)


def test_the_last_moment_that_a_reset_takes_can_be_written() -> None:
    reset = {"id": "r", "to": "timestamp", "timestamp": "9999-12-31T23:59:59.999Z"}
    spec = GroupSpec.from_manifest(group(reset=reset))
    assert spec.reset is not None
    assert "9999-12-31T23:59:59.999+00:00" in spec.reset.text


def test_the_crd_names_what_the_reference_asks_for() -> None:
    """operator.md 1: names and columns; people wait for conditions and look at lag."""
    crd = definition("ConsumerGroup")
    names = crd["spec"]["names"]
    assert crd["metadata"]["name"] == "consumergroups.barnabas.dev"
    assert (names["shortNames"], names["categories"]) == (["bg"], ["barnabas"])
    assert names["listKind"] == "ConsumerGroupList"
    (version,) = crd["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    shown = [one for one in version["additionalPrinterColumns"] if not one.get("priority")]
    columns = " ".join(column["name"].upper() for column in shown)
    assert columns == "STATE PROTOCOL MEMBERS TOPICS LAG MAX-LAG LAG-SEC AGE"


def test_every_column_shows_a_field_that_there_is() -> None:
    (version,) = definition("ConsumerGroup")["spec"]["versions"]
    for column in version["additionalPrinterColumns"]:
        path = column["jsonPath"].removeprefix(".").split("[")[0].split(".")
        if path[0] == "metadata":
            continue
        place = schema()
        for name in path:
            place = place["properties"][name]


def test_choices_and_defaults_are_those_of_the_spec() -> None:
    fields = schema()["properties"]["spec"]["properties"]
    assert fields["reset"]["properties"]["to"]["enum"] == list(ResetTarget)
    for name in ("reset", "undo", "delete"):
        when_active = fields[name]["properties"]["whenActive"]
        assert when_active["enum"] == list(WhenActive)
        assert when_active["default"] == WhenActive.REFUSE


def test_arguments_of_a_reset_go_with_their_target() -> None:
    """Both or none set is refused by the API server itself, with a word for people."""
    rules = schema()["properties"]["spec"]["properties"]["reset"]["x-kubernetes-validations"]
    assert {rule["fieldPath"] for rule in rules} == {".timestamp", ".offset", ".shiftBy"}
    (immutable,) = schema()["properties"]["spec"]["x-kubernetes-validations"]
    assert "self.groupId == oldSelf.groupId" in immutable["rule"]


def test_the_schema_is_structural() -> None:
    for part in nodes(schema()):
        assert "type" in part
        assert not ("properties" in part and "additionalProperties" in part)
