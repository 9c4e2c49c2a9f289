"""The column `spec`: the fields of a record that no query needs, as JSON text."""

from collections.abc import Callable, Collection, Iterable
from copy import copy
from typing import Any, TypedDict

import msgspec
from msgspec.structs import FieldInfo, fields

NOTHING = msgspec.defstruct("Nothing", [])


class SpecForm:
    """The fields of `record` except those in `columns`, in their order; defaults are omitted.

    `parts` has fields in another form than the record's. They come first, and `pack` takes them
    after the record. `decode` returns the fields in the text, as keywords for the record.
    """

    def __init__(
        self,
        record: type[msgspec.Struct],
        columns: Collection[str],
        parts: type[msgspec.Struct] = NOTHING,
    ) -> None:
        kept = [field for field in fields(record) if field.name not in columns]
        self.names = tuple(field.name for field in kept)
        self.spec: Any = msgspec.defstruct(
            "Spec",
            map(definition, kept),
            bases=(parts,),
            frozen=True,
            omit_defaults=True,
            gc=False,
        )
        self.pack = packer(self.spec, self.names, parts.__struct_fields__)
        decoder = msgspec.json.Decoder[dict[str, Any]](partial_dict((*fields(parts), *kept)))
        self.decode = decoder.decode


def definition(field: FieldInfo) -> tuple[Any, ...]:
    """The field for `defstruct`.

    The default is a copy. msgspec omits a default by identity, and equal records must have equal
    text, whether they hold the default policy or an equal one.
    """
    if field.required:
        return field.name, field.type
    if field.default_factory is not msgspec.NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    return field.name, field.type, copy(field.default)


def packer(spec: object, names: Iterable[str], parts: Iterable[str]) -> Callable[..., Any]:
    """A function that makes the spec from a record and the parts.

    It is compiled, as those of a dataclass are: every enqueue calls it, and an `attrgetter` takes
    twice the time.
    """
    values = ", ".join((*parts, *(f"record.{name}" for name in names)))
    source = f"lambda {', '.join(('record', *parts))}: spec({values})"
    packed: Callable[..., Any] = eval(source, {"spec": spec})  # noqa: S307  names of fields only
    return packed


def partial_dict(known: Iterable[FieldInfo]) -> Any:
    """The type of a dictionary with any of the fields."""
    make: Any = TypedDict
    return make("Spec", {field.name: field.type for field in known}, total=False)
