"""Changes of quotas: what is recorded, and what is refused in which words."""

import pytest

from barnabas_broker.controller.client_quotas import QuotaChange, alter
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import ClientQuotaRecord
from barnabas_protocol.errors import ErrorCode

RATE = "producer_byte_rate"
APP = (("client-id", "app"),)


def with_quota(value: float) -> MetadataImage:
    delta = MetadataDelta(MetadataImage.empty())
    delta.apply(ClientQuotaRecord(APP, RATE, value))
    return delta.build()


def test_only_what_changes_is_recorded() -> None:
    """CFG-5: the same change twice is harmless, and so is the removal of what is not there."""
    image = with_quota(5.0)
    change = QuotaChange(
        entity=APP, quotas=[(RATE, 5.0), ("consumer_byte_rate", 7.0), ("request_percentage", None)]
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
    assert delta.has_changed_quotas
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
        ([("user", "a")], [(RATE, 1.5)], f"Configuration {RATE} must be a Long value"),
        ([("user", "a")], [(RATE, float("nan"))], "must be a Long value"),
        ([("user", "a")], [(RATE, float("inf"))], "must be a Long value"),
        ([("user", "a")], [(RATE, 1.0), (RATE, 2.0)], "Duplicate quota key"),
        ([("user", "a")], [("request_percentage", 5.0)], "is not supported by this broker"),
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
