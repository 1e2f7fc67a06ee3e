"""Moorage against the real kube-scheduler, question by question.

    python -m tests.parity.fuzz --questions 1000 --seed 42

Every question is drawn from a seed of its own (seed, seed + 1, ...), so `--questions 1 --seed N` asks one of them
again. A disagreement is confirmed, shrunk and saved under tests/parity/regressions/. Exit code 1 if there is one. A run
ends at once, with exit code 2, if the objects of a question cannot be removed: the next ones would be about others.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass, field

from moorage.bench.controlplane import ControlPlaneError
from tests.parity.drawing.lottery import KINDS, draw
from tests.parity.examination import PATIENT_SETTLE_S, Disagreement, Examiner, write_down
from tests.parity.kube_side import LeftoverError, RefusedError, kube_scheduler
from tests.parity.questions import Object, Question
from tests.parity.shrinking import Shrinker

SHRINK_QUESTIONS = 120
"""How many questions the shrinking of one disagreement may cost."""
_LARGEST_SEED = 10**9
_EVERY_S = 5.0


@dataclass(slots=True)
class Tally:
    """How a run went."""

    asked: int = 0
    refused: list[str] = field(default_factory=list)
    """Questions that the API server did not take, or kube-scheduler did not answer."""
    fleeting: list[int] = field(default_factory=list)
    """Seeds on which the two sides differed once, and not when asked again."""
    disagreements: list[Disagreement] = field(default_factory=list)


def run(
    examiner: Examiner,
    seed: int,
    questions: int,
    *,
    kind: str | None = None,
    progress: bool = False,
    shrink: bool = True,
) -> Tally:
    """Ask so many questions."""
    tally = Tally()
    said_s = time.monotonic()
    for number in range(seed, seed + questions):
        tally.asked += 1
        try:
            found = examiner.examine(draw(number, kind))
        except (RefusedError, TimeoutError) as error:
            tally.refused.append(f"seed {number}: {error}")
            continue
        if found is not None:
            _look_closer(examiner, found, tally, draw(number, kind), shrink=shrink)
        if progress and time.monotonic() - said_s > _EVERY_S:
            said_s = time.monotonic()
            _say(f"{tally.asked}/{questions} questions, {examiner.pods} pods, {len(tally.disagreements)} disagreements")
    return tally


def _look_closer(examiner: Examiner, found: Disagreement, tally: Tally, question: Question, *, shrink: bool) -> None:
    if found.history:  # decided anew from the same verdicts: there is no timing in it
        _say(f"seed {found.seed}: {found}")
        tally.disagreements.append(found)
        return
    again = examiner.examine(question, settle_s=PATIENT_SETTLE_S)
    if again is None:
        tally.fleeting.append(found.seed)
        _say(f"seed {found.seed}: differed once, not when asked again with more time: {found}")
        return
    _say(f"seed {found.seed}: {again}")
    alone = examiner.confirm(again)
    if alone is None:
        _say(f"seed {found.seed}: only after what came before it; ask the whole question again to see it")
    tally.disagreements.append(_shrunk(examiner, alone) if alone is not None and shrink else again)


def _shrunk(examiner: Examiner, disagreement: Disagreement) -> Disagreement:
    best = disagreement

    def persists(objects: list[Object]) -> bool:
        nonlocal best
        found = examiner.still(disagreement, objects)
        best = found or best
        return found is not None

    Shrinker(persists, SHRINK_QUESTIONS).shrink(disagreement.objects)
    return best


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kind", choices=sorted(KINDS), default=None, help="only questions of this kind")
    options = parser.parse_args()
    seed = random.randrange(_LARGEST_SEED) if options.seed is None else options.seed
    _say(f"{options.questions} questions from seed {seed} to kube-scheduler and to Moorage")
    try:
        with kube_scheduler() as kube:
            examiner = Examiner(kube)
            tally = run(examiner, seed, options.questions, kind=options.kind, progress=True)
    except (ControlPlaneError, LeftoverError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2 if isinstance(error, LeftoverError) else 1
    for line in tally.refused:
        _say(f"no answer: {line}")
    for each in tally.disagreements:
        _say(f"seed {each.seed}: {each}\n   saved as {write_down(each)}")
    _say(
        f"{tally.asked} questions ({examiner.pods} pods) from seed {seed}: {len(tally.disagreements)} disagreements, "
        f"{len(tally.fleeting)} not seen again, {len(tally.refused)} without an answer"
    )
    return 1 if tally.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
