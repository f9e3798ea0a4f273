"""Emits Events, which people see with `kubectl describe`: each once and not on every pass.

The name of an Event is made from what it says, so a repetition is found at the API server, also
after the operator was started anew; and a memory saves asking it. An Event is never worth failing
for: what the API server does not take is logged.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from barnabas_operator.conditions import timestamp
from barnabas_operator.kubernetes.api import KubernetesApi, KubernetesError, UnavailableError
from barnabas_operator.kubernetes.kinds import EVENT
from barnabas_operator.kubernetes.objects import name_of, namespace_of, uid_of

logger = logging.getLogger(__name__)

_REMEMBERED_MAX = 4096
_MESSAGE_CHARACTERS_MAX = 1000
_COMPONENT = "barnabas-operator"


class Events:
    """Emits Events about resources."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._emitted: OrderedDict[str, None] = OrderedDict()

    async def emit(
        self,
        resource: Mapping[str, Any],
        reason: str,
        message: str,
        *,
        type_: Literal["Normal", "Warning"] = "Normal",
        occasion: str = "",
    ) -> None:
        """Emit it once for each different `occasion`, such as a pod's uid."""
        message = message[:_MESSAGE_CHARACTERS_MAX]
        said = "\n".join((uid_of(resource), reason, message, type_, occasion))
        digest = hashlib.sha256(said.encode()).hexdigest()[:16]
        if digest in self._emitted:
            self._emitted.move_to_end(digest)
            return
        self._emitted[digest] = None
        if len(self._emitted) > _REMEMBERED_MAX:
            self._emitted.popitem(last=False)
        event = _event(resource, reason, message, type_, digest)
        try:
            # It may have been emitted before the operator was started anew: reading is no write.
            if await self._api.get(EVENT, namespace_of(event), name_of(event)) is None:
                await self._api.create(event)
        except KubernetesError as error:
            if isinstance(error, UnavailableError):
                # It may be taken the next time that it is emitted, if there is one.
                self._emitted.pop(digest, None)
            logger.info("Event not written: %s of %s: %s", reason, name_of(resource), error)


def _event(
    resource: Mapping[str, Any], reason: str, message: str, type_: str, digest: str
) -> dict[str, Any]:
    now = timestamp(datetime.now(UTC))
    namespace = namespace_of(resource) or "default"
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"namespace": namespace, "name": f"{name_of(resource)[:200]}.{digest}"},
        "involvedObject": {
            "apiVersion": resource["apiVersion"],
            "kind": resource["kind"],
            "namespace": namespace,
            "name": name_of(resource),
            "uid": uid_of(resource),
        },
        "reason": reason,
        "message": message,
        "type": type_,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
        "reportingInstance": _COMPONENT,
    }
