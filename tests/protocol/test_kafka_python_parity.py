"""Every message version that kafka-python has: it reads our bytes and writes them back unchanged.

Reading and writing again needs no conversion of values; the scalars that it read are compared
under their names, so that two fields of one size cannot change places unseen.
"""

import importlib
import pkgutil
import warnings
from typing import Any

import pytest

from barnabas_protocol.api import KNOWN, ApiKey
from barnabas_protocol.codec import encode, request_class, response_class
from barnabas_protocol.schema import Message
from tests.protocol.random_messages import RandomMessages

CASES_PER_VERSION = 2

SCALARS = {"boolean", "int8", "int16", "int32", "int64", "string", "float64"}


def kafka_python_classes() -> dict[str, Any]:
    """Return every message class by its name, importing all of the client's protocol."""
    found: dict[str, Any] = {}
    for package in ("admin", "consumer", "metadata", "producer"):
        parent = importlib.import_module(f"kafka.protocol.{package}")
        for module in pkgutil.iter_modules(parent.__path__, parent.__name__ + "."):
            importlib.import_module(module.name)
    importlib.import_module("kafka.protocol.sasl")
    api_message = importlib.import_module("kafka.protocol.api_message")
    pending = list(api_message.ApiMessage.__subclasses__())
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        found.setdefault(kind.__name__, kind)
    return found


with warnings.catch_warnings():
    # It loads its schemas through a deprecated function of importlib.
    warnings.simplefilter("ignore", DeprecationWarning)
    CLASSES = kafka_python_classes()


def assert_same_scalars(ours: Message, theirs: Any, version: int) -> None:
    for field in ours.__fields__:
        if not field.exists_in(version) or not hasattr(theirs, field.name):
            continue
        value, other = getattr(ours, field.name), getattr(theirs, field.name)
        if isinstance(value, Message):
            assert_same_scalars(value, other, version)
        elif isinstance(value, list) and value and isinstance(value[0], Message):
            for item, other_item in zip(value, other, strict=True):
                assert_same_scalars(item, other_item, version)
        elif field.kind in SCALARS and isinstance(other, int | float | str):
            assert value == other, field.name


def kinds_of(key: ApiKey) -> dict[str, type[Message]]:
    """The messages of an API that kafka-python has too, by their role."""
    kinds = {"request": request_class(key), "response": response_class(key)}
    return {role: kind for role, kind in kinds.items() if kind.__name__ in CLASSES}


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        pytest.param(key, kind, id=f"{key.name.lower()}-{role}")
        for key in KNOWN
        for role, kind in kinds_of(key).items()
    ],
)
def test_kafka_python_reads_our_bytes_and_writes_them_back(
    key: ApiKey, kind: type[Message]
) -> None:
    """A third codec, of a client that must work with the broker."""
    theirs = CLASSES[kind.__name__]
    first, last = KNOWN[key]
    for version in range(first, min(last, theirs.max_version) + 1):
        for seed in range(CASES_PER_VERSION):
            message = RandomMessages(seed).message(kind, version)
            if kind is response_class(ApiKey.API_VERSIONS):
                message.error_code = 0  # after an error it reads version 0 only
            payload = encode(message, version)
            parsed = theirs.decode(payload, version=version)
            parsed._header = None  # only its constructor sets this
            assert_same_scalars(message, parsed, version)
            assert parsed.encode(version=version) == payload, f"version {version}, seed {seed}"


def test_kafka_python_covers_most_apis() -> None:
    """Should its layout change, the comparison must not quietly become empty."""
    assert len([key for key in KNOWN if request_class(key).__name__ in CLASSES]) > 45
