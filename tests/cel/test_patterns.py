"""Regular expressions: RE2's syntax, the leftmost match that is preferred, and linear time."""

from __future__ import annotations

import pytest

from moorage.cel.patterns import MOST_PROGRAM, PatternError, matcher
from moorage.cel.work import CostExceededError, WorkAccount, use_account


@pytest.mark.parametrize(
    ("pattern", "text", "want"),
    [
        ("a|ab", "xab", "a"),
        ("(ab|a)(bc)?", "abc", "ab"),
        ("a+?", "aaa", "a"),
        ("a{2,3}", "aaaa", "aaa"),
        ("(?i)É", "xé", "é"),
        ("(|a)*", "aab", ""),
        ("(a|b)*?c", "abac", "abac"),
        (r"\bfoo\b", "a foo b", "foo"),
        ("(?m)^b$", "a\nb\nc", "b"),
        (r"\Qa.b\E+", "a.bb", "a.bb"),
        (r"[^\d-z]", "1-z!", "!"),
        (r"\pN", "a½", "½"),
    ],
)
def test_the_leftmost_preferred_match_is_found(pattern: str, text: str, want: str) -> None:
    found = matcher(pattern).find(text)
    assert found is not None
    assert text[found[0] : found[1]] == want
    assert matcher(pattern).search(text)


@pytest.mark.parametrize(
    ("pattern", "want"),
    [
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("(" * 2000, "expression nests too deeply: `" + "(" * 2000 + "`"),
        ("(a{10}){100}" * 100, "expression too large"),
    ],
)
def test_what_re2_does_not_have_is_refused_in_its_words(pattern: str, want: str) -> None:
    with pytest.raises(PatternError) as caught:
        matcher(pattern)
    assert str(caught.value) == want
    assert len(pattern) * 1000 > MOST_PROGRAM or len(pattern) < 2100


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+$b", "(a?){60}a{60}b", "(.*)*(.*)*x"])
def test_patterns_that_make_others_backtrack_are_matched_within_the_account(pattern: str) -> None:
    use_account(WorkAccount())
    assert not matcher(pattern).search("a" * 200)
    assert matcher(pattern).find("a" * 200) is None


def test_work_beyond_the_account_ends_the_evaluation() -> None:
    use_account(WorkAccount())
    with pytest.raises(CostExceededError):
        matcher("(a{1,500}){1,2}b").find("a" * 20_000)
