"""Brokers for tests: real ones, ready in half a second, gone with the test."""

from barnabas_testing.broker import Broker, BrokerError

__all__ = ["Broker", "BrokerError"]
