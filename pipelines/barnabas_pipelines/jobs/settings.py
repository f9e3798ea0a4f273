"""The options of a job: one row each, given in a YAML file or on the command line.

    python -m barnabas_pipelines.jobs.archive --config archive.yaml --trigger "5 minutes"

An option is spelled the same in both places; what the command line says wins over the file. In the
file, underscores may stand for dashes. An unknown or repeated name, a value of the wrong kind or
out of range, a missing option: each is one line that names the option and the nearest known name.

Not here: which options there are (each job's module, and `common_options.py`), what is done with
them (`job.py`).

Invariants: settings that exist are complete and each value is checked by its row; `None` stands
for "not given" where a row has no default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import yaml

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs import client_properties
from barnabas_protocol.settings.kinds import FILLED_TEXT, NAMES, PAIRS, Kind, as_text
from barnabas_protocol.settings.setting import GivenError, Setting, first_missing, named

CONFIG: Final = "config"


def _document(value: Any) -> Any:
    try:
        return yaml.safe_load(value) if isinstance(value, str) else value
    except yaml.YAMLError:
        raise ValueError("it must be YAML, for example [1, 2] or {a: b}") from None


DOCUMENT: Final = Kind("document", "YAML", _document)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOption(Setting):
    """One option of a job."""

    kind: Kind = FILLED_TEXT
    default: Any = None

    def accept(self, given: Any) -> Any:
        """The value of what a YAML file or a command line says.

        Raises: OptionsError naming the option, what was given and what is possible.
        """
        try:
            return Setting.accept(self, self._written(given))
        except ValueError as error:  # SettingError included
            raise OptionsError(f"--{self.name} {_shown(given)}: {error}") from None

    def _written(self, given: Any) -> Any:
        """A YAML value as somebody would have written it on a command line."""
        if isinstance(given, str) or self.kind in (DOCUMENT, PAIRS):
            return given
        if self.kind is NAMES and isinstance(given, Sequence):
            return ",".join(as_text(one) for one in given)
        return as_text(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """The value of every option of a job; `given` are the names that somebody chose."""

    values: Mapping[str, Any]
    given: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Any:
        """The value of an option. Raises: KeyError where the job has no such option."""
        return self.values[name]


def settings_of(options: Sequence[JobOption], given: Mapping[str, Any]) -> JobSettings:
    """Settings from values by name, such as a YAML file has; both spellings are understood.

    Raises: OptionsError.
    """
    return _complete(options, _by_name(options, given, "option"))


def merged_settings(
    options: Sequence[JobOption], on_line: Mapping[str, Any], read_text: Callable[[str], str]
) -> JobSettings:
    """Settings from a command line that was parsed, and from the files that it names as `config`.

    `read_text` gives the content of a file. Raises: OptionsError.
    """
    given: dict[str, Any] = {}
    for path in on_line[CONFIG]:
        given.update(_by_name(options, _load(path, read_text), f"option in {path}:"))
    for option in options:
        if option.name in on_line:
            value = on_line[option.name]
            is_pairs = option.kind is PAIRS
            given[option.name] = {**(given.get(option.name) or {}), **value} if is_pairs else value
    return _complete(options, given)


def _complete(options: Sequence[JobOption], given: Mapping[str, Any]) -> JobSettings:
    properties: Mapping[str, str] = {}
    if given.get(client_properties.CLIENT_PROPERTIES) is not None:
        properties = client_properties.read(str(given[client_properties.CLIENT_PROPERTIES]))
        in_file = {client_properties.BOOTSTRAP_SERVERS: client_properties.servers(properties)}
        given = {**in_file, **given}
    missing = first_missing(options, given)
    if missing is not None:
        raise OptionsError(f"--{missing.name} is missing: {missing.why}")
    chosen = frozenset(option.name for option in options if given.get(option.name) is not None)
    values: dict[str, Any] = {}
    for option in options:
        value = given[option.name] if option.name in chosen else option.default
        values[option.name] = None if value is None else option.accept(value)
    client_properties.add_to(values, properties)
    return JobSettings(values=MappingProxyType(values), given=chosen)


def _by_name(options: Iterable[JobOption], given: Mapping[str, Any], what: str) -> dict[str, Any]:
    try:
        return named(options, given, spell=lambda name: name.replace("_", "-"), what=what)
    except GivenError as error:
        raise OptionsError(str(error)) from None


def _load(path: str, read_text: Callable[[str], str]) -> Mapping[str, Any]:
    try:
        loaded = yaml.safe_load(read_text(path))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionsError(f"--config {path}: {error}") from error
    except yaml.YAMLError as error:
        raise OptionsError(f"--config {path} is no YAML: {' '.join(str(error).split())}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, Mapping):
        raise OptionsError(f"--config {path}: it must be a mapping of options to values")
    return loaded


def _shown(given: Any) -> str:
    text = str(given)
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
