"""What a job can be told: one row per option, given in a YAML file or on the command line.

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

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import yaml

from barnabas_pipelines import option_values
from barnabas_pipelines.errors import OptionsError

CONFIG: Final = "config"
_BYTE_UNITS: Final = {
    "": 1,
    "b": 1,
    "k": 1024,
    "kib": 1024,
    "m": 1024**2,
    "mib": 1024**2,
    "g": 1024**3,
    "gib": 1024**3,
}
_NEAR_ENOUGH: Final = 0.6


def _bytes(value: str) -> int:
    written = value.strip().lower()
    digits = written.rstrip("bikmg ")
    unit = written[len(digits) :].strip()
    if not digits.isdecimal() or unit not in _BYTE_UNITS:
        raise ValueError("it must be a size such as 1048576, 64 MiB or 1 GiB")
    return int(digits) * _BYTE_UNITS[unit]


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError("it must be a number") from None


def _pairs(value: str) -> dict[str, str]:
    name, equals, text = value.partition("=")
    if not equals or not name.strip():
        raise ValueError("it must be NAME=VALUE")
    return {name.strip(): text}


def _document(value: str) -> Any:
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        raise ValueError("it must be YAML, for example [1, 2] or {a: b}") from None


#: How the text of a kind becomes a value; each raises ValueError telling what it wants.
KINDS: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "text": option_values.text,
        "int": option_values.integer,
        "number": _number,
        "bool": option_values.truth,
        "duration": option_values.duration_ms,
        "bytes": _bytes,
        "names": option_values.names,
        "pairs": _pairs,
        "document": _document,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOption:
    """One option of a job.

    Kinds: `text`; `int`; `number`; `bool` (`--name`, `--no-name`, `--name true`); `duration`
    (`90s`; the value is milliseconds); `bytes` (`64 MiB`); `names` (with commas, or a list);
    `pairs` (`--name a=b`, as often as wanted, or a mapping); `document` (anything that YAML says).
    `check` gets the value and returns a complaint or None.
    """

    name: str
    meaning: str
    kind: str = "text"
    default: Any = None
    is_required: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    check: Callable[[Any], str | None] | None = None

    def accept(self, given: Any) -> Any:
        """The value of what a YAML file or a command line says.

        Raises: OptionsError naming the option, what was given and what is possible.
        """
        try:
            value = self._typed(given)
            self._judge(value)
        except ValueError as error:
            raise OptionsError(f"--{self.name} {_shown(given)}: {error}") from None
        return value

    def _typed(self, given: Any) -> Any:
        convert = KINDS[self.kind]
        if isinstance(given, str):
            return convert(given)
        if self.kind == "document":
            return given
        if self.kind == "pairs":
            if not isinstance(given, Mapping):
                raise ValueError("it must be a mapping of names to values")
            return {str(name): _as_text(value) for name, value in given.items()}
        if self.kind == "names" and isinstance(given, Sequence):
            return convert(",".join(_as_text(one) for one in given))
        return convert(_as_text(given))

    def _judge(self, value: Any) -> None:
        if self.choices and value not in self.choices:
            raise ValueError(f"it must be {_either(self.choices)}{_nearest(value, self.choices)}")
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"the least is {self.minimum:g}")
        if self.maximum is not None and value > self.maximum:
            raise ValueError(f"the most is {self.maximum:g}")
        complaint = self.check(value) if self.check is not None else None
        if complaint is not None:
            raise ValueError(complaint)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """The value of every option of a job; `given` are the names that somebody chose."""

    values: Mapping[str, Any]
    given: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Any:
        """The value of an option. Raises: KeyError where the job has no such option."""
        return self.values[name]


def settings_of(options: Iterable[JobOption], given: Mapping[str, Any]) -> JobSettings:
    """Settings from values by name, such as a YAML file has; both spellings are understood.

    Raises: OptionsError.
    """
    return _complete(options, _by_name(options, given, "option"))


def read_settings(
    options: Sequence[JobOption],
    arguments: Sequence[str],
    read_text: Callable[[str], str],
) -> JobSettings:
    """Settings from a command line, and from the YAML file that it may name with `--config`.

    `read_text` gives the content of a file. Raises: OptionsError.
    """
    known = {option.name: option for option in options}
    files, on_line = _parse(known, arguments)
    given: dict[str, Any] = {}
    for path in files:
        given.update(_by_name(options, _load(path, read_text), f"option in {path}"))
    for name, value in on_line.items():
        if known[name].kind == "pairs":
            value = {**(given.get(name) or {}), **value}
        given[name] = value
    return _complete(options, given)


def _complete(options: Iterable[JobOption], given: Mapping[str, Any]) -> JobSettings:
    values: dict[str, Any] = {}
    for option in options:
        chosen = given.get(option.name)
        if chosen is not None:
            values[option.name] = option.accept(chosen)
        elif option.is_required:
            raise OptionsError(f"--{option.name} is missing: {option.meaning}")
        else:
            default = option.default
            values[option.name] = option.accept(default) if default is not None else None
    chosen_names = frozenset(name for name in values if given.get(name) is not None)
    return JobSettings(values=MappingProxyType(values), given=chosen_names)


def _by_name(options: Iterable[JobOption], given: Mapping[str, Any], what: str) -> dict[str, Any]:
    known = {option.name for option in options}
    found: dict[str, Any] = {}
    for spelled, value in given.items():
        name = str(spelled).replace("_", "-")
        if name not in known:
            raise OptionsError(f"unknown {what}: {spelled}{_nearest(name, known)}")
        if name in found:
            raise OptionsError(f"{name} is given twice")
        found[name] = value
    return found


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


def _parse(
    known: Mapping[str, JobOption], arguments: Sequence[str]
) -> tuple[list[str], dict[str, Any]]:
    """The files, and the text by name; a mapping for pairs, a truth for flags."""
    files: list[str] = []
    found: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        spelled, equals, text = rest.pop(0).partition("=")
        if not spelled.startswith("--"):
            raise OptionsError(f"unexpected argument: {spelled}; options start with --")
        name = spelled[2:].replace("_", "-")
        if name.startswith("no-") and name not in known and _is_flag(known.get(name[3:])):
            name, equals, text = name[3:], "=", "false"
        option = known.get(name)
        if option is None and name != CONFIG:
            everything = {*known, CONFIG, "dry-run", "help", "traceback"}
            near = _nearest(name, everything, "--")
            raise OptionsError(f"unknown option: {spelled}{near or '; --help lists all'}")
        if not equals:
            if _is_flag(option) and (not rest or rest[0].lower() not in ("true", "false")):
                text = "true"
            elif rest:
                text = rest.pop(0)
            else:
                raise OptionsError(f"{spelled} needs a value")
        if option is None:
            files.append(text)
        elif option.kind == "pairs":
            found.setdefault(name, {}).update(option.accept(text))
        elif name in found:
            raise OptionsError(f"{spelled} is given twice")
        else:
            found[name] = text
    return files, found


def _is_flag(option: JobOption | None) -> bool:
    return option is not None and option.kind == "bool"


def _nearest(name: Any, known: Iterable[str], prefix: str = "") -> str:
    """A question with the nearest name; empty where none is alike."""
    folded = {candidate.lower(): candidate for candidate in sorted(known)}
    near = difflib.get_close_matches(str(name).lower(), folded, 1, _NEAR_ENOUGH)
    return f"; did you mean {prefix}{folded[near[0]]}?" if near else ""


def _either(choices: Sequence[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def _as_text(value: Any) -> str:
    """A YAML value as somebody would have written it on a command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (Mapping, list, tuple)):
        raise ValueError("it must be one value")
    return str(value)


def _shown(given: Any) -> str:
    text = str(given)
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
