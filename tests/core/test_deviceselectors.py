"""Expressions are evaluated once for all devices that are equal in what they read."""

from __future__ import annotations

import pytest

from moorage.core.devicecel import DeviceSelector, ReadValues, compile_selector
from moorage.core.devicepools import DeviceCandidate, spread
from moorage.core.devices import Device, Version
from moorage.core.deviceselectors import KeptAnswers, Looks, SelectorError, holds
from moorage.core.frozen import FrozenDict
from moorage.testing.devices import DEVICE_DRIVER, make_device, make_slice

LOOKS = Looks(1_000_000)
DOMAIN = f'device.attributes["{DEVICE_DRIVER}"]'


def candidate(device: Device) -> DeviceCandidate:
    (found,) = spread(make_slice("s", devices=[device]), lambda _: ())
    return found


def key(expression: str, device: Device) -> object:
    selector = compile_selector(expression)
    assert isinstance(selector, DeviceSelector)
    return None if selector.reading is None else selector.reading.key(DEVICE_DRIVER, device)


ONE, OTHER = make_device("a", model="x", serial="1"), make_device("b", model="x", serial="2")
KEYS = [
    pytest.param(f'{DOMAIN}.model == "x"', True, id="one attribute"),
    pytest.param(f"has({DOMAIN}.missing) || {DOMAIN}.?model.orValue('') == 'x'", True, id="optional"),
    pytest.param("device.driver == 'd' && !device.allowMultipleAllocations", True, id="no attribute"),
    pytest.param(f'{DOMAIN}.serial == "1"', False, id="one that differs"),
    pytest.param('device.capacity["x"].memory.isInteger()', True, id="a capacity"),
]


@pytest.mark.parametrize(("expression", "same"), KEYS)
def test_devices_that_are_equal_in_what_is_read_have_equal_keys(expression: str, same: bool) -> None:
    """Whatever else they have."""
    assert key(expression, ONE) is not None
    assert (key(expression, ONE) == key(expression, OTHER)) == same


@pytest.mark.parametrize(
    "expression",
    [
        f"{DOMAIN}.all(name, name != 'serial')",
        "device.attributes.exists(domain, domain == 'x')",
        f"{DOMAIN}[device.driver] == 'x'",
        "cel.bind(all, device.attributes, all['d'].model == 'x')",
        "[device].size() == 1",
    ],
)
def test_expressions_that_read_more_are_asked_about_every_device(expression: str) -> None:
    """Where keys are computed, or maps are read as a whole."""
    assert key(expression, ONE) is None


def test_values_of_different_types_are_different() -> None:
    """Although Python has True == 1; and a name with and without its domain is asked about."""
    expression = f"{DOMAIN}.v == 1"
    values = [candidate(make_device("d", v=value)) for value in (1, True, "1", 1)]
    assert [holds(expression, each, LOOKS) for each in values] == [True, False, False, True]
    assert key(expression, Device("d", attributes=FrozenDict({"v": 1, f"{DEVICE_DRIVER}/v": 2}))) is None


def test_a_device_that_cannot_be_read_fails_every_selector() -> None:
    """Although the selector reads something else, and said yes to its equals."""
    expression = f'{DOMAIN}.model == "x"'
    assert holds(expression, candidate(ONE), LOOKS)
    with pytest.raises(SelectorError, match="parse semantic version"):
        holds(expression, candidate(make_device("c", model="x", broken=Version("1"))), LOOKS)


def test_answers_of_many_expressions_about_many_devices_are_bounded_together() -> None:
    """Who writes many long selectors has them evaluated again; memory stays what it is."""
    kept = KeptAnswers(most_bytes=10_000)
    names = tuple(("attributes", "d", f"a{each}", f"d/a{each}") for each in range(20))
    readings = [ReadValues(names) for _ in range(30)]
    for number in range(300):
        kept.keep(readings[number % 30], number, answer=True)
        assert sum(len(reading.answers) for reading in readings) <= 10_000 // (20 * 8)
    assert readings[299 % 30].answers[299]
    kept, few = KeptAnswers(), ReadValues(())
    for number in range(20_000):
        kept.keep(few, number, answer=True)
    assert len(few.answers) <= 4096
