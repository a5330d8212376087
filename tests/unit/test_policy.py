"""Policies: what a document may say, what is refused with field and range, and the numbers that ship."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from beliefs import belief, nine
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.decay import facts
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.rules import leaves_for
from ebbtide.decay.segment import Terms, retention
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.model.words import EpistemicType
from ebbtide.policy.document import Policy, policy_from
from ebbtide.policy.files import library, load, pick

BUILT_IN = ("archivist", "default", "fsrs", "permastore", "recency", "spaced")
NAN, INF = math.nan, math.inf


def document(**params: object) -> dict:
    return {"id": "own", "version": "1.0.0", "params": params}


def medium(**members: object) -> dict:
    return {"profiles": {"MEDIUM": {"lambda": 0.02, **members}}}


# Bad values: refused with the field and what is allowed

BAD_PARAMS = [
    # rates and factors
    ({"profiles": {"SLOW": {"lambda": -0.005}}}, "params.profiles.SLOW.lambda", "greater than or equal to 0"),
    ({"profiles": {"SLOW": {"lambda": NAN}}}, "params.profiles.SLOW.lambda", "finite number"),
    ({"profiles": {"SLOW": {"lambda": INF}}}, "params.profiles.SLOW.lambda", "finite number"),
    ({"profiles": {"SLOW": {"lambda": 100.1}}}, "params.profiles.SLOW.lambda", "less than or equal to 100"),
    ({"profiles": {"SLOW": {"lambda": "slowly"}}}, "params.profiles.SLOW.lambda", "valid number"),
    ({"profiles": {"SLOW": {}}}, "params.profiles.SLOW.lambda", "required"),
    ({"rho": -0.1}, "params.rho", "greater than or equal to 0"),
    ({"rho": INF}, "params.rho", "finite number"),
    ({"mu_multiplier": -0.5}, "params.mu_multiplier", "greater than or equal to 0"),
    ({"mu_multiplier": NAN}, "params.mu_multiplier", "finite number"),
    ({"restore_grace_days": -1}, "params.restore_grace_days", "greater than or equal to 0"),
    ({"on_reinforce": "double"}, "params.on_reinforce", "'restore' or 'continue'"),
    # thresholds
    ({"tier_thresholds": {"warning": 1.1}}, "params.tier_thresholds.warning", "less than or equal to 1"),
    ({"tier_thresholds": {"archive": -0.1}}, "params.tier_thresholds.archive", "greater than or equal to 0"),
    ({"tier_thresholds": {"force_archive": NAN}}, "params.tier_thresholds.force_archive", "finite number"),
    (
        {"tier_thresholds": {"deprecate_by_confidence": 1.5}},
        "params.tier_thresholds.deprecate_by_confidence",
        "less than or equal to 1",
    ),
    (
        {"tier_thresholds": {"archive_min_confidence": -INF}},
        "params.tier_thresholds.archive_min_confidence",
        "finite number",
    ),
    ({"tier_thresholds": {"archive": 0.4}}, "params.tier_thresholds", "archive 0.4 ≤ warning 0.3"),
    ({"tier_thresholds": {"force_archive": 0.2}}, "params.tier_thresholds", "force_archive 0.2 ≤ archive 0.1"),
    # profiles and mapping
    ({"profiles": {"GLACIAL": {"lambda": 0.001}}}, "params.profiles.GLACIAL", "'PERMANENT', 'SLOW'"),
    ({"profiles": {"PERMANENT": {"lambda": 0.001}}}, "params.profiles", "PERMANENT never decays: its lambda is 0"),
    ({"mapping": {"ASSERTED": "GLACIAL"}}, "params.mapping.ASSERTED", "'PERMANENT', 'SLOW'"),
    ({"mapping": {"GUESSED": "SLOW"}}, "params.mapping.GUESSED", "'OBSERVED', 'ASSERTED'"),
    ({"mapping": {"DEPRECATED": "SLOW"}}, "params.mapping", "DEPRECATED is never asserted"),
    ({"conditional_while_unknown": "NEVER"}, "params.conditional_while_unknown", "'PERMANENT', 'SLOW'"),
    ({"lambda_by_profile": {"SLOW": 0.1}, "profiles": {}}, "params", "lambda_by_profile or profiles, not both"),
    ({"lambda_by_profile": 0.1}, "params", "table of rates by profile"),
    # curves
    (medium(curve="sigmoid"), "params.profiles.MEDIUM.curve", "'exponential', 'power_law' or 'fsrs'"),
    (medium(curve="power_law", scale_days=0), "params.profiles.MEDIUM.scale_days", "greater than 0"),
    (medium(curve="fsrs", decay=1.5), "params.profiles.MEDIUM.decay", "less than or equal to 1"),
    (medium(curve="fsrs", initial_stability_days=-1), "params.profiles.MEDIUM.initial_stability_days", "than 0"),
    (medium(scale_days=7), "params.profiles.MEDIUM", "scale_days would not be read with curve exponential"),
    (medium(by_use={"kind": "logarithmic", "alpha": -1}), "params.profiles.MEDIUM.by_use.alpha", "equal to 0"),
    (medium(by_use={"kind": "linear_capped", "cap": 0.5}), "params.profiles.MEDIUM.by_use.cap", "equal to 1"),
    (medium(by_use={"kind": "cubic"}), "params.profiles.MEDIUM.by_use.kind", "'logarithmic' or 'linear_capped'"),
    (medium(clock="tuesday"), "params.profiles.MEDIUM.clock", "'last_reinforced', 'last_accessed' or 'created'"),
    (medium(salience_floor=1.1), "params.profiles.MEDIUM.salience_floor", "less than or equal to 1"),
    (medium(floor_after=-1), "params.profiles.MEDIUM.floor_after", "greater than or equal to 0"),
    # the rest
    ({"guard": {"max_fraction": 1.1}}, "params.guard.max_fraction", "less than or equal to 1"),
    ({"guard": {"min_objects": -1}}, "params.guard.min_objects", "greater than or equal to 0"),
    ({"schedule": {"decay": 6}}, "params.schedule", "one of lifecycle, decay_rapid_fast"),
    ({"schedule": {"lifecycle": 0}}, "params.schedule.lifecycle", "greater than 0"),
    ({"schedule": {"lifecycle": NAN}}, "params.schedule.lifecycle", "finite number"),
    ({"retention": [{"ttl_days": 0}]}, "params.retention.0.ttl_days", "greater than 0"),
    ({"retention": [{"ttl_days": 9, "action": "shred"}]}, "params.retention.0.action", "'archive' or 'erase'"),
    ({"retention": [{"ttl_days": 9, "match": {"roles": ["USER"]}}]}, "params.retention.0.match", "events = true"),
    ({"reinforcement": {"gamma": {"LIKED": 0.1}}}, "params.reinforcement.gamma.LIKED", "'REFERENCED'"),
    ({"reinforcement": {"gamma": {"CONFIRMED": 1.1}}}, "params.reinforcement.gamma.CONFIRMED", "equal to 1"),
    ({"reinforcement": {"delta": {"CORRECTED": -0.1}}}, "params.reinforcement.delta.CORRECTED", "equal to 0"),
    ({"reinforcement": {"boost_cap": INF}}, "params.reinforcement.boost_cap", "finite number"),
    ({"rank": {"recency_base_per_hour": 0}}, "params.rank.recency_base_per_hour", "greater than 0"),
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
        {"lambda": 0.1, "curve": "fsrs", "decay": 1.0},
        {"lambda": 0.1, "curve": "fsrs", "decay": 1e-3},
        {"lambda": 0.1, "curve": "fsrs", "decay": 1e-4},
        {"lambda": 0.1, "curve": "fsrs", "initial_stability_days": 36_525},
        {"lambda": 0.1, "curve": "fsrs", "initial_stability_days": 5e-324},
    ],
)
def test_what_is_not_refused_can_be_computed(profile: dict) -> None:
    """A bad value is refused when the policy is read; what is taken has a curve with R(0) = 1."""
    try:
        policy = policy_from(document(profiles={"MEDIUM": profile}))
    except BadInput:
        return
    terms = Terms.of(policy)
    stability = policy.params.profiles["MEDIUM"].initial_stability_days
    curve = [retention(SCALAR, terms.by_profile["MEDIUM"], stability, 0.0, age) for age in (0.0, 1.0, 36_525.0)]
    assert curve[0] == 1.0
    assert 1 >= curve[1] >= curve[2] >= 0


# Files


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("own.toml", b'id = "own"\nversion = ', "is not valid TOML"),
        ("own.toml", b'id = "own"\nid = "own"\n', "is not valid TOML"),
        ("own.json", b'{"id": "own",', "is not valid JSON"),
        ("own.json", b"", "is not valid JSON"),
        ("own.toml", b'id = "own"\nnote = "caf\xe9"\n', "cannot be read"),
        ("own.json", '{"id": "own"}'.encode("utf-16"), "cannot be read"),
        ("own.json", b'{"id": "own", "version": "1.0.0", "params": {"rho": NaN}}', "finite number"),
        ("own.toml", b'id = "own"\nversion = "1.0.0"\nparams.rho = inf\n', "finite number"),
        ("own.json", b'["own", "1.0.0"]', "valid dictionary"),
    ],
)
def test_a_file_that_cannot_be_taken_is_named(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BadInput, match=says) as refusal:
        load(path)
    assert refusal.value.file == str(path)


@pytest.mark.parametrize("name", ["deep.json", "deep.toml"])
def test_a_file_nested_without_end_is_refused_like_any_other(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(("" if name.endswith("json") else "params = ") + "[" * 100_000)
    with pytest.raises(BadInput):
        load(path)


def test_a_missing_file_or_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        load(tmp_path / "none.toml")
    with pytest.raises(BadInput, match="is no folder"):
        library(tmp_path / "none")
    with pytest.raises(BadInput, match="is no folder"):
        pick("default@1.0.0", (tmp_path / "file").write_text("") and tmp_path / "file" or tmp_path / "file")
    with pytest.raises(NotFound, match="there is no policy own@1.0.0"):
        pick("own@1.0.0")


def test_other_content_under_a_known_version_is_refused(tmp_path: Path) -> None:
    """(id, version) is immutable: the same content again is a no-op, other content under it is refused."""
    same = tmp_path / "again.json"
    same.write_text(pick("default@1.0.0").canonical())
    assert library(tmp_path)["default@1.0.0"][0] == pick("default@1.0.0")
    same.write_text(json.dumps({"id": "default", "version": "1.0.0", "params": {"rho": 0.2}}))
    with pytest.raises(BadInput, match="other content"):
        library(tmp_path)


def test_the_same_numbers_written_otherwise_are_the_same_content() -> None:
    plain = policy_from(document())
    written = policy_from(document(rho=0.1, restore_grace_days=7, schedule={"lifecycle": 24}, mapping={"ASSERTED": "MEDIUM"}))
    assert written == plain
    assert written.digest() == plain.digest()


# What ships


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_policy_loads_and_survives_json(name: str) -> None:
    policy = pick(f"{name}@1.0.0")
    again = policy_from(json.loads(policy.canonical()))
    assert again == policy
    assert again.canonical() == policy.canonical()
    assert again.digest() == policy.digest()
    assert set(Terms.of(policy).by_profile) == {"PERMANENT", "SLOW", "MEDIUM", "FAST", "RAPID"}


def test_these_are_all_the_built_in_policies() -> None:
    assert sorted(library()) == [f"{name}@1.0.0" for name in BUILT_IN]


def test_the_default_has_the_rfc_s_numbers() -> None:
    params = pick("default@1.0.0").params
    rates = {name: profile.rate for name, profile in params.profiles.items()}
    assert rates == {"PERMANENT": 0, "SLOW": 0.005, "MEDIUM": 0.020, "FAST": 0.070, "RAPID": 0.200}
    for profile in params.profiles.values():
        assert (profile.curve, profile.clock, profile.by_use.kind) == ("exponential", "last_reinforced", "none")
        assert profile.salience_floor == 0
    assert params.mapping == {
        "OBSERVED": "SLOW",
        "ASSERTED": "MEDIUM",
        "INFERRED": "FAST",
        "HYPOTHETICAL": "RAPID",
        "CONDITIONAL": "MEDIUM",
        "UNVERIFIED": "RAPID",
    }
    assert params.conditional_while_unknown == "RAPID"
    assert (params.mu_multiplier, params.rho) == (0.5, 0.10)
    assert params.tier_thresholds.model_dump() == {
        "warning": 0.30,
        "archive": 0.10,
        "force_archive": 0.05,
        "deprecate_by_confidence": 0.15,
        "archive_min_confidence": 0.40,
    }
    assert (params.on_reinforce, params.restore_grace_days, params.observed_grace_days) == ("restore", 7, 180)
    assert (params.guard.max_fraction, params.guard.min_objects) == (0.25, 20)
    assert params.schedule == {
        "lifecycle": 24,
        "decay_rapid_fast": 6,
        "decay_medium": 24,
        "decay_slow": 168,
        "retention": 24,
        "centrality": 168,
        "dedup": 168,
        "summarise": 24,
    }
    assert params.retention == ()


def test_a_document_of_the_rfc_s_shape_loads(tmp_path: Path) -> None:
    path = tmp_path / "rfc.json"
    path.write_text(
        """{"id": "default_v1", "version": "1.0.0", "params": {
            "lambda_by_profile": {"PERMANENT": 0, "SLOW": 0.005, "MEDIUM": 0.020, "FAST": 0.070, "RAPID": 0.200},
            "mu_multiplier": 0.5, "rho": 0.10,
            "tier_thresholds": {"warning": 0.30, "archive": 0.10, "force_archive": 0.05,
                                "deprecate_by_confidence": 0.15}}}"""
    )
    policy = load(path)
    assert policy.name == "default_v1@1.0.0"
    assert policy.params == pick("default@1.0.0").params


@pytest.mark.parametrize("rate", [-0.1, NAN, 101])
def test_a_bad_rate_of_the_rfc_s_shape_is_refused_by_its_profile(rate: float) -> None:
    with pytest.raises(BadInput) as refusal:
        policy_from(document(lambda_by_profile={"MEDIUM": rate}))
    assert "MEDIUM" in str(refusal.value.field)


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


scores = st.floats(0, 1).map(nine)


@given(
    salience=scores,
    confidence=scores,
    epistemic=st.sampled_from(["OBSERVED", "ASSERTED", "INFERRED", "HYPOTHETICAL", "UNVERIFIED"]),
    gamma=st.sampled_from([0.0, 0.08, 0.15]),
    days=st.integers(0, 400),
)
def test_under_archivist_decay_deprecates_nothing(
    *, salience: float, confidence: float, epistemic: str, gamma: float, days: int
) -> None:
    terms = Terms.of(pick("archivist@1.0.0"))
    state = belief(terms, salience=salience, confidence=confidence, epistemic_type=epistemic)
    state = facts.reinforced(state, terms, state.created_at + days * 86_400_000_000, gamma)
    assert state.exit_at is not None
    assert state.exit_rule in ("archive", "force_archive")
    there = facts.standing(state, terms, state.exit_at).scores.confidence
    parameters = terms.by_profile[state.decay_profile]
    assert leaves_for(SCALAR, parameters, state.exit_rule, there) == "ARCHIVED"
