"""Two policies side by side: what differs, how long memories last, and where curves cross."""

from __future__ import annotations

import math

import pytest

from ebbtide.decay.compare import compare, crossings
from ebbtide.decay.fsrs import learning
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import parameters, retention
from ebbtide.model.words import DecayProfile
from ebbtide.policy.document import policy_from
from ebbtide.policy.files import library, pick

BUILT_IN = sorted(library())


def policy(**medium):
    return policy_from({"id": "p", "version": "1.0.0", "params": {"profiles": {"MEDIUM": medium}}})


def medium(a, b):
    return next(one for one in compare(a, b).profiles if one.profile == "MEDIUM")


def test_only_what_differs_is_told_by_its_path() -> None:
    a = policy(**{"lambda": 0.02})
    b = policy_from(
        {
            "id": "q",
            "version": "2.0.0",
            "params": {"profiles": {"MEDIUM": {"lambda": 0.04}}, "retention": [{"ttl_days": 5}]},
        }
    )
    found = {one.path: (one.a, one.b) for one in compare(a, b).parameters}
    assert found.pop("profiles.MEDIUM.lambda") == (0.02, 0.04)
    assert found.pop("retention.0.ttl_days") == (None, 5)
    assert all(path.startswith("retention.0.") for path in found)
    assert compare(a, a).parameters == []


def test_days_follow_from_the_rate() -> None:
    """exp(−λ·a): a half at ln 2/λ; 0.5 sinks to 0.3 at ln(5/3)/λ and to 0.1 at ln(5)/λ."""
    found = medium(policy(**{"lambda": 0.02}), policy(**{"lambda": 0.0}))
    assert (found.a.half_life, found.a.to_warning, found.a.to_archive) == pytest.approx(
        (math.log(2) / 0.02, math.log(5 / 3) / 0.02, math.log(5) / 0.02)
    )
    assert (found.b.half_life, found.b.to_warning, found.b.to_archive) == (None, None, None)


def test_a_floor_that_holds_from_the_first_day_keeps_a_memory_above_it() -> None:
    found = medium(policy(**{"lambda": 0.02, "salience_floor": 0.1}), policy(**{"lambda": 0.02, "floor_after": 1}))
    assert (found.a.to_archive, found.b.to_archive) == (None, pytest.approx(math.log(5) / 0.02))
    assert found.a.to_warning == found.b.to_warning


def test_exponential_curves_never_cross() -> None:
    assert medium(policy(**{"lambda": 0.02}), policy(**{"lambda": 0.03})).cross == []


def test_a_power_law_crosses_an_exponential_where_both_retain_as_much() -> None:
    """λ·a = s·ln(1 + a): with s = 1 and λ = ln(11)/10 at a = 10, and nowhere else above 0."""
    found = medium(policy(**{"lambda": math.log(11) / 10}), policy(**{"lambda": 1.0, "curve": "power_law"}))
    assert found.cross == pytest.approx([10.0], rel=1e-8)


@pytest.mark.parametrize("a", BUILT_IN)
@pytest.mark.parametrize("b", BUILT_IN)
def test_both_retain_as_much_at_a_crossing_and_on_its_sides_one_more_than_the_other(a, b) -> None:
    one, other = pick(a), pick(b)
    for curves in compare(one, other).profiles:
        name = DecayProfile(curves.profile)

        def apart(age: float, name: DecayProfile = name) -> float:
            r = [
                retention(SCALAR, parameters(p.params, name), learning(p.params.profiles[name]).stability, 0.0, age)
                for p in (one, other)
            ]
            return r[0] - r[1]

        for age in curves.cross:
            assert abs(apart(age)) < 1e-8
            assert apart(age * 0.99) * apart(age * 1.01) < 0
        assert curves.cross == [] or a != b


def test_every_change_of_sign_is_found_and_nothing_that_only_touches() -> None:
    assert crossings(lambda age: (age - 2) * (age - 50)) == pytest.approx([2, 50])
    assert crossings(lambda age: (age - 2) ** 2 + 1) == []
    assert crossings(lambda age: 0.0) == []
