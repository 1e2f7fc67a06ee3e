"""Parses one HTTP/1.1 response from the bytes of a connection: status, headers and the whole body.

Bodies come with a length, in chunks, or until the server closes. A response whose end is ambiguous (two lengths, a
length and chunks, folded or incomplete lines) is refused: what follows it on the connection would be taken for the
response to another request. Pure: bytes in, a response out when it is complete. Headers are parsed only when they are
read, which is rare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from multidict import CIMultiDict

HEADER_LIMIT_BYTES = 1 << 18
_HEAD_END = b"\r\n\r\n"
_NO_BODY = frozenset({204, 304})
_LENGTH = b"content-length"
_ODD = re.compile(rb"\n[ \t]|transfer-encoding|\r(?!\n)|\0")
"""What a simple head does not have."""


class BadAnswerError(ValueError):
    """What came is not an HTTP answer; the text is one line."""


class HttpAnswer:
    """A complete response. It can be used where a response with an unread body is expected."""

    __slots__ = ("_head", "body", "status")

    def __init__(self, status: int, head: bytes, body: bytes) -> None:
        self.status = status
        self.body = body
        self._head = head

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers; look-ups ignore case."""
        pairs: CIMultiDict[str] = CIMultiDict()
        for line in self._head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            pairs.add(name.decode("latin-1").strip(), value.decode("latin-1").strip())
        return pairs


class AnswerReader:
    """Collects the pieces of answers, one answer after another, to requests of known methods."""

    __slots__ = ("_body_at", "_data", "_head", "_left", "_parts", "_scan_at", "_status", "without_body")

    def __init__(self) -> None:
        self.without_body = False
        """Whether the answer has no body whatever its headers say: that of HEAD."""
        self._reset(b"")

    def _reset(self, rest: bytes) -> None:
        self._data = bytearray(rest)
        self._head = b""
        self._status = 0
        self._body_at = 0
        self._left: int | None = None
        """Length of the body; -1: in chunks; None: not known, until the end of the connection."""
        self._scan_at = 0
        self._parts: list[bytes] = []

    @property
    def begun(self) -> bool:
        """Whether anything of an answer has come."""
        return bool(self._data or self._head)

    @property
    def reusable(self) -> bool:
        """Whether nothing is left over, so that the next answer belongs to the next request."""
        return not self.begun

    def feed(self, piece: bytes) -> tuple[HttpAnswer, bool] | None:
        """Take the next piece; the answer when it is complete, and whether the connection stays open after it."""
        if not self._head:
            if not self._data:
                quick = self._whole(piece)
                if quick is not None:
                    return quick
            self._data += piece
            if not self._read_head():
                return None
        else:
            self._data += piece
        return self._finished()

    def end(self) -> HttpAnswer | None:
        """The server closed the connection: the answer, if its end was to be told this way."""
        if not self._head or self._left is not None:
            return None
        return HttpAnswer(self._status, self._head, bytes(self._data[self._body_at :]))

    def _whole(self, piece: bytes) -> tuple[HttpAnswer, bool] | None:
        """The answer if the piece is one, with its length told; that is how nearly all of them come."""
        end = piece.find(_HEAD_END)
        if end < 0:
            return None
        head = piece[:end]
        folded = head.lower()
        at = folded.find(b"\r\ncontent-length:")
        if at < 0 or self.without_body or not piece.startswith(b"HTTP/1.1 ") or piece[9:10] == b"1":
            return None
        if folded.count(b"\n") != folded.count(b"\r\n") or _ODD.search(folded) or folded.count(_LENGTH) > 1:
            return None  # looked at closely elsewhere
        length = _number(folded[at + 17 :].split(b"\r\n", 1)[0])
        if len(piece) != end + 4 + length:
            return None
        status = _number(piece[9:12])
        return HttpAnswer(status, head, piece[end + 4 :]), b"\r\nconnection: close" not in folded

    def _read_head(self) -> bool:
        while True:
            end = self._data.find(_HEAD_END, max(0, self._scan_at - 3))
            if end < 0:
                self._scan_at = len(self._data)
                if len(self._data) > HEADER_LIMIT_BYTES:
                    raise BadAnswerError(f"the headers are longer than {HEADER_LIMIT_BYTES} bytes")
                return False
            head = bytes(self._data[:end])
            if not head.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")):
                raise BadAnswerError("that is not HTTP/1.1")
            self._status = _number(head[9:12])
            if self._status >= 200:
                break
            del self._data[: end + 4]  # an interim answer; the real one follows
            self._scan_at = 0
        self._head, self._body_at, self._scan_at = head, end + 4, end + 4
        self._left = self._length(head.lower())
        return True

    def _length(self, folded: bytes) -> int | None:
        lengths: list[bytes] = []
        codings: list[bytes] = []
        for name, value in _fields(folded):
            if name == b"content-length":
                lengths.append(value)
            elif name == b"transfer-encoding":
                codings.append(value)
        if len(lengths) + len(codings) > 1:
            raise BadAnswerError("the length of the body is told more than once")
        if codings and codings != [b"chunked"]:
            raise BadAnswerError("the body comes in a form that is not known")
        if self.without_body or self._status in _NO_BODY:
            return 0
        if codings:
            return -1
        return _number(lengths[0]) if lengths else None

    def _finished(self) -> tuple[HttpAnswer, bool] | None:
        if self._left is None:
            return None
        if self._left < 0:
            return self._chunks_finished()
        end = self._body_at + self._left
        if len(self._data) < end:
            return None
        return self._handed_over(bytes(self._data[self._body_at : end]), end)

    def _chunks_finished(self) -> tuple[HttpAnswer, bool] | None:
        while True:
            line_end = self._data.find(b"\r\n", self._scan_at)
            if line_end < 0:
                return None
            size = _chunk_size(bytes(self._data[self._scan_at : line_end]))
            if size == 0:
                break
            begin = line_end + 2
            if len(self._data) < begin + size + 2:
                return None
            if self._data[begin + size : begin + size + 2] != b"\r\n":
                raise BadAnswerError("a chunk is not as long as it says")
            self._parts.append(bytes(self._data[begin : begin + size]))
            self._scan_at = begin + size + 2
            if self._scan_at > 1 << 20:
                del self._data[: self._scan_at]
                self._scan_at = 0
        # Trailers, of which we want none, end with an empty line.
        end = line_end + 4 if self._data[line_end + 2 : line_end + 4] == b"\r\n" else -1
        if end < 0:
            found = self._data.find(_HEAD_END, line_end)
            if found < 0:
                return None
            end = found + 4
        return self._handed_over(b"".join(self._parts), end)

    def _handed_over(self, body: bytes, end: int) -> tuple[HttpAnswer, bool]:
        answer = HttpAnswer(self._status, self._head, body)
        folded = self._head.lower()
        stays = b"\r\nconnection: close" not in folded and folded.startswith(b"http/1.1")
        self._reset(bytes(self._data[end:]))
        return answer, stays


def _fields(folded: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and values of a head; `BadAnswerError` for lines that readers might take for different things."""
    if folded.count(b"\n") != folded.count(b"\r\n") or folded.count(b"\r") != folded.count(b"\r\n") or b"\0" in folded:
        raise BadAnswerError("the headers have line breaks that are none")
    for line in folded.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip() or b" " in name:
            raise BadAnswerError("a header is none")
        yield name, value.strip()


def _number(text: bytes) -> int:
    digits = bytes(text).strip()
    if not digits.isdigit() or len(digits) > 15:
        raise BadAnswerError("a number in the headers is none")
    return int(digits)


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 8 or digits.strip(b"0123456789abcdefABCDEF"):
        raise BadAnswerError("the size of a chunk is not a number")
    return int(digits, 16)
