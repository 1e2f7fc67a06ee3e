"""The documentation as static pages: `make site`, with its own tools in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from moorage import testing
from tests.docs.fences import ROOT

SECTIONS = ["Arrive", "Place", "Explain", "Operate", "Extend"]

pytestmark = [pytest.mark.xdist_group("docs"), pytest.mark.slow]


class Page(HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {""}
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.anchors.add(values.get("id", ""))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in {"script", "img"} and "src" in values:
            self.loaded.append(values["src"])
        if tag == "link" and values.get("rel") == "stylesheet":
            self.loaded.append(values["href"])


@pytest.fixture(scope="module")
def mkdocs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tools of requirements/site.txt."""
    folder = tmp_path_factory.mktemp("site-tools") / "env"
    command: list[str | Path] = [
        sys.executable,
        ROOT / "requirements/install.py",
        "--alone",
        folder,
        ROOT / "requirements/site.txt",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=290)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin/mkdocs"


def build(mkdocs: Path, project: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    config = project / "deploy/site/mkdocs.yml"
    command: list[str | Path] = [mkdocs, "build", "--config-file", config, "--site-dir", folder]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=290, env=quiet)


@pytest.fixture(scope="module")
def site(mkdocs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Page]:
    """The built pages by their paths; building finds no fault."""
    folder = tmp_path_factory.mktemp("site")
    done = build(mkdocs, ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return {str(path.relative_to(folder)): Page(path.read_text()) for path in folder.rglob("*.html")} | {
        "search": Page((folder / "search/search_index.json").read_text())
    }


def test_every_page_of_the_documents_is_there(site: dict[str, Page]) -> None:
    """A page that somebody adds to docs/ is built without being listed."""
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    want = {str(page).replace("README.html", "index.html") for page in pages}
    assert want | {"index.html", "changelog.html", "contributing.html"} <= set(site)


def test_links_and_anchors_lead_somewhere(site: dict[str, Page], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every link of every page, also those that themes and references make."""
    folder = next(tmp_path_factory.getbasetemp().glob("site0"))
    broken = []
    for name, page in site.items():
        for link in page.links if name not in {"search", "404.html"} else ():
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = os.path.normpath(Path(name).parent / unquote(parts.path)) if parts.path else name
            known = site.get(target)
            found = unquote(parts.fragment) in known.anchors if known else (folder / target).exists()
            if not found:
                broken.append(f"{name}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_other_hosts(site: dict[str, Page]) -> None:
    """The pages work where there is no internet."""
    assert [each for page in site.values() for each in page.loaded if urlsplit(each).netloc] == []


def test_it_is_arranged_by_what_people_want_to_do(mkdocs: Path) -> None:
    """The tabs, and pages of docs/from among those for people who arrive, whatever they are called."""
    program = (
        "import json, sys; sys.path.insert(0, 'deploy/site'); import pages; "
        "print(json.dumps(pages.navigation(['index.md', 'plugins.md', 'from/x.md', 'from/README.md', 'explain.md',"
        " 'operate.md', 'gangs.md', 'decisions/README.md', 'new.md'])))"
    )
    done = subprocess.run(
        [mkdocs.parent / "python", "-c", program], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60
    )
    arranged = {name: entries for each in json.loads(done.stdout) for name, entries in each.items()}
    assert list(arranged) == [*SECTIONS, "More"]
    assert arranged["Arrive"] == ["index.md", "from/README.md", "from/x.md"]
    assert arranged["Extend"] == ["plugins.md", {"Decisions": ["decisions/README.md"]}]
    assert arranged["More"] == ["new.md"]


def test_the_reference_is_made_from_docstrings(site: dict[str, Page]) -> None:
    """Everything that `moorage.testing` exports, and the protocols of the contract."""
    anchors = {anchor.rpartition(".")[2] for anchor in site["reference/testing.html"].anchors}
    assert set(testing.__all__) <= anchors
    contract = site["reference/plugin-contract.html"].anchors
    names = re.findall(r"^class (\w+)", (ROOT / "src/moorage/framework/contract.py").read_text(), re.MULTILINE)
    assert {f"moorage.framework.contract.{name}" for name in names if not name.startswith("_")} <= contract
    assert "moorage.framework.plugin.Plugin" in contract


def test_broken_links_end_the_build(mkdocs: Path, tmp_path: Path) -> None:
    """A page, a part of a page and a file of the repository that are not there, each with the page that names it."""
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        (tmp_path / name).write_text("# Page\n")
    shutil.copytree(ROOT / "deploy/site", tmp_path / "deploy/site")
    for module in ("framework", "testing"):
        shutil.copytree(ROOT / "src/moorage" / module, tmp_path / "src/moorage" / module)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/plugins.md").write_text("# Plugins\n")
    links = ("nowhere.md", "plugins.md#no-such-part", "../src/moorage/nothing.py")
    (tmp_path / "docs/explain.md").write_text("# Explain\n\n" + "".join(f"[See]({link}).\n" for link in links))
    done = build(mkdocs, tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert [link for link in links if f"'explain.md' contains a link '{link}'" not in done.stderr] == []
