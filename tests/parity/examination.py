"""One question put to both sides, and what becomes of a disagreement: asked again, made small, written down."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.parity.claim_side import CLAIM
from tests.parity.comparison import Difference, best_nodes, differences, without_chance
from tests.parity.follower import Follower
from tests.parity.kube_side import SETTLE_S, KubeSide, RefusedError
from tests.parity.moorage_side import ask
from tests.parity.questions import MARK, Object, Question, Step, World, key_of

REGRESSIONS = Path(__file__).parent / "regressions"
PATIENT_SETTLE_S = 0.4
"""How long a disagreement is given when it is asked again, to be sure that it is none of timing."""

_ERROR = 'running "DynamicResources" filter plugin:'
"""How messages begin of errors that end an attempt, whatever other nodes say."""
_CLAIM_STATUSES = ("resourceClaimStatuses", "extendedResourceClaimStatus")


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A cluster and a pod on which the two sides differ."""

    seed: int
    objects: list[Object]
    verdict: dict[str, Any]
    found: list[Difference]
    history: list[dict[str, Any]] = field(default_factory=list)
    """Set if only an engine that has seen the whole question differs: the steps up to here, with their verdicts."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.found[:3]))

    @property
    def kinds(self) -> set[str]:
        """In what they differ."""
        return {each.kind for each in self.found}


class Examiner:
    """Asks both sides; every time under names that nobody has used."""

    def __init__(self, kube: KubeSide) -> None:
        self._kube = kube
        self._asked = 0
        self.pods = 0
        """How many pods both sides have judged."""

    def examine(self, question: Question, *, settle_s: float = SETTLE_S) -> Disagreement | None:
        """The first step on which the two sides differ; both go on from what kube-scheduler did."""
        self._asked += 1
        prefix = f"q{self._asked}"
        named = question.named(prefix)
        history: list[dict[str, Any]] = []
        with self._kube.cluster(named) as world:
            for step in named.steps:
                self._change(world, step)
                verdict = self._kube.ask(step.pod, settle_s=settle_s)
                self.pods += 1
                objects = world.with_pod(step.pod)
                found = _compared(objects, verdict)
                if not found and question.kind == "devices" and _undisturbed(history, step):
                    # The same from the start, in one engine: what it keeps from pod to pod has to be right.
                    objects = [*named.objects, *(each["pod"] for each in history), step.pod]
                    found = _compared(objects, verdict)
                if found:
                    return Disagreement(
                        question.seed,
                        _unnamed(objects, prefix),
                        _unnamed(verdict, prefix),
                        _unnamed_text(found, prefix),
                    )
                history.append({**asdict(step), "verdict": verdict})
                found = _followed(named.objects, history) if question.kind == "placement" else []
                if found:
                    return Disagreement(
                        question.seed,
                        _unnamed(named.objects, prefix),
                        verdict,
                        _unnamed_text(found, prefix),
                        _unnamed(history, prefix),
                    )
                if verdict["node"] and not verdict["bound"] and "claims" in verdict:
                    break  # it waits for drivers, and what it holds is given back at some time
                self._follow(world, step.pod, verdict)
        return None

    def confirm(self, disagreement: Disagreement) -> Disagreement | None:
        """The same cluster and pod once more, with all the time that watches may need."""
        *objects, pod = disagreement.objects
        question = Question(disagreement.seed, "again", objects, [Step(pod)])
        return self.examine(question, settle_s=PATIENT_SETTLE_S)

    def still(self, disagreement: Disagreement, objects: list[Object]) -> Disagreement | None:
        """A smaller cluster: the disagreement if there still is one of the same kind."""
        question = Question(disagreement.seed, "smaller", objects[:-1], [Step(objects[-1])])
        try:
            found = self.examine(question, settle_s=5 * SETTLE_S)
        except (RefusedError, TimeoutError):
            return None
        return found if found is not None and found.kinds & disagreement.kinds else None

    def _change(self, world: World, step: Step) -> None:
        for obj in step.put:
            self._kube.put(obj)
            world.put(obj)
        for key in step.remove:
            self._kube.remove(key)
            world.remove(key)

    def _follow(self, world: World, pod: Object, verdict: dict[str, Any]) -> None:
        """Bring our picture of the cluster to what kube-scheduler did."""
        for victim in verdict.get("victims", ()):
            namespace, name = victim.split("/")
            world.remove(("Pod", namespace, name))
        if verdict["bound"]:
            number = self.pods % 60
            status = {"phase": "Running", "startTime": f"2026-01-01T01:{number:02}:00Z"}
            found = self._kube.read(key_of(pod))
            status |= {name: found["status"][name] for name in _CLAIM_STATUSES if name in found["status"]}
            metadata = {name: found["metadata"][name] for name in ("labels", "uid") if name in found["metadata"]}
            running = {
                **pod,
                "metadata": {**pod["metadata"], **metadata},
                "spec": {**pod["spec"], "nodeName": verdict["node"]},
                "status": status,
            }
            self._kube.put(running)
            world.put(running)
        if "claims" in verdict:
            world.replace(CLAIM, self._kube.claims())


def _undisturbed(history: list[dict[str, Any]], step: Step) -> bool:
    """Whether nothing but pods came so far, all before this one were bound, and there was one best node for each."""
    before = all(
        each["verdict"]["bound"] and not each["put"] and len(best_nodes(each["verdict"])) == 1 for each in history
    )
    return bool(history) and before and not step.put


def followed(objects: list[Object], history: list[dict[str, Any]]) -> list[Difference]:
    """In what an engine that sees all steps differs on the last one; those that evict pods are not for it."""
    follower = Follower(objects)
    for step in history:
        for obj in step["put"]:
            follower.put(obj)
        for key in step["remove"]:
            follower.remove((key[0], key[1], key[2]))
        pod, verdict = step["pod"], step["verdict"]
        entry = follower.ask(pod)
        if step is history[-1]:
            found = differences({"objects": objects, "verdict": verdict}, entry)
            return [Difference(f"followed {each.kind}", each.detail) for each in found]
        follower.tell(key_of(pod), verdict["node"] if verdict["bound"] else None)
    return []


def write_down(disagreement: Disagreement) -> Path:
    """Save it where test_golden.py looks; the file says in its first lines what it is about."""
    REGRESSIONS.mkdir(exist_ok=True)
    kind = min(disagreement.kinds).replace(" ", "-").lower()
    path = REGRESSIONS / f"{kind}-{disagreement.seed}.yaml"
    content = {"seed": disagreement.seed, "verdict": disagreement.verdict, "objects": disagreement.objects}
    if disagreement.history:
        content["history"] = disagreement.history
    text = json.dumps(content).replace(MARK, "x-")
    notes = "".join(f"# {line}\n" for line in str(disagreement).replace(MARK, "x-").splitlines())
    path.write_text(notes + yaml.safe_dump(json.loads(text), sort_keys=False, width=120))
    return path


def _followed(objects: list[Object], history: list[dict[str, Any]]) -> list[Difference]:
    try:
        return followed(objects, history)
    except Exception as error:  # noqa: BLE001 - as below
        return [Difference("followed crash", f"{type(error).__name__}: {error}")]


def _compared(objects: list[Object], verdict: dict[str, Any]) -> list[Difference]:
    try:
        entry = ask(objects)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding and not the end of the search
        return [Difference("crash", f"{type(error).__name__}: {error}")]
    found = differences({"objects": objects, "verdict": verdict}, entry)
    return [each for each in found if each.kind != "message" or not _one_of_several(objects, verdict)]


def _one_of_several(objects: list[Object], verdict: dict[str, Any]) -> bool:
    """Whether kube-scheduler's error would be ours if there were only the node on which it was met: that is random."""
    if not (verdict["message"] or "").startswith(_ERROR):
        return False
    for node in (obj for obj in objects if obj["kind"] == "Node"):
        alone = [obj for obj in objects if obj["kind"] != "Node" or obj is node]
        if without_chance(ask(alone)["message"]) == without_chance(verdict["message"]):
            return True
    return False


def _unnamed(value: Any, prefix: str) -> Any:
    return json.loads(json.dumps(value).replace(f"{prefix}-", MARK))


def _unnamed_text(found: list[Difference], prefix: str) -> list[Difference]:
    return [Difference(each.kind, each.detail.replace(f"{prefix}-", MARK)) for each in found]
