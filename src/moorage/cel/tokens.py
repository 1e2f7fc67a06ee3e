"""Text to tokens. What is no token is reported, skipped, and the rest is read on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from moorage.cel.errors import Problems

NUM_FLOAT, NUM_INT, NUM_UINT = "NUM_FLOAT", "NUM_INT", "NUM_UINT"
STRING, BYTES = "STRING", "BYTES"
IDENTIFIER, ESC_IDENTIFIER = "IDENTIFIER", "ESC_IDENTIFIER"
END = "<EOF>"

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRINGS = (
    rf'"""(?:{_ESCAPE}|[^\\])*?"""',
    rf"'''(?:{_ESCAPE}|[^\\])*?'''",
    rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
    rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
    r'[rR]"""[\s\S]*?"""',
    r"[rR]'''[\s\S]*?'''",
    r'[rR]"[^"\n\r]*"',
    r"[rR]'[^'\n\r]*'",
)
_STRING = "|".join(_STRINGS)
_TOKEN = re.compile(
    r"(?P<SPACE>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<BYTES>[bB](?:{_STRING}))"
    rf"|(?P<STRING>{_STRING})"
    r"|(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])"
    r"|(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<ESC_IDENTIFIER>`[A-Za-z0-9_./ -]+`)"
    r"|(?P<SIGN>==|!=|<=|>=|&&|\|\||[\[\]{}().,\-!?:+*/%<>])"
)
_WORDS = frozenset({"in", "true", "false", "null"})
_TEXT_END = re.compile(rf"(?:{_ESCAPE}|[^\\\n\r])*")
_BAD_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[xX][0-9a-fA-F]?|[0-3][0-7]?)?")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text; `kind` is its own text for signs and words."""

    kind: str
    text: str
    at: int


def tokens_of(text: str, problems: Problems) -> list[Token]:
    """All tokens, with an end."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            end = _unreadable(text, at)
            problems.add(at, f"Syntax error: token recognition error at: '{_quoted(text[at:end])}'")
            at = end
            continue
        kind, piece = str(match.lastgroup), match.group()
        if kind == "SIGN" or (kind == IDENTIFIER and piece in _WORDS):
            kind = piece
        if kind != "SPACE":
            found.append(Token(kind, piece, at))
        at = match.end()
    found.append(Token(END, END, len(text)))
    return found


def _unreadable(text: str, at: int) -> int:
    """Where what is no token ends: behind the character at which it stopped being one."""
    start = at
    if text[at] in "\"'":
        quote = text[at]
        end = _TEXT_END.match(text, at + 1)
        at = end.end() if end else at + 1
        found = text.find(quote, start + 1, at)
        if found >= 0:
            at = found
        bad = _BAD_ESCAPE.match(text, at)
        at = bad.end() if bad else at
        return min(at + 1, len(text))
    if text[at] == "`":
        while at < len(text) and (text[at].isascii() and (text[at].isalnum() or text[at] in "_./ -`")):
            at += 1
        return min(at + 1, len(text))
    return min(at + 2, len(text)) if text[at] in "=&|" else at + 1


def _quoted(piece: str) -> str:
    return piece.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ANY_ESCAPE = re.compile(_ESCAPE)


def _body(literal: str) -> tuple[str, bool]:
    """What is between the quotes, and whether it is raw."""
    raw = literal[0] in "rR"
    literal = literal[raw:]
    size = 3 if literal[:3] in ('"""', "'''") and len(literal) >= 6 else 1
    return literal[size:-size].replace("\r\n", "\n").replace("\r", "\n"), raw


def text_of(literal: str) -> str | None:
    """The string that a literal stands for; None if it is no text."""
    body, raw = _body(literal)
    if raw or "\\" not in body:
        return body
    pieces: list[str] = []
    at = 0
    for match in _ANY_ESCAPE.finditer(body):
        pieces.append(body[at : match.start()])
        code = _code(match.group()[1:])
        if isinstance(code, int) and (code > 0x10FFFF or 0xD800 <= code < 0xE000):
            return None
        pieces.append(chr(code) if isinstance(code, int) else code)
        at = match.end()
    return "".join([*pieces, body[at:]])


def bytes_of(literal: str) -> bytes | None:
    """The bytes that a literal stands for; None if an escape is not one of bytes."""
    body, raw = _body(literal)
    if raw:
        return body.encode()
    pieces: list[bytes] = []
    at = 0
    for match in _ANY_ESCAPE.finditer(body):
        pieces.append(body[at : match.start()].encode())
        if match.group()[1] in "uU":
            return None
        code = _code(match.group()[1:])
        pieces.append(bytes([code]) if isinstance(code, int) else code.encode())
        at = match.end()
    return b"".join([*pieces, body[at:].encode()])


def _code(escape: str) -> int | str:
    """The character of an escape, or the number of one."""
    if escape[0] in "xXuU":
        return int(escape[1:], 16)
    if escape[0] in "0123":
        return int(escape, 8)
    return _SIMPLE.get(escape, escape)
