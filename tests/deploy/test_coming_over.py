"""Coming over from the systems that the examples replace: what each page says is to be deleted first, tried."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.bench.controlplane import ControlPlane
from tests.deploy.chart import kubectl

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "from"
EXAMPLES = ROOT / "deploy" / "examples"
SECTION = re.compile(r"^## Coming over\n(?P<text>.*?)^## ", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"```sh\n(.*?)```", re.DOTALL)
NAMES = sorted(page.stem for page in PAGES.glob("*.md") if (EXAMPLES / page.stem).is_dir())
FIXED = ("ClusterRoleBinding", "RoleBinding", "Deployment")


def section(name: str) -> str:
    found = SECTION.search((PAGES / f"{name}.md").read_text())
    assert found is not None, name
    return found["text"]


@pytest.mark.parametrize("name", sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "README"))
def test_every_page_says_what_to_delete_first(name: str) -> None:
    """With commands where names are the same as before, else that there is nothing to delete."""
    text = section(name)
    assert COMMANDS.search(text) is not None if name in NAMES else "othing has to be deleted" in text


def former(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What an older installation may have under the same names: other selectors, other roles, its own webhook."""
    made = []
    for document in copy.deepcopy(documents):
        kind, name = document["kind"], document["metadata"]["name"]
        if "keeper" in name:
            continue  # no system before had one
        if kind == "Deployment":
            document["spec"]["selector"]["matchLabels"] = {"app": "former"}
            document["spec"]["template"]["metadata"]["labels"] = {"app": "former"}
        elif kind in FIXED:
            document["roleRef"]["name"] = "former"
        elif kind not in ("Namespace", "Service", "MutatingWebhookConfiguration"):
            continue
        made.append(document)
    return made


@pytest.fixture(params=NAMES)
def example(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[str]:
    """The name of an example, which is removed afterwards."""
    yield request.param
    kubectl(control_plane, "delete", "-f", str(EXAMPLES / request.param / "manifests.yaml"), "--wait=false")


def test_what_the_page_says_is_enough(example: str, control_plane: ControlPlane, tmp_path: Path) -> None:
    """Without it the new manifests are refused; after it they are what the cluster has."""
    manifests = EXAMPLES / example / "manifests.yaml"
    documents = [each for each in yaml.safe_load_all(manifests.read_text()) if each]
    old = tmp_path / "former.yaml"
    old.write_text(yaml.safe_dump_all(former(documents)))
    kubectl(control_plane, "apply", "-f", str(old))
    with pytest.raises(AssertionError, match=r"(?s)roleRef.*immutable"):
        kubectl(control_plane, "apply", "-f", str(manifests))
    (commands,) = COMMANDS.findall(section(example))
    for line in commands.splitlines():
        program, *words = shlex.split(line)
        assert program == "kubectl"
        kubectl(control_plane, *(str(manifests) if word == "manifests.yaml" else word for word in words))
    for document in documents:
        if document["kind"] in FIXED:
            _is_there(control_plane, document)


def _is_there(plane: ControlPlane, document: dict[str, Any]) -> None:
    metadata = document["metadata"]
    where = ["-n", metadata["namespace"]] if "namespace" in metadata else []
    found = yaml.safe_load(kubectl(plane, "get", document["kind"], metadata["name"], *where, "-o", "yaml"))
    if document["kind"] == "Deployment":
        assert found["spec"]["selector"] == document["spec"]["selector"]
    else:
        assert found["roleRef"] == document["roleRef"]
