"""Another quota, weight, limit, priority or parent for a queue of a simulated cluster."""

from __future__ import annotations

from moorage.adapters.memory.objects import metadata_of
from moorage.adapters.memory.store import Store
from moorage.core.queueaccounts import queue_problems
from moorage.core.queues import QUEUE
from moorage.sim.whatif_changes import ChangeError, SetQueue
from moorage.wire.errors import WireError
from moorage.wire.queuerewriting import queue_of, rewritten_queue


def set_queue(change: SetQueue, store: Store) -> None:
    """Carry it out. A queue of KAI or Volcano becomes one of Moorage that says the same."""
    body = store.get(QUEUE, "", change.queue)
    after = rewritten_queue(body, change.field, change.resource, change.value)
    try:
        value = queue_of(after)
    except WireError as error:
        raise ChangeError([f"{change}: {error.problem}"]) from None
    queues = {str(each["metadata"]["name"]): queue_of(each) for each in store.list(QUEUE)}
    problem = queue_problems({**queues, value.name: value}).get(value.name)
    if problem:
        raise ChangeError([f"{change}: then {problem}"])
    if after["apiVersion"] == body["apiVersion"]:
        store.replace(after)
    else:
        store.delete(QUEUE, "", change.queue, grace_s=0)
        store.load({**after, "metadata": {key: each for key, each in metadata_of(body).items() if key != "uid"}})
