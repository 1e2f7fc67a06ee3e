"""`moorage snapshot`: a live cluster in a file, for `moorage simulate` and for sharing."""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from moorage.cli.options import common_options, config_option, kubeconfig_option
from moorage.cli.output import GOOD, InputError, say

if TYPE_CHECKING:
    from moorage.app.snapshot import Snapshot

_STDOUT = ("-", "/dev/stdout")
_OWNER_ONLY = 0o600


@click.command("snapshot", short_help="Save the objects of a live cluster that scheduling reads in a file.")
@kubeconfig_option
@config_option
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    required=True,
    help="The file to write: JSON if the name ends in .json, else YAML; - is standard output.",
)
@common_options
def command(kubeconfig: str | None, config_file: str | None, file: str) -> int:
    """Save all objects of a live cluster that `moorage simulate` reads; nothing is written to the cluster.

    The file is readable by you only, and appears when it is complete. It holds no Secrets or ConfigMaps, and neither
    env values nor commands of containers. With --config, the prices that the configuration names are saved too.
    """
    from moorage.app.look import LookError  # noqa: PLC0415 - not for --help
    from moorage.app.snapshot import LEFT_OUT, slimmed, take_snapshot  # noqa: PLC0415
    from moorage.cli.logs import answering_logs  # noqa: PLC0415
    from moorage.cli.profiles import load_reading  # noqa: PLC0415
    from moorage.wire.documents import uncollected  # noqa: PLC0415

    with uncollected():
        reading = load_reading(config_file)
        try:
            with answering_logs():
                snapshot = take_snapshot(kubeconfig, reading.configuration, reading.profiles)
        except LookError as error:
            raise InputError([error]) from None
        say("warning", snapshot.warnings)
        for body in snapshot.objects:
            slimmed(body)
        _save(snapshot, file)
    kinds = Counter(str(body["kind"]) for body in snapshot.objects)
    counts = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    say("note", [f"{file}: {len(snapshot.objects)} objects of {snapshot.server}: {counts}", f"left out: {LEFT_OUT}"])
    return GOOD


def _save(snapshot: Snapshot, file: str) -> None:
    """Write a temporary file and rename it, so that no reader ever sees an incomplete file."""
    if file in _STDOUT:
        _write(snapshot, sys.stdout, json=False)
        return
    path = Path(file)
    json = path.suffix == ".json"
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            with path.open("w", encoding="utf-8") as out:
                _write(snapshot, out, json=json)
            return
        # A symbolic link stays one: its target is replaced.
        _save_whole(snapshot, Path(os.path.realpath(path)), json=json)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            [f"{file}: cannot be written ({reason}); name a file in a folder that you may write to"]
        ) from None


def _save_whole(snapshot: Snapshot, path: Path, *, json: bool) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            _write(snapshot, out, json=json)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _write(snapshot: Snapshot, out: TextIO, *, json: bool) -> None:
    out.writelines(_json_lines(snapshot) if json else _yaml_documents(snapshot))


def _json_lines(snapshot: Snapshot) -> Iterator[str]:
    """A List with an object on each line."""
    import msgspec  # noqa: PLC0415

    yield '{"apiVersion": "v1", "kind": "List", "items": ['
    for index, body in enumerate(snapshot.objects):
        yield (",\n" if index else "\n") + msgspec.json.encode(body).decode()
    yield "\n]}\n"


def _yaml_documents(snapshot: Snapshot) -> Iterator[str]:
    """One document after the other; a List would have to be in memory twice."""
    import msgspec  # noqa: PLC0415
    import yaml  # noqa: PLC0415

    from moorage.core.limits import JSON_DEPTH  # noqa: PLC0415
    from moorage.wire.nesting import flattened  # noqa: PLC0415

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    for index, body in enumerate(snapshot.objects):
        yield "---\n" if index else ""
        try:
            text = yaml.dump(body, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1000)
        except RecursionError:  # the dumper takes several frames a level
            flat = msgspec.json.decode(flattened(msgspec.json.encode(body), JSON_DEPTH))
            text = yaml.dump(flat, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1000)
        yield text
