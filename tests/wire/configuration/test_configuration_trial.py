"""A TrialConfiguration: what it says, every mistake in it, and that no mistake touches the rest of the file."""

from __future__ import annotations

import pytest

from moorage.framework.registry import Registry
from moorage.framework.trying import AtEnd, Limit, TrialConfiguration, TrialLimits, TrialPods
from moorage.plugins.builtin import BUILTIN
from moorage.wire.configuration import Beside, Reading, read_configuration

REGISTRY = Registry(BUILTIN)
MAIN = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: one}, {schedulerName: two}]
"""
HEAD = "---\napiVersion: moorage.dev/v1alpha1\nkind: TrialConfiguration\n"
LEAST = "pods: {namespaces: [a]}\nduration: 1h\nprofiles: [{schedulerName: one}]\n"


def read(text: str, main: str = MAIN, beside: Beside | None = None) -> Reading:
    return read_configuration(f"{main}{HEAD}{text}".encode(), "file", REGISTRY, beside)


def trial_of(text: str, main: str = MAIN) -> TrialConfiguration:
    reading = read(text, main)
    assert (reading.problems, reading.trial_problems) == ((), ())
    assert reading.configuration is not None
    assert reading.configuration.trial is not None
    return reading.configuration.trial


def test_defaults() -> None:
    """Pods, duration and profiles are all that is needed; at the end it returns."""
    trial = trial_of(LEAST)
    assert trial.pods == TrialPods(("a",))
    assert (trial.name, trial.duration_s, trial.at_end, trial.limits) == ("trial", 3600.0, AtEnd.RETURN, TrialLimits())
    assert [profile.scheduler_name for profile in trial.built] == ["one"]


def test_a_limit_has_a_ratio_or_an_amount() -> None:
    """What is not written of one is no extra allowance; measures that are not written keep their defaults."""
    worse = "worse: {evictions: {amount: 2}, waitingP99: {ratio: 1.5}, minSamples: 3, for: 0s}\n"
    limits = trial_of(LEAST + worse).limits
    assert (limits.evictions, limits.waiting_p99) == (Limit(1.0, 2.0), Limit(1.5, 0.0))
    assert (limits.pending, limits.min_samples, limits.lasting_s) == (TrialLimits().pending, 3, 0.0)


def test_a_single_profile_need_not_be_named() -> None:
    """It stands in for the only one that there is."""
    main = MAIN.replace("[{schedulerName: one}, {schedulerName: two}]", "[{schedulerName: only}]")
    trial = trial_of("pods: {workloadPercent: 10}\nduration: 1h\nprofiles: [{}]\n", main)
    assert [profile.scheduler_name for profile in trial.profiles] == ["only"]


MISTAKES = {
    "nothing": ("", ["pods", "duration", "profiles"]),
    "no pods": ("pods: {}\nduration: 1h\nprofiles: [{schedulerName: one}]\n", ["pods"]),
    "a field that is unknown": (LEAST + "durations: 1h\n", ["durations"]),
    "a share beyond all": (LEAST.replace("{namespaces: [a]}", "{workloadPercent: 101}"), ["pods.workloadPercent"]),
    "a selector of another sort": (
        LEAST.replace("{namespaces: [a]}", "{namespaceSelector: {matchLabels: [x]}}"),
        ["pods.namespaceSelector"],
    ),
    "an operator that is unknown": (
        LEAST.replace("{namespaces: [a]}", "{namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}"),
        ["pods.namespaceSelector"],
    ),
    "no time": (LEAST.replace("1h", "0s"), ["duration"]),
    "a number as duration": (LEAST.replace("1h", "60"), ["duration"]),
    "an end that is unknown": (LEAST + "atEnd: Stay\n", ["atEnd"]),
    "a ratio below one": (LEAST + "worse: {pending: {ratio: 0.5}}\n", ["worse.pending.ratio"]),
    "a ratio that is no number": (LEAST + "worse: {pending: {ratio: .nan}}\n", ["worse.pending.ratio"]),
    "a ratio without end": (LEAST + "worse: {pending: {ratio: .inf}}\n", ["worse.pending.ratio"]),
    "an amount that is no number": (LEAST + "worse: {pending: {amount: .nan}}\n", ["worse.pending.amount"]),
    "an empty limit": (LEAST + "worse: {pending: {}}\n", ["worse.pending"]),
    "a negative amount": (LEAST + "worse: {waitingP99: {amount: -1s}}\n", ["worse.waitingP99.amount"]),
    "no samples": (LEAST + "worse: {minSamples: 0}\n", ["worse.minSamples"]),
    "a scheduler name that nobody has": (LEAST.replace("schedulerName: one", "schedulerName: three"), ["profiles"]),
    "an unknown plugin": (
        LEAST.replace("schedulerName: one", "schedulerName: one, plugins: {score: {enabled: [{name: NodeSize}]}}"),
        ["profiles[0].plugins.score.enabled[0].name"],
    ),
    "arguments that are refused": (
        LEAST.replace(
            "schedulerName: one", "schedulerName: one, pluginConfig: [{name: NodeResourcesFit, args: {strategy: Most}}]"
        ),
        ["profiles[0].pluginConfig[0].args.strategy"],
    ),
    "profiles twice": (LEAST + "profilesFile: other.yaml\n", ["profiles"]),
    "a file that cannot be read": (
        "pods: {namespaces: [a]}\nduration: 1h\nprofilesFile: other.yaml\n",
        ["profilesFile"],
    ),
    "another order of the queue": (
        LEAST.replace(
            "schedulerName: one",
            "schedulerName: one, plugins: {queueSort: {disabled: [{name: '*'}], enabled: [{name: PlanSort}]}}",
        ),
        ["profiles[0]", "profiles[0]"],
    ),
    "other shares": (
        LEAST.replace(
            "schedulerName: one", "schedulerName: one, plugins: {multiPoint: {disabled: [{name: FairShare}]}}"
        ),
        ["profiles[0]"],
    ),
}


@pytest.mark.parametrize(("text", "want_paths"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_and_concerns_the_trial_alone(text: str, want_paths: list[str]) -> None:
    """All mistakes at once, with their place; the profiles of the configuration are there, and there is no trial."""
    reading = read(text)
    assert [problem.path for problem in reading.trial_problems] == want_paths
    assert all(problem.message and problem.source == "file, document 2" for problem in reading.trial_problems)
    assert reading.problems == ()
    assert reading.configuration is not None
    assert reading.configuration.trial is None
    assert [profile.scheduler_name for profile in reading.profiles] == ["one", "two"]


UNREADABLE = {
    "no YAML": HEAD + "pods: {namespaces: [a\nduration: 1h\n",
    "a key that stands twice": HEAD + LEAST + "duration: 2h\n",
    "another version": HEAD.replace("v1alpha1", "v1") + LEAST,
    "two trials": HEAD + LEAST + HEAD + LEAST,
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_document_that_says_it_is_a_trial_spoils_nothing_else(text: str, *, first: bool) -> None:
    """Wherever in the file it stands."""
    whole = f"{text}---\n{MAIN}" if first else MAIN + text
    reading = read_configuration(whole.encode(), "file", REGISTRY)
    assert reading.problems == ()
    assert len(reading.trial_problems) == 1
    assert [profile.scheduler_name for profile in reading.profiles] == ["one", "two"]
    assert reading.configuration is not None
    assert reading.configuration.trial is None


def test_a_broken_configuration_is_refused_with_its_trial() -> None:
    """A good trial does not make it better."""
    reading = read(LEAST, MAIN.replace("profiles:", "profile:"))
    assert [problem.path for problem in reading.problems] == ["profile"]
    assert reading.configuration is None


def test_profiles_from_a_file_beside() -> None:
    """Only its profiles count, and its mistakes are those of the trial."""
    files = {"good.yaml": MAIN.encode(), "bad.yaml": MAIN.replace("{schedulerName: two}", "{name: two}").encode()}

    def beside(name: str) -> bytes | str:
        return files.get(name, "no such file")

    text = "pods: {namespaces: [a]}\nduration: 1h\nprofilesFile: {}.yaml\n"
    good = read(text.replace("{}.", "good."), beside=beside)
    assert good.configuration is not None
    assert good.configuration.trial is not None
    assert [profile.scheduler_name for profile in good.configuration.trial.built] == ["one", "two"]
    assert good.beside == ("good.yaml",)
    bad = read(text.replace("{}.", "bad."), beside=beside)
    assert [str(problem).split(": ")[:3] for problem in bad.trial_problems] == [
        ["file, document 2", "bad.yaml", "profiles[1].name"],
        ["file, document 2", "bad.yaml", "profiles[1].schedulerName"],
    ]


NOTICES = {
    "nobody": ("{workloadPercent: 0}", "no pod takes part in the trial"),
    "no namespace": ("{namespaces: []}", "no pod takes part in the trial"),
    "everybody": ("{workloadPercent: 100}", "every pod takes part, so there is nothing to compare the trial with"),
    "all namespaces": (
        "{namespaceSelector: {}}",
        "every pod takes part, so there is nothing to compare the trial with",
    ),
}


@pytest.mark.parametrize(("pods", "want"), NOTICES.values(), ids=NOTICES)
def test_a_trial_that_tells_nothing_is_noted(pods: str, want: str) -> None:
    """It is allowed, and said."""
    reading = read(LEAST.replace("{namespaces: [a]}", pods))
    assert reading.trial_problems == ()
    assert [notice.message for notice in reading.notices] == [want]


def test_the_digest_is_of_what_is_tried() -> None:
    """Not of how it is written, nor of what may change while it runs."""
    plain = trial_of(LEAST)
    longer = trial_of(LEAST.replace("1h", "2h") + "atEnd: Keep\nworse: {minSamples: 3}\n")
    spelled = trial_of(
        LEAST.replace(
            "schedulerName: one", "schedulerName: one, plugins: {multiPoint: {enabled: [{name: PrioritySort}]}}"
        )
    )
    assert plain.digest == longer.digest == spelled.digest
    others = [
        LEAST.replace("[a]", "[b]"),
        LEAST + "name: again\n",
        LEAST.replace(
            "schedulerName: one", "schedulerName: one, plugins: {score: {enabled: [{name: NodeAffinity, weight: 9}]}}"
        ),
    ]
    assert len({plain.digest, *(trial_of(text).digest for text in others)}) == 4
