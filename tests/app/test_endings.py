"""How every long-running command meets an outage at its start, and how it ends when a part of it dies."""

from __future__ import annotations

import re
import signal
import socket
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.app.endings import COMMANDS, PODS, started

SABOTAGE = """
import sys
from moorage.adapters.kube.intake import KindIntake
def fail(*_):
    raise RuntimeError("sabotage")
setattr(KindIntake, sys.argv.pop(1), fail)
from moorage.cli.main import main
main()
"""
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"}}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("moment", ["replaced", "deleted"], ids=["at the start", "later"])
def test_a_part_that_dies_ends_the_process(
    empty_control_plane: ControlPlane, tmp_path: Path, command: str, moment: str
) -> None:
    """With one line that says why and exit code 70, and at once: neither the start nor the end waits for the dead."""
    options, ready = COMMANDS[command]
    given = ["--kubeconfig", str(empty_control_plane.admin_kubeconfig), *options]
    with started([sys.executable, "-c", SABOTAGE, moment, command, *given], tmp_path) as running:
        if moment == "deleted":
            running.says(ready)
            assert empty_control_plane.request("POST", PODS, POD).status == 201
            assert empty_control_plane.request("DELETE", f"{PODS}/p").status == 200
        assert running.end() == 70, running.said
        last = running.said.strip().splitlines()[-1]
        assert last == "moorage: internal error: RuntimeError: sabotage; run again with -v 5 for the traceback"
        assert "Traceback" not in running.said


class Way:
    """A way to the API server that is closed at first: connections are refused until `open`."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        config = yaml.safe_load(plane.admin_kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        target = urlsplit(cluster["server"])
        self._target = (target.hostname or "", target.port or 443)
        (self._port,) = free_ports(1)
        cluster["server"] = f"https://127.0.0.1:{self._port}"
        cluster["tls-server-name"] = target.hostname
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(config))
        self._listener: socket.socket | None = None

    def open(self) -> None:
        """From now on the server can be reached."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """Let nobody else through."""
        if self._listener is not None:
            self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                here, _ = listener.accept()
                there = socket.create_connection(self._target)
            except OSError:
                return
            for source, sink in ((here, there), (there, here)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        end.close()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_start_during_an_outage_waits_for_its_end(
    empty_control_plane: ControlPlane, tmp_path: Path, command: str
) -> None:
    """It says so once, starts when the server is there, and ends on a signal as ever."""
    options, ready = COMMANDS[command]
    way = Way(empty_control_plane, tmp_path)
    given = ["--kubeconfig", str(way.kubeconfig), *options]
    try:
        with started([sys.executable, "-m", "moorage", command, *given], tmp_path) as running:
            running.says("the API server does not answer, waiting for it")
            assert running.process.poll() is None
            way.open()
            running.says(ready)
            assert len(re.findall("waiting for it", running.said)) == 1
            assert "interrupted" not in running.said
            running.process.send_signal(signal.SIGINT)
            assert running.end() == 0, running.said
    finally:
        way.close()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_ends_who_waits(empty_control_plane: ControlPlane, tmp_path: Path, command: str) -> None:
    """Nobody has to wait for the server in order to stop."""
    way = Way(empty_control_plane, tmp_path)
    given = ["--kubeconfig", str(way.kubeconfig), *COMMANDS[command][0]]
    with started([sys.executable, "-m", "moorage", command, *given], tmp_path) as running:
        running.says("the API server does not answer, waiting for it")
        running.process.send_signal(signal.SIGINT)
        assert running.end() == 0, running.said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"token": "made-up"}, "nauthorized", id="credentials that the server refuses"),
        pytest.param({"ca": "none"}, "certificate is not trusted", id="another server's certificate"),
        pytest.param({"file": "broken"}, "kubeconfig", id="a kubeconfig that cannot be read"),
    ],
)
def test_what_waiting_will_not_cure_ends_at_once(
    empty_control_plane: ControlPlane, tmp_path: Path, change: dict[str, str], words: str
) -> None:
    """With one line and exit code 2."""
    config = yaml.safe_load(empty_control_plane.admin_kubeconfig.read_text())
    if "token" in change:
        config["users"][0]["user"] = {"token": "made-up"}
    if "ca" in change:
        cluster = config["clusters"][0]["cluster"]
        config["clusters"][0]["cluster"] = {"server": cluster["server"]}
    file = tmp_path / "kubeconfig"
    file.write_text("[" if "file" in change else yaml.safe_dump(config))
    with started([sys.executable, "-m", "moorage", "scheduler", "--kubeconfig", str(file)], tmp_path) as running:
        assert running.end() == 2, running.said
        assert words in running.said
