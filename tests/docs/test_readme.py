"""What the documents show is what happens: every command is run, every file is quoted as it is, every link leads on."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from moorage.bench.controlplane import ControlPlane
from moorage.bench.kubelet import kubelet_thread
from moorage.bench.virtualnodes import VirtualNode
from moorage.cli.main import COMMANDS
from moorage.framework.changes import What
from moorage.framework.defaults import DEFAULT_PLUGINS, KUBE_SCHEDULER_PLUGINS
from moorage.framework.plugin import METHODS, Plugin, Reads
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from tests.controlplane_fixtures import PlaneFactory
from tests.docs.environments import Installer
from tests.docs.fences import DOCUMENTS, ROOT, Block, all_blocks, blocks_of, matches, steps_of
from tests.docs.sessions import problems_of

QUOTED = ("yaml", "toml", "json")
LANGUAGES = {"console", "python", "text", *QUOTED}
CLUSTER = "cluster"
SESSIONS = [block for block in all_blocks("console") if CLUSTER not in block.words]
LIVE_SESSIONS = [block for block in all_blocks("console") if CLUSTER in block.words]
QUOTATIONS = [block for block in all_blocks() if block.file is not None]
PAGES = sorted({*DOCUMENTS, "CHANGELOG.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))})

pytestmark = pytest.mark.xdist_group("docs")


@pytest.mark.parametrize("block", SESSIONS, ids=str)
def test_commands_do_what_is_shown(block: Block, installed: Installer) -> None:
    """Each command ends well unless the reader is shown otherwise, and prints what is shown."""
    expect_none(problems_of(block, installed(block.document)))


@pytest.fixture
def live_cluster(fresh_control_plane: PlaneFactory) -> Iterator[ControlPlane]:
    """A cluster as its users know it: with kube-scheduler, the controllers, and two nodes."""
    plane = fresh_control_plane()
    plane.start_controller_manager("--controllers=deployment-controller,replicaset-controller")
    plane.start_scheduler()
    with kubelet_thread(plane.admin_kubeconfig) as kubelet:
        prices = {"node-a": "40", "node-b": "12"}
        label = "example.com/cents-per-hour"
        kubelet.add_nodes([VirtualNode(name=name, labels={label: cents}) for name, cents in prices.items()])
        yield plane


@pytest.mark.parametrize("block", LIVE_SESSIONS, ids=str)
def test_commands_on_a_cluster_do_what_is_shown(block: Block, installed: Installer, live_cluster: ControlPlane) -> None:
    """The same, on the real API server."""
    shell = installed(block.document)
    programs = live_cluster.binary("kubectl").parent
    shell = shell.with_environ(
        KUBECONFIG=str(live_cluster.admin_kubeconfig), PATH=f"{shell.environ['PATH']}:{programs}"
    )
    expect_none(problems_of(block, shell))


def expect_none(problems: Iterable[str]) -> None:
    """Fail with the problems as they are, so that the printed text can be read, and copied."""
    found = list(problems)
    if found:
        pytest.fail("\n\n".join(found), pytrace=False)


@pytest.mark.parametrize("block", QUOTATIONS, ids=str)
def test_files_are_quoted_as_they_are(block: Block) -> None:
    """A block that names a file is that file."""
    assert block.file is not None
    assert "\n".join(block.lines).strip() == block.file.read_text().strip()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_runs(document: str, installed: Installer, tmp_path: Path) -> None:
    """The Python of a document runs from top to bottom, without a warning."""
    blocks = [block for block in blocks_of(document) if block.language == "python"]
    if not blocks:
        return
    script = tmp_path / "document.py"
    script.write_text("\n\n".join("\n".join(block.lines) for block in blocks))
    installed(document).run("python", "-W", "error", script)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_is_looked_at(document: str) -> None:
    """No block escapes for want of a language, and configuration is never shown without its file."""
    for block in blocks_of(document):
        assert block.language in LANGUAGES, f"{block}: name a language out of {sorted(LANGUAGES)}"
        assert block.file is not None or block.language not in QUOTED, f"{block}: say file=..."


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Every relative link names a file that exists."""
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target and not target.startswith("#"):
            path = (ROOT / page).parent / target.partition("#")[0]
            assert path.exists(), f"{page}: {target}"


def test_the_two_commands_of_a_newcomer_come_first() -> None:
    """`make demo` and `make test` are shown, and the Makefile knows them."""
    commands = [
        step.command for block in blocks_of("README.md") if block.language == "console" for step in steps_of(block)
    ]
    assert commands[:2] == ["make demo", "make test"]
    for target in ("demo", "test", "bench", "lint", "docs", "coverage", "help"):
        subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)


def test_no_folder_hides_a_target_of_the_makefile() -> None:
    """`make build` must work beside a folder `build`, so every target that is listed is phony."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    (phony,) = (set(line.split()[1:]) for line in lines if line.startswith(".PHONY:"))
    assert {line.partition(":")[0] for line in lines if re.match(r"[a-z-]+:.*##", line)} <= phony


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]\w+", text))


def test_the_page_of_what_works_knows_which_plugins_there_are() -> None:
    """The plugins that work and those of the default set that are missing are listed, and no others."""
    works, _, missing = (ROOT / "docs/status.md").read_text().partition("What is missing")
    registry, known = Registry(BUILTIN), {*KUBE_SCHEDULER_PLUGINS, *(cls.name for cls in BUILTIN)}
    assert names_in(works) & known == set(registry.names())
    assert names_in(missing) & known == {entry.name for entry in DEFAULT_PLUGINS if entry.name not in registry}


def test_the_page_of_what_works_knows_which_commands_there_are() -> None:
    """Every command of `moorage --help` is named."""
    text = (ROOT / "docs/status.md").read_text()
    assert [name for name in COMMANDS if f"`moorage {name}`" not in text and f"`{name}" not in text] == []


def test_the_page_on_plugins_is_complete() -> None:
    """Methods, levels of reading, kinds of change and class attributes: everything that a plugin can use is there."""
    text = (ROOT / "docs/plugins.md").read_text()
    attributes = [name for name in vars(Plugin) if not name.startswith("_") and name != "points"]
    methods = [f"{method}(" for method in METHODS.values()]
    changes = [member.name or "" for member in What]
    levels = [f"Reads.{level.name}" for level in Reads]
    assert [word for word in (*attributes, *methods, *changes, *levels) if f"`{word}" not in text] == []


MATCHES = {
    "equal": (("a", "b"), ["a", "b"], True),
    "another line": (("a", "b"), ["a", "c"], False),
    "one line too many": (("a",), ["a", "b"], False),
    "dots for lines": (("a", "...", "d"), ["a", "b", "c", "d"], True),
    "dots for no line": (("a", "...", "d"), ["a", "d"], True),
    "dots in a line": (("a ... c",), ["a bb c"], True),
    "dots in a line stay in it": (("a ... c",), ["a", "c"], False),
    "spaces at the end": (("a",), ["a  "], True),
    "signs mean themselves": (("(a|b)* $",), ["(a|b)* $"], True),
}


@pytest.mark.parametrize(("want", "got", "expected"), MATCHES.values(), ids=MATCHES.keys())
def test_matching(want: tuple[str, ...], got: list[str], *, expected: bool) -> None:
    """Shown output is compared line by line; only `...` stands for something else."""
    assert matches(want, got) is expected
