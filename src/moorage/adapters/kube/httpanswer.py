"""Parses one HTTP/1.1 response from the bytes of a connection: status, headers and the whole body.

httptools (llhttp) parses. What it does not do is here: a response whose end is ambiguous because of its transfer coding
is refused; bytes behind a response are noticed, as they would be taken for the response to another request; HEAD and
bodies that end with the connection. Bytes in, a response out when it is complete. Headers are decoded only when they
are read, which is rare.
"""

from __future__ import annotations

from collections.abc import Mapping

import httptools
from multidict import CIMultiDict

HEADER_LIMIT_BYTES = 1 << 18
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_CODING = b"transfer-encoding"
_CODING_LENGTH = len(_CODING)


class BadAnswerError(ValueError):
    """What came is not an HTTP answer; the text is one line."""


class HttpAnswer:
    """A complete response. It can be used where a response with an unread body is expected."""

    __slots__ = ("_pairs", "body", "status")

    def __init__(self, status: int, pairs: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        self.body = body
        self._pairs = pairs

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers; look-ups ignore case."""
        found: CIMultiDict[str] = CIMultiDict()
        for name, value in self._pairs:
            found.add(name.decode("latin-1"), value.decode("latin-1").strip())
        return found


class AnswerReader:
    """Collects the pieces of answers, one answer after another, to requests of known methods."""

    __slots__ = (
        "_chunked", "_complete", "_head_bytes", "_headed", "_pairs", "_parser", "_parts", "_status", "_stays",
        "_surplus", "begun", "without_body",
    )  # fmt: skip

    def __init__(self) -> None:
        self.without_body = False
        """Whether the answer has no body whatever its headers say: that of HEAD."""
        self._parser = httptools.HttpResponseParser(self)
        self.begun = False
        """Whether anything of an answer has come."""
        self._reset()

    def _reset(self) -> None:
        self._chunked = self._complete = self._headed = self._stays = self._surplus = False
        self._head_bytes = self._status = 0
        self._pairs: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []

    @property
    def reusable(self) -> bool:
        """Whether nothing is left over, so that the next answer belongs to the next request."""
        return not self.begun

    def feed(self, piece: bytes) -> tuple[HttpAnswer, bool] | None:
        """Take the next piece; the answer when it is complete, and whether the connection stays open after it."""
        self.begun = True
        if not self._headed:
            self._head_bytes += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserCallbackError as error:
            raise BadAnswerError(str(error.__context__)) from None
        except httptools.HttpParserError as error:
            if not self._complete:
                raise BadAnswerError(f"the answer is not HTTP/1.1: {error}") from None
            self._surplus = True
        if not self._headed and self._head_bytes > HEADER_LIMIT_BYTES:
            raise BadAnswerError(f"the headers are longer than {HEADER_LIMIT_BYTES} bytes")
        if not self._complete and not (self._headed and self.without_body):
            return None
        found = self._answer(), self._stays
        self.begun = self._surplus
        if self.without_body:
            self._parser = httptools.HttpResponseParser(self)
        self._reset()
        return found

    def end(self) -> HttpAnswer | None:
        """The server closed the connection: the answer, if its end was to be told this way."""
        if not self._headed or any(name.lower() in _FRAMING for name, _ in self._pairs):
            return None
        return self._answer()

    def _answer(self) -> HttpAnswer:
        parts = self._parts
        return HttpAnswer(self._status, self._pairs, parts[0] if len(parts) == 1 else b"".join(parts))

    # --- called by the parser ---

    def on_message_begin(self) -> None:
        """A message begins; behind a complete one it is not an answer to anything."""
        self._surplus = self._complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer of a body in chunks."""
        if self._surplus:
            return
        if len(name) == _CODING_LENGTH and name.lower() == _CODING:
            if self._chunked or value.strip().lower() != b"chunked":
                raise BadAnswerError("the body comes in a form that is not known")
            self._chunked = True
        self._pairs.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is complete; that of an interim answer does not count."""
        if self._surplus:
            return
        self._status = self._parser.get_status_code()
        self._stays = self._parser.should_keep_alive()
        self._headed = self._status >= 200
        if not self._headed:
            self._pairs = []

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if not self._surplus:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        """The message is complete."""
        self._complete = self._headed
