"""MessagePack by the library `msgpack`, which a console may do without.

Invariants: without the library it says so; nothing larger than `TREE_BYTES_MAX` is taken apart.
"""

from __future__ import annotations

from barnabas_console.records.content import (
    TREE_BYTES_MAX,
    Content,
    Format,
    UnreadableError,
    as_tree,
)

# A map or an array, of any size: what else begins a message is too often something else.
_FIRST_BYTES = frozenset((*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF))


def looks_like_message_pack(data: bytes) -> bool:
    """Whether it is worth a try."""
    return len(data) > 1 and data[0] in _FIRST_BYTES


def as_message_pack(data: bytes) -> Content:
    """One message that fills the bytes. Raises: UnreadableError."""
    try:
        import msgpack
    except ImportError:
        raise UnreadableError("MessagePack needs the Python library msgpack here") from None
    if len(data) > TREE_BYTES_MAX:
        raise UnreadableError(f"more than {TREE_BYTES_MAX // 1024} KiB are not taken apart")
    try:
        # No strict_map_key: other keys than text are shown, too. Times become what they stand for.
        value = msgpack.unpackb(data, raw=False, strict_map_key=False, timestamp=3)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise UnreadableError(f"no MessagePack: {error or type(error).__name__}") from None
    return as_tree(value, Format.MESSAGE_PACK, len(data))
