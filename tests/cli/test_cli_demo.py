"""`moorage demo`: how it looks, how it ends, what it says about wrong usage."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from moorage.app.plugins import find_plugins
from moorage.cli.demo import SCENARIO_NAMES
from moorage.cli.demo_frame import ASCII, Title, draw
from moorage.cli.demo_log import LogView
from moorage.cli.main import run
from moorage.sim.demo.picture import DemoPicture, take_picture
from moorage.sim.demo.scenarios import SCENARIOS
from moorage.sim.demo.stage import DemoStage
from moorage.sim.rules import rules_of
from moorage.wire.configuration import default_reading

TITLE = Title("1.2.3", "default", "something to look at")
DEMO = [sys.executable, "-c", "from moorage.cli.main import main; main()", "demo"]


def make_stage(name: str = "default", until_s: float = 0.0) -> DemoStage:
    rules = rules_of(default_reading(find_plugins().registry), seed=0, answers_to_all=True)
    stage = DemoStage(SCENARIOS[name], rules, stopwatch_s=lambda: 0.0)
    stage.advance(until_s)
    return stage


def frame(stage: DemoStage, width: int, height: int) -> list[str]:
    return [line.plain for line in draw(take_picture(stage), TITLE, width, height)]


# The frame


@cache
def pictures(name: str) -> list[DemoPicture]:
    """A scenario at several moments."""
    stage = make_stage(name)
    taken = []
    for until_s in (0.0, 1.0, 16.0, 24.0, 36.0, 43.0):
        stage.advance(until_s)
        taken.append(take_picture(stage))
    return taken


@pytest.mark.parametrize("name", sorted(SCENARIOS))
@pytest.mark.parametrize(
    ("width", "height"), [(1, 1), (20, 2), (30, 6), (40, 12), (60, 16), (80, 24), (100, 30), (220, 70)], ids=str
)
def test_a_frame_fits_its_terminal(name: str, width: int, height: int) -> None:
    """As many lines as there is room for, none too wide, at every stage of the story."""
    for picture in pictures(name):
        lines = draw(picture, TITLE, width, height)
        assert len(lines) == height
        assert max(line.cell_len for line in lines) <= width


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30)], ids=str)
def test_a_frame_tells_the_story(width: int, height: int) -> None:
    """Version, time, counts, what happens, every node with its load, who waits and why, how to end."""
    lines = frame(make_stage(until_s=25.0), width, height)
    text = "\n".join(lines)
    assert lines[0].startswith(" Moorage 1.2.3 ")
    assert lines[0].endswith("0:25 ")
    assert re.match(r" \d+ placed   1 waiting   6 finished   [1-9] evicted   \d+\.\d decisions/s", lines[1])
    assert lines[2] == " > Job train arrives: it wants a GPU, and no node has one"
    for node in ("node-a1", "node-b3", "node-c2"):
        assert re.search(rf"{node} +█+░+ +\d+%", text)
    assert re.search(r"node-b2 .* NOT READY", text)
    assert "7 Insufficient nvidia.com/gpu." in " ".join(text.split())
    assert re.search(r"0:18  placed +web-\S+ -> node-\S+ \(7 of 8 nodes fit, score \d+\)", text)
    assert lines[-1] == " Ctrl-C ends"


@pytest.mark.parametrize(
    ("width", "height", "shown"),
    [
        pytest.param(120, 120, r"zone-a  n-a01  █+░* +\d+%  █+░* +\d+%  app-", id="a line each"),
        pytest.param(100, 30, r"zone-a  n-a01 █+░*  n-a02 █+░*", id="several on a line"),
        pytest.param(80, 24, r"zone-a  n-a01 +\d+%  n-a02 +\d+%", id="without bars"),
        pytest.param(60, 16, r"zone-a  [▁▂▃▄▅▆▇█]{20}\n", id="one character each"),
    ],
)
def test_many_nodes_are_drawn_smaller(width: int, height: int, shown: str) -> None:
    """Sixty nodes are all there, in whatever detail there is room for."""
    text = "\n".join(frame(make_stage("busy", until_s=10.0), width, height))
    assert re.search(shown, text)
    assert "LATELY" in text


def test_bars_can_do_without_unicode() -> None:
    """A terminal that knows ASCII only gets ASCII only."""
    stage = make_stage(until_s=5.0)
    lines = [line.plain for line in draw(take_picture(stage), TITLE, 80, 24, ASCII)]
    assert re.search(r"node-a1 +#+\.+", "\n".join(lines))
    assert "\n".join(lines[:12]).isascii()


def test_bursts_share_a_line() -> None:
    """What happens to many pods of one owner at once is said once; placements are told one by one."""
    text = "\n".join(frame(make_stage(until_s=36.0), 100, 30))
    assert re.search(r"0:35  waits +batch-\S+ and \d+ more: 0/9 nodes", text)
    assert len(re.findall(r"0:35  placed", text)) > 1


# The log


def log_of(stage: DemoStage, until_s: float, *, log_format: str = "text", verbosity: int = 0) -> list[str]:
    stream = io.StringIO()
    LogView(stream, log_format=log_format, verbosity=verbosity).show(stage, stage.advance(until_s))
    return stream.getvalue().splitlines()


def test_the_log_has_a_line_for_each_happening() -> None:
    """Readable without knowing anything."""
    lines = log_of(make_stage(), 2.5)
    assert lines[0] == "0:00.3            Deployment web arrives: 6 replicas"
    assert re.fullmatch(r"0:00\.3  placed    web-\S+ -> node-\S+ \(8 of 8 nodes fit, score \d+\)", lines[1])
    assert len(lines) == 12


def test_the_log_for_programs() -> None:
    """Every line is a JSON object with time and kind."""
    documents = [json.loads(line) for line in log_of(make_stage(), 25.0, log_format="json")]
    assert documents[0] == {"at_s": 0.3, "what": "story", "text": "Deployment web arrives: 6 replicas"}
    assert set(documents[1]) == {"at_s", "what", "subject", "node", "feasible", "nodes", "score"}
    assert documents[-1]["message"].startswith("0/8 nodes are available: ")


def test_the_curious_see_more() -> None:
    """With -v also told: which pods have begun to run."""
    assert not any("running" in line for line in log_of(make_stage(), 2.5))
    assert any("running" in line for line in log_of(make_stage(), 2.5, verbosity=2))


# The command


def test_scenario_names_are_complete() -> None:
    """The help, which loads no scenario, names them all."""
    assert tuple(SCENARIOS) == SCENARIO_NAMES


def test_help_needs_nothing_heavy() -> None:
    """Help must come at once."""
    code = "import sys\nfrom moorage.cli.main import run\nrun(['demo', '--help'])\nsys.exit('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0
    assert "--no-browser" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--scenario", "nope"], "'nope' is not a scenario; write one of default, rollout", id="scenario"),
        pytest.param(["--scenario", ""], "'' is not a scenario", id="empty scenario"),
        pytest.param(["--duration", "soon"], "'soon' is not a number of seconds", id="duration is no number"),
        pytest.param(["--duration", "-1"], "'-1' is not a number of seconds above zero", id="negative duration"),
        pytest.param(["--duration", "0"], "'0' is not a number of seconds above zero", id="no duration"),
        pytest.param(["--duration", "nan"], "'nan'", id="nan"),
        pytest.param(["--duration", "１"], "'１'", id="full-width digits"),
        pytest.param(["--config", "/nonexistent.yaml"], "no such file", id="missing configuration"),
        pytest.param(["--frobnicate"], "--frobnicate", id="unknown option"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, one line on stderr that names value and remedy, nothing on stdout."""
    assert run(["demo", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_wrong_configuration_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plugin that does not exist is a line with file, field and value."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine, plugins: {score: {enabled: [{name: NodeResourcesFitt}]}}}]\n"
    )
    assert run(["demo", "--config", str(file), "--duration", "1"]) == 2
    said = capsys.readouterr().err
    assert str(file) in said
    assert "NodeResourcesFitt" in said


def test_a_configuration_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With MostAllocated the six pods of web share a node, which they do not by default."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- schedulerName: packer\n"
        "  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit, weight: 1}]}}\n"
        "  pluginConfig:\n"
        "  - name: NodeResourcesFit\n"
        "    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n"
    )
    assert run(["demo", "--config", str(file), "--duration", "0.5", "--log-format", "json"]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    placed = [document["node"] for document in documents if document["what"] == "placed"]
    assert len(placed) == 6
    assert len(set(placed)) == 1
    assert documents[-1]["what"] == "summary"
    assert documents[-1]["placed"] == 6


@contextmanager
def piped(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*DEMO, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return
    pytest.fail(f"the demo ended without {word!r}")


def test_duration_ends_it() -> None:
    """Piped: a log, a summary with what to do next, exit code 0."""
    done = subprocess.run(
        [*DEMO, "--duration", "0.5", "--no-browser"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "placed 6 pods" in done.stdout
    assert "moorage simulate -f cluster.yaml" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_signals_end_it_well(number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM are good endings: a summary, and exit code 0."""
    with piped() as process:
        read_until(process, "placed")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        assert "Moorage placed" in out


def test_a_reader_that_goes_away_ends_it() -> None:
    """A closed pipe ends the demo without a word."""
    with piped() as process:
        read_until(process, "placed")
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 141


def in_terminal(
    *arguments: str, until: bytes | None = None, environment: Mapping[str, str] | None = None
) -> tuple[bytes, int]:
    """Run the demo in a terminal of 80x24; Ctrl-C once `until` has been seen. What was written, and the exit code."""
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **(environment or {})}
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(DEMO[0], [*DEMO, *arguments], env)  # noqa: S606 - no shell is wanted
    written = b""
    pending = until
    while True:
        ready, _, _ = select.select([terminal], [], [], 60)
        try:
            data = os.read(terminal, 65536) if ready else b""
        except OSError:
            data = b""
        if not data:
            break
        written += data
        if pending is not None and pending in written:
            os.write(terminal, b"\x03")
            pending = None
    os.close(terminal)
    return written, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


ENTER, LEAVE, HIDE, SHOW = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25l", b"\x1b[?25h"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_terminal_is_given_back() -> None:
    """Ctrl-C in a terminal: the alternate screen is left, the cursor is back, the summary follows, exit code 0."""
    written, code = in_terminal(until=b"Ctrl-C ends")
    assert code == 0
    assert written.count(ENTER) == written.count(LEAVE) == 1
    assert written.rindex(SHOW) > written.rindex(HIDE)
    assert b"Moorage placed" in written[written.index(LEAVE) :]
    assert b"Ctrl-C ends" in written[: written.index(LEAVE)]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    ("environment", "screen", "colours"),
    [
        pytest.param({}, True, True, id="colours"),
        pytest.param({"NO_COLOR": "1"}, True, False, id="NO_COLOR"),
        pytest.param({"TERM": "dumb"}, False, False, id="dumb terminal"),
    ],
)
def test_what_the_terminal_is_told(environment: dict[str, str], screen: bool, colours: bool) -> None:
    """Colours where they are wanted, a plain log where nothing can be drawn."""
    written, code = in_terminal("--duration", "0.6", environment=environment)
    assert code == 0
    assert (ENTER in written) is screen
    assert bool(re.search(rb"\x1b\[[0-9;]*3[0-7]m", written)) is colours
