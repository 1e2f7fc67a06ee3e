"""The report of a shadow: what it concludes, what it leaves out, and that nothing from a cluster reaches HTML as is."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from moorage.core.frozen import FrozenDict
from moorage.engine.shadowing.verdicts import ComparedEviction, PluginTally, ShadowCounts, ShadowVerdict
from moorage.views.shadow import conclusions, document
from moorage.views.shadownames import Names, Tokens
from moorage.views.shadowpage import html_page, world_rows
from tests.views.shadows import THERE, decision, report

EVIL = "<script>alert('x')</script>&\"'"


def test_agreement_counts_what_can_be_compared() -> None:
    """Ties and what another order explains agree; what cannot be compared does not count."""
    verdicts = [
        ShadowVerdict.SAME,
        ShadowVerdict.TIE,
        ShadowVerdict.ORDER,
        ShadowVerdict.BOTH_PENDING,
        ShadowVerdict.DIFFERENT,
        ShadowVerdict.UNDECIDED,
    ]
    found = document(report(*(decision(verdict=verdict) for verdict in verdicts)), Names())
    assert found["agreement"] == pytest.approx(4 / 5)
    assert found["decisions"]["total"] == 6
    assert found["decisions"]["order"] == 1
    assert document(report(), Names())["agreement"] is None


def test_a_difference_has_the_scores_of_both_nodes() -> None:
    """By plugin, and in total."""
    (each,) = document(report(decision()), Names())["differences"]
    assert each["scores"] == {"Fit": {"there": 10, "here": 90}, "Spread": {"there": 40, "here": 30}}
    assert each["totals"] == {"there": 50, "here": 120}
    assert (each["pod"], each["there"], each["here"]) == ("shop/web-1", "n1", "n2")


@pytest.mark.parametrize(
    ("tallies", "words"),
    [
        pytest.param(
            {"Fit": PluginTally(decisive=9, without=4, reversed=10), "Spread": PluginTally(decisive=1)},
            "Fit counts the other way round: with the opposite sign of its scores, 10 of 10 different decisions",
            id="the other sign",
        ),
        pytest.param(
            {"Fit": PluginTally(decisive=4, without=7), "Spread": PluginTally(decisive=6)},
            "Fit accounts for 7 of 10 different decisions",
            id="one plugin",
        ),
        pytest.param(
            {"Fit": PluginTally(decisive=4, without=1), "Spread": PluginTally(decisive=6, without=2)},
            "Spread prefers the nodes chosen here by more points than any other plugin in 6 of 10",
            id="nobody alone",
        ),
        pytest.param(
            {"Taints": PluginTally(rejections=2)},
            "Taints rejects the other scheduler's node in 2 decisions",
            id="rejected",
        ),
    ],
)
def test_the_plugin_that_differences_are_due_to_is_named(tallies: dict[str, PluginTally], words: str) -> None:
    """The most important sentence comes first."""
    assert words in conclusions(ShadowCounts(plugins=tallies))[0]


def test_no_differences_have_no_conclusions() -> None:
    """There is nothing to say."""
    assert conclusions(ShadowCounts()) == []


def test_tokens_stand_for_names_everywhere() -> None:
    """The same token for the same name, another key for other tokens, and no texts that could quote a name."""
    rejected = decision("web-2", "n3", rejected=FrozenDict({"Volume": ("claim shop-data not found",)}), message="shop")
    victims = ComparedEviction(0.0, "shop", "urgent", "default-scheduler", "n1", "n2", ("shop/web-1",), ("shop/db-1",))
    found = report(decision(), rejected, evictions=(victims,))
    told = document(found, Tokens(b"key"))
    text = f"{told}{html_page(told)}"
    for name in ("shop", "web-1", "web-2", "urgent", "db-1", "n1'", "n2'", "n3'", "not found"):
        assert name not in text, name
    assert told["differences"][0]["there"] == told["evictions"]["newest"][0]["there"]
    assert told["differences"][0]["pod"] == told["evictions"]["newest"][0]["victimsThere"][0]
    assert told["differences"][0]["pod"] != document(found, Tokens(b"another"))["differences"][0]["pod"]


class _Tags(HTMLParser):
    """The tags of a page, and the addresses that it names."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(text: str) -> _Tags:
    """The page, whose tags are balanced."""
    page = _Tags()
    page.feed(text)
    assert page.open == []
    return page


def test_nothing_of_a_cluster_becomes_part_of_the_page() -> None:
    """Names, reasons, messages and plugins are text, whatever they contain."""
    evil = decision(EVIL, EVIL, here=EVIL, rejected=FrozenDict({EVIL: (EVIL,)}), message=EVIL)
    scores = FrozenDict({EVIL: 1})
    scored = decision(EVIL, EVIL, here=EVIL, scores_there=scores, scores_here=FrozenDict({EVIL: 9}))
    victims = ComparedEviction(0.0, EVIL, EVIL, EVIL, EVIL, EVIL, (f"a/{EVIL}",), (f"a/{EVIL}",))
    found = replace(report(evil, scored, evictions=(victims,)), schedulers={EVIL: EVIL})
    text = html_page(document(found, Names()))
    page = parsed(text)
    assert "script" not in page.tags
    assert EVIL not in text


def test_the_page_needs_no_network_and_knows_dark_screens() -> None:
    """No addresses, no scripts, and a policy that forbids both."""
    text = html_page(document(report(decision(), here=THERE), Names()))
    page = parsed(text)
    assert page.addresses == []
    assert not re.search(r"url\(|@import|https?://", text)
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text


def test_an_empty_report_is_a_page_too() -> None:
    """Before the first decision."""
    assert "No decisions yet" in html_page(document(report(), Names()))


def test_worlds_are_compared_row_by_row() -> None:
    """Without a world of our own, the last column is empty."""
    rows = {text: (there, here) for text, there, here in world_rows(document(report(), Names())["worlds"])}
    assert rows["nodes in use"] == ("3 of 4", "")
    assert rows["cost per hour"] == ("1.2500 EUR", "")
    assert rows["idle cpu of no use"] == ("25.0%", "")
    both = world_rows(document(report(here=replace(THERE, nodes_in_use=2)), Names())["worlds"])
    assert ("nodes in use", "3 of 4", "2 of 4") in both
