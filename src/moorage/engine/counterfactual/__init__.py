"""What would have to differ: the smallest changes that let a waiting pod fit, and what the runner-up lacks.

`suggest` is the door. Candidates come from one module per family (`remedies`, which asks the plugins, `moves`,
`growth`, `gangs`, `shares`, `endings`), `search` tries, ranks and proves them in a `Scene`, where pods of queues take
turns (`rivals`), `wording` says them. Nothing here guesses: what is returned has been decided on again, with the very
objects that it carries, by every filter of the profile.
"""

from moorage.engine.counterfactual.runnerup import RunnerUp, runner_up
from moorage.engine.counterfactual.search import Suggestion, suggest, waiting_ahead

__all__ = ["RunnerUp", "Suggestion", "runner_up", "suggest", "waiting_ahead"]
