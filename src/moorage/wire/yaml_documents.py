"""YAML text becomes plain values, over the events of PyYAML's parser.

PyYAML's constructors would read YAML 1.1 timestamps and base-60 numbers, keep the last of two equal keys without a
word, and need three times as long. Here each event is turned into a dictionary, a list or a scalar at once, and the
meaning of every plain text is looked up only once (`PlainScalars`).

Keys are always the text as written (`on:` is "on", `1:` is "1"); anchors, aliases and `<<` work as in kubectl; each
alias gets a copy of its own, so that values never share structure. Two equal keys in one mapping are a fault. After a
fault the reading goes on with the next document, so that one run shows the faults of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from yaml import YAMLError
from yaml.error import MarkedYAMLError
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)
from yaml.reader import ReaderError

from moorage.wire.place import Document, Fault
from moorage.wire.scalars import PlainScalars, resolve_tagged

try:
    from yaml._yaml import CParser as Parser
except ImportError:  # PyYAML was built without libyaml: ten times slower, same answers
    from yaml import SafeLoader as Parser  # type: ignore[assignment]

_DEEPEST = 200
_MOST_ALIASED_VALUES = 1_000_000
_COLLECTION_TAGS = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_SEPARATOR = re.compile(rb"^---(?=\s|\Z)", re.MULTILINE)


def read_yaml(data: bytes) -> tuple[list[Document], list[Fault]]:
    """All documents of the text, empty ones left out, and everything that is wrong with it."""
    documents: list[Document] = []
    faults: list[Fault] = []
    plain = PlainScalars()
    start, first_line, count = 0, 0, 0
    while start < len(data):
        part = _Part(data[start:] if start else data, plain, first_line, count)
        part.read()
        documents += part.documents
        faults += part.faults
        if part.broken_line is None:
            break
        start, first_line = _next_document(data, part.broken_line)
        count = part.count
    return documents, faults


def _next_document(data: bytes, line: int) -> tuple[int, int]:
    """Offset and line of the first document separator at or below the line (all from 0); the end if there is none."""
    position = 0
    for _ in range(line):
        position = data.find(b"\n", position) + 1
        if not position:
            return len(data), 0
    separator = _SEPARATOR.search(data, position)
    if not separator:
        return len(data), 0
    return separator.start(), data.count(b"\n", 0, separator.start())


def _position(event: Event) -> tuple[int, int]:
    """Line and column, from 0, where the event starts."""
    mark = event.start_mark
    return (mark.line, mark.column) if mark else (0, 0)


def _is_plain(event: Event) -> bool:
    return isinstance(event, ScalarEvent) and bool(event.implicit[0])


class _BrokenError(Exception):
    """The rest of the document cannot be read; the fault is the only argument."""


class _Part:
    """The documents from one separator on, up to the end or to the first fault that breaks the reading off."""

    def __init__(self, data: bytes, plain: PlainScalars, first_line: int, count: int) -> None:
        self.documents: list[Document] = []
        self.faults: list[Fault] = []
        self.broken_line: int | None = None
        self.count = count
        self._data = data
        self._plain = plain
        self._first_line = first_line
        self._anchors: dict[str, Any] = {}
        self._aliased = 0
        self._depth = 0
        self._document_line = first_line
        self._next: Callable[[], Any]

    def read(self) -> None:
        """Fill `documents` and `faults`; where a fault ended the reading, `broken_line` says where to look for more."""
        try:
            self._next = Parser(self._data).get_event
            self._documents()
        except _BrokenError as broken:
            self._break_off(broken.args[0])
        except MarkedYAMLError as error:
            self._break_off(self._syntax_fault(error))
        except ReaderError as error:
            line = self._first_line + 1 + self._data.count(b"\n", 0, error.position)
            self._break_off(Fault(line, 0, "the file is not UTF-8 text, or holds control characters; save it as UTF-8"))
        except YAMLError as error:
            self._break_off(Fault(self._first_line + 1, 0, f"not YAML: {error}"))

    def _break_off(self, fault: Fault) -> None:
        """Note the fault. The separator that ended the broken document may stand on the very line of the fault."""
        self.faults.append(fault)
        self.broken_line = max(fault.line - 1, self._document_line + 1)

    def _syntax_fault(self, error: MarkedYAMLError) -> Fault:
        mark = error.problem_mark or error.context_mark
        line = self._first_line + (mark.line if mark else 0) + 1
        context = f" {error.context}" if error.context else ""
        return Fault(line, (mark.column + 1) if mark else 0, f"not YAML: {error.problem}{context}")

    def _fault(self, event: Event, message: str) -> Fault:
        line, column = _position(event)
        return Fault(self._first_line + line + 1, column + 1, message)

    def _documents(self) -> None:
        while True:
            event = self._next()
            if type(event) is StreamEndEvent:
                return
            if type(event) is not DocumentStartEvent:
                continue
            self.count += 1
            self._document_line = self._first_line + _position(event)[0]
            self._anchors.clear()
            self._depth = 0
            number, root = self.count, self._next()
            faults_before = len(self.faults)
            value = self._value(root)
            if value is not None and len(self.faults) == faults_before:
                self.documents.append(Document(number, self._first_line + _position(root)[0] + 1, value))

    def _value(self, event: Event) -> Any:
        """The value that starts with this event; the rest of its events are consumed."""
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        if isinstance(event, AliasEvent):
            return self._alias(event)
        if not isinstance(event, CollectionStartEvent):
            raise TypeError(f"the YAML parser gave {event} where a value starts")
        if event.tag not in _COLLECTION_TAGS:
            self.faults.append(self._fault(event, f"the tag {event.tag} is unknown to Kubernetes; leave it out"))
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _BrokenError(
                self._fault(event, f"nested more than {_DEEPEST} levels deep; no object of Kubernetes is")
            )
        value = self._mapping() if isinstance(event, MappingStartEvent) else self._sequence()
        self._depth -= 1
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _scalar(self, event: ScalarEvent) -> Any:
        value: Any
        if event.implicit[0]:
            value = self._plain[event.value]
        elif event.implicit[1]:
            value = event.value
        else:
            try:
                value = resolve_tagged(event.tag or "!", event.value)
            except ValueError as error:
                self.faults.append(self._fault(event, str(error)))
                value = event.value
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _alias(self, event: AliasEvent) -> Any:
        if event.anchor not in self._anchors:
            message = f"the alias *{event.anchor} has no anchor above it, or stands inside the value it names"
            raise _BrokenError(self._fault(event, message))
        return self._copy(self._anchors[event.anchor], event)

    def _copy(self, value: Any, event: AliasEvent) -> Any:
        self._aliased += 1
        if self._aliased > _MOST_ALIASED_VALUES:
            message = f"aliases expand to more than {_MOST_ALIASED_VALUES} values; write them out"
            raise _BrokenError(self._fault(event, message))
        if isinstance(value, dict):
            return {key: self._copy(item, event) for key, item in value.items()}
        if isinstance(value, list):
            return [self._copy(item, event) for item in value]
        return value

    def _mapping(self) -> dict[str, Any]:
        """The hot loop: nearly all events are plain or quoted scalars without anchors, handled in place."""
        result: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        following, plain = self._next, self._plain
        while True:
            event = following()
            if type(event) is MappingEndEvent:
                break
            key = event.value if type(event) is ScalarEvent and event.anchor is None else self._odd_key(event)
            value_event = following()
            if type(value_event) is ScalarEvent and value_event.anchor is None and value_event.tag is None:
                value = plain[value_event.value] if value_event.implicit[0] else value_event.value
            else:
                value = self._value(value_event)
            if key in result:
                self.faults.append(self._fault(event, f"the key {key!r} stands twice in one mapping; remove one"))
            elif key == "<<" and _is_plain(event):
                merged += self._merge_sources(value, event)
            else:
                result[key] = value
        for source in merged:
            for key, value in source.items():
                result.setdefault(key, value)
        return result

    def _odd_key(self, event: Event) -> str:
        if isinstance(event, AliasEvent):
            key = self._alias(event)
            if isinstance(key, str):
                return key
        elif isinstance(event, ScalarEvent):
            if event.anchor is not None:
                self._anchors[event.anchor] = event.value
            return str(event.value)
        raise _BrokenError(self._fault(event, "a key must be text, not a mapping or a list"))

    def _merge_sources(self, value: Any, event: Event) -> list[dict[str, Any]]:
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            self.faults.append(self._fault(event, "<< takes a mapping or a list of mappings"))
            return []
        return sources

    def _sequence(self) -> list[Any]:
        result: list[Any] = []
        while True:
            event = self._next()
            if type(event) is SequenceEndEvent:
                return result
            result.append(self._value(event))
