"""Changes of quotas: what is recorded, and what is refused in which words."""

import pytest

from barnabas_broker.controller import client_quotas
from barnabas_broker.controller.client_quotas import QuotaChange, alter
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import ClientQuotaRecord
from barnabas_protocol.errors import ErrorCode

RATE = "producer_byte_rate"
CONNECTIONS = "connection_creation_rate"
APP = (("client-id", "app"),)


def with_quota(value: float) -> MetadataImage:
    delta = MetadataDelta(MetadataImage.empty())
    delta.apply(ClientQuotaRecord(APP, RATE, value))
    return delta.build()


def test_only_what_changes_is_recorded() -> None:
    """CFG-5: the same change twice is harmless, and so is the removal of what is not there."""
    image = with_quota(5.0)
    change = QuotaChange(
        entity=APP, quotas=[(RATE, 5.0), ("consumer_byte_rate", 7.0), ("no_such", None)]
    )
    assert alter(image, [change]) == (
        [ClientQuotaRecord(APP, "consumer_byte_rate", 7.0)],
        [None],
    )
    assert alter(image, [QuotaChange(entity=APP, quotas=[(RATE, None)])])[0] == [
        ClientQuotaRecord(APP, RATE, None)
    ]
    trial = QuotaChange(entity=APP, quotas=[(RATE, 9.0)])
    assert alter(image, [trial], validate_only=True) == ([], [None])


def test_an_entity_without_quotas_is_gone() -> None:
    """CFG-2: the image holds only what is set, whatever the order of the parts of an entity."""
    image = with_quota(5.0)
    delta = MetadataDelta(image)
    delta.apply(ClientQuotaRecord(APP, RATE, None))
    assert delta.changed_quotas == {APP: {}}
    assert delta.build().client_quotas == {}
    assert image.client_quotas == {APP: {RATE: 5.0}}
    (record,), _ = alter(
        image, [QuotaChange(entity=[("user", None), ("client-id", "a")], quotas=[(RATE, 1.0)])]
    )
    assert record == ClientQuotaRecord((("client-id", "a"), ("user", None)), RATE, 1.0)


@pytest.mark.parametrize(
    ("entity", "quotas", "words"),
    [
        ([], [(RATE, 1.0)], "Invalid empty client quota entity"),
        ([("team", "a")], [(RATE, 1.0)], "Unhandled client quota entity type: team"),
        ([("user", "")], [(RATE, 1.0)], "Empty user not supported"),
        ([("user", "a"), ("user", "b")], [(RATE, 1.0)], "duplicate entity entry"),
        ([("ip", "10.0.0.1"), ("user", "a")], [], "Invalid empty client quota entity"),
        ([("user", "a")], [("no_such", 1.0)], "Invalid configuration key no_such"),
        ([("ip", "10.0.0.1")], [(RATE, 1.0)], f"Invalid configuration key {RATE}"),
        ([("user", "a")], [(RATE, 1.5)], f"{RATE} cannot be a fractional value."),
        ([("user", "a")], [(RATE, float("nan"))], "must be a number"),
        ([("user", "a")], [(RATE, float("inf"))], f"for {RATE} is too large for a LONG."),
        ([("user", "a")], [(RATE, 1e19)], f"Proposed value for {RATE} is too large for a LONG."),
        ([("user", "a")], [(RATE, 0.0)], f"Quota {RATE} must be greater than 0"),
        ([("user", "a")], [(RATE, -1.0)], f"Quota {RATE} must be greater than 0"),
        ([("user", "a")], [("request_percentage", -0.5)], "must be greater than 0"),
        ([("user", "a")], [("request_percentage", float("nan"))], "must be a number"),
        ([("user", "a")], [("controller_mutation_rate", float("inf"))], "must be a number"),
        ([("user", "a")], [("controller_mutation_rate", float("-inf"))], "must be greater than 0"),
        ([("user", "a")], [(CONNECTIONS, 1.0)], f"Invalid configuration key {CONNECTIONS}"),
        ([("ip", None)], [(CONNECTIONS, 0.5)], f"{CONNECTIONS} cannot be a fractional value."),
        ([("ip", None)], [(CONNECTIONS, 3e9)], f"for {CONNECTIONS} is too large for an INT."),
        ([("ip", None)], [("request_percentage", 1.0)], "Invalid configuration key"),
        ([("ip", "localhost")], [(CONNECTIONS, 1.0)], "localhost is not a valid IP address"),
        ([("ip", "300.1.1.1")], [(CONNECTIONS, 1.0)], "300.1.1.1 is not a valid IP address"),
        ([("ip", "10.1")], [(CONNECTIONS, 1.0)], "10.1 is not a valid IP address"),
        ([("ip", "0:0:0:0:0:0:0:1")], [(CONNECTIONS, 1.0)], "is to be written as ::1"),
        ([("ip", "FE80::1")], [(CONNECTIONS, 1.0)], "is to be written as fe80::1"),
        ([("ip", "::ffff:10.0.0.7")], [(CONNECTIONS, 1.0)], "is to be written as 10.0.0.7"),
        ([("user", "a")], [(RATE, 1.0), (RATE, 2.0)], "Duplicate quota key"),
    ],
)
def test_what_is_refused_changes_nothing_and_spares_the_others(
    entity: list[tuple[str, str | None]], quotas: list[tuple[str, float | None]], words: str
) -> None:
    """QUO-1: each entity succeeds or fails alone."""
    good = QuotaChange(entity=APP, quotas=[(RATE, 3.0)])
    records, (refused, accepted) = alter(
        MetadataImage.empty(), [QuotaChange(entity=entity, quotas=quotas), good]
    )
    assert refused is not None
    assert refused.code == ErrorCode.INVALID_REQUEST
    assert words in (refused.message or "")
    assert accepted is None
    assert records == [ClientQuotaRecord(APP, RATE, 3.0)]


def test_an_entity_named_twice_is_changed_once() -> None:
    """QUO-1: the second change of a request is refused, whatever the order of its parts."""
    changes = [
        QuotaChange(entity=[("user", "a"), ("client-id", "b")], quotas=[(RATE, 1.0)]),
        QuotaChange(entity=[("client-id", "b"), ("user", "a")], quotas=[(RATE, 2.0)]),
    ]
    records, (first, second) = alter(MetadataImage.empty(), changes)
    assert first is None
    assert second is not None
    assert [record.value for record in records if isinstance(record, ClientQuotaRecord)] == [1.0]


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (APP, "request_percentage", 12.25),
        (APP, "request_percentage", 1e308),
        (APP, "request_percentage", 1e-320),
        (APP, "controller_mutation_rate", 5.5),
        (APP, RATE, 2.0**63),
        ((("user", None),), "controller_mutation_rate", 1e308),
        ((("ip", "10.0.0.1"),), CONNECTIONS, 2.0**31 - 1),
        ((("ip", "::1"),), CONNECTIONS, 1.0),
        ((("ip", None),), CONNECTIONS, 5.0),
    ],
)
def test_quotas_of_every_kind_are_recorded_as_they_are(
    entity: tuple[tuple[str, str | None], ...], key: str, value: float
) -> None:
    """QUO-1: KIP-124, KIP-599, KIP-612; fractions where Kafka's are, and no larger than Kafka's."""
    change = QuotaChange(entity=entity, quotas=[(key, value)])
    assert alter(MetadataImage.empty(), [change]) == (
        [ClientQuotaRecord(entity, key, value)],
        [None],
    )


def test_entities_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """QUO-1: the last that have room are taken, and those that are there are changed as ever."""
    monkeypatch.setattr(client_quotas, "ENTITIES_MAX", 3)
    image = with_quota(5.0)
    users = [QuotaChange(entity=[("user", name)], quotas=[(RATE, 1.0)]) for name in "abc"]
    again = QuotaChange(entity=APP, quotas=[(RATE, 2.0)])
    removed = QuotaChange(entity=[("user", "nobody")], quotas=[(RATE, None)])
    records, errors = alter(image, [*users, again, removed])
    assert [None if error is None else error.code for error in errors] == [
        None,
        None,
        ErrorCode.POLICY_VIOLATION,
        None,
        None,
    ]
    assert len(records) == 3
