"""Features: who may join with which, and how levels change."""

from dataclasses import replace

import pytest

from barnabas_broker.controller import features
from barnabas_broker.controller.features import FeatureChange, FeatureRange, UpgradeType
from barnabas_broker.metadata.records import FeatureRecord, SupportedFeature
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.controller_world import ControllerWorld, run_world
from tests.support.partition_images import applied, cluster, registered

SUPPORTED = {"x.version": FeatureRange(0, 3), "y.version": FeatureRange(1, 1)}
FEATURES = tuple(SupportedFeature(name, *able) for name, able in SUPPORTED.items())
CLUSTER = applied(cluster([]), [replace(registered(0), features=FEATURES)])
IMAGE = applied(CLUSTER, [FeatureRecord("x.version", 2)])


def test_a_feature_that_nobody_has_set_is_at_its_first_level() -> None:
    """CTL-15: feature levels; a cluster is founded without records of them."""
    assert features.finalized(cluster([0])) == {"barnabas.version": 1}
    assert features.finalized(IMAGE) == {"barnabas.version": 1, "x.version": 2}
    for name, level in features.INITIAL_LEVELS.items():
        able = features.SUPPORTED[name]
        assert able.minimum <= level <= able.maximum


def test_a_level_is_raised_and_lowered_as_asked() -> None:
    """CTL-15, KIP-584: a feature level is one record; level 0 is off."""
    records, _ = features.update(IMAGE, [FeatureChange(name="x.version", level=3)], SUPPORTED)
    image = applied(IMAGE, records)
    assert image.features == {"x.version": 3}
    off = FeatureChange(name="x.version", level=0, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
    records, _ = features.update(image, [off], SUPPORTED)
    assert applied(image, records).features == {}


def test_a_level_that_is_so_already_costs_no_record() -> None:
    """CTL-15."""
    same = FeatureChange(name="x.version", level=2)
    assert features.update(IMAGE, [same], SUPPORTED) == ([], None)


def test_a_trial_changes_nothing() -> None:
    """KIP-584: validate_only."""
    change = FeatureChange(name="x.version", level=3)
    assert features.update(IMAGE, [change], SUPPORTED, validate_only=True) == ([], None)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (FeatureChange(name="z", level=1), "Local controller -1 does not support this feature."),
        (
            FeatureChange(name="x.version", level=4),
            "Local controller -1 only supports versions 0-3",
        ),
        (FeatureChange(name="x.version", level=-1), "A feature version cannot be less than 0."),
        (
            FeatureChange(name="x.version", level=1),
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        ),
        (
            FeatureChange(name="x.version", level=3, upgrade_type=UpgradeType.UNSAFE_DOWNGRADE),
            "Can't downgrade to a newer version.",
        ),
        (
            FeatureChange(name="x.version", level=3, upgrade_type=0),
            "The controller does not support the given upgrade type.",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_kafkas_words(change: FeatureChange, reason: str) -> None:
    """KIP-584: INVALID_UPDATE_VERSION, for all features or for none."""
    fine = FeatureChange(name="y.version", level=1)
    with pytest.raises(KafkaError) as raised:
        features.update(IMAGE, [fine, change], SUPPORTED)
    assert raised.value.code == ErrorCode.INVALID_UPDATE_VERSION
    assert raised.value.message is not None
    wanted = reason.replace("-1 ", f"{IMAGE.controller_id} ")
    assert raised.value.message == (
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {change.level} for feature {change.name}. {wanted}"
    )


def test_a_level_must_be_within_what_every_broker_supports() -> None:
    """KIP-584: a broker of an older release would not understand what the others say."""
    older = replace(registered(1), features=(SupportedFeature("x.version", 0, 2),))
    image = applied(IMAGE, [older])
    with pytest.raises(KafkaError, match="Broker 1 only supports versions 0-2"):
        features.update(image, [FeatureChange(name="x.version", level=3)], SUPPORTED)
    with pytest.raises(KafkaError, match="Broker 1 does not support this feature"):
        features.update(image, [FeatureChange(name="y.version", level=1)], SUPPORTED)


def test_a_request_is_answered_for_the_whole_and_for_each_feature() -> None:
    """CTL-15: version 1 tells each feature's outcome, version 2 only the whole."""

    async def test(world: ControllerWorld) -> None:
        fine = FeatureUpdateKey(feature="barnabas.version", max_version_level=1)
        answer = await world.local.answer(UpdateFeaturesRequest(feature_updates=[fine]))
        assert (answer.error_code, [one.error_code for one in answer.results]) == (0, [0])
        wrong = FeatureUpdateKey(feature="nobody's", max_version_level=1)
        answer = await world.local.answer(UpdateFeaturesRequest(feature_updates=[fine, wrong]))
        code = ErrorCode.INVALID_UPDATE_VERSION
        assert (answer.error_code, [one.error_code for one in answer.results]) == (code, [code] * 2)

    able = SupportedFeature("barnabas.version", 1, 1)
    run_world(applied(cluster([]), [replace(registered(0), features=(able,))]), test)
