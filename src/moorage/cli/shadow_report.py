"""How the report of a shadow is printed and written."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from moorage.cli.output import InputError
from moorage.sim.tables import shown, write_table
from moorage.views.shadow import ShadowReport, document
from moorage.views.shadownames import Names
from moorage.views.shadowpage import VERDICTS, html_page, why, world_rows

_SHOWN = 20
"""Differences that the table lists; JSON and HTML have more."""


def report_writer(file: str, names: Names) -> Callable[[ShadowReport], None]:
    """Writes the HTML report, or raises OSError; a file that cannot be written ends the command before it begins."""
    path = Path(file)
    with writable(file):
        draft = path.with_name(f".{path.name}.{os.getpid()}")

    def write(report: ShadowReport) -> None:
        draft.write_text(html_page(document(report, names)), encoding="utf-8")
        draft.replace(path)  # as a whole, so that no reader finds half of it

    with writable(file):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        draft.touch()
        draft.unlink()
        path.touch()
    return write


@contextmanager
def writable(file: str) -> Iterator[None]:
    """Write the report within: an error ends the command with one line."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        line = f"--report {file}: cannot be written ({reason}); name a file in a folder that can be"
        raise InputError([line]) from None


def print_report(report: ShadowReport, names: Names, output_format: str) -> None:
    """One JSON document, or tables for people."""
    found = document(report, names)
    if output_format == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    judges = ", ".join(f"{name} (profile {judge})" for name, judge in found["schedulers"].items())
    click.echo(shown(f"{found['began']} to {found['ended']}, mode {found['mode']}: {judges}"))
    click.echo()
    _table(("DECISIONS", "NUMBER", "SHARE"), _verdict_rows(found["decisions"]), numbers=("NUMBER", "SHARE"))
    _say(found)
    click.echo()
    _table(("WORLD", "THERE", "HERE"), world_rows(found["worlds"]), numbers=("THERE", "HERE"))
    if found["plugins"]:
        click.echo()
        _table(_PLUGIN_COLUMNS, _plugin_rows(found["plugins"]), numbers=_PLUGIN_COLUMNS[1:])
    if found["differences"]:
        click.echo()
        _table(("POD", "VERDICT", "THERE", "HERE", "WHY"), _difference_rows(found["differences"]))


_PLUGIN_COLUMNS = ("PLUGIN", "DECISIVE", "AGREE WITHOUT IT", "AGREE WITH OTHER SIGN", "POINTS", "REJECTS")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    write_table(columns, rows, sys.stdout, numbers=numbers)


def _say(found: Mapping[str, Any]) -> None:
    agreement = found["agreement"]
    cost, evictions = found["cost"], found["evictions"]
    if agreement is not None:
        click.echo(f"\nAgreement: {agreement:.2%} of the decisions that can be compared.")
    for sentence in found["conclusions"]:
        click.echo(shown(sentence))
    if evictions["victimsThere"] or evictions["victimsHere"]:
        click.echo(f"Evicted for other pods: {evictions['victimsThere']} there, {evictions['victimsHere']} here.")
    if found["unseen"]:
        click.echo(f"Not compared, as they had a node when first seen: {found['unseen']} pods.")
    lag = cost["lagSeconds"]
    per = cost["cpuMillisecondsPerDecision"]
    if per is not None:
        click.echo(f"CPU: {per} ms a decision. Lag: {lag['p50']} s (p50), {lag['p99']} s (p99), {lag['max']} s (max).")


def _verdict_rows(decisions: Mapping[str, int]) -> list[tuple[str, str, str]]:
    total = decisions["total"]
    found = [(VERDICTS[name], number) for name, number in decisions.items() if name != "total" and number]
    rows = [(text, str(number), f"{number / total:.2%}") for text, number in found]
    return [*rows, ("all", str(total), "100.00%" if total else "")]


def _plugin_rows(plugins: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    keys = ("name", "decisive", "agreementsWithoutIt", "agreementsWithTheOtherSign", "points", "rejections")
    return [tuple(str(plugin[key]) for key in keys) for plugin in plugins]


def _difference_rows(differences: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    newest = list(reversed(differences))[:_SHOWN]
    return [
        (each["pod"], VERDICTS[each["verdict"]], each["there"] or "-", each["here"] or "-", why(each))
        for each in newest
    ]
