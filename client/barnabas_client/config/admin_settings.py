"""The settings of the admin client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.settings import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings(ClientSettings):
    """The client's settings; asking for a topic must not create it here."""

    role: ClassVar[str] = "admin"

    allow_auto_create_topics: bool = setting(
        False, why="Let brokers create a topic that is only looked at."
    )
