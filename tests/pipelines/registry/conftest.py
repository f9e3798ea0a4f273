"""A schema registry for each test, and columns decoded by it."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from barnabas_pipelines.registry.decoding import ColumnDecoder, Reading
from barnabas_pipelines.registry.settings import RegistrySettings
from tests.pipelines.registry.decoded import QUICKLY, Decoded
from tests.support.schema_registry import SchemaRegistry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


@pytest.fixture
def decode(registry: SchemaRegistry) -> Callable[..., Decoded]:
    """`decode(subject, values, version=..., message=...)`: a row of fields and reason for each."""

    def decode_all(subject: str, values: list[bytes | None], **more: Any) -> Decoded:
        reading = Reading.of(RegistrySettings.of(registry.url, QUICKLY), subject, **more)
        decoder = ColumnDecoder(reading)
        registry.on_exit(decoder.close)
        rows: Decoded = decoder.decode(pa.array(values, pa.binary())).to_pylist()
        return rows

    return decode_all
