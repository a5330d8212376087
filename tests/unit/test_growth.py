"""How a store grows: the forgetting chapter's figures, and a simulation of them day by day and card by card."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.decay.growth import Growth

CHAPTER = {
    3: (540, 297),
    6: (1080, 475),
    9: (1620, 653),
    12: (2160, 832),
    15: (2700, 1010),
    18: (3240, 1188),
    21: (3780, 1366),
    24: (4320, 1544),
}
"""By month: append-only, and consolidate and decay."""


@pytest.mark.parametrize("month", CHAPTER)
def test_the_chapters_table_is_met_figure_by_figure(month: int) -> None:
    growth = Growth()
    assert (round(growth.kept_all(month)), round(growth.kept(month))) == CHAPTER[month]


def test_the_chapters_derivation_is_met() -> None:
    """180 a month under A; 99 added a month under B, of which about 40 expire each month after day 90."""
    growth = Growth()
    assert growth.kept_all(1) == 2 * 3 * 30 == 180
    assert growth.kept(1) == pytest.approx(99)
    assert 99 - (growth.kept(11) - growth.kept(10)) == pytest.approx(39.6)
    assert Growth(merge_rate=0.5).kept(1) == pytest.approx(90), "the exercise at the chapter's end"


def test_policy_b_is_64_percent_smaller_in_cards_and_in_bytes() -> None:
    growth, card = Growth(), 3_322
    assert round(growth.saved(24) * 100) == 64
    assert round(growth.kept_all(24)) * card == 14_351_040
    assert round(growth.kept(24)) * card == 5_129_168


def test_two_hundred_cards_after_two_years_take_a_merge_rate_of_93_percent() -> None:
    """2,592·(1 − m) facts and rules and 216·(1 − m) events are 200 at 1 − m = 200/2,808."""
    needed = Growth().merge_rate_for(200, 24)
    assert needed == pytest.approx(1 - 200 / 2_808)
    assert round(needed * 100) == 93
    assert Growth(merge_rate=needed).kept(24) == pytest.approx(200)
    assert Growth().merge_rate_for(5_000, 24) == 0, "there are no more than 2,808 anyway"


@settings(deadline=None)
@given(
    merge_rate=st.sampled_from([0.0, 0.25, 0.45, 0.9, 1.0]),
    events=st.sampled_from([0.0, 0.4, 1.0]),
    ttl_days=st.sampled_from([0.5, 30, 90, 1000]),
    months=st.integers(1, 30),
)
def test_it_is_what_a_day_by_day_simulation_comes_to(
    merge_rate: float, events: float, ttl_days: float, months: int
) -> None:
    """Each day adds six cards' worth, shares and all; a day's events go when they are as old as the ttl."""
    added = 6 * (1 - merge_rate)
    kept = sum(
        added * (1 - events) + (added * events if months * 30 - day - 0.5 < ttl_days else 0)
        for day in range(months * 30)
    )
    found = Growth(merge_rate=merge_rate, events=events, ttl_days=ttl_days).kept(months)
    assert found == pytest.approx(kept, abs=added * events + 1e-6)
