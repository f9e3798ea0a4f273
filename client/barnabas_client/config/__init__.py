"""Settings: one frozen dataclass per role, one row per setting."""

from barnabas_client.config.admin_settings import AdminSettings
from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.config.options import (
    AdminOptions,
    ClientOptions,
    ConsumerOptions,
    ProducerOptions,
    ShareConsumerOptions,
)
from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.config.properties_file import settings_from_file
from barnabas_client.config.serializers import Deserializer, Serializer
from barnabas_client.config.share_consumer_settings import ShareConsumerSettings

__all__ = [
    "AdminOptions",
    "AdminSettings",
    "ClientOptions",
    "ClientSettings",
    "ConsumerOptions",
    "ConsumerSettings",
    "Deserializer",
    "ProducerOptions",
    "ProducerSettings",
    "Serializer",
    "ShareConsumerOptions",
    "ShareConsumerSettings",
    "settings_from_file",
]
