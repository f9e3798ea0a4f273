"""Random values for any declared message, within what every codec under comparison can hold.

Seeded: a failing case prints its seed by its parametrised id. Not for malformed input.
"""

import random
import string as characters
from typing import Any

from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.schema import Field, Message, MessageType

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED_BITS = {"uint16": 16, "uint32": 32}
TEXT = characters.ascii_letters + "äöü€漢字🙂 .-_"
# The largest code and the largest time that the richer types of other codecs can express.
ERROR_CODE_MAX = 120
TIME_MS_MAX = 2**31 - 1


class RandomMessages:
    """Builds messages of one version from one seed; small ones if asked."""

    def __init__(self, seed: int, *, small: bool = False) -> None:
        self._random = random.Random(seed)
        self._lengths = (0, 1, 5) if small else (0, 1, 7, 126, 127, 128, 300)
        self._counts = (0, 1, 2) if small else (0, 1, 3, 130)

    def message(self, kind: MessageType, version: int) -> Any:
        """Return a message that sets about three quarters of the fields of the version."""
        result: Message = kind()
        for field in kind.__fields__:
            if field.exists_in(version) and self._random.random() < 0.75:
                setattr(result, field.name, self._value(field, version))
        return result

    def _value(self, field: Field, version: int) -> Any:
        if field.is_nullable_in(version) and self._random.random() < 0.2:
            return None
        if field.kind == "array":
            return self._array(field, version)
        if field.kind == "struct":
            assert isinstance(field.item, MessageType)
            return self.message(field.item, version)
        return self._scalar(field)

    def _array(self, field: Field, version: int) -> list[Any]:
        if isinstance(field.item, MessageType):
            return [
                self.message(field.item, version) for _ in range(self._random.choice((0, 1, 2)))
            ]
        assert field.item is not None
        count = self._random.choice(self._counts)
        return [self._scalar(field.item) for _ in range(count)]

    def _scalar(self, field: Field) -> Any:
        pick = self._random
        if field.kind in BITS:
            if "error_code" in field.name:
                return pick.randint(-1, ERROR_CODE_MAX)
            if field.name.endswith(("_ms", "timestamp", "_time")):
                return pick.choice((0, 1000, pick.randint(0, TIME_MS_MAX)))
            half = 1 << BITS[field.kind] - 1
            return pick.choice((0, -1, half - 1, -half, pick.randrange(-half, half)))
        if field.kind in UNSIGNED_BITS:
            return pick.randrange(1 << UNSIGNED_BITS[field.kind])
        if field.kind == "boolean":
            return pick.random() < 0.5
        if field.kind == "float64":
            return pick.choice((0.0, -1.5, pick.uniform(-1e12, 1e12)))
        if field.kind == "uuid":
            return pick.choice((ZERO_UUID, pick.randbytes(16), pick.randbytes(16)))
        length = pick.choice(self._lengths)
        if field.kind == "string":
            return "".join(pick.choice(TEXT) for _ in range(length))
        return pick.randbytes(length)
