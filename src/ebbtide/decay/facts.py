"""What facts do to a memory object: each begins a segment, from which all later scores follow.

Functions take the state before, the terms of the object's policy and the instant at which the fact takes effect, and
return the state after. Arithmetic of reinforcement and penalty: RFC-0008. Where time stands still (pinned, or not
ACTIVE), facts work on the values as they stand: `_here` is the instant the object's own time stopped at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from ebbtide.decay.centrality import replaced
from ebbtide.decay.maths import SCALAR, Maths, rounded
from ebbtide.decay.rules import FAR, STANDSTILL, Future, earliest, future
from ebbtide.decay.segment import Scores, Terms, evaluate
from ebbtide.model.instant import DAY, first_whole_second
from ebbtide.model.state import MemoryState
from ebbtide.model.words import (
    Clock,
    DecayProfile,
    EpistemicType,
    Expiry,
    LifecycleState,
    ObjectType,
    OnReinforce,
    PenaltySignal,
    RateByUse,
    Rule,
)
from ebbtide.policy.document import RetentionRule


@dataclass(frozen=True, slots=True)
class Standing:
    """The values an object has at an instant of its own time, before the next segment takes them over.

    That segment begins at `at`, but not before a freeze that ends by itself has ended.
    """

    at: int
    age: int
    scores: Scores


def _here(state: MemoryState, at: int) -> int:
    return at if state.stopped_at is None else state.stopped_at


def standing(state: MemoryState, terms: Terms, at: int) -> Standing:
    """How an object stands at an instant: parts, scores and age, unmoved where time stands still."""
    here = _here(state, at)
    scores = evaluate(SCALAR, terms.by_profile[state.decay_profile], state, here)
    age = state.segment_age + max(0, here - state.segment_at)
    begins = here if state.stopped_at is not None or not _frozen_at(state, at) else state.segment_at
    return Standing(begins, age, scores)


def _frozen_at(state: MemoryState, at: int) -> bool:
    return state.frozen and (state.thaws_at is None or at < state.thaws_at)


def shown(state: MemoryState, terms: Terms, at: int) -> tuple[float, float]:
    """Effective salience and confidence; a pinned object shows salience 1.0 (the RFC's convention)."""
    scores = standing(state, terms, at).scores
    return (1.0 if state.pinned else scores.salience), scores.confidence


def clock(m: Maths, s: Any, which: Clock) -> Any:
    """The instant that age, grace and ttl count from: the named clock, or a later restore.

    Being reinforced counts as being accessed here, though it does not move `accessed_at`.
    """
    marks = {
        Clock.CREATED: (),
        Clock.LAST_REINFORCED: (s.reinforced_at,),
        Clock.LAST_ACCESSED: (s.accessed_at, s.reinforced_at),
    }[which]
    return m.greatest(s.created_at, m.known(s.restored_at, 0), *(m.known(mark, 0) for mark in marks))


def expiry(m: Maths, rules: Sequence[RetentionRule], s: Any, at: Any) -> Any:
    """When an object's ttl ends: the first whole second, or null without a rule that speaks of it.

    A ttl that has ended by `at` is final.
    """
    ends = _by_rule(m, rules, s, lambda rule: m.whole_second(clock(m, s, rule.clock) + round(rule.ttl_days * DAY)))
    return m.where(m.known(s.expires_at, FAR) <= at, s.expires_at, ends)


def on_expiry(m: Maths, rules: Sequence[RetentionRule], s: Any) -> Any:
    """What becomes of an object whose ttl ends: archived, or erased."""
    return m.known(_by_rule(m, rules, s, lambda rule: rule.action.value), Expiry.ARCHIVE.value)


def _by_rule(m: Maths, rules: Sequence[RetentionRule], s: Any, of: Callable[[RetentionRule], Any]) -> Any:
    """What the first rule that speaks of an object says; null where none does."""
    found: Any = None
    for rule in reversed([rule for rule in rules if not rule.match.events]):
        speaks = m.among(s.object_type, rule.match.object_types or tuple(ObjectType)) & m.among(
            s.epistemic_type, rule.match.epistemic_types or tuple(EpistemicType)
        )
        found = m.where(speaks, of(rule), found)
    return found


def _expiry(state: MemoryState, terms: Terms, at: int) -> int | None:
    """The ttl's end of one object: none while it is pinned or held, nor once a tombstone was written."""
    if state.pinned or state.held or state.tombstoned_at is not None:
        return None
    found: int | None = expiry(SCALAR, terms.policy.params.retention, state, at)
    return found


def with_future(state: MemoryState, terms: Terms, at: int, begin: int | None = None) -> MemoryState:
    """The state with its next rules worked out as of `at`, from where its segment begins, or from `begin`."""
    expires_at = _expiry(state, terms, at)
    if state.active and not state.standing:
        grace = round(terms.policy.params.restore_grace_days * DAY)
        numbers = terms.by_profile[state.decay_profile]
        starts = max(at, state.segment_at)
        sunk = evaluate(SCALAR, numbers, state, starts).salience < numbers.warning
        found = future(
            numbers,
            state,
            begin=starts if begin is None else begin,
            warned=state.warned and sunk,
            keep_until=None if state.restored_at is None else state.restored_at + grace,
            expires_at=expires_at,
        )
    elif state.active:
        found = replace(STANDSTILL, warned=state.warned)
    else:
        found = earliest(None, None, None, expires_at, state.warned)
    return _due(state, found)


def _due(state: MemoryState, found: Future) -> MemoryState:
    return replace(
        state,
        due_at=found.due_at,
        due_rule=found.due_rule,
        exit_at=found.exit_at,
        exit_rule=found.exit_rule,
        expires_at=found.expires_at,
        warned=found.warned,
    )


def scored(state: MemoryState, terms: Terms, at: int) -> MemoryState:
    """The state with the scores it shows at `at` as its stored ones."""
    salience, confidence = shown(state, terms, at)
    return replace(state, salience=salience, confidence=confidence)


def unbegun(
    *,
    namespace_id: str,
    object_id: UUID,
    at: int,
    salience: float,
    confidence: float,
    object_type: str,
    epistemic_type: str,
    source_type: str,
    evidence: Sequence[str],
    content_seq: int,
    ref: str | None = None,
    condition: str | None = None,
    subject: str | None = None,
    profile_override: str | None = None,
    supersedes: UUID | None = None,
) -> MemoryState:
    """A new object before its first segment: what is believed, and the scores to begin with."""
    salience, confidence = rounded(salience), rounded(confidence)
    return MemoryState(
        namespace_id=namespace_id,
        object_id=object_id,
        version=0,
        fact_version=0,
        fact_at=at,
        head_hash=b"",
        lifecycle_state=LifecycleState.ACTIVE,
        salience=salience,
        confidence=confidence,
        decayed_at=None,
        ref=ref,
        object_type=object_type,
        epistemic_type=epistemic_type,
        source_type=source_type,
        condition=condition,
        subject=subject,
        evidence=json.dumps(evidence, separators=(",", ":")),
        profile_override=profile_override,
        created_at=at,
        content_seq=content_seq,
        supersedes=supersedes,
        superseded_by=None,
        segment_at=at,
        segment_age=0,
        decaying=salience,
        boost=0.0,
        confidence_base=confidence,
        confidence_from=at,
        baseline=salience,
        centrality=0.0,
        stability=None,
        difficulty=None,
        decay_profile="",
        policy_id="",
        policy_version="",
        due_at=None,
        due_rule=None,
        exit_at=None,
        exit_rule=None,
        expires_at=None,
        warned=False,
        accessed_at=None,
        reinforced_at=None,
        modified_at=at,
        restored_at=None,
        access_count=0,
        reinforce_count=0,
        pinned=False,
        held=False,
        frozen=False,
        thaws_at=None,
        stopped_at=None,
        tombstoned_at=None,
        erased_at=None,
    )


def assertion(state: MemoryState) -> dict[str, Any]:
    """What ASSERT says of a new object, but for its content."""
    return {
        "object_type": state.object_type,
        "epistemic_type": state.epistemic_type,
        "source_type": state.source_type,
        "evidence_ids": json.loads(state.evidence),
        "confidence": state.confidence_base,
        "salience": state.baseline,
    }


def asserted(state: MemoryState, terms: Terms, at: int) -> MemoryState:
    """Begins the first segment of a new object, whose `baseline` and `confidence_base` are given."""
    profile = terms.policy.profile_for(EpistemicType(state.epistemic_type), state.condition, state.profile_override)
    observed = state.epistemic_type == EpistemicType.OBSERVED
    new = replace(
        state,
        segment_at=at,
        segment_age=0,
        decaying=state.baseline,
        boost=0.0,
        confidence_from=at + _observed_grace(terms) if observed else at,
        stability=_initial_stability(terms, profile),
        decay_profile=profile,
        policy_id=terms.policy.id,
        policy_version=terms.policy.version,
    )
    return with_future(scored(new, terms, at), terms, at)


def _initial_stability(terms: Terms, profile: DecayProfile) -> float | None:
    fsrs = terms.by_profile[profile].stretch > 0
    return terms.policy.params.profiles[profile].initial_stability_days if fsrs else None


def _restarts(terms: Terms, state: MemoryState, *clocks: Clock) -> bool:
    return terms.policy.params.profiles[DecayProfile(state.decay_profile)].clock in clocks


def accessed(state: MemoryState, terms: Terms, at: int) -> MemoryState:
    """Records that an object was shown, which confirms nothing.

    A segment begins only where the profile's clock or count needs it; what OBSERVED keeps of its confidence is kept
    for another 180 days. A rule that was due before stays due, unless a segment begins; one by which the object is
    to leave ACTIVE also keeps the confidence it is judged by.
    """
    profile = terms.policy.params.profiles[DecayProfile(state.decay_profile)]
    restarts = _restarts(terms, state, Clock.LAST_ACCESSED)
    slows = profile.by_use.kind != RateByUse.NONE or profile.floor_after > 0
    begins = restarts or (slows and terms.by_profile[state.decay_profile].counts_accesses)
    now = standing(state, terms, at)
    if not state.active:
        # Not counted: a use that slows the curve would move the scores that it left with.
        new = replace(state, accessed_at=at)
        return _due(new, earliest(None, None, None, _expiry(new, terms, at), state.warned))
    new = replace(state, accessed_at=at, access_count=state.access_count + 1)
    if begins:
        new = _segment(new, now, age=0 if restarts else now.age)
        if restarts and terms.policy.params.on_reinforce == OnReinforce.RESTORE:
            new = replace(new, decaying=max(new.decaying, _restored_part(new)))
    elif any(due is not None and due <= at for due in (state.exit_at, state.expires_at)):
        return new
    if state.epistemic_type == EpistemicType.OBSERVED:
        until = now.at + _observed_grace(terms)
        new = replace(new, confidence_base=rounded(now.scores.confidence), confidence_from=until)
    if begins:
        return with_future(scored(new, terms, at), terms, at)
    renewed = with_future(new, terms, at)
    if state.due_at is not None and state.due_at <= at:
        return replace(renewed, due_at=state.due_at, due_rule=state.due_rule)
    return renewed


def _observed_grace(terms: Terms) -> int:
    return round(terms.policy.params.observed_grace_days * DAY)


def _segment(state: MemoryState, now: Standing, age: int) -> MemoryState:
    """A segment that takes over the values as they stand."""
    return replace(
        state,
        segment_at=now.at,
        segment_age=age,
        decaying=rounded(now.scores.decaying),
        boost=rounded(now.scores.boost),
        confidence_base=rounded(now.scores.confidence),
        confidence_from=max(now.at, state.confidence_from),
    )


def _restored_part(state: MemoryState) -> float:
    return rounded(min(1.0, state.baseline + state.centrality))


def reinforced(state: MemoryState, terms: Terms, at: int, gamma: float) -> MemoryState:
    """REINFORCE with effective γ: confidence towards its ceiling, baseline up, boost on, the clock restarted.

    No score ever falls; γ of 0 changes nothing.
    """
    gamma = rounded(gamma)
    if gamma <= 0:
        return state
    rules = terms.policy.params.reinforcement
    now = standing(state, terms, at)
    ceiling = rules.ceiling[EpistemicType(state.epistemic_type)]
    confidence = now.scores.confidence
    gain = gamma * rules.baseline_gain * (1 - state.baseline)
    restarts = _restarts(terms, state, Clock.LAST_REINFORCED, Clock.LAST_ACCESSED)
    new = _segment(
        replace(state, reinforced_at=at, reinforce_count=state.reinforce_count + 1),
        now,
        age=0 if restarts else now.age,
    )
    new = replace(
        new,
        baseline=rounded(state.baseline + gain),
        boost=rounded(max(now.scores.boost, min(rules.boost_cap, now.scores.boost + gamma))),
        confidence_base=rounded(max(confidence, min(ceiling, confidence + gamma * (1 - confidence)))),
    )
    if terms.policy.params.on_reinforce == OnReinforce.CONTINUE:
        new = replace(new, decaying=rounded(min(1.0, now.scores.decaying + gain)))
    elif restarts:
        new = replace(new, decaying=max(new.decaying, _restored_part(new)))
    return with_future(scored(new, terms, at), terms, at)


def penalised(state: MemoryState, terms: Terms, at: int, signal: PenaltySignal, delta: float) -> MemoryState:
    """PENALTY with δ: confidence × (1 − δ), for CORRECTED not below its floor; the rest × (1 − 0.3·δ).

    That is baseline and decaying part. Boost and clock stay; δ of 0 changes nothing.
    """
    if delta <= 0:
        return state
    rules = terms.policy.params.reinforcement
    now = standing(state, terms, at)
    confidence = now.scores.confidence
    lowered = confidence * (1 - delta)
    if signal == PenaltySignal.CORRECTED:
        lowered = min(confidence, max(rules.corrected_floor, lowered))
    share = 1 - rules.penalty_share * delta
    new = replace(
        _segment(state, now, age=now.age),
        baseline=rounded(state.baseline * share),
        decaying=rounded(now.scores.decaying * share),
        confidence_base=rounded(lowered),
    )
    new = scored(new, terms, at)
    if not state.pinned and new.salience > now.scores.salience:
        # Both parts were rounded up: a signal never moves a score the wrong way, not by one 10⁻⁹ either.
        new = scored(replace(new, decaying=rounded(new.decaying - 1e-9)), terms, at)
    return with_future(new, terms, at)


def pinned(state: MemoryState, terms: Terms, at: int) -> MemoryState:
    """Stops the object's time; it shows salience 1.0 and no task touches it. Pinning twice changes nothing."""
    if state.pinned:
        return state
    new = replace(state, pinned=True, stopped_at=_here(state, at))
    return with_future(scored(new, terms, at), terms, at)


def unpinned(state: MemoryState, terms: Terms, at: int) -> MemoryState:
    """Lets time go on, unless it is frozen too. An unpinned object at 1.0 decays."""
    if not state.pinned:
        return state
    return _expiring_from(_going_on(replace(state, pinned=False), state, terms, at), at)


def frozen(state: MemoryState, terms: Terms, at: int, until: int | None) -> MemoryState:
    """Stops the object's time until an instant, at which it goes on by itself, or until it is thawed."""
    return _going_on(replace(state, frozen=True, thaws_at=until), state, terms, at)


def thawed(state: MemoryState, terms: Terms, at: int) -> MemoryState:
    """Lets a frozen object's time go on, unless it is pinned too."""
    return _going_on(replace(state, frozen=False, thaws_at=None), state, terms, at) if state.frozen else state


def _going_on(new: MemoryState, old: MemoryState, terms: Terms, at: int) -> MemoryState:
    """What becomes of an object's time once its marks have changed.

    Where it goes on, now or when a freeze ends, the next segment takes parts and age as they stood, and what was left
    of a confidence that does not age yet.
    """
    if not new.active or new.pinned:
        return with_future(scored(new, terms, at), terms, at)
    if new.frozen and new.thaws_at is None:
        return with_future(scored(replace(new, stopped_at=_here(old, at)), terms, at), terms, at)
    stood = standing(old, terms, at)
    resumes = new.thaws_at if new.thaws_at is not None and new.thaws_at > at else at
    resumed = replace(
        _segment(new, stood, age=stood.age),
        stopped_at=None,
        segment_at=resumes,
        confidence_from=resumes + max(0, old.confidence_from - stood.at),
    )
    return with_future(scored(resumed, terms, at), terms, at)


def recentred(state: MemoryState, terms: Terms, at: int, kappa: float) -> MemoryState:
    """Another centrality: the decaying part changes by the difference, and a segment begins. For what is ACTIVE."""
    now = standing(state, terms, at)
    new = replace(
        _segment(state, now, age=now.age),
        centrality=kappa,
        decaying=replaced(SCALAR, now.scores.decaying, state.centrality, kappa),
    )
    return with_future(scored(new, terms, at), terms, at)


def held(state: MemoryState, terms: Terms, at: int) -> MemoryState:
    """A legal hold: nothing may erase the object, and its ttl does not end while it lasts."""
    return with_future(replace(state, held=True), terms, at, begin=state.segment_at)


def released(state: MemoryState, terms: Terms, at: int) -> MemoryState:
    """Ends a hold; a ttl that ended meanwhile ends now."""
    if not state.held:
        return state
    return _expiring_from(with_future(replace(state, held=False), terms, at, begin=state.segment_at), at)


def _expiring_from(state: MemoryState, at: int) -> MemoryState:
    """A ttl that ended while the object was exempt from it ends now."""
    if state.expires_at is None or state.expires_at > at:
        return state
    now = first_whole_second(at)
    return _due(state, earliest(None, state.exit_at, _rule(state.exit_rule), now, state.warned))


def _rule(name: str | None) -> Rule | None:
    return None if name is None else Rule(name)


def restored(state: MemoryState, terms: Terms, at: int) -> MemoryState:
    """ARCHIVED → ACTIVE: baseline and decaying part at least at the warning threshold, no boost.

    Confidence is as it stood, and the clock starts at the restore.
    """
    now = standing(state, terms, at)
    floor = max(state.baseline, terms.by_profile[state.decay_profile].warning)
    here = now.at if state.pinned else at
    kept = state.confidence_from
    if state.epistemic_type == EpistemicType.OBSERVED:
        kept = max(kept, (state.accessed_at or state.created_at) + _observed_grace(terms))
    new = replace(
        _segment(state, now, age=0),
        lifecycle_state=LifecycleState.ACTIVE,
        restored_at=at,
        segment_at=here,
        baseline=rounded(floor),
        decaying=rounded(floor),
        boost=0.0,
        confidence_from=max(here, kept),
        stopped_at=state.stopped_at if state.pinned else None,
        warned=False,
    )
    return with_future(scored(new, terms, at), terms, at)


def known_as(new: MemoryState, old: MemoryState, terms: Terms, at: int) -> MemoryState:
    """A belief known in another way, or whose condition was settled: a segment under the profile it has now.

    What has become OBSERVED keeps its confidence for 180 days from when it was last shown.
    """
    now = standing(old, terms, at)
    profile = terms.policy.profile_for(EpistemicType(new.epistemic_type), new.condition, new.profile_override)
    kept = now.at
    if new.epistemic_type == EpistemicType.OBSERVED:
        kept = max(kept, (new.accessed_at or new.created_at) + _observed_grace(terms))
    begun = replace(
        _segment(new, now, age=now.age),
        modified_at=at,
        decay_profile=profile,
        stability=new.stability or _initial_stability(terms, profile),
        confidence_from=max(kept, old.confidence_from),
    )
    return with_future(scored(begun, terms, at), terms, at)


def left(state: MemoryState, terms: Terms, at: int, to: LifecycleState) -> MemoryState:
    """Leaves ACTIVE by a caller's hand: scores stand from here on, and nothing but a ttl is due any more."""
    new = scored(replace(state, lifecycle_state=to, stopped_at=_here(state, at)), terms, at)
    return with_future(new, terms, at)
