"""What the site shows and where: a hook of mkdocs that is given docs/ and adds what its pages link to.

Pages are written for readers of the repository, so their links lead to files. Here README, CONTRIBUTING and CHANGELOG
become pages, each file or folder outside docs/ that is linked becomes a page that shows it, and the reference of the
API is made from docstrings. Every link is rewritten to its page; mkdocs then checks each of them with its anchor.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs"
SECTIONS: dict[str, str] = {
    "Arrive": "index from/README from/* status changelog",
    "Place": "simulate gangs queues topology devices webhook extender keeper autoscalers",
    "Explain": "explain what-if experiments tuning dashboard journal troubleshooting",
    "Operate": "operate observability security reliability performance",
    "Extend": "plugins reference/* architecture where-to-change-what contributing",
    "Extend/Decisions": "decisions/README decisions/*",
    "More": "*",
}
"""What people want to do -> the pages for it; a page is in the first section that names it."""
FRONT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository that are pages of their own -> their place in the site."""
REFERENCE = {
    "reference/plugin-contract.md": (
        "The plugin contract",
        "What a plugin may be, is given and may return. [Plugins](../plugins.md) explains how to write one.",
        (
            "moorage.framework.plugin",
            "moorage.framework.contract",
            "moorage.framework.cycle",
            "moorage.framework.status",
            "moorage.framework.changes",
            "moorage.framework.arguments",
            "moorage.framework.remedies",
        ),
    ),
    "reference/testing.md": (
        "moorage.testing",
        "Builders and conformance checks for the tests of plugins. [Plugins](../plugins.md) shows them at work.",
        ("moorage.testing.conformance", "moorage.testing.builders", "moorage.testing.clusters"),
    ),
}
"""Page -> its title, what it is about, and the modules whose docstrings it shows."""
STYLE = """
.md-grid { max-width: 76rem; }  /* lines of up to 120 characters in blocks */
.md-typeset pre > code { font-size: 0.62rem; }
"""
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".json": "json", ".js": "javascript", ".mod": "text"}
_SOURCE = "---\nsearch: {exclude: true}\nhide: [navigation, toc]\n---\n\n"
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_FENCE = re.compile(r"^(\s*```+)(\S*).*$")


def page_of(path: str) -> str:
    """The place in the site of a file or folder of the repository."""
    if path in FRONT:
        return FRONT[path]
    here = ROOT / path
    if here.is_dir():
        return page_of(f"{path}/README.md") if (here / "README.md").exists() else f"source/{path}/index.md"
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    return f"source/{path}" if here.suffix == ".md" else f"source/{path}.md"


def rewritten(text: str, path: str, link: Callable[[str], str]) -> str:
    """The Markdown of a file of the repository with each link to another one put through `link`."""

    def replace(found: re.Match[str]) -> str:
        target, hash_sign, anchor = found[2].partition("#")
        if not target or ":" in target:
            return found[0]
        linked = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if not (ROOT / linked).exists():
            return found[0]
        return f"{found[1]}{link(linked)}{hash_sign}{anchor}{found[3]}"

    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        fence = _FENCE.match(line)
        fenced ^= fence is not None
        if fence is not None:
            lines.append(f"{fence[1]}{fence[2]}")  # what follows the language is for the tests of the documents
        else:
            lines.append(line if fenced else _LINK.sub(replace, line))
    return "\n".join(lines) + "\n"


class Site:
    """The pages that are made here, beside those of docs/."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    def rewrite(self, text: str, path: str, page: str) -> str:
        """The text of a page; what it links to is made as well."""

        def link(linked: str) -> str:
            self.show(linked)
            return posixpath.relpath(page_of(linked), posixpath.dirname(page) or ".")

        return rewritten(text, path, link)

    def show(self, path: str) -> None:
        """Make the page of a file or folder that has none in docs/."""
        page = page_of(path)
        if page in self.made or not (page.startswith("source/") or path in FRONT):
            return
        self.made[page] = ""  # pages may link to each other
        here = ROOT / path
        if here.is_dir() and (here / "README.md").exists():
            here, path = here / "README.md", f"{path}/README.md"
        if here.suffix == ".md":
            self.made[page] = self.rewrite(here.read_text(), path, page)
        else:
            text = _listing(here) if here.is_dir() else here.read_text()
            self.made[page] = f"{_SOURCE}# {path}\n\n````{LANGUAGES.get(here.suffix, 'text')}\n{text}````\n"


def _listing(folder: Path) -> str:
    return "".join(f"{each.name}\n" for each in sorted(folder.iterdir()) if not each.name.startswith((".", "__py")))


def on_files(files: Files, config: Any) -> Files:
    """Add every page that docs/ lacks, and arrange them all; called by mkdocs."""
    site = Site()
    for path in FRONT:
        site.show(path)
    for file in list(files.documentation_pages()):
        path = f"{DOCS}/{file.src_uri}"
        site.made[file.src_uri] = site.rewrite(file.content_string, path, file.src_uri)
        files.remove(file)
    for page, (title, about, modules) in REFERENCE.items():
        site.made[page] = f"# {title}\n\n{about}\n\n" + "\n\n".join(f"::: {module}" for module in modules) + "\n"
    for page, text in site.made.items():
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "assets/moorage.css", content=STYLE))
    config["extra_css"] = ["assets/moorage.css"]
    config["nav"] = navigation(site.made)
    return files


def navigation(pages: Iterable[str]) -> list[Any]:
    """Each section with its pages, in its order; sources are reached by links only."""
    left = sorted(page for page in pages if not page.startswith("source/"))
    sections: dict[str, list[Any]] = {}
    for path, patterns in SECTIONS.items():
        chosen = dict.fromkeys(page for each in patterns.split() for page in left if fnmatch(page, f"{each}.md"))
        left = [page for page in left if page not in chosen]
        section, _, group = path.partition("/")
        if chosen:
            sections.setdefault(section, []).extend([{group: list(chosen)}] if group else chosen)
    return [{section: entries} for section, entries in sections.items()]
