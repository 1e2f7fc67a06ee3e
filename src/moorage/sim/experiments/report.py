"""The results of an experiment as one page that needs no network: charts, and a table of all figures.

Everything that comes from a file is escaped; there are no scripts, and nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from moorage.core.phrases import counted
from moorage.sim.experiments.charts import COLOURS, interval_chart, line_chart, number_text
from moorage.sim.experiments.conduct import Conducted
from moorage.sim.experiments.document import Combination, Experiment
from moorage.sim.experiments.goals import better_larger
from moorage.sim.experiments.statistics import MeanInterval, mean_interval

CHARTED = (
    "allocated", "fragmented", "pending", "waiting-p95", "evictions", "moves", "cost", "spread-violations",
    "strategy-violations", "fairness",
)  # fmt: skip
"""Measures with a chart of their means; all others are in the table."""
OVER_TIME = tuple(f"{name}-mean" for name in ("allocated", "fragmented", "pending", "cost", "fairness"))
"""Means over the time of a run that tables for people have, too."""
Figures = Mapping[tuple[str, str, str], Mapping[str, MeanInterval]]
"""(measure, of, unit) -> configuration -> mean over the seeds."""

_STYLE = """
:root{--text:#1d2430;--soft:#5b6675;--back:#fff;--card:#f6f7f9;--line:#d9dde3;
--c0:#2f6fbd;--c1:#c8500f;--c2:#2d8a4e;--c3:#8a4fb0;--c4:#b8860b;--c5:#c43d6b;--c6:#0e8a8a;--c7:#6b6f76}
@media (prefers-color-scheme:dark){:root{--text:#e6e9ee;--soft:#9aa5b4;--back:#14181f;--card:#1c222b;--line:#343c48;
--c0:#6aa5ea;--c1:#f08a4b;--c2:#62c484;--c3:#c18be3;--c4:#e0b84a;--c5:#ee7fa6;--c6:#4fc4c4;--c7:#a9b0ba}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);
max-width:1400px;margin:0 auto;padding:24px}h1{font-size:26px;margin:0 0 4px}h2{font-size:20px;margin:36px 0 12px}
h3{font-size:15px;margin:24px 0 8px}.card h3{margin-top:0}p{margin:4px 0;color:var(--soft)}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr));gap:16px}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px}
svg{width:100%;height:auto;display:block;font:12px system-ui,sans-serif}svg text{fill:var(--text)}
svg .tick{fill:var(--soft);font-size:11px}svg line.grid{stroke:var(--line)}svg .line{fill:none;stroke-width:2}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13px}
th,td{padding:5px 10px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left}.best{font-weight:700}small{color:var(--soft);font-weight:400}
.key span{display:inline-block;margin-right:16px}.key i{display:inline-block;width:12px;height:12px;border-radius:3px;
margin-right:6px;vertical-align:-1px}li{margin:2px 0}
"""


def html_report(experiment: Experiment, conducted: Conducted) -> str:
    """The page."""
    title = f"Experiment {experiment.name}"
    colours = "".join(
        f"svg .c{index}{{stroke:var(--c{index})}}svg circle.c{index},i.c{index}{{fill:var(--c{index});"
        f"background:var(--c{index})}}"
        for index in range(COLOURS)
    )
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}{colours}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *_summary(experiment, conducted),
        *_sections(experiment, conducted),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _summary(experiment: Experiment, conducted: Conducted) -> Iterator[str]:
    sizes = (
        counted(len(experiment.inputs), "input"),
        counted(len(experiment.configurations), "configuration"),
        counted(len(experiment.changes), "change"),
        counted(len(experiment.seeds), "seed"),
    )
    known = f"{counted(experiment.number, 'combination')}, {len(conducted.answers)} with a result"
    yield f"<p>{', '.join(sizes)}: {known}.</p>"
    yield "<p>Dots are means over the seeds, lines the intervals in which the true mean is, 19 times out of 20.</p>"
    key = (
        f'<span><i class="c{index % COLOURS}"></i>{escape(name)}</span>'
        for index, name in enumerate(experiment.configurations)
    )
    yield f'<p class="key">{"".join(key)}</p>'
    if conducted.failures:
        lines = (f"<li>{escape(str(each))}: {escape('; '.join(why))}</li>" for each, why in conducted.failures.items())
        yield f"<h2>Combinations without a result</h2><ul>{''.join(lines)}</ul>"


def _sections(experiment: Experiment, conducted: Conducted) -> Iterator[str]:
    for given in experiment.inputs:
        for change in experiment.changes:
            answers = {
                each: answer
                for each, answer in conducted.answers.items()
                if (each.input, each.change) == (given["name"], change)
            }
            if not answers:
                continue
            name = f"{given['name']}, change {change}" if len(experiment.changes) > 1 else given["name"]
            yield f"<h2>{escape(name)}</h2>"
            found, names = means(answers), list(experiment.configurations)
            yield f'<div class="grid">{"".join(_mean_charts(found))}</div>'
            yield f'<h3>Over time</h3><div class="grid">{"".join(_time_charts(answers, names))}</div>'
            yield _table(found, names)


def means(answers: Mapping[Combination, Mapping[str, Any]]) -> Figures:
    """The mean over the seeds of every figure, by configuration."""
    values: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for each, answer in answers.items():
        for measure, of, value, unit in answer["result"]["rows"]:
            values.setdefault((measure, of, unit), {}).setdefault(each.configuration, []).append(value)
    return {
        key: {name: mean_interval(found) for name, found in by_name.items()}
        for key, by_name in sorted(values.items(), key=lambda item: _place(item[0]))
    }


def _place(key: tuple[str, str, str]) -> tuple[int, str, str]:
    measure = key[0].removesuffix("-mean")
    place = CHARTED.index(measure) if measure in CHARTED else len(CHARTED)
    return 2 * place + key[0].endswith("-mean"), key[0], key[1]


def title_of(measure: str, of: str, unit: str) -> str:
    """What a figure is called on a page or in a table."""
    return f"{measure} {of}".strip() + f" ({unit})"


def _mean_charts(found: Figures) -> Iterator[str]:
    for (measure, of, unit), by_name in found.items():
        grouped = of.startswith(("queue=", "priority="))
        if measure in (*CHARTED, *OVER_TIME) and not grouped and len({each.mean for each in by_name.values()}) > 1:
            title = title_of(measure, of, unit)
            yield f'<div class="card"><h3>{escape(title)}</h3>{interval_chart(title, by_name)}</div>'


def _time_charts(answers: Mapping[Combination, Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
    """Of each figure over time, the mean over the seeds; seeds whose moments differ are left to the first one's."""
    series: dict[str, dict[str, list[Sequence[Sequence[float]]]]] = {}
    for each, answer in answers.items():
        for title, points in answer["result"]["series"].items():
            series.setdefault(title, {}).setdefault(each.configuration, []).append(points)
    for title, by_name in series.items():
        lines = {name: _averaged(by_name[name]) for name in names if name in by_name}
        if any(len(line) > 1 and len({point[1] for point in line}) > 1 for line in lines.values()):
            yield f'<div class="card"><h3>{escape(title)}</h3>{line_chart(title, lines)}</div>'


def _averaged(many: Sequence[Sequence[Sequence[float]]]) -> list[tuple[float, float]]:
    first = many[0]
    alike = [each for each in many if len(each) == len(first)]
    return [(point[0], sum(each[at][1] for each in alike) / len(alike)) for at, point in enumerate(first)]


def _table(found: Figures, names: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(_line(key, by_name, names) for key, by_name in found.items())
    return f'<h3>All figures</h3><div class="scroll"><table><tr><th>measure</th>{head}</tr>{rows}</table></div>'


def _line(key: tuple[str, str, str], by_name: Mapping[str, MeanInterval], names: Iterable[str]) -> str:
    best = best_of(key[0], by_name)
    cells = []
    for name in names:
        each = by_name.get(name)
        if each is None:
            cells.append("<td>–</td>")
            continue
        reach = (
            ""
            if each.high is None or each.high == each.mean
            else f" <small>± {number_text(each.high - each.mean)}</small>"
        )
        kind = ' class="best"' if name in best else ""
        cells.append(f"<td{kind}>{number_text(each.mean)}{reach}</td>")
    return f"<tr><td>{escape(title_of(*key))}</td>{''.join(cells)}</tr>"


def best_of(measure: str, by_name: Mapping[str, MeanInterval]) -> set[str]:
    """The configurations with the best mean; none where all are alike, or nothing is better."""
    larger = better_larger(measure)
    values = {each.mean for each in by_name.values()}
    if larger is None or len(values) < 2:
        return set()
    best = max(values) if larger else min(values)
    return {name for name, each in by_name.items() if each.mean == best}
