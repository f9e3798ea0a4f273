"""The reference of settings says what the rows say."""

from pathlib import Path

from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.config.reference import DEFAULT_PATH, main, render
from barnabas_client.config.settings import settings_of

ROOT = Path(__file__).resolve().parents[3]


def test_the_reference_is_current() -> None:
    """Run `python -m barnabas_client.config.reference` after a change of the rows."""
    assert (ROOT / DEFAULT_PATH).read_text(encoding="utf-8") == render()


def test_the_reference_names_every_setting_once_per_role() -> None:
    """A row that is the same for all roles is told once."""
    text = render()
    for name in settings_of(ProducerSettings):
        assert f"| `{name}` |" in text
    assert text.count("| `request_timeout_ms` |") == 1
    assert text.count("| `max_in_flight_requests_per_connection` |") == 2


def test_the_reference_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    """The command that the file's head names."""
    main([str(tmp_path / "settings.md")])
    assert (tmp_path / "settings.md").read_text(encoding="utf-8") == render()
