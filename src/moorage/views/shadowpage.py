"""The report of a shadow as one HTML page: opens without a network, light and dark, and runs no script.

It is made from the document that `-o json` prints, and everything that comes from there is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

_SHOWN = 500
"""Differences on the page, the newest ones."""
_FEW = 3
"""Columns that fit on narrow screens; tables of more scroll."""

VERDICTS: dict[str, str] = {
    "same": "same node",
    "tie": "tie: equal totals under the profile",
    "order": "explained by another order of decisions",
    "bothPending": "pending in both",
    "different": "different node",
    "pendingHere": "placed there, pending here",
    "pendingThere": "pending there, placed here",
    "undecided": "could not be compared",
}
"""Verdict -> what people read; agreements first."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --paper: #fff; --card: #f5f7fa; --line: #dde3ea;
  --same: #2f855a; --tie: #68a67f; --order: #4c7fb8; --bothPending: #9aa5b1; --different: #c0392b;
  --pendingHere: #d97b29; --pendingThere: #c9a227; --undecided: #7d6b91; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf1; --soft: #9aa7b6; --paper: #12171e; --card: #1b222c;
  --line: #2d3743; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .4rem 0; } .soft { color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .75rem; margin: 1.2rem 0; }
.card { background: var(--card); border-radius: .6rem; padding: .8rem 1rem; }
.card b { display: block; font-size: 1.6rem; font-variant-numeric: tabular-nums; }
.bar { display: flex; height: 1.1rem; border-radius: .55rem; overflow: hidden; background: var(--card); }
.bar i { display: block; min-width: 2px; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin-top: .6rem; padding: 0; list-style: none; }
.legend i { display: inline-block; width: .7rem; height: .7rem; border-radius: .2rem; margin-right: .4rem; }
.say { border-left: 4px solid var(--different); background: var(--card); padding: .6rem 1rem;
  border-radius: 0 .5rem .5rem 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
.many { min-width: 44rem; }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; } .n { text-align: right; font-variant-numeric: tabular-nums; }
td.w { overflow-wrap: anywhere; } summary { cursor: pointer; } details table { margin: .3rem 0 .6rem; width: auto; }
"""


def world_rows(worlds: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The figures of both worlds, a row each: what it is, there, here."""
    there = _figures(worlds["there"])
    here = {} if worlds["here"] is None else _figures(worlds["here"])
    return [(text, there.get(text, ""), here.get(text, "")) for text in dict.fromkeys((*there, *here))]


def _figures(world: Mapping[str, Any]) -> dict[str, str]:
    """What it is -> the figure."""
    used, spread = world["allocatedOnNodesInUse"], world["spread"]
    price = world["costPerHour"]
    return {
        "nodes in use": f"{world['nodesInUse']} of {world['nodes']}",
        "pods on nodes": str(world["pods"]),
        "pods pending": str(world["pending"]),
        **({} if price is None else {"cost per hour": f"{price} {world['currency']}".strip()}),
        **{f"{name} allocated on nodes in use": f"{used[name]:.1%}" for name in sorted(used)},
        **{f"idle {name} of no use": _unusable(idle) for name, idle in world["idle"].items()},
        "spread constraints broken": _of(spread, "broken", "constraints"),
        "spread preferences not met": _of(spread, "uneven", "constraints"),
        "strategies not met": _of(world["strategies"], "off", "workloads"),
    }


def _of(part: Mapping[str, int], number: str, total: str) -> str:
    return f"{part[number]} of {part[total]}"


def _unusable(idle: Mapping[str, float]) -> str:
    return f"{idle['unusable'] / idle['amount']:.1%}" if idle["amount"] else "0.0%"


def html_page(found: Mapping[str, Any]) -> str:
    """The whole page; `found` is what `document` returns."""
    judges = ", ".join(f"{name} (profile {judge})" for name, judge in found["schedulers"].items())
    about = f"{judges}, mode {found['mode']}, {found['began']} to {found['ended']}"
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Moorage shadow</title>',
        f"<style>{_STYLE}</style></head><body>",
        "<h1>What Moorage would have done</h1>",
        f'<p class="soft">{escape(about)}</p>',
        _cards(found),
        _bar(found["decisions"]),
        *(f'<p class="say">{escape(sentence)}</p>' for sentence in found["conclusions"]),
        "<h2>Worlds</h2>",
        _worlds(found),
        *_plugins(found["plugins"]),
        *_differences(found),
        *_evictions(found["evictions"]),
        "</body></html>\n",
    ]
    return "".join(parts)


def _cards(found: Mapping[str, Any]) -> str:
    agreement, cost, evictions = found["agreement"], found["cost"], found["evictions"]
    per = cost["cpuMillisecondsPerDecision"]
    cards = (
        ("decisions compared", str(found["decisions"]["total"])),
        ("agreement", "-" if agreement is None else f"{agreement:.2%}"),
        ("different", str(found["decisions"]["different"])),
        ("evicted there / here", f"{evictions['victimsThere']} / {evictions['victimsHere']}"),
        ("CPU a decision", "-" if per is None else f"{per} ms"),
        ("lag, p99", f"{cost['lagSeconds']['p99']} s"),
    )
    cells = (f'<div class="card"><b>{escape(value)}</b>{escape(text)}</div>' for text, value in cards)
    return f'<div class="cards">{"".join(cells)}</div>'


def _bar(decisions: Mapping[str, int]) -> str:
    total = decisions["total"]
    if not total:
        return "<p>No decisions yet.</p>"
    shown = [name for name in VERDICTS if decisions[name]]
    pieces = (
        f'<i style="background:var(--{name});width:{100 * decisions[name] / total:.3f}%" '
        f'title="{escape(VERDICTS[name])}: {decisions[name]}"></i>'
        for name in shown
    )
    legend = (
        f'<li><i style="background:var(--{name})"></i>{escape(VERDICTS[name])}: {decisions[name]} '
        f"({decisions[name] / total:.2%})</li>"
        for name in shown
    )
    return f'<div class="bar">{"".join(pieces)}</div><ul class="legend">{"".join(legend)}</ul>'


def _worlds(found: Mapping[str, Any]) -> str:
    rows = world_rows(found["worlds"])
    if found["worlds"]["here"] is None:
        text = (
            "<p class=\"soft\">In mode follow, the other scheduler's placements are the world; mode own lets Moorage's "
            "own go on beside it.</p>"
        )
        return text + _table(("", "there"), [row[:2] for row in rows], numbers=(1,))
    return _table(("", "there", "here"), rows, numbers=(1, 2))


def _plugins(plugins: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    if not plugins:
        return
    yield "<h2>Plugins behind the differences</h2>"
    yield (
        '<p class="soft">Decisive: it preferred the node chosen here by more points than any other plugin. The next '
        "two columns: how many differences would be agreements without its scores, or with their other sign.</p>"
    )
    columns = ("plugin", "decisive", "agree without it", "agree with other sign", "points", "rejects their node")
    keys = ("name", "decisive", "agreementsWithoutIt", "agreementsWithTheOtherSign", "points", "rejections")
    ranked = sorted(plugins, key=lambda plugin: (-plugin["decisive"] - plugin["rejections"], plugin["name"]))
    yield _table(columns, [[str(plugin[key]) for key in keys] for plugin in ranked], numbers=range(1, len(keys)))


def _differences(found: Mapping[str, Any]) -> Iterable[str]:
    newest = [*reversed(found["differences"])][:_SHOWN]
    if not newest:
        return
    yield "<h2>Differences, newest first</h2>"
    left_out = found["differencesLeftOut"] + len(found["differences"]) - len(newest)
    if left_out:
        yield f'<p class="soft">{left_out} older ones are counted above and not listed.</p>'
    head = "".join(f"<th>{title}</th>" for title in ("pod", "verdict", "there", "here", "why"))
    rows = "".join(
        f'<tr><td class="w">{escape(each["pod"])}</td><td>{escape(VERDICTS[each["verdict"]])}</td>'
        f'<td class="w">{escape(each["there"] or "-")}</td><td class="w">{escape(each["here"] or "-")}</td>'
        f"<td>{_why(each)}</td></tr>"
        for each in newest
    )
    yield f'<div class="scroll"><table class="many"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _why(each: Mapping[str, Any]) -> str:
    scores = each.get("scores")
    if not scores:
        return escape(why(each))
    rows = [[name, str(pair["there"]), str(pair["here"])] for name, pair in scores.items()]
    rows.append(["total", str(each["totals"]["there"]), str(each["totals"]["here"])])
    table = _table(("plugin", "there", "here"), rows, numbers=(1, 2))
    return f"<details><summary>{escape(why(each))}</summary>{table}</details>"


def why(difference: Mapping[str, Any]) -> str:
    """Why the profile disagrees, in one line: the largest preferences, the rejection, or the message."""
    if "rejected" in difference:
        said = difference["rejected"].items()
        return "; ".join(
            f"{plugin} rejects it{': ' if reasons else ''}{', '.join(reasons)}" for plugin, reasons in said
        )
    scores = difference.get("scores", {})
    points = {name: pair["here"] - pair["there"] for name, pair in scores.items() if pair["here"] != pair["there"]}
    ranked = sorted(points.items(), key=lambda item: (-abs(item[1]), item[0]))[:3]
    return ", ".join(f"{name} {value:+}" for name, value in ranked) or str(difference.get("message", ""))


def _evictions(evictions: Mapping[str, Any]) -> Iterable[str]:
    newest = [*reversed(evictions["newest"])][:_SHOWN]
    if not newest:
        return
    yield "<h2>Evictions for other pods, newest first</h2>"
    rows = [
        [
            each["pod"],
            f"{each['there']}: {', '.join(each['victimsThere']) or 'none'}",
            f"{each['here'] or '-'}: {', '.join(each['victimsHere']) or 'none'}",
        ]
        for each in newest
    ]
    yield _table(("for", "there", "here"), rows)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    right = frozenset(numbers)

    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(f"<{tag}{_class(place in right)}>{escape(text)}</{tag}>" for place, text in enumerate(texts))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    many = ' class="many"' if len(titles) > _FEW else ""
    head = cells("th", titles)
    return f'<div class="scroll"><table{many}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _class(is_number: bool) -> str:
    return ' class="n"' if is_number else ' class="w"'
