"""A configuration file that changes under a running scheduler: what is applied, what is refused, and what stays."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.adapters.kube.errors import CredentialsError
from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.metrics.reloads import ReloadMetrics
from moorage.app.plugins import find_plugins
from moorage.app.reload import Reloader
from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from moorage.core.commands import RecordEvent
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import Profile
from moorage.wire.configuration import read_configuration
from tests.app.serving import OPEN, ask, eventually, running
from tests.contract.manifests import a_node, a_pod

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def document(*names: str, **fields: Any) -> str:
    """A configuration with these profiles, and no leader election unless told otherwise."""
    profiles = [{"schedulerName": name} for name in names]
    return yaml.safe_dump({**HEAD, "leaderElection": {"leaderElect": False}, "profiles": profiles, **fields})


class Reloading:
    """A reloader whose deeds and words are kept instead of carried out."""

    def __init__(self, file: Path) -> None:
        reading = read_configuration(file.read_bytes(), str(file), find_plugins().registry)
        assert reading.configuration is not None
        self.applied: list[list[str]] = []
        self.events: list[RecordEvent] = []
        self.metrics = ReloadMetrics()
        self.fails = False
        self.refusals: list[str] = []
        """Why a trial had to end."""
        self.trials: list[str | None] = []
        """The trial of every configuration that was applied, by its name."""
        self.reloader = Reloader(
            str(file),
            reading.configuration,
            self.apply,
            self.events.append,
            self.metrics,
            refuse_trial=self.refuse_trial,
        )

    async def refuse_trial(self, message: str) -> None:
        self.refusals.append(message)

    async def apply(self, configuration: Configuration, profiles: Sequence[Profile]) -> None:
        if self.fails:
            raise CredentialsError("no such certificate")
        assert [each.scheduler_name for each in configuration.profiles] == [each.scheduler_name for each in profiles]
        self.applied.append([profile.scheduler_name for profile in profiles])
        self.trials.append(None if configuration.trial is None else configuration.trial.name)

    def look(self, times: int = 2) -> None:
        for _ in range(times):
            asyncio.run(self.reloader.look())

    def metric(self, name: str) -> str:
        text = MetricsPage(self.metrics).render("")[0].decode()
        return next(line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(document("a"))
    return path


def write(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


@pytest.mark.parametrize(
    ("change", "want_applied", "want_reasons", "want_note"),
    [
        pytest.param(lambda _: None, [], [], "", id="nothing"),
        pytest.param(write("# a remark\n" + document("a")), [], [], "", id="a comment"),
        pytest.param(
            write(document("a", "b")), [["a", "b"]], ["ConfigurationApplied"], "profiles: a, b", id="profiles"
        ),
        pytest.param(
            write(document("a", podMaxBackoffSeconds=20)), [["a"]], ["ConfigurationApplied"], "", id="a setting"
        ),
        pytest.param(
            write(document("a", clientConnection={"qps": 7})),
            [],
            ["ConfigurationApplied"],
            "clientConnection differ and wait for the next start",
            id="what lasts",
        ),
        pytest.param(
            write(document("a", podMaxBackoffSeconds=-3)),
            [],
            ["ConfigurationRefused"],
            "podMaxBackoffSeconds: -3",
            id="a wrong value",
        ),
        pytest.param(write("{"), [], ["ConfigurationRefused"], "config.yaml", id="broken YAML"),
        pytest.param(write(""), [], ["ConfigurationRefused"], "config.yaml", id="emptied"),
        pytest.param(Path.unlink, [], ["ConfigurationRefused"], "cannot be read", id="deleted"),
    ],
)
def test_what_a_change_leads_to(
    file: Path, change: Callable[[Path], object], want_applied: list[list[str]], want_reasons: list[str], want_note: str
) -> None:
    """Good changes are applied once, bad ones refused once with the reason, and the rest is no news."""
    reloading = Reloading(file)
    reloading.look()
    change(file)
    reloading.look(4)
    assert reloading.applied == want_applied
    assert [event.reason for event in reloading.events] == want_reasons
    assert want_note in "".join(event.note for event in reloading.events)
    refused = "ConfigurationRefused" in want_reasons
    assert reloading.metric("moorage_configuration_last_reload_successful") == ("0.0" if refused else "1.0")
    assert reloading.metric('moorage_configuration_reloads_total{result="refused"}') == ("1.0" if refused else "0.0")


def test_flags_that_override_the_file_are_no_change_of_it(file: Path) -> None:
    """The process runs without election though the file asks for it, as it did when the process started."""
    file.write_text(document("a", leaderElection={"leaderElect": True}))
    reloading = Reloading(file)
    quiet = replace(reloading.reloader.configuration.leader_election, leader_elect=False)
    reloading.reloader.configuration = replace(reloading.reloader.configuration, leader_election=quiet)
    reloading.look()
    assert reloading.events == []
    file.write_text(document("a", "b", leaderElection={"leaderElect": True}))
    reloading.look()
    assert [event.note.partition("; ")[2] for event in reloading.events] == [""]
    assert reloading.reloader.configuration.leader_election == quiet


def test_a_file_that_is_being_written_is_left_alone(file: Path) -> None:
    """Half of it may look like a good one; it counts once it has come to rest."""
    reloading = Reloading(file)
    reloading.look()
    for text in (document("b"), document("b", "c"), document("b", "c", "d")):
        file.write_text(text)
        reloading.look(1)
    assert reloading.applied == []
    reloading.look(1)
    assert reloading.applied == [["b", "c", "d"]]


def test_a_refused_file_that_is_put_right_is_good_again(file: Path) -> None:
    """Also where that means that nothing has changed in the end."""
    reloading = Reloading(file)
    before = file.read_text()
    for text in ("{", before):
        file.write_text(text)
        reloading.look()
    assert reloading.applied == []
    assert reloading.metric("moorage_configuration_last_reload_successful") == "1.0"


def test_what_cannot_be_put_in_force_is_refused(file: Path) -> None:
    """Such as extenders whose certificates are not there."""
    reloading = Reloading(file)
    reloading.fails = True
    file.write_text(document("b"))
    reloading.look()
    assert [event.reason for event in reloading.events] == ["ConfigurationRefused"]
    assert [each.scheduler_name for each in reloading.reloader.configuration.profiles] == ["a"]


def test_the_event_is_about_the_pod_that_we_are(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the names of the downward API."""
    for name, value in (("POD_NAME", "moorage-x"), ("POD_NAMESPACE", "moorage-system"), ("POD_UID", "u1")):
        monkeypatch.setenv(name, value)
    reloading = Reloading(file)
    file.write_text("{")
    reloading.look()
    assert reloading.events[0].pod == ("moorage-system", "moorage-x", "u1")


class Mount:
    """A ConfigMap as the kubelet mounts it: the files are links into a folder that is swapped as a whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = 0
        self.file = folder / "config.yaml"

    def put(self, text: str) -> None:
        self._version += 1
        content = self._folder / f"..{self._version}"
        content.mkdir()
        (content / "config.yaml").write_text(text)
        swap = self._folder / "..data_tmp"
        swap.symlink_to(content.name)
        swap.replace(self._folder / "..data")
        if not self.file.is_symlink():
            self.file.symlink_to("..data/config.yaml")


def test_a_running_scheduler_takes_a_changed_configmap_and_keeps_its_queue(
    empty_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Pods of a new profile are placed, waiting ones stay in line, and a bad change alters nothing but is told."""
    plane, log = empty_control_plane, tmp_path / "log"
    mount = Mount(tmp_path)
    mount.put(document("moorage"))
    assert plane.request("POST", "/api/v1/nodes", a_node("n")).status == 201
    (port,) = free_ports(1)
    arguments = [f"--secure-port={port}", "--bind-address", "127.0.0.1", OPEN, "--config", str(mount.file)]
    with running(plane, log, *arguments) as process:
        for pod in (a_pod("waits", cpu="64"), a_pod("other", scheduler="second")):
            assert plane.request("POST", "/api/v1/namespaces/default/pods", pod).status == 201

        def until(condition: Callable[[], bool], what: str) -> None:
            eventually(condition, process, log, what)

        def metric(line: str) -> bool:
            return line in ask(port, "/metrics")[1].splitlines()

        def bound(name: str) -> bool:
            pod = plane.request("GET", f"/api/v1/namespaces/default/pods/{name}").json()
            return bool(pod["spec"].get("nodeName"))

        def told(reason: str) -> list[str]:
            events = plane.request("GET", "/apis/events.k8s.io/v1/events").json()["items"]
            return [event["note"] for event in events if event["reason"] == reason]

        until(lambda: metric('scheduler_pending_pods{queue="unschedulable"} 1.0'), "one pod waits")
        assert not bound("other")
        mount.put(document("moorage", "second"))
        until(lambda: bound("other"), "the pod of the new profile is placed")
        assert metric('moorage_configuration_reloads_total{result="applied"} 1.0')
        profiles = json.loads(ask(port, "/configz")[1])["componentconfig"]["profiles"]
        assert [profile["schedulerName"] for profile in profiles] == ["moorage", "second"]
        until(lambda: bool(told("ConfigurationApplied")), "the change is told")
        until(lambda: metric('scheduler_pending_pods{queue="unschedulable"} 1.0'), "the pod waits still")

        mount.put(document("moorage", "moorage"))
        until(lambda: bool(told("ConfigurationRefused")), "the refusal is told")
        assert "profiles[1].schedulerName" in told("ConfigurationRefused")[0]
        assert metric("moorage_configuration_last_reload_successful 0.0")
        again = a_pod("again", scheduler="second")
        assert plane.request("POST", "/api/v1/namespaces/default/pods", again).status == 201
        until(lambda: bound("again"), "the configuration before is in force")
        assert plane.request("POST", "/api/v1/nodes", a_node("large", cpu="128")).status == 201
        until(lambda: bound("waits"), "the pod that waited all the time is placed")


def test_nobody_is_lost_when_the_rules_change_in_the_middle_of_a_burst(
    empty_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Scoring, profiles and an extender that nobody answers for come and go; every pod is bound, and told of once."""
    plane, log = empty_control_plane, tmp_path / "log"
    config = tmp_path / "config.yaml"
    (port, dead) = free_ports(2)
    packing = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    unanswered = [{"urlPrefix": f"http://127.0.0.1:{dead}", "filterVerb": "filter", "httpTimeout": "1s"}]
    changes = [
        document("moorage", "other"),
        document("moorage", profiles=[{"schedulerName": "moorage", "pluginConfig": [packing]}]),
        document("moorage", extenders=unanswered),
        document("moorage", podInitialBackoffSeconds=2),
    ]
    config.write_text(document("moorage"))
    for number in range(10):
        assert plane.request("POST", "/api/v1/nodes", a_node(f"n{number}", cpu="32")).status == 201
    arguments = [f"--secure-port={port}", "--bind-address", "127.0.0.1", OPEN, "--config", str(config)]
    made: list[str] = []

    def make(count: int) -> None:
        for _ in range(count):
            made.append(f"p{len(made):04}")
            answer = plane.request("POST", "/api/v1/namespaces/default/pods", a_pod(made[-1], cpu="100m"))
            assert answer.status == 201, answer.content

    with running(plane, log, *arguments) as process:
        eventually(lambda: ask(port, "/readyz")[0] == 200, process, log, "the scheduler is ready")
        for number, change in enumerate(changes, 1):
            config.write_text(change)
            line = f'moorage_configuration_reloads_total{{result="applied"}} {number}.0'
            make(40)
            eventually(lambda line=line: line in ask(port, "/metrics")[1], process, log, line)  # type: ignore[misc]

        def waiting() -> list[str]:
            pods = plane.request("GET", "/api/v1/namespaces/default/pods").json()["items"]
            return [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]

        eventually(lambda: not waiting(), process, log, "every pod is bound")
    events = plane.request("GET", "/apis/events.k8s.io/v1/events").json()["items"]
    told = sorted(event["regarding"]["name"] for event in events if event["reason"] == "Scheduled")
    assert told == made


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """As in `--config <(...)`: nobody writes into it again, so that reading it would wait for ever."""
    file = tmp_path / "config.yaml"
    file.write_text(document("a"))
    reloading = Reloading(file)
    file.unlink()
    os.mkfifo(file)
    reloading.reloader = Reloader(
        str(file),
        reloading.reloader.configuration,
        reloading.apply,
        reloading.events.append,
        reloading.metrics,
        refuse_trial=reloading.refuse_trial,
        every_s=0.01,
    )

    async def follow() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reloading.reloader.run(), 0.2)

    asyncio.run(follow())
    assert reloading.events == []


# --- a trial in the file ---

TRIAL = """---
apiVersion: moorage.dev/v1alpha1
kind: TrialConfiguration
name: {name}
pods: {{namespaces: [new]}}
duration: {duration}
{profiles}
"""


def trial(name: str = "one", duration: str = "1h", profiles: str = "profiles: [{schedulerName: a}]") -> str:
    return TRIAL.format(name=name, duration=duration, profiles=profiles)


def test_a_trial_comes_changes_and_goes_with_its_document(file: Path) -> None:
    """Each is a configuration to apply; none of it is a refusal."""
    reloading = Reloading(file)
    for text in (trial(), trial(duration="2h"), trial("two"), ""):
        file.write_text(document("a") + text)
        reloading.look()
    assert reloading.trials == ["one", "one", "two", None]
    assert reloading.refusals == []


BROKEN_TRIALS = {
    "a field": trial(duration="soon"),
    "no YAML": trial(profiles="profiles: [{schedulerName: a"),
    "an unknown plugin": trial(profiles="profiles: [{schedulerName: a, plugins: {filter: {enabled: [{name: X}]}}}]"),
}


@pytest.mark.parametrize("text", BROKEN_TRIALS.values(), ids=BROKEN_TRIALS)
def test_a_broken_trial_ends_and_the_rest_is_applied(file: Path, text: str) -> None:
    """One line about it, and the other changes of the file hold."""
    file.write_text(document("a") + trial())
    reloading = Reloading(file)
    file.write_text(document("a", "b") + text)
    reloading.look()
    assert len(reloading.refusals) == 1
    assert str(file) in reloading.refusals[0]
    assert (reloading.applied, reloading.trials) == ([["a", "b"]], [None])
    assert [event.reason for event in reloading.events] == ["TrialRefused", "ConfigurationApplied"]
    assert reloading.metric("moorage_configuration_last_reload_successful") == "1.0"


def test_a_file_that_is_refused_ends_its_trial_until_it_is_mended(file: Path) -> None:
    """The profiles stay as they were; the same content again brings the trial back, as another one."""
    text = document("a") + trial()
    file.write_text(text)
    reloading = Reloading(file)
    reloading.look()
    file.write_text(text.replace("profiles:", "profile:", 1))
    reloading.look()
    assert (len(reloading.refusals), reloading.applied) == (1, [])
    file.write_text(text)
    reloading.look()
    assert reloading.trials == ["one"]
    reloading.look()
    assert reloading.trials == ["one"]


def test_a_file_that_the_trial_names_is_followed_too(file: Path) -> None:
    """It is read anew when it changes, and its absence ends the trial only."""
    other = file.with_name("tried.yaml")
    other.write_text(document("a"))
    file.write_text(document("a") + trial(profiles="profilesFile: tried.yaml"))
    reloading = Reloading(file)
    reloading.reloader.configuration = replace(reloading.reloader.configuration, trial=None)
    reloading.look(4)
    assert reloading.trials == ["one"]
    disabled = {"multiPoint": {"disabled": [{"name": "ImageLocality"}]}}
    other.write_text(document(profiles=[{"schedulerName": "a", "plugins": disabled}]))
    reloading.look()
    assert reloading.trials == ["one", "one"]
    other.unlink()
    reloading.look()
    assert reloading.trials == ["one", "one", None]
    assert len(reloading.refusals) == 1
