"""What a console loads: it is one more process on a laptop, and one more pod."""

import subprocess
import sys

FOREIGN = ("barnabas_broker", "cronsim", "kopf", "kubernetes", "pyspark")
#: For rules from files, who scrapes, OpenID, compressed batches, who writes and who changes
#: something: a laptop's console starts without them.
SELDOM = (
    *("prometheus_client", "yaml", "msgpack", "fastavro", "cryptography"),
    *("cramjam", "lz4", "zstandard", "barnabas_client.producer"),
    *("barnabas_console.plans.topic_changes", "barnabas_operator.reconcile.topic_apply"),
)


def test_the_server_needs_nothing_of_brokers_operator_or_jobs() -> None:
    """CON-134: an installation with brokers alone has it, and so has their image."""
    assert loaded_of(FOREIGN) == "[]"


def test_what_few_need_is_loaded_when_it_is_needed() -> None:
    """CON-174: up a second after the brokers of `barnabas dev`, within 60 MiB."""
    assert loaded_of(SELDOM) == "[]"


def loaded_of(names: tuple[str, ...]) -> str:
    """Which of them a server loads that is only imported."""
    code = f"import barnabas_console.server, sys; print([m for m in {names} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return loaded.stdout.decode().strip()
