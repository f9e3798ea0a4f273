"""`Admin` itself: what it covers, when it imports, how it starts and ends."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

import barnabas_client.admin
from barnabas_client.admin import Admin, NewTopic
from barnabas_client.errors import BrokerUnreachableError, ClosedError, ConfigurationError
from barnabas_protocol.api import ApiKey
from tests.support.processes import free_port

# The list of the module docstring of `admin.py`, where the reasons are.
LEFT_OUT = {
    *(0, 17, 36, 71, 72, 11, 12, 14, 68, 76, 78, 79, 88, 93, 24, 25, 26, 28),
    *(52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, 83, 84, 85, 86, 87),
    *(20001, 20002, 20003, 20004, 20005),  # what only brokers of Barnabas ask one another
}


def test_every_key_of_the_protocol_is_asked_or_left_out_for_a_reason() -> None:
    """ "Every administrative key": a key that is added to the table must be decided about."""
    asked = set()
    for path in Path(barnabas_client.admin.__path__[0]).glob("*.py"):
        names = re.findall(r"ApiKey\.([A-Z_]+)", path.read_text())
        asked |= {ApiKey[name] for name in names}
    assert asked.isdisjoint(LEFT_OUT)
    assert asked | LEFT_OUT == set(ApiKey)


def test_every_public_name_can_be_imported() -> None:
    """Names are looked up when they are first asked for, so a wrong one would show late."""
    for name in dir(barnabas_client.admin):
        assert getattr(barnabas_client.admin, name) is not None
    with pytest.raises(AttributeError, match="NoSuchName"):
        _ = barnabas_client.admin.NoSuchName


def test_a_noun_is_imported_when_it_is_first_used() -> None:
    """A command that lists topics must not wait for the import of sixteen nouns."""
    program = (
        "import sys; from barnabas_client.admin import Admin; "
        "print(*(name for name in sys.modules if name.startswith('barnabas_client.admin.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported = {name.removeprefix("barnabas_client.admin.") for name in done.stdout.split()}
    assert imported == {
        "admin",
        "lookup_strategies",
        "api_errors",
        "call_items",
        "outcome",
        "routing",
    }


def test_an_unknown_setting_is_refused_before_anything_is_connected() -> None:
    """And names the nearest one."""
    with pytest.raises(ConfigurationError, match="request_timeout_ms"):
        Admin("127.0.0.1:1", request_timout_ms=1)  # type: ignore[call-arg]


def test_a_cluster_that_is_not_there_is_an_error_in_time() -> None:
    """Nothing is left open, which pytest would report."""

    async def run() -> None:
        with pytest.raises(BrokerUnreachableError):
            async with Admin(f"127.0.0.1:{free_port()}", default_api_timeout_ms=100):
                pass

    asyncio.run(run())


def test_a_closed_admin_refuses_calls(bootstrap: str) -> None:
    """Closing may be repeated; a call after it is a mistake of the caller."""

    async def run() -> None:
        admin = Admin(bootstrap)
        await admin.start()
        assert await admin.topics.list(include_internal=True) is not None
        await admin.close()
        await admin.close()
        with pytest.raises(ClosedError):
            await admin.topics.list()
        created = await admin.topics.create([NewTopic(name="a")])
        assert isinstance(created["a"].error, ClosedError)

    asyncio.run(run())
