"""What a shadow counts, as Prometheus reads it."""

from __future__ import annotations

from dataclasses import replace

from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.metrics.shadow import FRESH_S, LAG_BOUNDS_S, ShadowMetrics
from moorage.adapters.metrics.tally import BucketTally
from moorage.engine.shadowing.verdicts import ShadowVerdict
from moorage.views.standing import Standing
from tests.views.shadows import THERE, decision, report


def test_a_shadow_counts_by_scheduler_verdict_plugin_and_world() -> None:
    """Series depend on names of schedulers and plugins, never on those of pods or nodes; figures are not taken anew."""
    found = report(decision("a"), decision("b"), decision("c", verdict=ShadowVerdict.SAME))
    taken: list[int] = []

    def worlds() -> dict[str, Standing]:
        taken.append(1)
        return {"there": THERE, "here": replace(THERE, nodes_in_use=2)}

    now_s = [0.0]
    lags = BucketTally(LAG_BOUNDS_S)
    lags.observe(0.003)
    page = MetricsPage(ShadowMetrics(found.counts, lags, worlds, timer_s=lambda: now_s[0]))
    text = page.render("")[0].decode()
    for line in (
        'moorage_shadow_decisions_total{scheduler="default-scheduler",verdict="different"} 2.0',
        'moorage_shadow_plugin_differences_total{how="decisive",plugin="Fit"} 2.0',
        'moorage_shadow_nodes_in_use{world="here"} 2.0',
        'moorage_shadow_cost_per_hour{currency="EUR",world="there"} 1.25',
        'moorage_shadow_unusable_idle_capacity{resource="cpu",world="there"} 1.0',
        'moorage_shadow_lag_seconds_bucket{le="0.005"} 1.0',
    ):
        assert line in text, line
    page.render("")
    assert len(taken) == 1, "figures are taken from time to time only"
    now_s[0] = FRESH_S
    page.render("")
    assert len(taken) == 2


def test_quantiles_of_buckets() -> None:
    """An upper bound, which is never above the largest observation."""
    lags = BucketTally(LAG_BOUNDS_S)
    assert lags.quantile(0.5) == 0.0
    for lag_s in (0.0005, 0.0005, 0.0005, 0.3):
        lags.observe(lag_s)
    assert (lags.quantile(0.5), lags.quantile(0.99)) == (0.001, 0.3)
    lags.observe(1000.0)
    assert lags.quantile(1.0) == 1000.0
