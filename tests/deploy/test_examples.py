"""All examples: each can be simulated as it stands, and leads to the page for those who come from that system."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.deploy.chart import ROOT

EXAMPLES = ROOT / "deploy/examples"
PAGES = ROOT / "docs/from"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/config.yaml"))
LINK = re.compile(r"\]\(([^)#]+)")
PLACED = {
    ("controller-spread-scheduler", "sample-deployments.yaml"): 15,
    ("custom-scheduler", "example-deployments.yaml"): 4,
    ("custom-scheduler", "example-deployments-split-gang.yaml"): 3,
    ("custom-k8s-scheduler", "sample.yaml"): 1,
    ("custom-k8s-scheduler", "sample-deployment.yaml"): 8,
    ("smart-scheduler", "sample-web-app.yaml"): 6,
    ("smart-scheduler", "sample-base-two.yaml"): 10,
    ("smart-scheduler", "sample-zones.yaml"): 7,
    ("smart-scheduler", "sample-gpu.yaml"): 4,
    ("spot-extender", "sample-single.yaml"): 1,
    ("spot-extender", "sample-several.yaml"): 7,
    ("spot-extender", "sample-labels.yaml"): 3,
}
"""How many pods of each sample find a node on the nodes of the example."""


def simulate(name: str, sample: str) -> dict[str, object]:
    folder = EXAMPLES / name
    files = ("-f", folder / "sample-nodes.yaml", "-f", folder / sample, "--config", folder / "config.yaml")
    command = [sys.executable, "-m", "moorage", "simulate", *map(str, files), "-o", "json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def placed(answer: dict[str, object]) -> Counter[str]:
    """How many pods are on nodes whose names begin like this."""
    pods = answer["pods"]
    assert isinstance(pods, list)
    return Counter(pod["node"].rpartition("-")[0] for pod in pods if pod["node"])


@pytest.mark.parametrize(("name", "sample"), PLACED, ids=str)
def test_a_sample_can_be_simulated_as_it_stands(name: str, sample: str) -> None:
    """With the nodes and the configuration beside it; nothing is ignored, and there is nothing to warn of."""
    answer = simulate(name, sample)
    assert placed(answer).total() == PLACED[name, sample]
    assert (answer["warnings"], answer["ignored"]) == ([], {})


def test_every_sample_is_simulated() -> None:
    """One that is added gets a row above."""
    found = {(path.parent.name, path.name) for path in EXAMPLES.glob("*/*sample*.yaml")}
    found |= {(path.parent.name, path.name) for path in EXAMPLES.glob("*/example-*.yaml")}
    assert {each for each in found if each[1] != "sample-nodes.yaml"} == set(PLACED)


@pytest.mark.parametrize(
    ("name", "sample", "want"),
    [
        pytest.param("smart-scheduler", "sample-web-app.yaml", {"ondemand": 3, "spot": 3}, id="3 and 3 of 6"),
        pytest.param("smart-scheduler", "sample-base-two.yaml", {"ondemand": 4, "spot": 6}, id="4 and 6 of 10"),
        pytest.param("smart-scheduler", "sample-zones.yaml", {"ondemand": 5, "spot": 2}, id="5 and 2 of 7"),
        pytest.param("smart-scheduler", "sample-gpu.yaml", {"k80": 2, "v100": 2}, id="2 and 2 of 4"),
        pytest.param("spot-extender", "sample-labels.yaml", {"on-demand": 2, "spot": 1}, id="by label"),
        pytest.param("spot-extender", "sample-single.yaml", {"on-demand": 1}, id="a single one on demand"),
        pytest.param(
            "spot-extender", "sample-several.yaml", {"spot": 6, "on-demand": 1}, id="several on spot, one kept"
        ),
    ],
)
def test_the_nodes_show_what_was_promised(name: str, sample: str, want: dict[str, int]) -> None:
    """As the documents of these systems say."""
    assert placed(simulate(name, sample)) == want


@pytest.mark.parametrize("name", NAMES)
def test_each_example_has_its_page(name: str) -> None:
    """With what there is to upgrade, to remove and to go back to; index, README and page lead to each other."""
    page, readme = PAGES / f"{name}.md", EXAMPLES / name / "README.md"
    text = page.read_text()
    assert [title for title in ("Upgrade", "Remove", "Go back") if f"\n## {title}\n" not in text] == []
    assert page in links_of(readme)
    for index in (EXAMPLES / "README.md", PAGES / "README.md"):
        assert {page, EXAMPLES / name} <= links_of(index)
    assert (ROOT / "docs/from/README.md") in links_of(ROOT / "README.md")
    assert (EXAMPLES / "README.md") in links_of(ROOT / "README.md")


def links_of(page: Path) -> set[Path]:
    targets = (target for target in LINK.findall(" ".join(page.read_text().split())) if "://" not in target)
    return {(page.parent / target).resolve() for target in targets}


@pytest.mark.parametrize(
    "page", [EXAMPLES / "README.md", *sorted(EXAMPLES.glob("*/README.md"))], ids=lambda p: p.parent.name
)
def test_links_of_the_examples_lead_somewhere(page: Path) -> None:
    """Files that were moved are moved there, too."""
    assert [str(target) for target in links_of(page) if not target.exists()] == []
