"""The effective request of a pod is the one that kube-scheduler 1.37 computes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.limits import AMOUNT
from moorage.core.quantity import INT64_MAX
from moorage.core.requests import Amounts, ContainerResources, PodResources, effective_requests
from moorage.core.resources import DEFAULT_CPU_MILLI, DEFAULT_MEMORY_BYTES

MI = 2**20


def main(
    name: str = "c", allocated: Amounts | None = None, actual: Amounts | None = None, **requests: int
) -> ContainerResources:
    return ContainerResources(name, requests, allocated=allocated, actual=actual)


def init(name: str = "i", **requests: int) -> ContainerResources:
    return ContainerResources(name, requests)


def sidecar(name: str = "s", **requests: int) -> ContainerResources:
    return ContainerResources(name, requests, restartable=True)


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(PodResources(), {}, id="no containers"),
        pytest.param(PodResources((main(),)), {}, id="no requests"),
        pytest.param(PodResources((main(cpu=100, memory=5), main("d", cpu=50))), {"cpu": 150, "memory": 5}, id="a sum"),
        pytest.param(PodResources((main(cpu=0),)), {}, id="zeros are left out"),
        pytest.param(PodResources((main(cpu=100),), (init(cpu=70),)), {"cpu": 100}, id="a small init container"),
        pytest.param(PodResources((main(cpu=100),), (init(cpu=170),)), {"cpu": 170}, id="a large init container"),
        pytest.param(
            PodResources((main(cpu=100),), (init(cpu=130), init("j", cpu=120))),
            {"cpu": 130},
            id="init containers run one after the other",
        ),
        pytest.param(PodResources((main(cpu=100),), (sidecar(cpu=50),)), {"cpu": 150}, id="a sidecar stays"),
        pytest.param(
            PodResources((main(cpu=100),), (sidecar(cpu=50), init(cpu=120))),
            {"cpu": 170},
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(
            PodResources((main(cpu=100),), (init(cpu=120), sidecar(cpu=50))),
            {"cpu": 150},
            id="a sidecar does not run beside earlier init containers",
        ),
        pytest.param(
            PodResources((main(cpu=10),), (sidecar(cpu=50), sidecar("t", cpu=60), init(cpu=5))),
            {"cpu": 120},
            id="sidecars add up",
        ),
        pytest.param(
            PodResources((main(cpu=100),), (init(memory=9),)), {"cpu": 100, "memory": 9}, id="each resource by itself"
        ),
        pytest.param(
            PodResources((main(cpu=100),), overhead={"cpu": 10, "memory": 7}),
            {"cpu": 110, "memory": 7},
            id="overhead comes on top",
        ),
        pytest.param(
            PodResources((main(cpu=100, memory=5),), (init(cpu=900),), {"cpu": 10}, {"cpu": 300}),
            {"cpu": 310, "memory": 5},
            id="pod-level requests replace the sum",
        ),
        pytest.param(
            PodResources((main(cpu=100),), pod_level={"ephemeral-storage": 300, "hugepages-2Mi": 4}),
            {"cpu": 100, "hugepages-2Mi": 4},
            id="pod-level requests of other resources do not count",
        ),
        pytest.param(
            PodResources((ContainerResources("c", {"example.com/gpu": 2}),)), {"example.com/gpu": 2}, id="extended"
        ),
    ],
)
def test_effective_requests(pod: PodResources, want: dict[str, int]) -> None:
    """Spec alone: containers, init containers, sidecars, overhead and pod-level requests."""
    assert dict(effective_requests(pod).amounts) == want


@pytest.mark.parametrize(
    ("pod", "want_cpu", "want_memory"),
    [
        pytest.param(PodResources((main(),)), 100, 200 * MI, id="a container without requests"),
        pytest.param(PodResources((main(), main("d"))), 200, 400 * MI, id="two of them"),
        pytest.param(PodResources((main(cpu=500),)), 500, 200 * MI, id="each resource by itself"),
        pytest.param(PodResources((main(cpu=0, memory=0),)), 0, 0, id="an explicit zero stays"),
        pytest.param(PodResources((main(),), (sidecar(),)), 200, 400 * MI, id="sidecars too"),
        pytest.param(PodResources((main(),), (init(), init("j"))), 100, 200 * MI, id="init containers too"),
        pytest.param(PodResources((main(),), overhead={"cpu": 5}), 105, 200 * MI, id="overhead comes on top"),
        pytest.param(PodResources((main(), main("d")), pod_level={"cpu": 7}), 7, 400 * MI, id="pod-level cpu only"),
        pytest.param(PodResources((main(),), pod_level={"cpu": 7, "memory": 8}), 7, 8, id="pod-level both"),
        pytest.param(
            PodResources((main(memory=9), main("d")), pod_level={"cpu": 7}),
            7,
            9,
            id="pod-level cpu, memory by container",
        ),
        pytest.param(PodResources(), 0, 0, id="no containers"),
    ],
)
def test_score_variant(pod: PodResources, want_cpu: int, want_memory: int) -> None:
    """Scores assume 100m and 200Mi for each container that does not say."""
    requests = effective_requests(pod)
    assert (requests.score_cpu_milli, requests.score_memory_bytes) == (want_cpu, want_memory)


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(PodResources((main(cpu=200, allocated={"cpu": 100}),)), 200, id="growing, not yet allocated"),
        pytest.param(PodResources((main(cpu=100, allocated={"cpu": 300}),)), 300, id="shrinking, not yet allocated"),
        pytest.param(
            PodResources((main(cpu=100, allocated={"cpu": 100}, actual={"cpu": 300}),)),
            300,
            id="shrinking, not yet actual",
        ),
        pytest.param(PodResources((main(cpu=100, actual={"cpu": 300}),)), 300, id="actual only"),
        pytest.param(
            PodResources((main(cpu=100, allocated={"cpu": 300}), main("d", cpu=300, allocated={"cpu": 100}))),
            400,
            id="the sums are compared, not the containers",
        ),
        pytest.param(
            PodResources((main(cpu=900, allocated={"cpu": 100}),), resize_infeasible=True),
            100,
            id="infeasible: no spec",
        ),
        pytest.param(PodResources((main(cpu=900),), resize_infeasible=True), 0, id="infeasible and nothing reported"),
        pytest.param(
            PodResources((main(cpu=100, allocated={"cpu": 900}),), allocated={"cpu": 150}, actual={"cpu": 120}),
            150,
            id="the pod's own status replaces that of its containers",
        ),
        pytest.param(
            PodResources((main(cpu=100),), pod_level={"cpu": 200}, actual={"cpu": 150}, allocated={"cpu": 300}),
            300,
            id="pod-level: the largest counts",
        ),
        pytest.param(
            PodResources((main(cpu=100),), pod_level={"cpu": 200}, actual={"cpu": 150}, resize_infeasible=True),
            150,
            id="pod-level and infeasible",
        ),
    ],
)
def test_in_place_resize(pod: PodResources, want: int) -> None:
    """A bound pod counts with the largest of spec, allocated and actual requests."""
    assert effective_requests(pod).get("cpu") == want


def test_sums_are_capped() -> None:
    """A pod asks for no more than what sums over the pods of a node can take."""
    requests = effective_requests(PodResources((main(cpu=INT64_MAX), main("d", cpu=INT64_MAX))))
    assert requests.get("cpu") == AMOUNT
    assert requests.score_cpu_milli == AMOUNT


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu"]), st.integers(0, 1000))
containers = st.builds(ContainerResources, st.just("c"), amounts, st.booleans())


@given(st.lists(containers, max_size=3), st.lists(containers, max_size=4), amounts)
def test_no_phase_takes_more_than_the_request(
    mains: list[ContainerResources], inits: list[ContainerResources], overhead: Amounts
) -> None:
    """At no time do the running containers take more than the request, and at some time they take all of it."""
    requests = effective_requests(PodResources(tuple(mains), tuple(inits), overhead))
    for name in ("cpu", "memory", "example.com/gpu"):
        phases, standing = [], 0
        for container in inits:
            phases.append(standing + container.requests.get(name, 0))
            standing += container.requests.get(name, 0) if container.restartable else 0
        phases.append(standing + sum(container.requests.get(name, 0) for container in mains))
        assert requests.get(name) == max(phases) + overhead.get(name, 0)


@given(st.lists(containers, max_size=3), st.lists(containers, max_size=3))
def test_score_variant_is_never_smaller(mains: list[ContainerResources], inits: list[ContainerResources]) -> None:
    """Defaults only add, and by no more than one default for each container."""
    requests = effective_requests(PodResources(tuple(mains), tuple(inits)))
    count = len(mains) + len(inits)
    assert 0 <= requests.score_cpu_milli - requests.get("cpu") <= count * DEFAULT_CPU_MILLI
    assert 0 <= requests.score_memory_bytes - requests.get("memory") <= count * DEFAULT_MEMORY_BYTES


def test_a_newcomers_own_resources_are_left_out_of_one_score() -> None:
    """NodeResourcesFit scores an unbound pod by its containers alone, as kube-scheduler does; filters do not."""
    found = effective_requests(PodResources((main(cpu=100),), pod_level={"cpu": 700, "memory": 5}))
    assert dict(found.amounts) == {"cpu": 700, "memory": 5}
    assert found.newcomer == effective_requests(PodResources((main(cpu=100),)))
    assert effective_requests(PodResources((main(cpu=100),))).newcomer is None
