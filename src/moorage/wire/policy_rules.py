"""The rules of a PlacementPolicy as a strategy: the same values as in an annotation, written as fields.

    rules:
      - {base: 2, weight: 1, nodeSelector: {node-type: ondemand}}
      - {weight: 3, nodeSelector: {node-type: spot}}

`weight` and `nodeSelector` are required. Mistakes name the field, and all of them come at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from moorage.core.labelnames import is_label_value, is_qualified_name
from moorage.core.strategy_syntax import (
    BASE,
    FIELDS,
    KEY_REMEDY,
    MAX_BASE,
    MAX_WEIGHT,
    NODE_SELECTOR,
    TWIN_REMEDY,
    VALUE_REMEDY,
    WEIGHT,
    WEIGHTLESS,
    Mistake,
    Mistakes,
    Rule,
    Strategy,
    StrategyError,
    SyntaxRefusal,
    TooManyMistakes,
    excess_of,
    meant_field,
    number_remedy,
    refuse_length,
    shown,
    twins,
)

_RULE_REMEDY = "write a mapping such as {weight: 1, nodeSelector: {node-type: spot}}"
_PATH = "spec.rules"


def read_rules(rules: Sequence[Any]) -> Strategy | SyntaxRefusal:
    """The strategy that these rules are, as they were decoded; or every mistake in them."""
    try:
        return parse_rules(rules)
    except StrategyError as error:
        return SyntaxRefusal(error.mistakes, error.too_large)


def parse_rules(rules: Sequence[Any]) -> Strategy:
    """Read rules as they were decoded. Raises StrategyError with the mistakes, and nothing else."""
    refuse_length(_PATH, len(_json(rules, separators=(",", ":"), ensure_ascii=False)) - len(rules) - 1)
    reader = _Reader()
    found: list[Rule] = []
    with suppress(TooManyMistakes):
        found = [reader.rule(f"{_PATH}[{index}]", rule) for index, rule in enumerate(rules)]
        reader.judge(found)
    if reader.mistakes.found:
        raise reader.mistakes.error()
    return Strategy(tuple(found))


class _Reader:
    """Reads rules and collects what is wrong with them."""

    def __init__(self) -> None:
        self.mistakes = Mistakes()

    def complain(self, where: str, what: str, remedy: str, *, too_large: bool = False) -> None:
        """Note a mistake."""
        self.mistakes.add(Mistake(where, what, remedy), too_large=too_large)

    def rule(self, path: str, body: Any) -> Rule:
        """Read one rule; what is wrong in it counts as 0 or as no label."""
        if not isinstance(body, dict):
            self.complain(path, f"{_written(body)} is no rule", _RULE_REMEDY)
            return Rule(0, 1, ())
        for name in body:
            if name not in FIELDS:
                meant = meant_field(name)
                remedy = f"write {meant}" if meant else "write base, weight or nodeSelector"
                self.complain(f"{path}.{name}", "is no field of a rule", remedy)
        base = self._number(f"{path}.{BASE}", body.get(BASE, 0), MAX_BASE)
        if WEIGHT not in body:
            self.complain(path, f"has no {WEIGHT}", "add weight: 1, or weight: 0 for its base only")
        weight = self._number(f"{path}.{WEIGHT}", body.get(WEIGHT, 1), MAX_WEIGHT)
        return Rule(base or 0, 1 if weight is None else weight, self._selector(path, body.get(NODE_SELECTOR)))

    def judge(self, rules: Sequence[Rule]) -> None:
        """Look at all rules together."""
        if not rules:
            self.complain(_PATH, "there is no rule", _RULE_REMEDY)
        elif all(rule.weight == 0 for rule in rules):
            self.complain(_PATH, *WEIGHTLESS)
        excess = excess_of([(rule.weight, len(rule.selector)) for rule in rules])
        if excess is not None:
            self.complain(_PATH, *excess[1:], too_large=True)
        for index, twin in twins(rule.selector for rule in rules):
            what = f"is the nodeSelector of rule {twin + 1} too"
            self.complain(f"{_PATH}[{index}].{NODE_SELECTOR}", what, TWIN_REMEDY)

    def _number(self, where: str, value: Any, largest: int) -> int | None:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.complain(where, f"is {_written(value)}", f"write a whole number from 0 to {largest}")
            return None
        if value > largest:
            self.complain(where, f"is {_written(value)}, which is too large", number_remedy(where.rpartition(".")[2]))
            return None
        return value

    def _selector(self, path: str, labels: Any) -> tuple[tuple[str, str], ...]:
        where = f"{path}.{NODE_SELECTOR}"
        if not isinstance(labels, dict) or not labels:
            what = "is missing" if labels is None else f"is {_written(labels)}"
            self.complain(where, what, "write the labels of the rule's nodes, such as {node-type: spot}")
            return ()
        for key, value in labels.items():
            if not is_qualified_name(key):
                self.complain(where, f"{shown(key)} is no label key", KEY_REMEDY)
            if not isinstance(value, str):
                self.complain(f"{where}[{key}]", f"{_written(value)} is no text", "put the value in quotes")
            elif not is_label_value(value):
                self.complain(f"{where}[{key}]", f"{shown(value)} is no label value", VALUE_REMEDY)
        return tuple((key, str(value)) for key, value in labels.items())


def _written(value: Any) -> str:
    return shown(value if isinstance(value, str) else _json(value))


def _json(value: Any, **style: Any) -> str:
    try:
        return json.dumps(value, default=str, **style)
    except (ValueError, RecursionError):  # numbers of thousands of digits, nesting without end
        return type(value).__name__
