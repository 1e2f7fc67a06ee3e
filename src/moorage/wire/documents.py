"""Text becomes documents: JSON where the text is JSON, YAML otherwise, with the same meaning and the same faults."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from moorage.wire.place import Document, Fault
from moorage.wire.yaml_documents import read_yaml

_UTF8_MARK = b"\xef\xbb\xbf"


def read_documents(data: bytes) -> tuple[list[Document], list[Fault]]:
    """All documents of a YAML stream or of JSON values written one after the other, and everything wrong with them."""
    data = data.removeprefix(_UTF8_MARK)
    with uncollected():
        if data.lstrip()[:1] not in (b"{", b"["):
            return read_yaml(data)
        documents, faults = _read_json(data)
        if documents is not None:
            return documents, faults
        # YAML may start with a brace as well, so its reader has a say; if both refuse, the one that got further knows.
        yaml_documents, yaml_faults = read_yaml(data)
        if yaml_faults and _reach(faults) >= _reach(yaml_faults):
            return yaml_documents, faults
        return yaml_documents, yaml_faults


def _reach(faults: list[Fault]) -> tuple[int, int]:
    return faults[0].line, faults[0].column


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection meanwhile: a large input is millions of values, none of them garbage."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _read_json(data: bytes) -> tuple[list[Document] | None, list[Fault]]:
    """The documents, or None and the fault that makes the text not JSON."""
    documents: list[Document] = []
    faults: list[Fault] = []
    repeated: list[str] = []
    decoder = json.JSONDecoder(object_pairs_hook=_PairsCheck(repeated), parse_constant=_refuse_constant)
    position = line = 0
    try:
        text = data.decode("utf-8")
        while (start := _skip_space(text, position)) < len(text):
            line += text.count("\n", position, start)
            value, position = decoder.raw_decode(text, start)
            if repeated:
                names = ", ".join(map(repr, repeated))
                faults.append(Fault(line + 1, 0, f"a key stands twice in one object: {names}; remove one of each"))
                repeated.clear()
            else:
                documents.append(Document(len(documents) + 1, line + 1, value))
            line += text.count("\n", start, position)
    except json.JSONDecodeError as error:
        return None, [Fault(error.lineno, error.colno, f"not JSON: {error.msg}")]
    except (ValueError, RecursionError) as error:
        return None, [Fault(line + 1, 0, f"not JSON: {_first_line(error)}")]
    return documents, faults


class _PairsCheck:
    """Builds the objects of a JSON text and notes the keys that stand twice in one of them."""

    def __init__(self, repeated: list[str]) -> None:
        self._repeated = repeated

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            keys = [key for key, _ in pairs]
            self._repeated += sorted({key for key in keys if keys.count(key) > 1})
        return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON knows")


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
