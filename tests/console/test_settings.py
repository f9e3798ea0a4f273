"""What the console refuses to start with (CON-140)."""

import pytest

from barnabas_console.settings import ConsoleSettings, ConsoleSettingsError


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "10.1.2.3", "kafka.example"])
def test_an_address_that_others_reach_needs_a_login(host: str) -> None:
    with pytest.raises(ConsoleSettingsError, match="log in"):
        ConsoleSettings(host=host)
    ConsoleSettings(host=host, login="sasl")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_the_loopback_address_needs_none(host: str) -> None:
    ConsoleSettings(host=host)


@pytest.mark.parametrize("prefix", ["console", "/console/", "/", "//x"])
def test_a_path_prefix_has_one_form(prefix: str) -> None:
    with pytest.raises(ConsoleSettingsError, match="path prefix"):
        ConsoleSettings(path_prefix=prefix)
