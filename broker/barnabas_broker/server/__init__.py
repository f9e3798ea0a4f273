"""The composition root: the only place where the parts of a broker meet."""

from barnabas_broker.server.server import Server

__all__ = ["Server"]
