"""Encodes a handler's arguments and result as JSON, checked against its signature."""

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from types import CoroutineType, SimpleNamespace
from typing import Any, cast

import msgspec
from msgspec import UNSET

from onbeat.model.errors import Invalid, TooLarge
from onbeat.model.event import Event
from onbeat.model.limits import PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX
from onbeat.model.target import NO_ARGS, NO_KWARGS
from onbeat.targets.event import EventKind, event_kind, plain_event
from onbeat.targets.predecessors import PriorJob

# The codec handles arbitrary Python values, so this is the only module that uses Any freely.


def encode_other(value: Any) -> Any:
    """JSON for types that msgspec does not support: pydantic models serialize themselves."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise NotImplementedError
    return dump(mode="json")


def decode_other(kind: type, value: Any) -> Any:
    if kind is object:  # the typed word for any value
        return value
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise NotImplementedError
    return validate(value)


encoder = msgspec.json.Encoder(enc_hook=encode_other)
EMPTY = bytes(NO_KWARGS)
STRAIGHT = (int, str, bool)


class Codec:
    """Encodes and decodes the arguments of one function.

    `context` names the parameter that receives the job's context, `event` the one that receives its
    events; neither is ever stored.
    """

    def __init__(self, task: str, function: Callable[..., Any], context_type: type) -> None:
        self.task = task
        self.signature = inspect.signature(function)
        hints = hints_of(function)
        self.context: str | None = None
        self.event: str | None = None
        self.event_kind = EventKind()
        self.kinds: dict[str, Any] = {}
        for name in self.signature.parameters:
            kind = hints.get(name, Any)
            events = event_kind(kind)
            if is_or_none(kind, context_type):
                self.context = name
            elif events is not None and self.event is None:
                self.event, self.event_kind = name, events
            else:
                self.kinds[name] = kind
        given = {self.context, self.event}
        self.public = self.signature.replace(
            parameters=[p for p in self.signature.parameters.values() if p.name not in given]
        )
        self.event_data = decoder_for(self.event_kind.data)
        self.positional = tuple(
            p.name for p in self.public.parameters.values() if p.kind in POSITIONAL
        )
        # Their positions among the positional arguments; None where they are not positional.
        self.context_place = place_of(self.context, self.signature)
        self.event_place = place_of(self.event, self.public_with(self.event))
        self.required = sum(
            1
            for p in self.public.parameters.values()
            if p.default is p.empty and p.kind not in VARIADIC
        )
        self.is_plain = len(self.positional) == len(self.public.parameters)
        # Types that JSON preserves, for positional arguments.
        kinds = [self.kinds[name] for name in self.positional]
        straight = tuple(takewhile(lambda kind: any(kind is one for one in STRAIGHT), kinds))
        self.is_strict = {straight[:count] for count in range(len(straight) + 1)}
        self.listed = self.list_decoder()
        self.keyed: dict[str, msgspec.json.Decoder[Any]] = {}

    def encode(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[msgspec.Raw, msgspec.Raw]:
        """JSON of the arguments.

        Raises TypeError when they do not fit the signature, `Invalid` when one cannot be stored,
        `TooLarge` when together they are over the limit.
        """
        self.bind(args, kwargs)
        packed = self.pack(args, kwargs)
        if len(packed[0]) + len(packed[1]) > PAYLOAD_BYTES_MAX:
            raise TooLarge(
                f"the arguments of task {self.task!r} take {sum(map(len, packed))} bytes as JSON; "
                f"at most {PAYLOAD_BYTES_MAX} are kept: store the data elsewhere and send its key",
                field="args",
            )
        stored_args, stored_kwargs = msgspec.Raw(packed[0]), msgspec.Raw(packed[1])
        # Decoding the JSON again finds values that JSON would change.
        if kwargs or tuple(map(type, args)) not in self.is_strict:
            self.decode(stored_args, stored_kwargs)
        return stored_args, stored_kwargs

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises TypeError unless the function accepts the arguments; mostly compares counts."""
        if kwargs or not (self.is_plain and self.required <= len(args) <= len(self.positional)):
            self.public.bind(*args, **kwargs)

    def pack(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[bytes, bytes]:
        try:
            packed = encoder.encode(args), encoder.encode(kwargs) if kwargs else EMPTY
        except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
            raise self.unstorable(args, kwargs) from error
        if b"null" in packed[0] or b"null" in packed[1]:
            refuse_not_a_number(self.by_name(args, kwargs))
        return packed

    def by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        rest = [f"*{n}" for n in range(len(self.positional), len(args))]
        return {**dict(zip([*self.positional, *rest], args, strict=False)), **kwargs}

    def unstorable(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Invalid:
        for name, value in self.by_name(args, kwargs).items():
            try:
                encoder.encode(value)
            except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
                return self.refusal(name, value, error)
        return Invalid(f"the arguments of task {self.task!r} cannot be stored as JSON", "args")

    def refusal(self, name: str, value: Any, error: Exception) -> Invalid:
        return Invalid(
            f"argument {name!r} of task {self.task!r} cannot be stored: "
            f"{type(value).__name__} has no JSON form ({error_text(error)}); "
            "send a key or plain data instead",
            field=name,
        )

    def decode(self, args: msgspec.Raw, kwargs: msgspec.Raw) -> tuple[list[Any], dict[str, Any]]:
        """The Python values. Raises `Invalid` that names the argument that does not fit."""
        return self.decode_args(args), self.decode_kwargs(kwargs)

    def list_decoder(self) -> msgspec.json.Decoder[Any] | None:
        """Decodes all positional arguments at once; omitted ones become UNSET."""
        fields = [(f"a{n}", self.kinds[name], UNSET) for n, name in enumerate(self.positional)]
        try:
            kind = msgspec.defstruct("Args", fields, array_like=True, forbid_unknown_fields=True)
            return msgspec.json.Decoder(kind, dec_hook=decode_other)
        except (TypeError, ValueError):
            return None

    def decode_args(self, args: msgspec.Raw) -> list[Any]:
        if args == NO_ARGS:
            return []
        if self.listed is not None:
            try:
                values = msgspec.structs.astuple(self.listed.decode(args))
            except (msgspec.ValidationError, NotImplementedError):
                # Decode them one by one to find the invalid argument.
                return self.decode_each(args)
            return [value for value in values if value is not UNSET]
        return self.decode_each(args)

    def decode_each(self, args: msgspec.Raw) -> list[Any]:
        items = msgspec.json.decode(args, type=list[msgspec.Raw])
        names = [*self.positional, *("*" for _ in items)]
        return [self.value(name, item) for name, item in zip(names, items, strict=False)]

    def decode_kwargs(self, kwargs: msgspec.Raw) -> dict[str, Any]:
        if kwargs == NO_KWARGS:
            return {}
        items = msgspec.json.decode(kwargs, type=dict[str, msgspec.Raw])
        return {name: self.value(name, item) for name, item in items.items()}

    def public_with(self, name: str | None) -> inspect.Signature:
        """The stored parameters and this one."""
        parameters = self.signature.parameters.values()
        kept = {*self.public.parameters, name}
        return self.signature.replace(parameters=[p for p in parameters if p.name in kept])

    def with_events(
        self,
        args: list[Any],
        kwargs: dict[str, Any],
        events: Sequence[Event],
        earlier: Sequence[PriorJob] = (),
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, with the job's events added if the function has a parameter for them.

        A default of the parameter is for jobs without events. Raises `Invalid` where there is none,
        or where the data does not fit.
        """
        if self.event is None:
            return args, kwargs
        value = self.event_value(events, earlier) if events else self.event_default(self.event)
        return insert(args, kwargs, self.event, self.event_place, value)

    def event_value(self, events: Sequence[Event], earlier: Sequence[PriorJob]) -> Any:
        if not self.event_kind.is_list:
            return plain_event(events[0], self.event_data, earlier)
        return [plain_event(event, self.event_data, earlier) for event in events]

    def event_default(self, name: str) -> Any:
        parameter = self.signature.parameters[name]
        if parameter.default is parameter.empty:
            raise Invalid(
                f"task {self.task!r} needs an event, and this job was made by none; give the"
                f" parameter {name!r} a default for such jobs",
                field=name,
            )
        return parameter.default

    def with_context(
        self, args: list[Any], kwargs: dict[str, Any], context: Any
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, with the context added if the function has a parameter for it."""
        if self.context is None:
            return args, kwargs
        return insert(args, kwargs, self.context, self.context_place, context)

    def value(self, name: str, item: msgspec.Raw) -> Any:
        try:
            return self.decoder(name).decode(item)
        except (msgspec.ValidationError, NotImplementedError) as error:
            raise Invalid(
                f"argument {name!r} of task {self.task!r} does not fit: {error_text(error)}",
                field=name,
            ) from error

    def decoder(self, name: str) -> msgspec.json.Decoder[Any]:
        result = self.keyed.get(name)
        if result is None:
            result = decoder_for(self.kinds.get(name, self.variadic_kind(name)))
            self.keyed[name] = result
        return result

    def variadic_kind(self, name: str) -> Any:
        wanted = inspect.Parameter.VAR_POSITIONAL if name == "*" else inspect.Parameter.VAR_KEYWORD
        for parameter in self.public.parameters.values():
            if parameter.kind is wanted:
                return self.kinds[parameter.name]
        return Any

    def check_fit(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises `Invalid` when arguments that came from outside do not fit the signature."""
        try:
            self.bind(args, kwargs)
        except TypeError as error:
            raise Invalid(f"task {self.task!r}: {error}", field="args") from error


POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def is_or_none(annotation: Any, kind: type) -> bool:
    """Whether the annotation is `kind`, or `kind | None`."""
    if typing.get_origin(annotation) not in {typing.Union, types.UnionType}:
        return annotation is kind
    return set(typing.get_args(annotation)) == {kind, type(None)}


def place_of(name: str | None, signature: inspect.Signature) -> int | None:
    positional = [p.name for p in signature.parameters.values() if p.kind in POSITIONAL]
    return positional.index(name) if name in positional else None


def insert(
    args: list[Any], kwargs: dict[str, Any], name: str, place: int | None, value: Any
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with one more, by position where those before it are."""
    if place is None or len(args) < place:
        return args, {**kwargs, name: value}
    return [*args[:place], value, *args[place:]], kwargs


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The resolved annotations; one that cannot be resolved is treated as absent."""
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):
        names = getattr(inspect.unwrap(function), "__annotations__", {})
        hints = {name: hint_of(function, name, kind) for name, kind in names.items()}
        return {name: kind for name, kind in hints.items() if kind is not Any}


def hint_of(function: Callable[..., Any], name: str, kind: Any) -> Any:
    """Resolves one annotation alone, so that another unresolvable one does not affect it."""
    alone = SimpleNamespace(__annotations__={name: kind})
    try:
        return typing.get_type_hints(alone, inspect.unwrap(function).__globals__)[name]
    except (NameError, TypeError):
        return Any


def decoder_for(kind: Any) -> msgspec.json.Decoder[Any]:
    try:
        return msgspec.json.Decoder(kind, dec_hook=decode_other)
    except (TypeError, ValueError):
        return msgspec.json.Decoder()


def refuse_not_a_number(named: Mapping[str, Any]) -> None:
    """JSON has no NaN or infinity; null would be another value."""
    for name, value in named.items():
        if not_a_number_in(value):
            raise Invalid(f"argument {name!r} is or holds NaN or infinity; JSON has neither", name)


def not_a_number_in(value: Any) -> bool:
    """Whether the value is or contains NaN or infinity, also in a field of a record."""
    return holds_not_a_number(msgspec.to_builtins(value, enc_hook=encode_other))


def holds_not_a_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return any(map(holds_not_a_number, items_of(value)))


def items_of(value: Any) -> Iterable[Any]:
    """The items of a container; nothing for any other value."""
    match value:
        case dict():
            return cast("dict[Any, Any]", value).values()  # type: ignore[redundant-cast]
        case list() | tuple() | set() | frozenset():
            return cast("Iterable[Any]", value)
        case _:
            return ()


def error_text(error: Exception) -> str:
    """The codec's message, which is empty for an unknown type."""
    return str(error) or "unknown type"


def encode_result(task: str, value: Any) -> msgspec.Raw | None:
    """JSON of a handler's return value. Raises `Invalid` when it cannot be stored."""
    if value is None:
        return None
    if isinstance(value, CoroutineType):
        value.close()
        raise Invalid(
            f"task {task!r} returned a coroutine; write `async def` and await what it calls,"
            " as in `await context.step(…)`"
        )
    return encode_value(f"the result of task {task!r}", value, RESULT_BYTES_MAX)


def encode_value(name: str, value: Any, bytes_max: int) -> msgspec.Raw:
    """JSON of a value; `name` describes it in errors. Raises `Invalid` when it cannot be stored."""
    try:
        packed = encoder.encode(value)
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        raise Invalid(
            f"{name} cannot be stored: {type(value).__name__} has no JSON form"
            f" ({error_text(error)})"
        ) from error
    if b"null" in packed and not_a_number_in(value):
        raise Invalid(f"{name} is or holds NaN or infinity; JSON has neither")
    if len(packed) > bytes_max:
        raise TooLarge(f"{name} takes {len(packed)} bytes as JSON; at most {bytes_max} are kept")
    return msgspec.Raw(packed)
