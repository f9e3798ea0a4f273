"""Connections to brokers, and what is found through them for everybody: metadata, coordinators."""

from barnabas_client.network.client import Client, CoordinatorType
from barnabas_client.network.retrying import retrying

__all__ = ["Client", "CoordinatorType", "retrying"]
