"""Policy files: what cannot be read, what ships, and the RFC's own numbers and shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from beliefs import belief, nine
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.decay import facts
from ebbtide.decay.maths import SCALAR
from ebbtide.decay.rules import leaves_for
from ebbtide.decay.segment import Terms
from ebbtide.model.errors import BadInput, NotFound
from ebbtide.policy.document import policy_from
from ebbtide.policy.files import library, load, pick

BUILT_IN = (
    "archivist",
    "default",
    "fsrs",
    "permastore-critical",
    "permastore-transient",
    "permastore",
    "recency",
    "spaced",
)
RFC_SHAPED = """{
  "id": "default_v1",
  "version": "1.0.0",
  "params": {
    "lambda_by_profile": {"PERMANENT": 0, "SLOW": 0.005, "MEDIUM": 0.020, "FAST": 0.070, "RAPID": 0.200},
    "mu_multiplier": 0.5,
    "rho": 0.10,
    "tier_thresholds": {
      "warning": 0.30, "archive": 0.10, "force_archive": 0.05, "deprecate_by_confidence": 0.15
    }
  }
}"""


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("own.toml", b'id = "own"\nversion = ', "is not valid TOML"),
        ("own.toml", b'id = "own"\nid = "own"\n', "is not valid TOML"),
        ("own.json", b'{"id": "own",', "is not valid JSON"),
        ("own.json", b"", "is not valid JSON"),
        ("own.toml", b'id = "own"\nnote = "caf\xe9"\n', "cannot be read"),
        ("own.json", '{"id": "own"}'.encode("utf-16"), "cannot be read"),
        ("own.json", b'{"id": "own", "version": "1.0.0", "params": {"rho": NaN}}', "from 0 to 100"),
        ("own.toml", b'id = "own"\nversion = "1.0.0"\nparams.rho = inf\n', "from 0 to 100"),
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
        pick("default@1.0.0", tmp_path / "none")
    with pytest.raises(NotFound, match=r"there is no policy own@1\.0\.0"):
        pick("own@1.0.0")


def test_other_content_under_a_known_version_is_refused(tmp_path: Path) -> None:
    """(id, version) is immutable: the same content again is a no-op, other content under it is refused."""
    same = tmp_path / "again.json"
    same.write_text(pick("default@1.0.0").canonical())
    assert library(tmp_path)["default@1.0.0"][0] == pick("default@1.0.0")
    same.write_text(json.dumps({"id": "default", "version": "1.0.0", "params": {"rho": 0.2}}))
    with pytest.raises(BadInput, match="other content"):
        library(tmp_path)


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
        assert (profile.curve, profile.clock, profile.by_use.kind) == (
            "exponential",
            "last_reinforced",
            "none",
        )
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
    path.write_text(RFC_SHAPED)
    policy = load(path)
    assert policy.name == "default_v1@1.0.0"
    assert policy.params == pick("default@1.0.0").params


# Archivist

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
