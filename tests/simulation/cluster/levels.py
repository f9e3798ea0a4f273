"""Brokers of the last release beside those of this one, and the upgrade when they are gone.

A broker of the last release is this one's code that registers the last level of `barnabas.version`
and knows no other: what it says and writes at that level, and that nothing of the new level is used
before all can.
"""

from collections.abc import Iterator, Mapping

from barnabas_broker.controller import features
from barnabas_broker.controller.eligible_replicas import BARNABAS_VERSION
from barnabas_broker.controller.features import FeatureRange
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import update_features
from tests.simulation.cluster.client import RetryError, checked
from tests.simulation.cluster.history import HistoryError
from tests.simulation.cluster.workload import Worker
from tests.support.process_loop import PROCESS

OLD_LEVEL, NEW_LEVEL = 1, features.SUPPORTED[BARNABAS_VERSION].maximum
UPGRADE = 1


class LevelsOfProcess(Mapping[str, FeatureRange]):
    """What the process that asks can work with."""

    def __init__(self) -> None:
        self.known: Mapping[str, FeatureRange] = features.SUPPORTED

    def __getitem__(self, name: str) -> FeatureRange:
        process = PROCESS.get()
        found = self.known[name]
        if process is not None and process.is_old and name == BARNABAS_VERSION:
            return FeatureRange(found.minimum, OLD_LEVEL)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


class Upgrader(Worker):
    """Asks for the new level until it is in force."""

    has_upgraded = False

    @property
    def is_done(self) -> bool:
        """Told to end, and the level is in force."""
        return self.is_over and self.has_upgraded

    async def work(self) -> None:
        """Ask, and ask again. Raises: LOST; HistoryError."""
        while not self.has_upgraded:
            request = update_features.UpdateFeaturesRequest(
                timeout_ms=3_000,
                feature_updates=[
                    update_features.FeatureUpdateKey(
                        feature=BARNABAS_VERSION, max_version_level=NEW_LEVEL, upgrade_type=UPGRADE
                    )
                ],
            )
            response = await self.client.call(
                self.client.anyone(), ApiKey.UPDATE_FEATURES, 1, request
            )
            codes = [response.error_code, *(answer.error_code for answer in response.results)]
            if (
                ErrorCode.INVALID_UPDATE_VERSION in codes
                or ErrorCode.FEATURE_UPDATE_FAILED in codes
            ):
                # Somebody cannot work with it yet.
                raise RetryError("not yet")
            for code in codes:
                if not checked(code):
                    raise HistoryError(f"the upgrade: {ErrorCode(code).name}")
            self.has_upgraded = True
            self.client.note(self.client.name, "upgraded")
        while not self.is_over:
            await self.pause()
