"""The operator's settings."""

import pytest

from barnabas_operator.settings import OperatorSettings, SettingsError


def test_settings_come_from_the_environment_and_empty_ones_count_as_not_set() -> None:
    """The chart writes every variable, empty where the user has said nothing."""
    settings = OperatorSettings.from_environment(
        {
            "BARNABAS_NAMESPACES": "a, b",
            "BARNABAS_WORKERS": "7",
            "BARNABAS_LEASE_NAME": "",
            "UNRELATED": "x",
        }
    )
    assert settings.namespaces == ("a", "b")
    assert settings.workers == 7
    assert settings.lease_name == "barnabas-operator"
    assert not settings.is_clusterwide
    assert OperatorSettings.from_environment({}).is_clusterwide


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BARNABAS_WORKERS", "0"),
        ("BARNABAS_WORKERS", "many"),
        ("BARNABAS_HTTP_PORT", "70000"),
        ("BARNABAS_RESYNC_SECONDS", "-1"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable}={value}"):
        OperatorSettings.from_environment({variable: value})


def test_times_of_the_lease_that_would_let_two_act_at_once_are_refused() -> None:
    """operator.md 6, rule 5."""
    with pytest.raises(SettingsError, match="must rise"):
        OperatorSettings(lease_renew_deadline_seconds=20)
