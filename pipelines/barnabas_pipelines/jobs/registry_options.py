"""The options of a schema registry, as rows; and how keys and values are read with it.

Not here: what the registry's options mean (`registry/settings.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs.settings import JobOption, JobSettings
from barnabas_protocol.settings.kinds import PAIRS

if TYPE_CHECKING:
    from barnabas_pipelines.registry.decoding import Reading
    from barnabas_pipelines.registry.settings import RegistrySettings

REGISTRY: Final = "registry"
_LATEST: Final = "latest"


def _version_complaint(text: str) -> str | None:
    if text == _LATEST or (text.isdecimal() and int(text) > 0):
        return None
    return "it must be latest or the number of a version"


SCHEMA_REGISTRY: Final = JobOption(
    "schema-registry",
    "Where formats of registry find their schemas: the URL of a schema registry, or of "
    "several of one cluster with commas.",
)
SCHEMA_REGISTRY_OPTION: Final = JobOption(
    "schema-registry-option",
    "Any option of the registry's client, such as basic.auth.user.info=user:password, "
    "bearer.auth.token, ssl.ca.location, max.retries, timeout (seconds).",
    kind=PAIRS,
)
VALUE_SUBJECT: Final = JobOption(
    "value-subject",
    "The subject of the values' schema; by default TOPIC-value, as serializers have it.",
)
VALUE_SCHEMA_VERSION: Final = JobOption(
    "value-schema-version",
    "By which version of the subject values are read, whichever they were written with: "
    "latest, as it is when the job starts, or a number.",
    default=_LATEST,
    check=_version_complaint,
)
VALUE_MESSAGE: Final = JobOption(
    "value-message",
    "The full name of the Protobuf message that values are; by default the first of the schema.",
)
KEY_SUBJECT: Final = JobOption(
    "key-subject", "The subject of the keys' schema; by default TOPIC-key."
)
KEY_SCHEMA_VERSION: Final = JobOption(
    "key-schema-version",
    "By which version of the subject keys are read.",
    default=_LATEST,
    check=_version_complaint,
)
VALUE_OPTIONS: Final = (
    SCHEMA_REGISTRY,
    SCHEMA_REGISTRY_OPTION,
    VALUE_SUBJECT,
    VALUE_SCHEMA_VERSION,
    VALUE_MESSAGE,
)
KEY_OPTIONS: Final = (KEY_SUBJECT, KEY_SCHEMA_VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """How values and keys are read; None where no registry is used for them."""

    value: Reading | None = None
    key: Reading | None = None

    @classmethod
    def of(cls, settings: JobSettings) -> Readings:
        """Ask the registry, if there is one. Raises: OptionsError, RegistryError."""
        values = settings.values
        registry = _registry(settings) if values["schema-registry"] else None
        if registry is None:
            return cls()
        return cls(
            value=_reading(settings, registry, "value") if _is_wanted(settings, "value") else None,
            key=_reading(settings, registry, "key") if _is_wanted(settings, "key") else None,
        )

    def plan_lines(self) -> list[tuple[str, str]]:
        """What a plan says of them."""
        return [
            (f"{what}s", f"{one.schema.shown} of {one.registry.shown}: {one.fields_ddl()}")
            for what, one in (("value", self.value), ("key", self.key))
            if one is not None
        ]


def check_registry(settings: JobSettings) -> None:
    """Refuse settings that contradict each other. Raises: OptionsError."""
    for what in ("value", "key"):
        given = [f"{what}-{end}" for end in ("subject", "schema-version", "message")]
        needless = [name for name in given if name in settings.given]
        if needless and not _is_wanted(settings, what):
            raise OptionsError(f"--{needless[0]} is only for --{what}-format registry")
    if _is_wanted(settings, "value") or _is_wanted(settings, "key"):
        if not settings["schema-registry"]:
            raise OptionsError(f"--schema-registry is missing: {SCHEMA_REGISTRY.why}")
        _registry(settings)
        return
    for name in ("schema-registry", "schema-registry-option"):
        if name in settings.given:
            raise OptionsError(f"--{name} is only used with --value-format registry")


def _is_wanted(settings: JobSettings, what: str) -> bool:
    return settings.values.get(f"{what}-format") == REGISTRY


def _registry(settings: JobSettings) -> RegistrySettings:
    from barnabas_pipelines.registry.settings import RegistrySettings

    return RegistrySettings.of(
        settings["schema-registry"], settings["schema-registry-option"] or {}
    )


def _reading(settings: JobSettings, registry: RegistrySettings, what: str) -> Reading:
    from barnabas_pipelines.registry.client import UnknownSchemaError
    from barnabas_pipelines.registry.decoding import Reading

    subject = settings[f"{what}-subject"] or f"{settings['topic']}-{what}"
    message = settings.values.get(f"{what}-message")
    try:
        return Reading.of(registry, subject, settings[f"{what}-schema-version"], message)
    except UnknownSchemaError as error:
        raise OptionsError(f"{error}; --{what}-subject names another") from error
