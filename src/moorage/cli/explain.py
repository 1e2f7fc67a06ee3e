"""`moorage explain`: one pod, every node, and why; from files or from a live cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from moorage.cli.options import cluster_option, common_options, config_option, kubeconfig_option, output_option
from moorage.cli.output import GOOD, InputError, say

if TYPE_CHECKING:  # at run time these cost a start-up of numpy and pydantic, and --help needs none of it
    from moorage.app.explain import Announcement
    from moorage.engine.opinion import Opinion
    from moorage.wire.configuration import Reading

_DEFAULT_NAMESPACE = "default"
_MOST_SUGGESTIONS = 3


@click.command("explain", short_help="Show where a pod goes and why, node by node.")
@click.argument("pod", metavar="POD")
@click.option("-n", "--namespace", metavar="NAMESPACE", default=None, help="Namespace of the pod.")
@cluster_option
@config_option
@kubeconfig_option
@click.option("--all", "show_all", is_flag=True, help="Show every node, not only the best ones.")
@output_option("table", "json")
@common_options
def command(
    pod: str,
    namespace: str | None,
    files: tuple[str, ...],
    config_file: str | None,
    kubeconfig: str | None,
    show_all: bool,
    output_format: str,
) -> int:
    """Show for one pod the scores of every node, or why it was rejected.

    A pending pod of files is shown as `moorage simulate` places it, one of a live cluster as it would be placed right
    now, with what happened to it so far; if it fits nowhere, the smallest changes that would make it fit are listed,
    each verified. A bound pod is evaluated as if it were pending, and its node is compared with the best of the others.
    Nothing is written to the cluster.
    """
    from moorage.cli import explain_report as report  # noqa: PLC0415 - numpy and pydantic, not needed for --help
    from moorage.cli.profiles import load_reading  # noqa: PLC0415

    if files and kubeconfig:
        raise click.UsageError("--filename and --kubeconfig exclude each other: a pod is in files or in a cluster")
    namespace, name = _split(pod, namespace)
    reading = load_reading(config_file)
    story: list[Announcement] = []
    if files:
        opinion = _from_files(reading, files, namespace, name, answers_to_all=config_file is None)
    else:
        opinion, story = _from_cluster(reading, kubeconfig, namespace, name, answers_to_all=config_file is None)
    say("warning", opinion.faults)
    if output_format == "json":
        report.write_json(opinion, story, sys.stdout)
    else:
        report.write_table(opinion, story, sys.stdout, show_all=show_all)
    return GOOD


def _split(pod: str, namespace: str | None) -> tuple[str | None, str]:
    """`NAMESPACE/NAME`, as Moorage itself names pods, is understood too."""
    named, slash, name = pod.rpartition("/")
    if not slash:
        return namespace, pod
    if namespace is not None and namespace != named:
        raise click.UsageError(f"POD names the namespace {named}, --namespace {namespace}; give one of them")
    return named, name


def _from_files(
    reading: Reading, files: Sequence[str], namespace: str | None, name: str, *, answers_to_all: bool
) -> Opinion:
    from moorage.sim.inputs import read_cluster  # noqa: PLC0415
    from moorage.sim.opinions import UnknownPodError, opinion_from_files  # noqa: PLC0415
    from moorage.sim.rules import rules_of  # noqa: PLC0415
    from moorage.sim.simulation import SimulationError  # noqa: PLC0415
    from moorage.sim.unread_rules import unread_rules  # noqa: PLC0415
    from moorage.wire.manifests import load_manifests  # noqa: PLC0415
    from moorage.wire.workloadkinds import workloads_in  # noqa: PLC0415

    namespace = namespace or _DEFAULT_NAMESPACE
    given = read_cluster(load_manifests(files, own=workloads_in(reading.profiles).kinds))
    try:
        found = opinion_from_files(given, rules_of(reading, 0, answers_to_all=answers_to_all), namespace, name)
    except SimulationError as error:
        raise InputError(error.problems) from error
    except UnknownPodError as error:
        raise InputError([_unknown(namespace, name, ", ".join(dict.fromkeys(files)), error.known)]) from error
    say("warning", given.warnings)
    say("warning", unread_rules(given.objects, reading.profiles, answers_to_all=answers_to_all))
    return found


def _from_cluster(
    reading: Reading, kubeconfig: str | None, namespace: str | None, name: str, *, answers_to_all: bool
) -> tuple[Opinion, list[Announcement]]:
    from moorage.app.explain import Judge, take_picture  # noqa: PLC0415
    from moorage.app.look import LookError  # noqa: PLC0415
    from moorage.cli.logs import answering_logs  # noqa: PLC0415
    from moorage.cli.profiles import configuration_of  # noqa: PLC0415

    judge = Judge(configuration_of(reading), reading.profiles, answers_to_all)
    try:
        with answering_logs():
            picture = take_picture(judge, kubeconfig, name)
    except LookError as error:
        raise InputError([error]) from None
    say("warning", picture.warnings)
    namespace = namespace or picture.namespace
    for pod in picture.pods:
        if (pod.namespace, pod.name) == (namespace, name):
            return judge.opinion(picture, pod), picture.story(pod)
    raise InputError([_unknown(namespace, name, picture.server, (pod.key for pod in picture.pods))])


def _unknown(namespace: str, name: str, where: str, known: Iterable[str]) -> str:
    """One line that says what might have been meant: the same name elsewhere, or a name like it."""
    from difflib import get_close_matches  # noqa: PLC0415

    keys = sorted(set(known))
    elsewhere = [key for key in keys if key.endswith(f"/{name}")]
    made = [key for key in keys if key.startswith(f"{namespace}/{name}-")]
    here = [key.partition("/")[2] for key in keys if key.startswith(f"{namespace}/")]
    near = [f"{namespace}/{each}" for each in get_close_matches(name, here, n=_MOST_SUGGESTIONS)]
    meant = list(dict.fromkeys([*elsewhere, *made, *near]))[:_MOST_SUGGESTIONS]
    remedy = (
        f"did you mean {' or '.join(meant)}?"
        if meant
        else "check the name and --namespace; pods that have finished do not count"
    )
    return f"{where}: no pod {namespace}/{name}; {remedy}"
