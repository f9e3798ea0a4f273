"""Settings of replication that change while the broker runs."""

import asyncio
from pathlib import Path

from tests.support.broker_settings import alter
from tests.support.in_process_broker import eventually, running_broker
from tests.support.raw_client import RawClient


def test_throttles_and_fetchers_follow_their_settings_at_once(tmp_path: Path) -> None:
    """CFG-1, QUO-6, REP-9: the rates are a broker's own, the number of fetchers everybody's."""

    async def test() -> None:
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            throttle, fetchers = server.data.throttle, server.data.fetchers
            unlimited = throttle.leader.rate

            async def are(leader: int, follower: int, count: int) -> None:
                async def hold() -> bool:
                    rates = (throttle.leader.rate, throttle.follower.rate)
                    return (*rates, fetchers.fetchers_per_leader) == (leader, follower, count)

                await eventually(hold)

            await are(unlimited, unlimited, 1)
            assert await alter(client, "leader.replication.throttled.rate", "0", "1000") == 0
            assert await alter(client, "follower.replication.throttled.rate", "0", "2000") == 0
            assert await alter(client, "num.replica.fetchers", "", "2") == 0
            await are(1000, 2000, 2)
            assert await alter(client, "leader.replication.throttled.rate", "0", None) == 0
            assert await alter(client, "num.replica.fetchers", "", None) == 0
            await are(unlimited, 2000, 1)

    asyncio.run(test())


def test_unclean_elections_of_all_topics_follow_the_setting_of_all_brokers(tmp_path: Path) -> None:
    """LEAD-9: the controller reads the value in force, not the one of its file."""

    async def test() -> None:
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            controller = server.control.controller

            async def is_unclean(wanted: bool) -> None:
                async def holds() -> bool:
                    config = controller._configs(controller.active_image, "any")
                    return config.unclean_leader_election_enable == wanted

                await eventually(holds)

            await is_unclean(False)
            assert await alter(client, "unclean.leader.election.enable", "", "true") == 0
            await is_unclean(True)
            assert await alter(client, "unclean.leader.election.enable", "", None) == 0
            await is_unclean(False)

    asyncio.run(test())
