from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moorage.adapters.kube.watchstream import LineSplitter


@given(
    lines=st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=10),
    rest=st.binary(max_size=5).map(lambda rest: rest.replace(b"\n", b"")),
    data=st.data(),
)
def test_lines_do_not_depend_on_how_the_stream_was_cut(lines: list[bytes], rest: bytes, data: st.DataObject) -> None:
    """Whatever the pieces, the lines are the same, and an unfinished last line is never given out."""
    stream = b"".join(line + b"\n" for line in lines) + rest
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter = LineSplitter()
    found: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += splitter.feed(stream[start:end])
    assert found == lines


def test_a_line_of_many_megabytes() -> None:
    """Long lines arrive in thousands of pieces."""
    splitter = LineSplitter()
    for _ in range(10_000):
        assert splitter.feed(b"x" * 1000) == []
    assert [len(line) for line in splitter.feed(b"\ny\nz")] == [10_000_000, 1]
    assert splitter.feed(b"\n") == [b"z"]
