"""A simulation is never silent about a rule that it does not apply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.cli.main import run
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.annotations import _KNOWN
from moorage.sim.unread_rules import EXAMPLES, READERS
from moorage.wire.configuration import read_configuration

EXAMPLE_FOLDER = Path(__file__).parents[2] / "deploy/examples"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"a": "b"}},
    "status": {"allocatable": {"pods": "10"}},
}
STRATEGY = "smart-scheduler.io/schedule-strategy"
RULE = "weight=1,nodeSelector=a:b"
HOSTS = "controller-spread-scheduler/min-hosts"


def pod(name: str = "p", scheduler: str | None = None, **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "x"}], **({"schedulerName": scheduler} if scheduler else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def deployment(own: dict[str, str], scheduler: str = "moorage") -> dict[str, Any]:
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": pod("t", scheduler, labels={"a": "b"})}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "annotations": own}, "spec": spec}


POLICY = {
    "apiVersion": "moorage.dev/v1alpha1",
    "kind": "PlacementPolicy",
    "metadata": {"name": "w"},
    "spec": {"selector": {}, "rules": [{"weight": 1, "nodeSelector": {"a": "b"}}]},
}
CUSTOM = (
    "schedulerName custom-scheduler: the default profile decides, without PlanSort, OnePodPerNode and "
    "PriorityAnnotation; give --config, such as deploy/examples/custom-scheduler/config.yaml"
)


def unread(rule: str, plugin: str) -> str:
    return f"{rule} is not read, as the profile has no {plugin}; enable it in the file of --config"


WITHOUT: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "a strategy": (
        [deployment({STRATEGY: RULE}), pod(annotations={STRATEGY: RULE})],
        [f"{unread(f'annotation {STRATEGY}', 'PlacementStrategy')} (Deployment default/d and 1 more)"],
    ),
    "a policy": ([POLICY], [f"{unread('PlacementPolicy', 'PlacementStrategy')} (PlacementPolicy default/w)"]),
    "hosts": (
        [deployment({HOSTS: "3"}, "default-scheduler")],
        [f"{unread(f'annotation {HOSTS}', 'ControllerSpread')} (Deployment default/d)"],
    ),
    "a priority": (
        [pod(scheduler="mine", annotations={"priority": "5"})],
        [f"{unread('annotation priority', 'PriorityAnnotation')} (Pod default/p)"],
    ),
    "somebody else's priority": ([pod(annotations={"priority": "5"})], []),
    "a scheduler of the examples": (
        [pod("p", "custom-scheduler", annotations={"priority": "5"}), pod("q", "custom-scheduler")],
        [f"{CUSTOM} (Pod default/p and 1 more)"],
    ),
    "off spot, by a label": (
        [pod(labels={"moorage.dev/spot": "never"})],
        [f"{unread('label moorage.dev/spot', 'SpotPlacement')} (Pod default/p)"],
    ),
    "a gang": ([pod(annotations={"moorage.dev/pod-group": "g"})], []),
    "nothing": ([pod(), deployment({}), pod("q", "mine")], []),
}


def warnings(objects: list[dict[str, Any]], folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What `moorage simulate -o json` warns of."""
    file = folder / "f.json"
    file.write_text("\n".join(map(json.dumps, [NODE, *objects])))
    assert run(["simulate", "-f", str(file), "-o", "json", *words]) == 0
    found: list[str] = json.loads(capsys.readouterr().out)["warnings"]
    return found


@pytest.mark.parametrize("case", WITHOUT)
def test_without_a_configuration(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The default profile decides, and each rule that it does not read is named once."""
    objects, wanted = WITHOUT[case]
    assert warnings(objects, tmp_path, capsys) == wanted


def test_with_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each pod's own profile counts; a pod that has none says so itself."""
    config = str(EXAMPLE_FOLDER / "smart-scheduler/config.yaml")
    hosts = {"moorage.dev/min-hosts": "2"}
    objects = [deployment({STRATEGY: RULE}), pod("p", "mine", annotations={STRATEGY: RULE}), POLICY]
    assert warnings(objects, tmp_path, capsys, "--config", config) == []
    (line,) = warnings([deployment(hosts)], tmp_path, capsys, "--config", config)
    assert line.startswith("annotation moorage.dev/min-hosts is not read, as the profile has no ControllerSpread")


def test_explain_says_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, as its other warnings."""
    file = tmp_path / "f.json"
    file.write_text("\n".join(map(json.dumps, [NODE, pod(annotations={STRATEGY: RULE})])))
    assert run(["explain", "p", "-f", str(file)]) == 0
    line = unread(f"annotation {STRATEGY}", "PlacementStrategy")
    assert f"warning: {line} (Pod default/p)" in capsys.readouterr().err.splitlines()


def test_the_tables_are_complete() -> None:
    """Every annotation of a rule has a plugin; the examples have the plugins that are said to be missing."""
    plugins = {plugin for readers in READERS.values() for plugin in readers.values()}
    assert plugins <= {plugin.name for plugin in BUILTIN}
    assert set(_KNOWN) - set(READERS["annotation"]) == {"moorage.dev/run-seconds", "moorage.dev/strategy-rule"}
    for name, words in EXAMPLES.items():
        file = EXAMPLE_FOLDER / name / "config.yaml"
        (profile,) = read_configuration(file.read_bytes(), "", Registry(BUILTIN)).profiles
        assert profile.scheduler_name == name
        documents = [
            each for each in yaml.safe_load_all(file.read_text()) if each["kind"] == "KubeSchedulerConfiguration"
        ]
        enabled = documents[0]["profiles"][0]["plugins"]["multiPoint"]["enabled"]
        assert [plugin["name"] for plugin in enabled if plugin["name"] not in words] == []
