from __future__ import annotations

from collections.abc import Callable

import pytest

from moorage.wire.configuration import Reading, is_configuration
from moorage.wire.documents import read_documents
from moorage.wire.problems import Problem

Read = Callable[[str], Reading]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def lines(problems: tuple[Problem, ...]) -> list[str]:
    return [str(problem) for problem in problems]


WEBHOOK = "apiVersion: moorage.dev/v1alpha1\nkind: WebhookConfiguration\n"
PLAIN = HEAD + "profiles: [{schedulerName: a}]\n"
PAIR = HEAD + "profiles: [{schedulerName: a}, {schedulerName: b}]\n"


def test_other_ways_in(accepted: Read) -> None:
    """The documents of webhook, extender and keeper name a profile, or mean the only one."""
    configuration = accepted(
        f"{PLAIN}---\n{WEBHOOK}---\n{WEBHOOK.replace('Webhook', 'Keeper')}profile: a\n"
    ).configuration
    assert configuration is not None
    assert {kind: each.profile for kind, each in configuration.components.items()} == {
        "WebhookConfiguration": "a",
        "KeeperConfiguration": "a",
    }


def test_only_another_way_in(accepted: Read) -> None:
    """Without a KubeSchedulerConfiguration the profile is the one of no configuration at all."""
    configuration = accepted(WEBHOOK).configuration
    assert configuration is not None
    assert configuration.components["WebhookConfiguration"].profile == "moorage"
    assert not configuration.leader_election.leader_elect


DOCUMENTS = {
    "empty": ("", "c.yaml: is empty; write a KubeSchedulerConfiguration"),
    "only a comment": ("# nothing\n", "c.yaml: is empty"),
    "broken YAML": ("a: [", "c.yaml:2:1: not YAML"),
    "a list": ("- a", 'c.yaml: ["a"]: must be a mapping'),
    "no version": (
        "kind: KubeSchedulerConfiguration",
        "c.yaml: apiVersion: required; write kubescheduler.config.k8s.io/v1",
    ),
    "an old version": (
        HEAD.replace("/v1", "/v1beta3"),
        'c.yaml: apiVersion: "kubescheduler.config.k8s.io/v1beta3": this version is not read; write',
    ),
    "no kind": (
        "apiVersion: kubescheduler.config.k8s.io/v1",
        "c.yaml: kind: required; write KubeSchedulerConfiguration",
    ),
    "a wrong kind": (
        HEAD.replace("KubeSched", "Sched"),
        'c.yaml: kind: "SchedulerConfiguration": unknown in kubescheduler.config.k8s.io/v1; did you mean KubeScheduler',
    ),
    "a manifest": ("apiVersion: v1\nkind: Pod", 'c.yaml: apiVersion: "v1": not a configuration; write'),
    "a number for a version": ("apiVersion: 1\nkind: Pod", "c.yaml: apiVersion: 1: not a configuration; write"),
    "two of one kind": (f"{PLAIN}---\n{PLAIN}", "c.yaml, document 2: kind: "),
    "an unknown component document": (
        f"{WEBHOOK.replace('Webhook', 'Dashboard')}",
        'c.yaml: kind: "DashboardConfiguration": unknown',
    ),
    "another version of a component document": (
        WEBHOOK.replace("v1alpha1", "v1"),
        'c.yaml: apiVersion: "moorage.dev/v1": this version',
    ),
    "a component document with an unknown field": (f"{PLAIN}---\n{WEBHOOK}profil: a", "c.yaml, document 2: profil: "),
    "a component document without its profile": (
        f"{PAIR}---\n{WEBHOOK}",
        "c.yaml, document 2: profile: required, as there are several",
    ),
    "a component document with a wrong profile": (
        f"{PAIR}---\n{WEBHOOK}profile: c",
        'c.yaml, document 2: profile: "c": no profile has',
    ),
    "a key twice": (f"{HEAD}parallelism: 1\nparallelism: 2", "c.yaml:4:"),
}


@pytest.mark.parametrize(("text", "want"), DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_documents_that_are_not_read(read: Read, text: str, want: str) -> None:
    """What a document says it is decides; one line says what it should have said, and where it stands."""
    reading = read(text)
    assert len(reading.problems) == 1, lines(reading.problems)
    assert str(reading.problems[0]).startswith(want)
    assert reading.configuration is None


def test_problems_of_all_documents_are_reported(read: Read) -> None:
    """A wrong scheduler document does not hide a wrong webhook document."""
    reading = read(f"{HEAD}parallelism: 0\n---\n{WEBHOOK}color: red\n")
    assert [(problem.source, problem.path) for problem in reading.problems] == [
        ("c.yaml, document 1", "parallelism"),
        ("c.yaml, document 2", "color"),
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (HEAD, True),
        (WEBHOOK, True),
        (HEAD.replace("/v1", "/v1beta2"), True),
        ("kind: Pod\napiVersion: v1", False),
        ("[]", False),
    ],
    ids=["scheduler", "webhook", "old version", "pod", "list"],
)
def test_what_belongs_into_a_configuration_file(text: str, want: bool) -> None:
    """`validate` tells configuration from manifests by what a document says it is."""
    (document,), _ = read_documents(text.encode())
    assert is_configuration(document.value) is want
