"""The `search` of an experiment: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.sim.experiments.candidates import base_of, candidate
from moorage.wire.configuration import read_configuration
from tests.experiments.clusters import REGISTRY
from tests.tuning.clusters import FIT, PARAMETERS, SEARCH, document, experiment_of, reading_of

KEEPER = {"apiVersion": "moorage.dev/v1alpha1", "kind": "KeeperConfiguration", "profile": "b"}
TWO: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "podMaxBackoffSeconds": 20,
    "profiles": [
        {"schedulerName": "a"},
        {
            "schedulerName": "b",
            "plugins": {
                "multiPoint": {"enabled": [{"name": "Fragmentation", "weight": 20}]},
                "score": {"enabled": [{"name": "NodeAffinity", "weight": 7}], "disabled": [{"name": "ImageLocality"}]},
            },
            "pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["x.io/y"]}}],
        },
    ],
}


def test_a_search_has_defaults(tmp_path: Path) -> None:
    """The first configuration is tuned, its values are known, and which way is better follows from the measure."""
    found = experiment_of(tmp_path, document()).search
    assert found is not None
    assert (found.configuration, found.seed, found.seeds) == ("default", 0, None)
    assert [(str(each), each.larger) for each in found.objectives] == [("allocated cpu", True)]
    assert found.today == {"NodeResourcesFit weight": 1, "NodeResourcesBalancedAllocation weight": 1}
    assert [each.name for each in found.parameters][1] == "NodeResourcesFit scoringStrategy.type"


def test_a_value_of_today_that_is_not_in_the_range_is_left_out(tmp_path: Path) -> None:
    """The search then begins elsewhere."""
    parameters = [
        {**FIT, "min": 0, "max": 8, "step": 2},
        {"plugin": "PodTopologySpread", "min": 0, "max": 8, "step": 2},
    ]
    found = experiment_of(tmp_path, document(search={**SEARCH, "parameters": parameters})).search
    assert found is not None
    assert found.today == {"PodTopologySpread weight": 2}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no objective": ({"objectives": []}, "search.objectives: 0: write 1 or 2"),
    "a range without end": (
        {"parameters": [{"plugin": "NodeResourcesFit", "argument": "x", "min": -1e308, "max": 1e308, "step": 1}]},
        "search.parameters[0].min: -1e+308: must be from",
    ),
    "steps without end": (
        {"parameters": [{"plugin": "NodeResourcesFit", "argument": "x", "min": 0, "max": 1, "step": 1e-300}]},
        "search.parameters[0].step: 1e-300: makes more than",
    ),
    "a seed that the sampler does not take": ({"seed": 2**40}, "search.seed: 1099511627776: 4294967295 is the most"),
    "three objectives": ({"objectives": [{"measure": "pending"}] * 3}, "search.objectives: 3: write 1 or 2"),
    "the same twice": ({"objectives": [{"measure": "pending"}] * 2}, "stands twice"),
    "unknown measure": ({"objectives": [{"measure": "alocated"}]}, "did you mean allocated"),
    "unknown goal": ({"objectives": [{"measure": "pending", "goal": "up"}]}, "write maximize or minimize"),
    "no parameter": ({"parameters": []}, "search.parameters: 0: write 1 to 50"),
    "unknown plugin": ({"parameters": [{"plugin": "NodeResourceFit", "min": 0, "max": 1}]}, "NodeResourceFit"),
    "no range": ({"parameters": [FIT]}, "search.parameters[0].min: required; write min and max, or values"),
    "upside down": ({"parameters": [{**FIT, "min": 3, "max": 1}]}, "must not be less than min, which is 3"),
    "negative weight": ({"parameters": [{**FIT, "min": -1, "max": 1}]}, "a weight is a whole number from 0"),
    "half a weight": ({"parameters": [{**FIT, "min": 0, "max": 1.5}]}, "a weight is a whole number from 0"),
    "weight as text": ({"parameters": [{**FIT, "values": ["1"]}]}, "a weight is a whole number from 0"),
    "range and values": ({"parameters": [{**FIT, "min": 0, "values": [1]}]}, "has both values and a range"),
    "no values": ({"parameters": [{**FIT, "values": []}]}, "write 1 to 100 values"),
    "a step that does not fit": ({"parameters": [{**FIT, "min": 0, "max": 9, "step": 2}]}, "must divide max - min"),
    "not a number": ({"parameters": [{**FIT, "min": "a", "max": True}]}, "search.parameters[0].min: "),
    "no name": ({"parameters": [{"plugin": 3, "min": 0, "max": 1}]}, "search.parameters[0].plugin: 3"),
    "a list for a name": ({"objectives": [{"measure": ["x"]}]}, "search.objectives[0].measure"),
    "no step": ({"parameters": [{**FIT, "min": 0, "max": 9, "step": 0}]}, "must be more than 0"),
    "twice": ({"parameters": [PARAMETERS[0], PARAMETERS[0]]}, "NodeResourcesFit weight"),
    "unknown argument": (
        {"parameters": [{**FIT, "argument": "scoringStrategie", "values": [1]}]},
        "search.parameters[0] as 1",
    ),
    "a value that the plugin refuses": (
        {"parameters": [{**FIT, "argument": "scoringStrategy.type", "values": ["Most"]}]},
        "search.parameters[0] as 'Most'",
    ),
    "a path that is none": ({"parameters": [{**FIT, "argument": "a[0]", "values": [1]}]}, "write a path such as"),
    "unknown configuration": ({"configuration": "defalt"}, "did you mean default"),
    "unknown profile": ({"profile": "other"}, "no profile has this name; write one of default-scheduler"),
    "no trials": ({"trials": 0}, "search.trials: 0: must be 1 or more"),
    "too many": ({"trials": 10_001}, "10000 is the most"),
    "misspelt": ({"trails": 3}, "search.trails"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_named_before_anything_is_run(case: str, tmp_path: Path) -> None:
    """Field, value and remedy; ranges are tried on the plugins themselves."""
    changes, want = REFUSED[case]
    problems = reading_of(tmp_path, document(search={**SEARCH, **changes})).problems
    assert any(want in str(each) for each in problems), list(map(str, problems))


def test_only_what_is_searched_changes() -> None:
    """Other documents, profiles, plugins and arguments stay; a weight of 0 turns the score off, and no more."""
    text = yaml.safe_dump_all([KEEPER, TWO])
    base = base_of(text, "b", REGISTRY)
    assert base.weights["Fragmentation"] == 20
    values = {
        ("Fragmentation", ""): 3,
        ("NodeAffinity", ""): 0,
        ("ImageLocality", ""): 2,
        ("NodeResourcesFit", "scoringStrategy.type"): "MostAllocated",
    }
    keeper, changed = yaml.safe_load_all(candidate(base, values))
    assert keeper == KEEPER
    profile = changed["profiles"][1]
    assert changed == {**TWO, "profiles": [TWO["profiles"][0], profile]}
    assert profile["plugins"]["score"] == {
        "enabled": [{"name": "Fragmentation", "weight": 3}, {"name": "ImageLocality", "weight": 2}],
        "disabled": [{"name": "NodeAffinity"}],
    }
    arguments = {"ignoredResources": ["x.io/y"], "scoringStrategy": {"type": "MostAllocated"}}
    assert profile["pluginConfig"] == [{"name": "NodeResourcesFit", "args": arguments}]
    reading = read_configuration(candidate(base, values).encode(), "", REGISTRY)
    weights = reading.profiles[1].weights
    assert (weights["Fragmentation"], weights["ImageLocality"], "NodeAffinity" in weights) == (3, 2, False)
    assert yaml.safe_load_all(text)  # what is tuned is not changed itself
    assert base.profile_body == TWO["profiles"][1]
