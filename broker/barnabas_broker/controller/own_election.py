"""How a controller without a replicated metadata log takes leadership from the arbiter by itself.

Source: CTL-2, CTL-4, CTL-6, CTL-13.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from barnabas_broker.arbiter.arbiter import Arbiter, ArbiterError, ArbiterRecord, Leader, Member
from barnabas_broker.arbiter.decided_swap import swap_until_decided
from barnabas_broker.arbiter.election import Verdict, take_over
from barnabas_broker.env.clock import Clock

logger = logging.getLogger(__name__)

_ELECTION_TRIES_MAX: Final = 5
_WATCH_RETRY_SECONDS: Final = 1


class LeadershipError(Exception):
    """This node could not become the controller."""


async def win(
    arbiter: Arbiter, clock: Clock, cluster_id: str, me: Member, leader: Leader, known_epoch: int
) -> ArbiterRecord:
    """Take the next controller epoch; returns what is stored then.

    Raises: LeadershipError, ArbiterError, NotAMemberError, ForeignClusterError.
    """
    for _ in range(_ELECTION_TRIES_MAX):
        stored = await arbiter.read()
        tried = take_over(
            stored.record, cluster_id, me, leader, clock.wall_ms(), known_epoch=known_epoch
        )
        decided = await swap_until_decided(arbiter, stored.token, tried)
        match decided.verdict:
            case Verdict.WON:
                return tried
            case Verdict.LOST:
                raise LeadershipError("another node has become the controller")
            case Verdict.TRY_AGAIN:
                continue
    raise LeadershipError("the arbiter's record could not be changed")


async def watch(
    arbiter: Arbiter, mine: ArbiterRecord, on_lost: Callable[[LeadershipError], None]
) -> None:
    """Tell as soon as another epoch or leader is stored (CTL-4).

    Losing the store is no reason: it stops failover and nothing else (CTL-13).
    """
    is_away = False
    while True:
        try:
            async for stored in arbiter.watch():
                if is_away:
                    is_away = False
                    logger.info("the arbiter can be watched again")
                now = stored.record
                if now is not None and (now.controller_epoch, now.leader) != (
                    mine.controller_epoch,
                    mine.leader,
                ):
                    on_lost(LeadershipError(f"epoch {mine.controller_epoch} is over"))
                    return
        except ArbiterError as error:
            if not is_away:
                is_away = True
                logger.warning("the arbiter cannot be watched: %s", error)
            await asyncio.sleep(_WATCH_RETRY_SECONDS)
