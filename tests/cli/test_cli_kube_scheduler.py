"""`moorage kube-scheduler`: kube-scheduler's flags, all of them, and its exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from moorage.app.plugins import find_plugins
from moorage.bench.controlplane import ControlPlane
from moorage.cli.kube_flags import SETTINGS, SWITCHES
from moorage.cli.kube_scheduler import command
from moorage.cli.main import COMMANDS, run
from moorage.wire.configuration import read_configuration

FLAG = re.compile(r"^ +(?:-[a-z], )?(--[a-z0-9-]+)", re.MULTILINE)
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf, qps: 70}
leaderElection: {leaderElect: true, resourceName: of-the-file}
profiles: [{schedulerName: mine}]
"""


def kube_scheduler(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "moorage", "kube-scheduler", *map(str, arguments)]
    return subprocess.run(line, check=False, capture_output=True, text=True)


def written(tmp_path: Path, *arguments: str | Path) -> tuple[dict[str, object], str]:
    """The configuration that these flags give, and what is said about them."""
    file = tmp_path / "written.yaml"
    done = kube_scheduler(*arguments, "--write-config-to", file)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(file.read_text()), done.stderr


def test_it_is_listed() -> None:
    """Among the commands, under its own name."""
    assert "kube-scheduler" in COMMANDS


def test_every_flag_of_kube_scheduler_is_known(control_plane: ControlPlane) -> None:
    """As the real one lists them; none of ours is missing, and those that do nothing are its flags, too."""
    stock = subprocess.run(
        [control_plane.binary("kube-scheduler"), "--help"], check=True, capture_output=True, text=True
    )
    flags = set(FLAG.findall(stock.stdout)) - {"--help"}
    assert len(flags) > 50
    ours = {name for parameter in command.params for name in parameter.opts}
    assert flags - ours == set()
    assert set(SETTINGS) | set(SWITCHES) <= flags


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--nonsense"], "No such option '--nonsense'", id="unknown flag"),
        pytest.param(["extra"], "Got unexpected extra argument (extra)", id="an argument"),
        pytest.param(["--config=/none.yaml"], "/none.yaml: no such file; check the path", id="no configuration"),
        pytest.param(["--leader-elect=maybe"], "'maybe' is not a boolean; write true or false", id="boolean"),
        pytest.param(["--secure-port=99999"], "'99999' is not a port; write 1 to 65535", id="port"),
        pytest.param(["--feature-gates=Foo"], "'Foo' is not a feature gate; write NAME=true", id="feature gate"),
        pytest.param(["--master=abc"], "--master: 'abc' is not an address; write one such as", id="master"),
        pytest.param(["--kube-api-qps=many"], "'many' is not a number; write one such as 50", id="qps"),
        pytest.param(["--leader-elect-retry-period=2"], "'2': not a duration; write numbers with units", id="duration"),
        pytest.param(["--leader-elect-lease-duration=1s"], 'leaseDuration: "1s": must be longer than', id="lease"),
        pytest.param(["--leader-elect-resource-lock=endpoints"], '"endpoints": must be leases', id="lock"),
        pytest.param(["--kubeconfig=/none", "--secure-port=0"], "/none: no such file", id="no kubeconfig"),
        pytest.param(["--write-config-to=/none/x"], "/none/x: cannot be written (No such file", id="no folder"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_1(arguments: list[str], want: str) -> None:
    """As kube-scheduler exits, whatever the reason."""
    done = kube_scheduler(*arguments)
    problems = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, len(problems), done.stdout) == (1, 1, ""), done.stderr
    assert want in problems[0]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("flag", ["--version", "--version=raw"])
def test_the_version(flag: str) -> None:
    """It is Moorage's own: nobody should take it for kube-scheduler."""
    done = kube_scheduler(flag)
    assert done.returncode == 0
    assert done.stdout.startswith("moorage ")


def test_without_a_configuration_it_stands_for_kube_scheduler(tmp_path: Path) -> None:
    """The profile default-scheduler, its lease, its limits; with a warning that a stock one may hold that."""
    found, said = written(tmp_path)
    reading = read_configuration(yaml.safe_dump(found).encode(), "written.yaml", find_plugins().registry)
    assert (reading.problems, [profile.scheduler_name for profile in reading.profiles]) == ((), ["default-scheduler"])
    election = reading.configuration.leader_election if reading.configuration else None
    assert election is not None
    assert (election.leader_elect, election.resource_namespace, election.resource_name) == (
        True,
        "kube-system",
        "kube-scheduler",
    )
    assert "warning: the lease kube-system/kube-scheduler is that of a stock kube-scheduler: while one holds it" in said


def test_flags_give_lease_and_limits(tmp_path: Path) -> None:
    """All of the election, with dashes or underscores; and requests per second."""
    found, said = written(
        tmp_path,
        "--leader-elect-lease-duration=30s",
        "--leader-elect-renew-deadline=20s",
        "--leader_elect_retry_period=1500ms",
        "--leader-elect-resource-name=second",
        "--leader-elect-resource-namespace=apart",
        "--kube-api-qps=99.5",
        "--kube-api-burst=150",
    )
    assert found["leaderElection"] == {
        "leaderElect": True,
        "leaseDuration": "30s",
        "renewDeadline": "20s",
        "retryPeriod": "1500000000ns",
        "resourceLock": "leases",
        "resourceName": "second",
        "resourceNamespace": "apart",
    }
    connection = found["clientConnection"]
    assert isinstance(connection, dict)
    assert (connection["qps"], connection["burst"]) == (99.5, 150)
    assert "warning: a stock kube-scheduler that runs beside this process places the pods of default-scheduler" in said


def test_with_a_configuration_flags_count_as_in_kube_scheduler(tmp_path: Path) -> None:
    """Given flags of the election win over the file; limits and the kubeconfig of the file win, and that is said."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIGURATION)
    found, said = written(
        tmp_path,
        f"--config={config}",
        "--leader-elect=false",
        "--kube-api-qps=5",
        "--kubeconfig=/other.conf",
        "--authentication-kubeconfig=/etc/other.conf",
    )
    election, connection = found["leaderElection"], found["clientConnection"]
    assert isinstance(election, dict)
    assert isinstance(connection, dict)
    assert (election["leaderElect"], election["resourceName"]) == (False, "of-the-file")
    assert (connection["qps"], connection["kubeconfig"]) == (70.0, "/etc/kubernetes/scheduler.conf")
    assert said.splitlines() == [
        "note: --kube-api-qps has no effect: with --config, clientConnection.qps counts",
        "note: --kubeconfig /other.conf has no effect: clientConnection.kubeconfig is /etc/kubernetes/scheduler.conf",
        f"note: the configuration was written to {tmp_path / 'written.yaml'}",
    ]


def test_the_static_pod_of_kubeadm_is_started_with_these_flags(tmp_path: Path) -> None:
    """All of them count, and so does a file that has an extender and no profile; a warning speaks of the stock one."""
    config = tmp_path / "kube-scheduler-config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "extenders: [{urlPrefix: 'http://spot-scheduler-extender.kube-system.svc.cluster.local', filterVerb: filter,\n"
        "  prioritizeVerb: prioritize, weight: 1, enableHTTPS: false, nodeCacheCapable: false, ignorable: true}]\n"
        "clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}\n"
    )
    found, said = written(
        tmp_path,
        "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--bind-address=127.0.0.1",
        "--kubeconfig=/etc/kubernetes/scheduler.conf",
        "--leader-elect=true",
        f"--config={config}",
    )
    profiles, extenders = found["profiles"], found["extenders"]
    assert isinstance(profiles, list)
    assert isinstance(extenders, list)
    assert [profile["schedulerName"] for profile in profiles] == ["default-scheduler"]
    assert extenders[0]["urlPrefix"] == "http://spot-scheduler-extender.kube-system.svc.cluster.local"
    assert "has no effect" not in said
    assert "warning: a stock kube-scheduler that runs beside this process places the pods of default-scheduler" in said


def test_flags_without_effect_are_accepted_with_one_line_each(tmp_path: Path) -> None:
    """With a value behind a space or an equals sign, more than once, and none for a default that was not written."""
    _, said = written(
        tmp_path,
        "--leader-elect=false",
        "--cert-dir",
        "/certs",
        "--profiling=false",
        "--contention-profiling",
        "--vmodule=a=1",
        "--vmodule=b=2",
        "--feature-gates=GenericWorkload=true,kube:A=false",
    )
    assert [line for line in said.splitlines() if line.startswith("note: --")] == [
        "note: --feature-gates GenericWorkload=true, kube:A=false has no effect: what Moorage does is not behind gates",
        "note: --contention-profiling has no effect: there are no Go profiles to serve",
        "note: --profiling has no effect: there are no Go profiles to serve",
        "note: --cert-dir has no effect: a certificate that is not given is made in memory",
        "note: --vmodule has no effect: -v counts for everything",
    ]


@pytest.mark.parametrize("flag", [*SETTINGS])
def test_a_flag_without_effect_needs_its_value(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What follows is its value, never an argument."""
    assert run(["kube-scheduler", flag]) == 1
    assert f"Option '{flag}' requires an argument" in capsys.readouterr().err


def test_logging_format_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    """kube-scheduler's name of --log-format; anything else is refused."""
    assert run(["kube-scheduler", "--logging-format=yaml"]) == 1
    assert "'yaml' is not one of 'text', 'json'" in capsys.readouterr().err
