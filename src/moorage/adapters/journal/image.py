"""An engine as bytes, so that a segment can begin in the middle of things and still be replayed exactly.

The image is a pickle of the engine with all that it keeps. Core values are written as everywhere in a journal, values
that are shared by number. Reading it makes objects of the pure rooms only (and of the plugins' own modules), which have
nothing to do harm with: names of anything else are refused. It is read by the version that wrote it.
"""

from __future__ import annotations

import collections
import dataclasses
import io
import itertools
import pickle
import types
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from operator import attrgetter
from pkgutil import iter_modules
from typing import Any

from moorage import core
from moorage.adapters.journal.records import Image, Scribe
from moorage.adapters.journal.values import Unreadable, loads
from moorage.core.pods import Pod, PodTemplate
from moorage.core.resources import Requests
from moorage.engine.engine import Engine
from moorage.framework.registry import Registry

_ROOMS = ("moorage.core.", "moorage.engine.", "moorage.framework.", "moorage.plugins.")
_OURS = "moorage.adapters.journal.image"
_ELSEWHERE: dict[tuple[str, str], Any] = {
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "bytearray"): bytearray,
    ("builtins", "slice"): slice,
    ("builtins", "range"): range,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "Counter"): collections.Counter,
    ("collections", "deque"): collections.deque,
    ("collections", "defaultdict"): collections.defaultdict,
    ("itertools", "count"): itertools.count,
}
_POD = attrgetter(*(field.name for field in dataclasses.fields(Pod)))
_NUMPY = frozenset({"dtype", "ndarray", "scalar", "_frombuffer", "_reconstruct"})


def dump(engine: Engine, scribe: Scribe) -> bytes:
    """The image of an engine between two turns."""
    file = io.BytesIO()
    pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
    table: dict[type, Callable[[Any], tuple[Any, ...]]] = {
        PodTemplate: lambda value: (shared, (scribe.number(value),)),
        Requests: lambda value: (shared, (scribe.number(value),)),
        Pod: lambda pod: (Pod, _POD(pod)),  # as pickle would, in a third of the time
        types.MethodType: lambda found: (method, (found.__self__, found.__func__.__name__)),
    }
    table |= {kind: lambda value: (plain_value, (scribe.dumps(value),)) for kind in _annotated()}
    pickler.dispatch_table = table
    pickler.dump(engine)
    return file.getvalue()


def load(image: Image, registry: Registry) -> Engine:
    """The engine of an image; `Unreadable` where this version, or these plugins, cannot make it."""
    modules = frozenset(cls.__module__ for cls in registry)
    try:
        engine = _Unpickler(image.data, image.shared, modules).load()
    except Unreadable:
        raise
    except Exception as error:  # noqa: BLE001 - a stranger's bytes can go wrong in any way
        raise Unreadable(f"the image of the engine cannot be read: {type(error).__name__}: {error}") from None
    if not isinstance(engine, Engine):
        raise Unreadable("the image holds no engine")
    return engine


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, known: Sequence[PodTemplate | Requests], modules: frozenset[str]) -> None:
        super().__init__(io.BytesIO(data))
        self._known = known
        self._modules = modules

    def find_class(self, module_name: str, global_name: str) -> Any:
        """What a name in the image stands for; called by pickle."""
        if module_name == _OURS:
            ours = {"shared": self._known.__getitem__, "plain_value": loads, "method": method}
            if global_name in ours:
                return ours[global_name]
        elif (module_name, global_name) in _ELSEWHERE:
            return _ELSEWHERE[module_name, global_name]
        elif module_name.partition(".")[0] == "numpy" and global_name in _NUMPY:
            return getattr(import_module(module_name), global_name)
        elif module_name.startswith(_ROOMS) or module_name in self._modules:
            found = super().find_class(module_name, global_name)
            if isinstance(found, type) and found.__module__ == module_name:
                return found
        raise Unreadable(f"the image names {module_name}.{global_name}, which no engine has")


def shared(number: int) -> PodTemplate | Requests:
    """Stands in images for a shared value; found by the unpickler, which knows them."""
    raise LookupError(number)


def plain_value(data: bytes) -> object:
    """Stands in images for a core value."""
    return loads(data)


def method(owner: object, name: str) -> Any:
    """A method of an object of the image."""
    found = getattr(type(owner), name, None)
    if not isinstance(found, types.FunctionType):
        raise Unreadable(f"the image names the method {name}, which {type(owner).__name__} does not have")
    return types.MethodType(found, owner)


@cache
def _annotated() -> tuple[type, ...]:
    """Core values with annotations, which may have to be masked."""
    found: dict[type, None] = {}
    for module in iter_modules(core.__path__):
        for each in vars(import_module(f"moorage.core.{module.name}")).values():
            if isinstance(each, type) and dataclasses.is_dataclass(each) and "annotations" in each.__dataclass_fields__:
                found[each] = None
    found.pop(PodTemplate, None)
    return tuple(found)
