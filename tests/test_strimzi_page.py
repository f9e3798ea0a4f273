"""docs/coming-from-strimzi.md: fields named there exist, ours by our definitions.

Strimzi's are from its repository at 8541da1e336b: the fields of the specs of its version v1, two
levels deep where the page goes that far.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from barnabas_operator.crd import definition

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "coming-from-strimzi.md").read_text(encoding="utf-8")
STRIMZI = {
    "Kafka": {
        "kafka": (
            "version metadataVersion image listeners config authorization rack brokerRackInitImage "
            "livenessProbe readinessProbe jvmOptions jmxOptions metricsConfig logging template "
            "tieredStorage quotas"
        ),
        **dict.fromkeys(
            [
                "entityOperator",
                "clusterCa",
                "clientsCa",
                "cruiseControl",
                "kafkaExporter",
                "maintenanceTimeWindows",
            ],
            "",
        ),
    },
    "KafkaNodePool": dict.fromkeys(
        ["replicas", "storage", "roles", "resources", "jvmOptions", "template"]
    ),
    "KafkaTopic": dict.fromkeys(["topicName", "partitions", "replicas", "config"]),
    "KafkaUser": dict.fromkeys(["authentication", "authorization", "quotas", "template"]),
}


def fields_of(text: str, kinds: tuple[str, ...]) -> list[tuple[str, str]]:
    """Kind and field of `Kind: a.b`, `c.d`; what has no kind is of the kind before it."""
    found = []
    for row in re.findall(r"^\| (.*) \|$", text, re.MULTILINE):
        for cell in row.split(" | ")[:2]:
            kind = ""
            for code in re.findall(r"`([^`]+)`", cell):
                named = re.fullmatch(r"(\w+): ([\w.]+)", code)
                if named is not None:
                    kind, code = named.groups()
                if kind in kinds:
                    found.append((kind, code))
    return found


FIELDS = PAGE.partition("## Fields of Kafka and KafkaNodePool")[2]


def schema_of(kind: str) -> Any:
    (version,) = definition(kind)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


@pytest.mark.parametrize(("kind", "field"), fields_of(FIELDS, ("Broker", "Topic", "User")))
def test_a_field_of_ours_exists(kind: str, field: str) -> None:
    node = schema_of(kind)
    for name in field.split("."):
        assert name in node["properties"], field
        node = node["properties"][name]


def test_every_field_of_strimzi_has_its_line() -> None:
    """Who has set it finds what becomes of it; none is named that there is not."""
    named = fields_of(FIELDS, tuple(STRIMZI))
    known = {
        (kind, name) for kind, fields in STRIMZI.items() for name in fields if name != "kafka"
    } | {("Kafka", f"kafka.{name}") for name in STRIMZI["Kafka"]["kafka"].split()}
    # An image of Strimzi's own, and Java's options once more.
    known -= {("Kafka", "kafka.brokerRackInitImage"), ("Kafka", "kafka.jvmOptions")}
    assert set(named) == known
