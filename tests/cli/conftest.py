"""The brokers of the client's tests, for commands that need a real one."""

from tests.support.client_fixtures import bootstrap, client_brokers, unique

__all__ = ["bootstrap", "client_brokers", "unique"]
