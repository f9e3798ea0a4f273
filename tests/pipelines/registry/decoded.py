"""What tests of the registry share: decoded values, and a client that does not wait."""

from typing import Any

#: A test does not wait for what is away.
QUICKLY = {"max.retries": "1", "retries.wait.ms": "1", "timeout": "5"}
Decoded = list[dict[str, Any]]
