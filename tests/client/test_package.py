"""The package as a user imports it."""

import subprocess
import sys

import pytest

import barnabas_client


@pytest.mark.parametrize("name", barnabas_client.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    """PEP 562: names are looked up when they are first used, so a typo would be seen late."""
    assert getattr(barnabas_client, name) is not None
    assert name in dir(barnabas_client)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As for any module."""
    with pytest.raises(AttributeError, match="Produzer"):
        _ = barnabas_client.Produzer


def test_importing_the_package_is_cheap() -> None:
    """Who writes a producer pays for no consumer, and a look at the version for neither."""
    program = (
        "import sys, barnabas_client;"
        "print([m for m in sys.modules if m.startswith('barnabas_client.')]);"
        "barnabas_client.TopicPartition; barnabas_client.RetriableError;"
        "print([m for m in ('asyncio', 'barnabas_client.consumer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[]", "[]"], done.stderr
