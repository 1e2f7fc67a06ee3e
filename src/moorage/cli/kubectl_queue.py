"""`kubectl moorage queue`: the pending pods, and why they are pending."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

import click

from moorage.cli.options import common_options, kubeconfig_option, output_option
from moorage.cli.output import GOOD, InputError, say

if TYPE_CHECKING:  # at run time these cost a start-up of numpy, and --help needs none of it
    from moorage.app.waiting import WaitingGang, WaitingList, WaitingPod

_NOTHING = "-"
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


@click.command("queue", short_help="List the pending pods, and why they are pending.")
@click.option("-n", "--namespace", metavar="NAMESPACE", default=None, help="Only pods of this namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Pods of all namespaces, as without --namespace.")
@kubeconfig_option
@output_option("table", "json")
@common_options
def command(namespace: str | None, all_namespaces: bool, kubeconfig: str | None, output_format: str) -> int:
    """List the pending pods: their queue, for how long, and why.

    Here, the queue of a pod is where the scheduler keeps it until it fits: active, backoff, unschedulable or gated. It
    is derived from gates, conditions, nominations and events, whichever scheduler a pod belongs to. What Queue objects
    may have, have and wait for is what `kubectl moorage queues` shows.
    """
    from moorage.app.look import LookError  # noqa: PLC0415 - not needed for --help
    from moorage.app.waiting import list_waiting  # noqa: PLC0415
    from moorage.cli.logs import answering_logs  # noqa: PLC0415

    if namespace is not None and all_namespaces:
        raise click.UsageError("--namespace and --all-namespaces exclude each other; give one of them")
    try:
        with answering_logs():
            found = list_waiting(kubeconfig, namespace)
    except LookError as error:
        raise InputError([error]) from None
    say("warning", found.warnings)
    if output_format == "json":
        write_json(found, sys.stdout)
    else:
        write_table(found, sys.stdout)
    return GOOD


def write_json(found: WaitingList, out: TextIO) -> None:
    """One JSON document."""
    import msgspec  # noqa: PLC0415

    out.write(msgspec.json.encode(document(found)).decode() + "\n")


def document(found: WaitingList) -> dict[str, Any]:
    """The list as plain values."""
    return {
        "pods": [_pod_document(pod) for pod in found.pods],
        "gangs": [_gang_document(gang) for gang in found.gangs],
        "summary": found.counts,
    }


def _pod_document(pod: WaitingPod) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "schedulerName": pod.scheduler_name,
        "queue": pod.place.value,
        "ageSeconds": int(pod.age_s),
        "priority": pod.priority,
        "gang": pod.gang,
        "gates": list(pod.gates),
        "nominatedNode": pod.nominated_node,
        "attempts": pod.attempts,
        "message": pod.message,
    }


def _gang_document(gang: WaitingGang) -> dict[str, Any]:
    return {
        "namespace": gang.namespace,
        "name": gang.name,
        "minAvailable": gang.min_available,
        "waiting": gang.waiting,
        "standing": gang.standing,
    }


def write_table(found: WaitingList, out: TextIO) -> None:
    """Tables of pods and gangs, and a line that sums up."""
    from moorage.sim import tables  # noqa: PLC0415 - not needed for --help

    if found.pods:
        columns = ("NAMESPACE", "POD", "SCHEDULER", "QUEUE", "AGE", "PRIORITY", "GANG", "REASON")
        tables.write_table(columns, [_pod_row(pod) for pod in found.pods], out)
        out.write("\n")
    if found.gangs:
        tables.write_table(("GANG", "NEEDS", "WAITING", "STANDING"), [_gang_row(gang) for gang in found.gangs], out)
        out.write("\n")
    out.write(", ".join(f"{number} {name}" for name, number in found.counts.items()) + "\n")


def _pod_row(pod: WaitingPod) -> tuple[str, ...]:
    age, gang = age_text(pod.age_s), pod.gang or _NOTHING
    place, said = pod.place.value, " ".join(pod.message.split())
    return (pod.namespace, pod.name, pod.scheduler_name, place, age, str(pod.priority), gang, said)


def _gang_row(gang: WaitingGang) -> tuple[str, ...]:
    needs = _NOTHING if gang.min_available is None else str(gang.min_available)
    return (f"{gang.namespace}/{gang.name}", needs, str(gang.waiting), str(gang.standing))


def age_text(age_s: float) -> str:
    """`3d4h`, `5m2s`, `12s`: the two largest units."""
    left = int(age_s)
    parts: list[str] = []
    for seconds, unit in _UNITS:
        number, left = divmod(left, seconds)
        if number or parts:
            parts.append(f"{number}{unit}" if number else "")
    return "".join(parts[:2]) or "0s"
