"""The brokers of the client's tests, which the console's have, too."""

from tests.support.client_fixtures import bootstrap, client_brokers, unique

__all__ = ["bootstrap", "client_brokers", "unique"]
