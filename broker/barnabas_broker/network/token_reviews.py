"""TokenReview: asks the Kubernetes API server whether a token is still good, and fails closed.

A signature says nothing of a pod that was deleted since; the API server does (SEC-29). Answers are
remembered for a minute, by a hash of the token; without an answer nobody gets in.

Invariant: `REMEMBERED_MAX` answers, `AT_ONCE_MAX` questions at a time.
Source: Kubernetes' API `authentication.k8s.io/v1`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.http_client import NoResponseError, NotSentError
from barnabas_broker.env.kubernetes_api import KubernetesApi
from barnabas_broker.network.limited_lines import LimitedLines

_log = logging.getLogger(__name__)

PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
REMEMBERED_MS: Final = 60_000
REMEMBERED_MAX: Final = 10_000
AT_ONCE_MAX: Final = 8
_CREATED: Final = (200, 201)


class TokenReviews:
    """The API server's word on tokens."""

    def __init__(self, api: KubernetesApi, audiences: Sequence[str], clock: Clock) -> None:
        self.failed_count = 0
        self._lines = LimitedLines(_log, clock)
        self._api = api
        self._audiences = list(audiences)
        self._clock = clock
        self._at_once = asyncio.Semaphore(AT_ONCE_MAX)
        # By hash: whose it is, None where it is nobody's, and when that was said.
        self._remembered: OrderedDict[bytes, tuple[str | None, int]] = OrderedDict()

    async def username_of(self, token: str) -> str | None:
        """Whose a token is; None if it is not good, or nobody can say."""
        key = hashlib.sha256(token.encode()).digest()
        known = self._remembered.get(key)
        if known is not None and self._clock.monotonic_ms() - known[1] < REMEMBERED_MS:
            return known[0]
        async with self._at_once:
            status = await self._status_of(token)
        if status is None:
            self.failed_count += 1
            return None
        username = self._username_in(status)
        self._remembered[key] = username, self._clock.monotonic_ms()
        self._remembered.move_to_end(key)
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return username

    async def _status_of(self, token: str) -> Mapping[str, Any] | None:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": self._audiences},
        }
        try:
            response = await self._api.send("POST", PATH, review)
        except (NotSentError, NoResponseError) as error:
            self._lines.write("review", "a token could not be reviewed: %s", str(error))
            return None
        status = response.document().get("status")
        if response.status not in _CREATED or not isinstance(status, dict):
            said = f"the API server says {response.status}"
            self._lines.write("review", "a token could not be reviewed: %s", said)
            return None
        return status

    def _username_in(self, status: Mapping[str, Any]) -> str | None:
        user, audiences = status.get("user"), status.get("audiences")
        if status.get("authenticated") is not True or not isinstance(user, dict):
            return None
        # A server that knows no audiences takes every token of its own.
        if not isinstance(audiences, list) or not set(self._audiences) & set(map(str, audiences)):
            return None
        username = user.get("username")
        return username if isinstance(username, str) and username else None

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()
