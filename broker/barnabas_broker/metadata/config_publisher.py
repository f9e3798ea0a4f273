"""Brings committed settings into force on this broker: its own, and those of its logs (CFG-6).

A subscriber of the metadata publisher; it stands before those that open logs, so that a new log
finds the settings of its topic. The values are always read from the image, never from the notice
that something changed (CFG-4).
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC, MetadataImage

UpdateTopic = Callable[[str, LogConfig], None]


class ConfigPublisher:
    """Applies settings from images."""

    __slots__ = ("_dynamic_config", "_image", "_node_name", "_update_topic")

    def __init__(
        self, node_id: int, dynamic_config: DynamicConfig, update_topic: UpdateTopic
    ) -> None:
        self._node_name = str(node_id)
        self._dynamic_config = dynamic_config
        self._update_topic = update_topic
        self._image = MetadataImage.empty()

    def apply(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Take the settings of an image; with no delta, all of them."""
        self._image = image
        before = self._dynamic_config.values
        self._dynamic_config.update(
            image.config_overrides(RESOURCE_BROKER, ""),
            image.config_overrides(RESOURCE_BROKER, self._node_name),
        )
        if delta is None or self._dynamic_config.values != before:
            names = list(image.topics.by_name)
        else:
            names = [name for kind, name in delta.changed_configs if kind == RESOURCE_TOPIC]
        for name in names:
            if name in image.topics.by_name:
                self._update_topic(name, self.topic_config(name))

    def topic_config(self, name: str) -> LogConfig:
        """The settings in force of a topic, by the newest image."""
        return self._dynamic_config.log_config(self._image.config_overrides(RESOURCE_TOPIC, name))
