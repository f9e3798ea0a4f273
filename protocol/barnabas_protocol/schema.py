"""How a message is declared: one class for all its versions, one line per field.

    class MetadataRequestTopic(Message):
        topic_id: bytes = uuid(since=10)
        name: str | None = string(nullable=10)

    class MetadataRequest(Message, versions=(0, 13), flexible=9):
        topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable=1)

A field exists from version `since` to `until`, may be null from version `nullable`, and is a tagged
field if it has a `tag`. Instances are mutable, slotted, compare by value and take keyword
arguments; every field has Kafka's default. A default that is itself a struct is shared and
refuses changes: assign a new struct instead.

Nothing here reads or writes bytes: `readers` and `writers` compile what is declared.
Start-up pays for declarations only: constructors are compiled when the first instance is made.
"""

from typing import Any, ClassVar, Final, dataclass_transform

from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.primitives import Buffer as Buffer

LAST_VERSION: Final = (1 << 15) - 1

_FRESH: Final = object()


class Field:
    """One declared field: its wire type, the versions that have it, its default."""

    __slots__ = ("default", "item", "kind", "name", "nullable", "since", "tag", "until")

    def __init__(
        self,
        kind: str,
        since: int,
        until: int,
        nullable: int | None,
        tag: int | None,
        default: object,
        item: "Field | MessageType | None" = None,
    ) -> None:
        self.kind = kind
        self.since = since
        self.until = until
        self.nullable = nullable
        self.tag = tag
        self.default = default
        self.item = item
        self.name = ""

    def exists_in(self, version: int) -> bool:
        """Return whether the version has this field."""
        return self.since <= version <= self.until

    def is_nullable_in(self, version: int) -> bool:
        """Return whether the version allows null here."""
        return self.nullable is not None and version >= self.nullable


@dataclass_transform(kw_only_default=True)
class MessageType(type):
    """Turns the declared fields of a class into slots and remembers them in wire order."""

    __fields__: tuple[Field, ...]
    __versions__: tuple[int, int] | None
    __flexible__: int
    # By version, filled by the codec; kept here because this look-up is on the hot path.
    __readers__: dict[int, Any]
    __writers__: dict[int, Any]

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        versions: tuple[int, int] | None = None,
        flexible: int = LAST_VERSION + 1,
    ) -> "MessageType":
        """Make the class; `versions` and `flexible` are given for whole messages only."""
        fields = []
        for key, value in namespace.items():
            if type(value) is Field:
                value.name = key
                fields.append(value)
        for field in fields:
            del namespace[field.name]
        namespace["__slots__"] = tuple(field.name for field in fields)
        namespace["__fields__"] = tuple(fields)
        namespace["__versions__"] = versions
        namespace["__flexible__"] = flexible
        namespace["__readers__"] = {}
        namespace["__writers__"] = {}
        return super().__new__(cls, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: object):
        super().__init__(name, bases, namespace)


class Message(metaclass=MessageType):
    """The root of all messages and of the structs inside them."""

    __fields__: ClassVar[tuple[Field, ...]]
    __readers__: ClassVar[dict[int, Any]]
    __writers__: ClassVar[dict[int, Any]]

    def __init__(self, **values: object) -> None:
        compile_constructor(type(self))
        type(self).__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        """Compare field by field, over the fields of all versions."""
        if not isinstance(other, Message) or self.__fields__ is not other.__fields__:
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.__fields__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the fields that differ from their defaults."""
        shown = []
        for field in self.__fields__:
            value = getattr(self, field.name, _FRESH)
            if value is _FRESH or value != default_value(field):
                text = "<unset>" if value is _FRESH else repr(value)
                shown.append(f"{field.name}={text}")
        return f"{type(self).__name__}({', '.join(shown)})"


def default_value(field: Field) -> Any:
    """Return the value of the field in a message that never set it; a list is a new one."""
    if field.default is not _FRESH:
        return field.default
    if field.kind == "array":
        return []
    assert isinstance(field.item, MessageType)
    return default_struct(field.item)


def default_struct(struct: MessageType) -> Message:
    """Return the struct with all defaults: one shared instance that cannot be changed."""
    shared = struct.__dict__.get("__default__")
    if shared is None:
        # Not through MessageType: the subclass has the same fields and adds no slots.
        frozen: type = type.__new__(
            MessageType,
            struct.__name__,
            (struct,),
            {"__slots__": (), "__setattr__": _refuse_change, "__module__": struct.__module__},
        )
        shared = object.__new__(frozen)
        for field in struct.__fields__:
            object.__setattr__(shared, field.name, default_value(field))
        type.__setattr__(struct, "__default__", shared)
    assert isinstance(shared, Message)
    return shared


def _refuse_change(self: Message, name: str, _: object) -> None:
    raise AttributeError(f"{type(self).__name__}.{name} belongs to a shared default: assign anew")


def compile_constructor(struct: MessageType) -> None:
    """Give the class its real `__init__`, one keyword argument per field."""
    namespace: dict[str, Any] = {"_fresh": _FRESH}
    parameters, body = [], []
    for index, field in enumerate(struct.__fields__):
        name = field.name
        if field.kind == "array" and field.default is _FRESH:
            parameters.append(f"{name}=_fresh")
            body.append(f" self.{name} = [] if {name} is _fresh else {name}")
        else:
            namespace[f"_default_{index}"] = default_value(field)
            parameters.append(f"{name}=_default_{index}")
            body.append(f" self.{name} = {name}")
    stars = "*, " if parameters else ""
    source = f"def __init__(self, {stars}{', '.join(parameters)}):\n" + "\n".join(body or [" pass"])
    exec(source, namespace)
    type.__setattr__(struct, "__init__", namespace["__init__"])


def _scalar(kind: str, zero: object) -> Any:
    def declare(
        *,
        since: int = 0,
        until: int = LAST_VERSION,
        nullable: int | None = None,
        tag: int | None = None,
        default: object = zero,
    ) -> Any:
        return Field(kind, since, until, nullable, tag, default)

    return declare


# The scalar wire types. Each takes since, until, nullable, tag and default.
boolean: Final = _scalar("boolean", zero=False)
int8: Final = _scalar("int8", 0)
int16: Final = _scalar("int16", 0)
uint16: Final = _scalar("uint16", 0)
int32: Final = _scalar("int32", 0)
uint32: Final = _scalar("uint32", 0)
int64: Final = _scalar("int64", 0)
float64: Final = _scalar("float64", 0.0)
string: Final = _scalar("string", "")
data: Final = _scalar("data", b"")
records: Final = _scalar("records", None)
uuid: Final = _scalar("uuid", ZERO_UUID)


def array(
    item: Any,
    *,
    since: int = 0,
    until: int = LAST_VERSION,
    nullable: int | None = None,
    tag: int | None = None,
    default: object = _FRESH,
) -> Any:
    """Declare a list of structs (give the class) or of scalars (give the type, as `int32`)."""
    if not isinstance(item, MessageType):
        item = item()
    return Field("array", since, until, nullable, tag, default, item)


def struct(
    item: Any,
    *,
    since: int = 0,
    until: int = LAST_VERSION,
    nullable: int | None = None,
    tag: int | None = None,
    default: object = _FRESH,
) -> Any:
    """Declare one struct; its default is the shared default struct unless given as None."""
    return Field("struct", since, until, nullable, tag, default, item)
