"""`moorage simulate`: a cluster in files or a live one in, placements and reasons out; or the effect of changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from moorage.cli.options import WholeNumber, common_options, config_option, kubeconfig_option, output_option
from moorage.cli.output import GOOD, NO, InputError, say
from moorage.core.values import dataclass
from moorage.sim.whatif_changes import (
    MOST_NODES,
    AddNodes,
    Afresh,
    Change,
    ChangeError,
    Drain,
    parse_scale,
    parse_set_queue,
)

if TYPE_CHECKING:  # at run time these cost a start-up of numpy and pydantic, and --help needs none of it
    from moorage.sim.inputs import ClusterInput
    from moorage.sim.outcome import SimulationOutcome
    from moorage.sim.simulation import SimulationRules
    from moorage.wire.configuration import Reading

Function = TypeVar("Function", bound=Callable[..., Any])

_LARGEST_SEED = 2**63 - 1
_DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The options of the command."""

    files: Sequence[str] = ()
    live: bool = False
    """Whether the live cluster is the base, with the files on top."""
    kubeconfig: str | None = None
    config_file: str | None = None
    base_config_file: str | None = None
    namespace: str | None = None
    drains: Sequence[str] = ()
    scales: Sequence[str] = ()
    add_nodes: Sequence[int] = ()
    likes: Sequence[str] = ()
    set_queues: Sequence[str] = ()
    afresh: bool = False
    queues: bool = False
    """Whether the tree of queues is shown."""
    repack: bool = False
    """Whether is shown what repacking would do."""
    explain: bool = False
    seed: int = 0
    fail_on_pending: bool = False
    output_format: str = "table"
    compare: bool = False
    """Whether a difference is shown even if nothing is changed."""


def change_options(command: Function) -> Function:
    """Add everything that says what to simulate, and what to change."""
    options = (
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            metavar="FILE",
            help="YAML or JSON to read; - is standard input. May be repeated, and combined with a live cluster.",
        ),
        kubeconfig_option,
        config_option,
        click.option(
            "--base-config",
            "base_config_file",
            metavar="FILE",
            default=None,
            help="Configuration for the unchanged cluster, if it is not --config; the difference is shown.",
        ),
        click.option(
            "-n", "--namespace", metavar="NAMESPACE", default=None, help="Namespace of the workloads of --scale."
        ),
        click.option(
            "--drain", "drains", multiple=True, metavar="NODE", help="Evict the pods of a node. May be repeated."
        ),
        click.option(
            "--scale",
            "scales",
            multiple=True,
            metavar="KIND/NAME=N",
            help="Set the replicas of a workload; NAMESPACE/KIND/NAME=N too. May be repeated.",
        ),
        click.option(
            "--add-nodes",
            type=WholeNumber(1, MOST_NODES),
            multiple=True,
            metavar="N",
            help="Add N nodes, copies of the node that --like names.",
        ),
        click.option("--like", "likes", multiple=True, metavar="NODE", help="The node that --add-nodes copies."),
        click.option(
            "--set-queue",
            "set_queues",
            multiple=True,
            metavar="NAME/FIELD=VALUE",
            help="Set a field of a queue, such as team-a/quota.nvidia.com/gpu=4. May be repeated.",
        ),
        click.option("--afresh", is_flag=True, help="Place every pod again, as if all were pending."),
        click.option("--queues", is_flag=True, help="Show the tree of queues: shares, what is allocated, what waits."),
        click.option(
            "--repack", is_flag=True, help="Show which moves would empty nodes, or make room for pods that wait."
        ),
        click.option("--explain", is_flag=True, help="Show for every pod and node the scores or why it was rejected."),
        click.option(
            "--seed",
            type=WholeNumber(0, _LARGEST_SEED),
            metavar="N",
            default=0,
            show_default=True,
            help="Seed for the choice between equal nodes.",
        ),
        click.option("--fail-on-pending", is_flag=True, help="Exit with 1 if a pod is left pending."),
        output_option("table", "json", "yaml"),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command("simulate", short_help="Place the pods of a file, and show why; or show the effect of a change.")
@change_options
@common_options
def command(kubeconfig: str | None, **asked: Any) -> int:
    """Place the pods of a cluster without changing it, and show why; with changes, show their effect.

    The cluster is written in files, or it is the live one of --kubeconfig, with files on top. Files hold nodes, pods
    and other objects, as `kubectl get -o yaml` or `moorage snapshot` print them. Controllers are expanded into pods.
    Virtual time runs until nothing changes any more.

    With --drain, --scale, --add-nodes, --set-queue or --afresh, the changes are then made and time runs on; the
    difference is printed: which pods move, wait or are evicted, utilisation and cost. The same holds for --base-config,
    and for --config alone on a live cluster. --repack shows the moves that the keeper would make to empty nodes, and to
    make room for pods that wait.
    """
    if not asked["files"] and kubeconfig is None:
        raise click.UsageError("Missing option '-f' / '--filename' or '--kubeconfig'")
    return answer(SimulateOptions(kubeconfig=kubeconfig, live=kubeconfig is not None, **asked))


def answer(asked: SimulateOptions) -> int:
    """Simulate, print, and say how it ended."""
    from moorage.cli.profiles import load_reading  # noqa: PLC0415 - numpy and pydantic, not needed for --help
    from moorage.sim import report  # noqa: PLC0415
    from moorage.wire.documents import uncollected  # noqa: PLC0415

    if len(asked.add_nodes) != len(asked.likes):
        raise click.UsageError("--add-nodes and --like belong together; give as many of one as of the other")
    with uncollected():
        reading = load_reading(asked.config_file)
        given, namespace = _cluster(asked, reading)
        changes = _changes(asked, namespace)
        others = _base_reading(asked, changes)
        more: dict[str, Any] | None = None
        if changes or others is not None or asked.compare:
            outcome, more = _difference(asked, given, changes, reading, others)
        else:
            outcome = _outcome(asked, given, reading)
        if asked.repack:
            more = {**(more or {}), **_repack(asked, outcome)}
        if asked.output_format == "table":
            say("warning", outcome.warnings)
        if asked.output_format == "json":
            report.write_json(outcome, sys.stdout, more)
        elif asked.output_format == "yaml":
            report.write_yaml(outcome, sys.stdout, more)
        elif more is None:
            report.write_table(outcome, sys.stdout)
        if asked.queues and asked.output_format == "table":
            sys.stdout.write("\n")
            report.write_queues(outcome.queues, sys.stdout)
    return NO if asked.fail_on_pending and outcome.pending else GOOD


def _base_reading(asked: SimulateOptions, changes: Sequence[Change]) -> Reading | None:
    """The profiles for the unchanged cluster, None if they are those for the changed one.

    If only the configuration of a live cluster changes, the unchanged one is evaluated with the default profile.
    """
    from moorage.cli.profiles import load_reading  # noqa: PLC0415

    if asked.base_config_file is not None:
        return load_reading(asked.base_config_file)
    return load_reading(None) if asked.live and asked.config_file is not None and not changes else None


def _cluster(asked: SimulateOptions, reading: Reading) -> tuple[ClusterInput, str]:
    """The initial objects, and the namespace of objects that name none."""
    from moorage.sim.inputs import read_cluster  # noqa: PLC0415
    from moorage.wire.manifests import load_manifests  # noqa: PLC0415
    from moorage.wire.workloadkinds import workloads_in  # noqa: PLC0415

    if not asked.live:
        own = workloads_in(reading.profiles).kinds
        return read_cluster(load_manifests(asked.files, own=own)), asked.namespace or _DEFAULT_NAMESPACE
    return _live_cluster(asked, reading)


def _live_cluster(asked: SimulateOptions, reading: Reading) -> tuple[ClusterInput, str]:
    """The objects of the API server with those of the files on top, and the namespace of the kubeconfig."""
    from moorage.app.look import LookError  # noqa: PLC0415 - the client of the API server, which files do not need
    from moorage.app.snapshot import take_snapshot  # noqa: PLC0415
    from moorage.cli.logs import answering_logs  # noqa: PLC0415
    from moorage.sim.inputs import read_cluster  # noqa: PLC0415
    from moorage.sim.whatif import on_top, readable  # noqa: PLC0415
    from moorage.wire.manifests import load_manifests, manifests_of  # noqa: PLC0415
    from moorage.wire.workloadkinds import workloads_in  # noqa: PLC0415

    own = workloads_in(reading.profiles).kinds

    try:
        with answering_logs():
            snapshot = take_snapshot(asked.kubeconfig, reading.configuration, reading.profiles)
    except LookError as error:
        raise InputError([error]) from None
    say("warning", snapshot.warnings)
    manifests, lines = readable(manifests_of(snapshot.objects, snapshot.server, own))
    say("warning", lines)
    if asked.files:
        manifests = on_top(manifests, load_manifests(asked.files, own=own))
    return read_cluster(manifests), asked.namespace or snapshot.namespace


def _changes(asked: SimulateOptions, namespace: str) -> list[Change]:
    """All changes to make; every text that cannot be parsed is reported."""
    changes: list[Change] = [Drain(node) for node in asked.drains]
    changes += [AddNodes(number, like) for number, like in zip(asked.add_nodes, asked.likes, strict=True)]
    problems: list[str] = []
    scale = partial(parse_scale, namespace=namespace)
    texts: list[tuple[Callable[[str], Change], str]] = [(scale, text) for text in asked.scales]
    texts += [(parse_set_queue, text) for text in asked.set_queues]
    for parse, text in texts:
        try:
            changes.append(parse(text))
        except ChangeError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return [*changes, Afresh()] if asked.afresh else changes


def _rules(asked: SimulateOptions, reading: Reading, *, answers_to_all: bool) -> SimulationRules:
    from moorage.sim.rules import rules_of  # noqa: PLC0415

    return rules_of(reading, asked.seed, answers_to_all=answers_to_all)


def _outcome(asked: SimulateOptions, given: ClusterInput, reading: Reading) -> SimulationOutcome:
    """Run the cluster as it is; whatever is wrong with it ends the command."""
    from moorage.sim.simulation import SimulationError, simulate  # noqa: PLC0415

    try:
        return simulate(given, _rules(asked, reading, answers_to_all=asked.config_file is None), explain=asked.explain)
    except SimulationError as error:
        raise InputError(error.problems) from error


def _difference(
    asked: SimulateOptions, given: ClusterInput, changes: Sequence[Change], reading: Reading, others: Reading | None
) -> tuple[SimulationOutcome, dict[str, Any]]:
    """Run the cluster with the changes; the table of the difference is printed here, the document is returned."""
    from moorage.sim.difference_report import difference_document, write_difference  # noqa: PLC0415
    from moorage.sim.report import write_table  # noqa: PLC0415
    from moorage.sim.simulation import SimulationError  # noqa: PLC0415
    from moorage.sim.whatif import what_if  # noqa: PLC0415

    rules = _rules(asked, reading, answers_to_all=asked.config_file is None)
    base_rules = None
    if others is not None:
        base_rules = _rules(asked, others, answers_to_all=asked.base_config_file is None)
    try:
        found = what_if(given, changes, rules, base_rules=base_rules, explain=asked.explain)
    except (ChangeError, SimulationError) as error:
        raise InputError(error.problems) from error
    if asked.output_format == "table":
        if asked.explain:
            write_table(found.after, sys.stdout)
            sys.stdout.write("\n")
        write_difference(found.difference, sys.stdout)
    return found.after, {"difference": difference_document(found.difference)}


def _repack(asked: SimulateOptions, outcome: SimulationOutcome) -> dict[str, Any]:
    """Plan moves on the cluster at rest; their table is printed here, the document is returned."""
    from moorage.sim.repack import repack_of, write_repack  # noqa: PLC0415
    from moorage.views.repack import repack_document  # noqa: PLC0415

    if outcome.world is None:
        raise ValueError("the outcome has no world to look at")
    view = repack_of(outcome.world)
    if asked.output_format == "table":
        write_repack(view, sys.stdout)
    return {"repack": repack_document(view)}
