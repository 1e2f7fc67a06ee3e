"""Quantities follow apimachinery's grammar, lose nothing, and never overflow."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.quantity import (
    INT64_MAX,
    MAX_EXPONENT,
    MAX_LENGTH,
    QuantityError,
    amount,
    cpu_milli,
    format_amount,
    parse_quantity,
    quantity_text,
    to_milli,
    to_units,
    whole,
)

NANO = 10**9
SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}  # fmt: skip


def away_from_zero(value: Fraction) -> int:
    return -(-value.numerator // value.denominator) if value > 0 else value.numerator // value.denominator


@pytest.mark.parametrize(
    ("text", "want_units", "want_milli"),
    [
        ("0", 0, 0),
        ("00", 0, 0),
        ("-0", 0, 0),
        ("1", 1, 1000),
        ("+1", 1, 1000),
        ("-1", -1, -1000),
        (".5", 1, 500),
        ("5.", 5, 5000),
        ("+.5m", 1, 1),
        ("-.5", -1, -500),
        ("-1.5", -2, -1500),
        ("-1500u", -1, -2),
        ("-1500.5m", -2, -1501),
        ("100n", 1, 1),
        ("100u", 1, 1),
        ("100m", 1, 100),
        ("1001u", 1, 2),
        ("1k", 1000, 1_000_000),
        ("1E3", 1000, 1_000_000),
        ("1e3", 1000, 1_000_000),
        ("1e+3", 1000, 1_000_000),
        ("1e-3", 1, 1),
        ("1e0003", 1000, 1_000_000),
        ("0e3", 0, 0),
        ("1.5e1", 15, 15000),
        ("1E", 10**18, INT64_MAX),
        ("1Ei", 2**60, INT64_MAX),
        ("1.5Gi", 1610612736, 1610612736000),
        ("1.1Ki", 1127, 1126400),
        ("0.1Ki", 103, 102400),
        ("1023Ki", 1047552, 1047552000),
        ("0.0000000001", 1, 1),
        ("9223372036854775807m", 9223372036854776, INT64_MAX),
    ],
)
def test_value_and_milli_value(text: str, want_units: int, want_milli: int) -> None:
    """Value and MilliValue are those of apimachinery 0.37, capped instead of wrapped around."""
    nanos = parse_quantity(text)
    assert (to_units(nanos), to_milli(nanos)) == (want_units, want_milli)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("8Ei", INT64_MAX),
        ("16Ei", INT64_MAX),
        ("-16Ei", -INT64_MAX),
        ("1e19", INT64_MAX),
        ("-1e19", -INT64_MAX),
        ("100E", INT64_MAX),
        ("9223372036854775808", INT64_MAX),
    ],
)
def test_amounts_are_capped_at_64_bits(text: str, want: int) -> None:
    """What does not fit into 64 bits becomes the largest amount."""
    assert whole(text) == want
    assert cpu_milli(text) == want


@pytest.mark.parametrize(
    "text",
    [
        "", " ", " 1", "1 ", "1\n", "\t1", "1 Gi",
        ".", "+", "-", "+.", "-.m", "m", "Gi", "e3", "E",
        "1Zi", "1Yi", "1Z", "1i", "1mi", "1ki", "1K", "1KI", "1gi", "1g", "1Gib", "1GB", "1b", "12qi", "1µ",
        "1e", "1E-", "1e+", "1eE3", "1e1.5", "1e3Ki", "1Ki3", "1Ee3", "1Ei3", "1e3m", "1e 3",
        "1..5", "1.5.5", "--1", "+-1", "-+1", "1-", "1,5", "1_000", "0x10", "0b1", "1n5",
        "nan", "NaN", "inf", "Infinity", "-inf", "１", "١", "1²", "௧", "1e３", "\uff11Gi", "null", "None", "true",
    ],
    ids=repr,
)  # fmt: skip
def test_refuses(text: str) -> None:
    """Anything else is refused with one line that shows the text."""
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    message = str(caught.value)
    assert repr(text) in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1" * (MAX_LENGTH + 1), "characters"),
        ("0." + "0" * 10_000_000 + "1", "characters"),
        (f"1e{MAX_EXPONENT + 1}", "exponent"),
        (f"1e-{MAX_EXPONENT + 1}", "exponent"),
        ("1e999999999999999999", "exponent"),
    ],
    ids=["long", "very long", "large exponent", "small exponent", "absurd exponent"],
)
def test_refuses_what_would_take_long(text: str, want: str) -> None:
    """Length and exponent are capped before any arithmetic happens, and the message stays short."""
    with pytest.raises(QuantityError, match=want) as caught:
        parse_quantity(text)
    assert len(str(caught.value)) < 200


def test_the_caps_themselves_are_allowed() -> None:
    """The longest text and the largest exponents are read exactly."""
    assert parse_quantity("1" * MAX_LENGTH) == int("1" * MAX_LENGTH) * NANO
    assert parse_quantity(f"1e{MAX_EXPONENT}") == 10 ** (MAX_EXPONENT + 9)
    assert parse_quantity(f"1e-{MAX_EXPONENT}") == 1


numbers = st.from_regex(r"\A[+-]?([0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})\Z")


@given(numbers, st.sampled_from(sorted(SUFFIXES)))
def test_equals_exact_arithmetic(number: str, suffix: str) -> None:
    """Nanos are the exact value, rounded away from zero; binary values are capped."""
    sign = -1 if number.startswith("-") else 1
    digits = number.lstrip("+-")
    exact = sign * Fraction(f"0{digits}" if digits.startswith(".") else digits.removesuffix(".")) * SUFFIXES[suffix]
    want = away_from_zero(exact * NANO)
    if suffix.endswith("i"):
        want = max(-INT64_MAX * NANO, min(INT64_MAX * NANO, want))
    assert parse_quantity(number + suffix) == want


@given(st.integers(-(10**15), 10**15), st.integers(-20, 20), st.sampled_from("eE"))
def test_exponents_equal_exact_arithmetic(number: int, exponent: int, mark: str) -> None:
    """A decimal exponent scales exactly; what is finer than a nano rounds away from zero."""
    want = away_from_zero(Fraction(number) * Fraction(10) ** (exponent + 9))
    assert parse_quantity(f"{number}{mark}{exponent}") == want


@given(numbers, numbers, st.sampled_from(sorted(SUFFIXES)))
def test_keeps_order(first: str, second: str, suffix: str) -> None:
    """A larger number never gives a smaller amount."""
    small, large = sorted((parse_quantity(first + suffix), parse_quantity(second + suffix)))
    assert to_milli(small) <= to_milli(large)
    assert to_units(small) <= to_units(large)


@given(st.text(max_size=8))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes anything but an integer or a QuantityError."""
    with suppress(QuantityError):
        assert isinstance(parse_quantity(text), int)


@pytest.mark.parametrize("name", ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "pods", "example.com/gpu"])
@given(value=st.integers(-INT64_MAX, INT64_MAX) | st.integers(0, 2**20).map(lambda n: n * 2**30))
def test_printed_amounts_are_read_back(name: str, value: int) -> None:
    """Printing an amount and reading it again gives the same amount."""
    assert amount(name, format_amount(name, value)) == value


@pytest.mark.parametrize(
    ("name", "value", "want"),
    [
        ("cpu", 0, "0"),
        ("cpu", 1, "1m"),
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", 1_000_000, "1k"),
        ("cpu", -500, "-500m"),
        ("memory", 0, "0"),
        ("memory", 1000, "1k"),
        ("memory", 1023, "1023"),
        ("memory", 1024, "1Ki"),
        ("memory", 2**30, "1Gi"),
        ("memory", 3 * 2**29, "1536Mi"),
        ("memory", 1500 * 2**20, "1500Mi"),
        ("memory", 1_073_741_825, "1073741825"),
        ("memory", 10**9, "1G"),
        ("memory", 10**10, "10G"),
        ("memory", 16 * 10**9, "16G"),
        ("memory", 2**60, "1Ei"),
        ("ephemeral-storage", 2**40, "1Ti"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("pods", 110, "110"),
        ("pods", 1024, "1024"),
        ("example.com/gpu", 4000, "4k"),
    ],
)
def test_prints_as_kubernetes_does(name: str, value: int, want: str) -> None:
    """Amounts are printed in canonical form: no fractions, the largest suffix that is exact."""
    assert format_amount(name, value) == want


@pytest.mark.parametrize(
    ("value", "want_milli"),
    [(1, 1000), (0.5, 500), (2.0, 2000), (1e-7, 1), ("250m", 250), (" 1 ", 1000), (None, 0), (10**18, INT64_MAX)],
    ids=repr,
)
def test_manifests_may_hold_plain_numbers(value: object, want_milli: int) -> None:
    """JSON numbers and null are legal quantities, and blanks around a text are ignored, as by the API server."""
    assert cpu_milli(quantity_text(value)) == want_milli


@pytest.mark.parametrize("value", [True, float("nan"), float("inf"), [], {}, b"1"], ids=repr)
def test_other_values_are_no_quantities(value: object) -> None:
    """What is neither a number nor a text is refused."""
    with pytest.raises(QuantityError, match="is not a quantity"):
        quantity_text(value)


def test_unit_by_resource() -> None:
    """Only cpu counts in milli."""
    assert amount("cpu", "1500m") == 1500
    assert amount("memory", "1500m") == 2
    assert amount("example.com/cpu", "2") == 2
