"""A swap whose outcome is known when it returns, over any store: rule 7 in one place.

A response that was lost, a server's fault and even a conflict do not mean that nothing was stored:
the request may have taken effect before, it may have been sent twice on its way, and it may still
take effect later. So what is stored is read back, and judged by `election.judge`. As long as the
token has not moved on, a write that is still under way could be stored any time; the very same swap
is then tried again, with the same token, so that at most one of the tries can succeed.

Not here: how stores are reached (the backends), and what is tried.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from barnabas_broker.arbiter.arbiter import (
    Arbiter,
    ArbiterError,
    ArbiterRecord,
    Stored,
    SwapOutcome,
)
from barnabas_broker.arbiter.election import Verdict, judge
from barnabas_protocol.backoff import ExponentialBackoff

SWAP_TRIES_MAX: Final = 5
# Stores that hang take their request timeout besides.
_BACKOFF: Final = ExponentialBackoff(20, 160)


class UndecidedError(ArbiterError):
    """It is not known whether what was tried is stored, or will be: both must be expected."""


class DecidedSwap(NamedTuple):
    """What a swap has come to."""

    verdict: Verdict
    stored: Stored | None  # as read back; None where the store has confirmed it at once


async def swap_until_decided(
    arbiter: Arbiter, expected_token: int, tried: ArbiterRecord
) -> DecidedSwap:
    """Store the record if the token is still the one expected, and find out whether that is so.

    WON: it was stored. LOST: another leader's or a higher epoch is stored. TRY_AGAIN: it is not
    stored and never will be by this swap; begin anew with what is stored now.
    Raises: UndecidedError where that stays unknown after a handful of tries.
    """
    reason = "every try was refused although the token has not moved on"
    for count in range(SWAP_TRIES_MAX):
        if count:
            await asyncio.sleep(_BACKOFF.wait_ms(count - 1) / 1000)
        outcome = await arbiter.compare_and_swap(expected_token, tried)
        if outcome is SwapOutcome.STORED:
            return DecidedSwap(Verdict.WON, None)
        try:
            stored = await arbiter.read()
        except ArbiterError as error:
            reason = str(error)
            continue
        verdict = judge(tried, outcome, stored)
        if verdict is not Verdict.TRY_AGAIN or stored.token != expected_token:
            return DecidedSwap(verdict, stored)
    raise UndecidedError(f"whether the arbiter's record was changed is not known: {reason}")
