"""Which settings of a file are for which role: programs of all kinds share a properties file.

A name that some role knows is left out for the others; a name that none knows is kept, so that the
client refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from barnabas_client.config.admin_settings import AdminSettings
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.config.settings import settings_of
from barnabas_client.config.share_consumer_settings import ShareConsumerSettings


class Role(Enum):
    """What a client is."""

    ADMIN = AdminSettings
    PRODUCER = ProducerSettings
    CONSUMER = ConsumerSettings
    SHARE_CONSUMER = ShareConsumerSettings


def settings_for(role: Role, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those that only other roles know."""
    known = settings_of(role.value)
    of_others = {name for other in Role for name in settings_of(other.value)}
    return {
        name: value for name, value in settings.items() if name in known or name not in of_others
    }
