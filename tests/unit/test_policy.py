"""The policy document: what it may say, and what is refused with its field and the allowed range."""

from __future__ import annotations

import math

import pytest

from ebbtide.decay.fsrs import learning
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.segment import Terms, retention
from ebbtide.model.errors import BadInput
from ebbtide.model.words import EpistemicType
from ebbtide.policy.document import Policy, policy_from
from ebbtide.policy.weights import FSRS_6, RANGES

NAN, INF = math.nan, math.inf


def document(**params: object) -> dict:
    return {"id": "own", "version": "1.0.0", "params": params}


def medium(**members: object) -> dict:
    return {"profiles": {"MEDIUM": {"lambda": 0.02, **members}}}


# Bad values: refused with the field and what is allowed

BAD_PARAMS = [
    # rates and factors
    ({"profiles": {"SLOW": {"lambda": -0.005}}}, "params.profiles.SLOW.lambda", "from 0 to 100"),
    ({"profiles": {"SLOW": {"lambda": NAN}}}, "params.profiles.SLOW.lambda", "from 0 to 100"),
    ({"profiles": {"SLOW": {"lambda": INF}}}, "params.profiles.SLOW.lambda", "from 0 to 100"),
    ({"profiles": {"SLOW": {"lambda": 100.1}}}, "params.profiles.SLOW.lambda", "from 0 to 100"),
    ({"profiles": {"SLOW": {"lambda": "slowly"}}}, "params.profiles.SLOW.lambda", "must be a number"),
    ({"profiles": {"SLOW": {}}}, "params.profiles.SLOW.lambda", "required"),
    ({"rho": -0.1}, "params.rho", "from 0 to 100"),
    ({"rho": INF}, "params.rho", "from 0 to 100"),
    ({"mu_multiplier": -0.5}, "params.mu_multiplier", "from 0 to 10"),
    ({"mu_multiplier": NAN}, "params.mu_multiplier", "from 0 to 10"),
    ({"restore_grace_days": -1}, "params.restore_grace_days", "from 0 to 36525"),
    ({"on_reinforce": "double"}, "params.on_reinforce", "'restore' or 'continue'"),
    # thresholds
    ({"tier_thresholds": {"warning": 1.1}}, "params.tier_thresholds.warning", "from 0 to 1"),
    ({"tier_thresholds": {"archive": -0.1}}, "params.tier_thresholds.archive", "from 0 to 1"),
    ({"tier_thresholds": {"force_archive": NAN}}, "params.tier_thresholds.force_archive", "from 0 to 1"),
    (
        {"tier_thresholds": {"deprecate_by_confidence": 1.5}},
        "params.tier_thresholds.deprecate_by_confidence",
        "from 0 to 1",
    ),
    (
        {"tier_thresholds": {"archive_min_confidence": -INF}},
        "params.tier_thresholds.archive_min_confidence",
        "from 0 to 1",
    ),
    ({"tier_thresholds": {"archive": 0.4}}, "params.tier_thresholds", "archive 0.4 ≤ warning 0.3"),
    (
        {"tier_thresholds": {"force_archive": 0.2}},
        "params.tier_thresholds",
        "force_archive 0.2 ≤ archive 0.1",
    ),
    # profiles and mapping
    ({"profiles": {"GLACIAL": {"lambda": 0.001}}}, "params.profiles.GLACIAL", "'PERMANENT', 'SLOW'"),
    ({"profiles": {"PERMANENT": {"lambda": 0.001}}}, "params.profiles", "PERMANENT never decays"),
    ({"mapping": {"ASSERTED": "GLACIAL"}}, "params.mapping.ASSERTED", "'PERMANENT', 'SLOW'"),
    ({"mapping": {"GUESSED": "SLOW"}}, "params.mapping.GUESSED", "'OBSERVED', 'ASSERTED'"),
    ({"mapping": {"DEPRECATED": "SLOW"}}, "params.mapping", "DEPRECATED is never asserted"),
    ({"conditional_while_unknown": "NEVER"}, "params.conditional_while_unknown", "'PERMANENT', 'SLOW'"),
    (
        {"lambda_by_profile": {"SLOW": 0.1}, "profiles": {}},
        "params",
        "lambda_by_profile or profiles, not both",
    ),
    ({"lambda_by_profile": 0.1}, "params", "table of rates by profile"),
    # curves
    (medium(curve="sigmoid"), "params.profiles.MEDIUM.curve", "'exponential', 'power_law' or 'fsrs'"),
    (medium(curve="power_law", scale_days=0), "params.profiles.MEDIUM.scale_days", "from 0.001 to 36525"),
    (medium(curve="fsrs", initial_grade="fair"), "params.profiles.MEDIUM.initial_grade", "'good' or 'easy'"),
    (medium(curve="fsrs", weights=[1.0] * 20), "params.profiles.MEDIUM.weights", "are 21 numbers"),
    (
        medium(curve="fsrs", weights=[0.0, *FSRS_6[1:]]),
        "params.profiles.MEDIUM.weights",
        "w0 must be a number from 0.001 to 100",
    ),
    (
        medium(curve="fsrs", weights=[*FSRS_6[:-1], NAN]),
        "params.profiles.MEDIUM.weights",
        "w20 must be a number from 0.1 to 0.8",
    ),
    (medium(curve="fsrs", clock="created"), "params.profiles.MEDIUM", "clock is last_reinforced or last_accessed"),
    (medium(weights=[*FSRS_6]), "params.profiles.MEDIUM", "weights would not be read with curve exponential"),
    (medium(scale_days=7), "params.profiles.MEDIUM", "scale_days would not be read with curve exponential"),
    (
        medium(by_use={"kind": "logarithmic", "alpha": -1}),
        "params.profiles.MEDIUM.by_use.alpha",
        "must be a number from 0",
    ),
    (
        medium(by_use={"kind": "linear_capped", "cap": 0.5}),
        "params.profiles.MEDIUM.by_use.cap",
        "must be a number from",
    ),
    (
        medium(by_use={"kind": "cubic"}),
        "params.profiles.MEDIUM.by_use.kind",
        "'logarithmic' or 'linear_capped'",
    ),
    (
        medium(clock="tuesday"),
        "params.profiles.MEDIUM.clock",
        "'last_reinforced', 'last_accessed' or 'created'",
    ),
    (medium(salience_floor=1.1), "params.profiles.MEDIUM.salience_floor", "from 0 to 1"),
    (medium(floor_after=-1), "params.profiles.MEDIUM.floor_after", "whole number from 0"),
    # the rest
    ({"guard": {"max_fraction": 1.1}}, "params.guard.max_fraction", "from 0 to 1"),
    ({"guard": {"min_objects": -1}}, "params.guard.min_objects", "whole number from 0"),
    ({"schedule": {"decay": 6}}, "params.schedule", "one of lifecycle, decay_rapid_fast"),
    ({"schedule": {"lifecycle": 0}}, "params.schedule.lifecycle", "from 0.0166667 to 8766"),
    ({"schedule": {"lifecycle": NAN}}, "params.schedule.lifecycle", "from 0.0166667 to 8766"),
    ({"retention": [{"ttl_days": 0}]}, "params.retention.0.ttl_days", "from 0.001 to 36525"),
    (
        {"retention": [{"ttl_days": 9, "action": "shred"}]},
        "params.retention.0.action",
        "'archive' or 'erase'",
    ),
    (
        {"retention": [{"ttl_days": 9, "match": {"roles": ["USER"]}}]},
        "params.retention.0.match",
        "events = true",
    ),
    ({"reinforcement": {"gamma": {"LIKED": 0.1}}}, "params.reinforcement.gamma.LIKED", "'REFERENCED'"),
    ({"reinforcement": {"gamma": {"CONFIRMED": 1.1}}}, "params.reinforcement.gamma.CONFIRMED", "must be a number from"),
    (
        {"reinforcement": {"delta": {"CORRECTED": -0.1}}},
        "params.reinforcement.delta.CORRECTED",
        "must be a number from 0",
    ),
    ({"reinforcement": {"boost_cap": INF}}, "params.reinforcement.boost_cap", "from 0 to 1"),
    ({"dedup": {"cosine": 0.49}}, "params.dedup.cosine", "from 0.5 to 1"),
    ({"dedup": {"cosine": 1.01}}, "params.dedup.cosine", "from 0.5 to 1"),
    ({"rank": {"recency_base_per_hour": 0}}, "params.rank.recency_base_per_hour", "from 0.001 to 1"),
    # unknown keys, at every depth
    ({"half_life": 3}, "params.half_life", "not permitted"),
    ({"tier_thresholds": {"delete": 0.01}}, "params.tier_thresholds.delete", "not permitted"),
    (medium(half_life=3), "params.profiles.MEDIUM.half_life", "not permitted"),
]


@pytest.mark.parametrize(("params", "field", "allowed"), BAD_PARAMS, ids=[field for _, field, _ in BAD_PARAMS])
def test_a_bad_value_is_refused_with_its_field_and_range(params: dict, field: str, allowed: str) -> None:
    with pytest.raises(BadInput) as refusal:
        policy_from(document(**params), "own.toml")
    assert refusal.value.field == field
    assert allowed in refusal.value.message
    assert str(refusal.value).startswith(f"own.toml: {field}: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("version", ["1", "1.0", "v1.0.0", "1.0.0.0", "01.0.0", "1.0.x", "1.0.0 ", "", "-1.0.0", 1])
def test_a_version_is_semantic(version: object) -> None:
    with pytest.raises(BadInput) as refusal:
        policy_from({"id": "own", "version": version})
    assert refusal.value.field == "version"


@pytest.mark.parametrize("name", ["", "two words", "own@1", "-own", "own\n", "o" * 101])
def test_an_id_is_one_word(name: str) -> None:
    with pytest.raises(BadInput) as refusal:
        policy_from({"id": name, "version": "1.0.0"})
    assert refusal.value.field == "id"


@pytest.mark.parametrize(("data", "field"), [({"version": "1.0.0"}, "id"), ({"id": "own"}, "version"), ([], None)])
def test_a_document_has_an_id_and_a_version(data: object, field: str | None) -> None:
    with pytest.raises(BadInput) as refusal:
        policy_from(data)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    "profile",
    [
        {"lambda": 100},
        {"lambda": 0.0},
        {"lambda": 5e-324},
        {"lambda": 0.1, "curve": "power_law", "scale_days": 36_525},
        {"lambda": 0.1, "curve": "power_law", "scale_days": 5e-324},
        {"lambda": 0.1, "curve": "fsrs", "weights": [low for low, _ in RANGES]},
        {"lambda": 0.1, "curve": "fsrs", "weights": [high for _, high in RANGES], "initial_grade": "easy"},
        {"lambda": 0.1, "curve": "fsrs", "weights": [5e-324, *FSRS_6[1:]], "initial_grade": "again"},
        {"lambda": 0.1, "curve": "fsrs", "weights": [*FSRS_6[:-1], 1e-4]},
    ],
)
def test_what_is_not_refused_can_be_computed(profile: dict) -> None:
    """A bad value is refused when the policy is read; what is taken has a curve with R(0) = 1."""
    try:
        policy = policy_from(document(profiles={"MEDIUM": profile}))
    except BadInput:
        return
    terms = Terms.of(policy)
    stability = learning(policy.params.profiles["MEDIUM"]).stability
    curve = [retention(SCALAR, terms.by_profile["MEDIUM"], stability, 0.0, age) for age in (0.0, 1.0, 36_525.0)]
    assert curve[0] == 1.0
    assert 1 >= curve[1] >= curve[2] >= 0


@pytest.mark.parametrize("rate", [-0.1, NAN, 101])
def test_a_bad_rate_of_the_rfc_s_shape_is_refused_by_its_profile(rate: float) -> None:
    with pytest.raises(BadInput) as refusal:
        policy_from(document(lambda_by_profile={"MEDIUM": rate}))
    assert "MEDIUM" in str(refusal.value.field)


def test_the_same_numbers_written_otherwise_are_the_same_content() -> None:
    plain = policy_from(document())
    written = policy_from(
        document(rho=0.1, restore_grace_days=7, schedule={"lifecycle": 24}, mapping={"ASSERTED": "MEDIUM"})
    )
    assert written == plain
    assert written.digest() == plain.digest()


@pytest.mark.parametrize(
    ("epistemic", "condition", "override", "profile"),
    [
        ("OBSERVED", None, None, "SLOW"),
        ("UNVERIFIED", None, None, "RAPID"),
        ("CONDITIONAL", "UNKNOWN", None, "RAPID"),
        ("CONDITIONAL", "TRUE", None, "MEDIUM"),
        ("CONDITIONAL", "UNKNOWN", "SLOW", "SLOW"),
        ("ASSERTED", None, "PERMANENT", "PERMANENT"),
    ],
)
def test_the_profile_of_an_object(epistemic: str, condition: str | None, override: str | None, profile: str) -> None:
    policy = Policy(id="own", version="1.0.0")
    assert policy.profile_for(EpistemicType(epistemic), condition, override) == profile
