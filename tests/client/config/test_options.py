"""Keyword arguments for editors and type checkers say the same as the settings classes."""

import typing

import pytest

from barnabas_client.config import (
    AdminOptions,
    AdminSettings,
    ClientOptions,
    ClientSettings,
    ConsumerOptions,
    ConsumerSettings,
    ProducerOptions,
    ProducerSettings,
    ShareConsumerOptions,
    ShareConsumerSettings,
)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (ClientOptions, ClientSettings),
        (ProducerOptions, ProducerSettings),
        (ConsumerOptions, ConsumerSettings),
        (ShareConsumerOptions, ShareConsumerSettings),
        (AdminOptions, AdminSettings),
    ],
)
def test_options_are_the_settings(options: type, settings: type) -> None:
    """All but `bootstrap_servers`, which constructors take by position, with the same types."""
    expected = typing.get_type_hints(settings)
    del expected["bootstrap_servers"], expected["role"]
    assert typing.get_type_hints(options) == expected
