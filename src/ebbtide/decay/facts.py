"""What facts do to a memory object: each begins a segment, from which all later scores follow.

Functions take the state before, the terms of the object's policy and the instant at which the fact takes effect, and
return the state after; with the engine of `decay.columns` a state is whole columns of objects, all under one policy.
Arithmetic of reinforcement and penalty: RFC-0008. Where time stands still (pinned, or not ACTIVE), facts work on the
values as they stand: `_here` is the instant the object's own time stopped at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from ebbtide.decay.centrality import replaced
from ebbtide.decay.fsrs import reviewed
from ebbtide.decay.maths import SCALAR, Engine, Maths, decimals9
from ebbtide.decay.rules import FAR, Future, earliest, future, leaves_for
from ebbtide.decay.segment import Scores, Terms, evaluate, retention, uses_of
from ebbtide.model.instant import DAY
from ebbtide.model.state import MemoryState
from ebbtide.model.words import (
    Clock,
    Condition,
    EpistemicType,
    Expiry,
    Grade,
    LifecycleState,
    ObjectType,
    OnReinforce,
    PenaltySignal,
    RateByUse,
)
from ebbtide.policy.document import RetentionRule


@dataclass(frozen=True, slots=True)
class Standing:
    """The values an object has at an instant of its own time, before the next segment takes them over.

    That segment begins at `at`, but not before a freeze that ends by itself has ended.
    """

    at: Any
    age: Any
    scores: Scores


def _here(m: Engine, state: MemoryState, at: Any) -> Any:
    return m.known(state.stopped_at, at)


def _numbers(m: Engine, state: MemoryState, terms: Terms) -> Any:
    return m.numbers(terms.by_profile, state.decay_profile)


def standing(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> Standing:
    """How an object stands at an instant: parts, scores and age, unmoved where time stands still."""
    here = _here(m, state, at)
    scores = evaluate(m, _numbers(m, state, terms), state, here)
    age = state.segment_age + m.greatest(0, here - state.segment_at)
    frozen = state.frozen & (at < m.known(state.thaws_at, FAR))
    begins = m.where(m.is_known(state.stopped_at) | m.no(frozen), here, state.segment_at)
    return Standing(begins, age, scores)


def shown(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> tuple[Any, Any]:
    """Effective salience and confidence; a pinned object shows salience 1.0 (the RFC's convention)."""
    scores = standing(state, terms, at, m).scores
    return m.where(state.pinned, 1.0, scores.salience), scores.confidence


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
    ends = _by_rule(
        m, rules, s, lambda rule: m.whole_second(clock(m, s, rule.clock) + round(rule.ttl_days * DAY)), m.null
    )
    return m.where(m.known(s.expires_at, FAR) <= at, s.expires_at, ends)


def on_expiry(m: Maths, rules: Sequence[RetentionRule], s: Any) -> Any:
    """What becomes of an object whose ttl ends: archived, or erased."""
    return _by_rule(m, rules, s, lambda rule: rule.action.value, Expiry.ARCHIVE.value)


def retention_rule(rules: Sequence[RetentionRule], state: MemoryState) -> RetentionRule | None:
    """The first rule that speaks of an object, by which its ttl counts."""
    found: RetentionRule | None = _by_rule(SCALAR, rules, state, lambda rule: rule, None)
    return found


def _by_rule(
    m: Maths, rules: Sequence[RetentionRule], s: Any, of: Callable[[RetentionRule], Any], otherwise: Any
) -> Any:
    """What the first rule that speaks of an object says; `otherwise` where none does."""
    found: Any = otherwise
    for rule in reversed([rule for rule in rules if not rule.match.events]):
        speaks = m.among(s.object_type, rule.match.object_types or tuple(ObjectType)) & m.among(
            s.epistemic_type, rule.match.epistemic_types or tuple(EpistemicType)
        )
        found = m.where(speaks, of(rule), found)
    return found


def _expiry(m: Engine, state: MemoryState, terms: Terms, at: Any) -> Any:
    """The ttl's end: none while an object is pinned or held, nor once a tombstone was written."""
    exempt = state.pinned | state.held | m.is_known(state.tombstoned_at)
    return m.where(exempt, m.null, expiry(m, terms.policy.params.retention, state, at))


def with_future(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR, begin: Any = None) -> MemoryState:
    """The state with its next rules worked out as of `at`, from where its segment begins, or from `begin`.

    Where time stands still, and for what is not ACTIVE, only a ttl is due.
    """
    numbers = _numbers(m, state, terms)
    starts = m.greatest(at, state.segment_at)
    running = state.active & m.no(m.is_known(state.stopped_at))
    sunk = evaluate(m, numbers, state, starts).salience < numbers.warning
    grace = round(terms.policy.params.restore_grace_days * DAY)
    found = future(
        m,
        numbers,
        state,
        begin=starts if begin is None else begin,
        running=running,
        warned=state.warned & (m.no(running) | sunk),
        keep_until=m.where(m.is_known(state.restored_at), m.known(state.restored_at, 0) + grace, m.null),
        expires_at=_expiry(m, state, terms, at),
    )
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


def _expiring_only(m: Engine, state: MemoryState, expires_at: Any) -> MemoryState:
    """Nothing but a ttl is due any more."""
    return _due(state, earliest(m, m.null, m.null, None, expires_at, state.warned))


def scored(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> MemoryState:
    """The state with the scores it shows at `at` as its stored ones."""
    salience, confidence = shown(state, terms, at, m)
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
    salience, confidence = decimals9(SCALAR, salience), decimals9(SCALAR, confidence)
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


def asserted(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> MemoryState:
    """Begins the first segment of a new object, whose `baseline` and `confidence_base` are given."""
    profile = _profile(m, state, terms)
    observed = state.epistemic_type == EpistemicType.OBSERVED
    stability, difficulty = _learnt(m, profile, terms)
    new = replace(
        state,
        segment_at=at,
        segment_age=0,
        decaying=state.baseline,
        boost=0.0,
        confidence_from=m.where(observed, at + _observed_grace(terms), at),
        stability=stability,
        difficulty=difficulty,
        decay_profile=profile,
        policy_id=terms.policy.id,
        policy_version=terms.policy.version,
    )
    return with_future(scored(new, terms, at, m), terms, at, m)


def _profile(m: Engine, state: MemoryState, terms: Terms) -> Any:
    """The decay profile: the object's own, else by how it is known."""
    params = terms.policy.params
    unknown = (state.epistemic_type == EpistemicType.CONDITIONAL) & (state.condition == Condition.UNKNOWN)
    mapped = m.pick({kind.value: name.value for kind, name in params.mapping.items()}, state.epistemic_type)
    by_type = m.where(unknown, params.conditional_while_unknown.value, mapped)
    return m.known(state.profile_override, by_type)


def _learnt(m: Engine, profile: Any, terms: Terms) -> tuple[Any, Any]:
    """The stability and difficulty that a profile's curve begins with; null where it has none."""

    def pick(name: str) -> Any:
        found = {n: getattr(one, name) if one.learns else None for n, one in terms.learning.items()}
        return m.pick(found or dict.fromkeys(terms.by_profile), profile)

    return pick("stability"), pick("difficulty")


def _reviewed(
    new: MemoryState, state: MemoryState, terms: Terms, now: Standing, grade: Grade, m: Engine
) -> MemoryState:
    """`new` with the stability and difficulty that a review leaves, and its age counted from it.

    Where the profile's curve has none, `new` as it is.
    """
    if not terms.learning:
        return new
    w, numbers = m.numbers(terms.learning, state.decay_profile), _numbers(m, state, terms)
    stability, difficulty = m.known(state.stability, w.stability), m.known(state.difficulty, w.difficulty)
    age = m.days(now.age)
    recalled = retention(m, numbers, stability, uses_of(m, numbers, state), age)
    stability, difficulty = reviewed(m, w, stability, difficulty, age, recalled, grade)
    return m.choose(w.learns, replace(new, stability=stability, difficulty=difficulty, segment_age=0), new)


def _restarts(m: Engine, state: MemoryState, terms: Terms, *clocks: Clock) -> Any:
    profiles = terms.policy.params.profiles
    return m.pick({name.value: profile.clock in clocks for name, profile in profiles.items()}, state.decay_profile)


def _slowed_by_access(m: Engine, state: MemoryState, terms: Terms) -> Any:
    """Whether the count of accesses is in the profile's curve."""
    return m.pick(
        {
            name.value: (profile.by_use.kind != RateByUse.NONE or profile.floor_after > 0)
            and profile.by_use.counts == "accesses"
            for name, profile in terms.policy.params.profiles.items()
        },
        state.decay_profile,
    )


def accessed(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> MemoryState:
    """Records that an object was shown, which confirms nothing.

    A segment begins only where the profile's clock or count needs it; what OBSERVED keeps of its confidence is kept
    for another 180 days. A rule that was due before stays due, unless a segment begins; one by which the object is
    to leave ACTIVE also keeps the confidence it is judged by.
    """
    restarts = _restarts(m, state, terms, Clock.LAST_ACCESSED)
    begins = restarts | _slowed_by_access(m, state, terms)
    now = standing(state, terms, at, m)
    # What left ACTIVE is not counted: a use that slows the curve would move the scores that it left with.
    gone = replace(state, accessed_at=at)
    gone = _expiring_only(m, gone, _expiry(m, gone, terms, at))
    new = replace(state, accessed_at=at, access_count=state.access_count + 1)
    begun = _segment(m, new, now, age=m.where(restarts, 0, now.age))
    if terms.policy.params.on_reinforce == OnReinforce.RESTORE:
        whole = m.greatest(begun.decaying, _restored_part(m, begun))
        begun = replace(begun, decaying=m.where(restarts, whole, begun.decaying))
    renewed = m.choose(begins, begun, new)
    observed = state.epistemic_type == EpistemicType.OBSERVED
    renewed = replace(
        renewed,
        confidence_base=m.where(observed, decimals9(m, now.scores.confidence), renewed.confidence_base),
        confidence_from=m.where(observed, now.at + _observed_grace(terms), renewed.confidence_from),
    )
    renewed = with_future(m.choose(begins, scored(renewed, terms, at, m), renewed), terms, at, m)
    stays = m.no(begins) & (m.known(state.due_at, FAR) <= at)
    renewed = replace(
        renewed,
        due_at=m.where(stays, state.due_at, renewed.due_at),
        due_rule=m.where(stays, state.due_rule, renewed.due_rule),
    )
    overdue = m.no(begins) & (m.least(m.known(state.exit_at, FAR), m.known(state.expires_at, FAR)) <= at)
    return m.choose(state.active, m.choose(overdue, new, renewed), gone)


def _observed_grace(terms: Terms) -> int:
    return round(terms.policy.params.observed_grace_days * DAY)


def _segment(m: Engine, state: MemoryState, now: Standing, age: Any) -> MemoryState:
    """A segment that takes over the values as they stand."""
    return replace(
        state,
        segment_at=now.at,
        segment_age=age,
        decaying=decimals9(m, now.scores.decaying),
        boost=decimals9(m, now.scores.boost),
        confidence_base=decimals9(m, now.scores.confidence),
        confidence_from=m.greatest(now.at, state.confidence_from),
    )


def _restored_part(m: Engine, state: MemoryState) -> Any:
    return decimals9(m, m.least(1.0, state.baseline + state.centrality))


def reinforced(state: MemoryState, terms: Terms, at: Any, gamma: Any, m: Engine = SCALAR) -> MemoryState:
    """REINFORCE with effective γ: confidence towards its ceiling, baseline up, boost on, the clock restarted.

    No score ever falls; γ of 0 changes nothing. Where the curve is `fsrs`, it is a recall graded good.
    """
    gamma = decimals9(m, gamma)
    rules = terms.policy.params.reinforcement
    now = standing(state, terms, at, m)
    ceiling = m.pick({kind.value: top for kind, top in rules.ceiling.items()}, state.epistemic_type)
    confidence = now.scores.confidence
    gain = gamma * rules.baseline_gain * (1 - state.baseline)
    restarts = _restarts(m, state, terms, Clock.LAST_REINFORCED, Clock.LAST_ACCESSED)
    new = _segment(
        m,
        replace(state, reinforced_at=at, reinforce_count=state.reinforce_count + 1),
        now,
        age=m.where(restarts, 0, now.age),
    )
    gained = m.least(ceiling, confidence + gamma * (1 - confidence))
    new = replace(
        new,
        baseline=decimals9(m, state.baseline + gain),
        boost=decimals9(m, m.greatest(now.scores.boost, m.least(rules.boost_cap, now.scores.boost + gamma))),
        confidence_base=decimals9(m, m.greatest(confidence, gained)),
    )
    if terms.policy.params.on_reinforce == OnReinforce.CONTINUE:
        new = replace(new, decaying=decimals9(m, m.least(1.0, now.scores.decaying + gain)))
    else:
        whole = m.greatest(new.decaying, _restored_part(m, new))
        new = replace(new, decaying=m.where(restarts, whole, new.decaying))
    new = _reviewed(new, state, terms, now, Grade.GOOD, m)
    return m.choose(gamma > 0, with_future(scored(new, terms, at, m), terms, at, m), state)


def penalised(state: MemoryState, terms: Terms, at: Any, signal: Any, delta: Any, m: Engine = SCALAR) -> MemoryState:
    """PENALTY with δ: confidence × (1 − δ), for CORRECTED not below its floor; the rest × (1 − 0.3·δ).

    That is baseline and decaying part. Boost and clock stay; δ of 0 changes nothing. Where the curve is `fsrs`, it is a
    lapse: the decaying part falls by the lower stability, from here on.
    """
    rules = terms.policy.params.reinforcement
    now = standing(state, terms, at, m)
    confidence = now.scores.confidence
    lowered = confidence * (1 - delta)
    floored = m.least(confidence, m.greatest(rules.corrected_floor, lowered))
    share = 1 - rules.penalty_share * delta
    new = replace(
        _segment(m, state, now, age=now.age),
        baseline=decimals9(m, state.baseline * share),
        decaying=decimals9(m, now.scores.decaying * share),
        confidence_base=decimals9(m, m.where(signal == PenaltySignal.CORRECTED, floored, lowered)),
    )
    new = scored(_reviewed(new, state, terms, now, Grade.AGAIN, m), terms, at, m)
    # Where both parts were rounded up: a signal never moves a score the wrong way, not by one 10⁻⁹ either.
    raised = m.no(state.pinned) & (new.salience > now.scores.salience)
    new = replace(new, decaying=m.where(raised, decimals9(m, new.decaying - 1e-9), new.decaying))
    return m.choose(delta > 0, with_future(scored(new, terms, at, m), terms, at, m), state)


def pinned(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> MemoryState:
    """Stops the object's time; it shows salience 1.0 and no task touches it. Pinning twice changes nothing."""
    new = replace(state, pinned=True, stopped_at=_here(m, state, at))
    return m.choose(state.pinned, state, with_future(scored(new, terms, at, m), terms, at, m))


def unpinned(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> MemoryState:
    """Lets time go on, unless it is frozen too. An unpinned object at 1.0 decays."""
    new = _expiring_from(_going_on(replace(state, pinned=False), state, terms, at, m), at, m)
    return m.choose(state.pinned, new, state)


def frozen(state: MemoryState, terms: Terms, at: Any, until: Any, m: Engine = SCALAR) -> MemoryState:
    """Stops the object's time until an instant, at which it goes on by itself, or until it is thawed."""
    return _going_on(replace(state, frozen=True, thaws_at=until), state, terms, at, m)


def thawed(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> MemoryState:
    """Lets a frozen object's time go on, unless it is pinned too."""
    new = _going_on(replace(state, frozen=False, thaws_at=m.null), state, terms, at, m)
    return m.choose(state.frozen, new, state)


def _going_on(new: MemoryState, old: MemoryState, terms: Terms, at: Any, m: Engine) -> MemoryState:
    """What becomes of an object's time once its marks have changed.

    Where it goes on, now or when a freeze ends, the next segment takes parts and age as they stood, and what was left
    of a confidence that does not age yet.
    """
    stood = standing(old, terms, at, m)
    resumes = m.greatest(at, m.known(new.thaws_at, at))
    resumed = replace(
        _segment(m, new, stood, age=stood.age),
        stopped_at=m.null,
        segment_at=resumes,
        confidence_from=resumes + m.greatest(0, old.confidence_from - stood.at),
    )
    stopped = replace(new, stopped_at=_here(m, old, at))
    for_good = new.frozen & m.no(m.is_known(new.thaws_at))
    found = m.choose(m.no(new.active) | new.pinned, new, m.choose(for_good, stopped, resumed))
    return with_future(scored(found, terms, at, m), terms, at, m)


def recentred(state: MemoryState, terms: Terms, at: Any, kappa: Any, m: Engine = SCALAR) -> MemoryState:
    """Another centrality: the decaying part changes by the difference, and a segment begins. For what is ACTIVE."""
    now = standing(state, terms, at, m)
    new = replace(
        _segment(m, state, now, age=now.age),
        centrality=kappa,
        decaying=replaced(m, now.scores.decaying, state.centrality, kappa),
    )
    return with_future(scored(new, terms, at, m), terms, at, m)


def held(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> MemoryState:
    """A legal hold: nothing may erase the object, and its ttl does not end while it lasts."""
    return with_future(replace(state, held=True), terms, at, m, begin=state.segment_at)


def released(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> MemoryState:
    """Ends a hold; a ttl that ended meanwhile ends now."""
    new = with_future(replace(state, held=False), terms, at, m, begin=state.segment_at)
    return m.choose(state.held, _expiring_from(new, at, m), state)


def _expiring_from(state: MemoryState, at: Any, m: Engine) -> MemoryState:
    """A ttl that ended while the object was exempt from it ends now."""
    ended = m.known(state.expires_at, FAR) <= at
    now = _due(state, earliest(m, m.null, state.exit_at, state.exit_rule, m.whole_second(at), state.warned))
    return m.choose(ended, now, state)


def restored(state: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> MemoryState:
    """ARCHIVED → ACTIVE: baseline and decaying part at least at the warning threshold, no boost.

    Confidence is as it stood, and the clock starts at the restore.
    """
    now = standing(state, terms, at, m)
    floor = decimals9(m, m.greatest(state.baseline, _numbers(m, state, terms).warning))
    here = m.where(state.pinned, now.at, at)
    kept = m.greatest(here, state.confidence_from, _observed_until(m, state, terms, here))
    new = replace(
        _segment(m, state, now, age=0),
        lifecycle_state=LifecycleState.ACTIVE,
        restored_at=at,
        segment_at=here,
        baseline=floor,
        decaying=floor,
        boost=0.0,
        confidence_from=kept,
        stopped_at=m.where(state.pinned, state.stopped_at, m.null),
        warned=False,
    )
    return with_future(scored(new, terms, at, m), terms, at, m)


def _observed_until(m: Engine, state: MemoryState, terms: Terms, otherwise: Any) -> Any:
    """Until when OBSERVED keeps its confidence since it was last shown; `otherwise` for what is not."""
    shown_until = m.known(state.accessed_at, state.created_at) + _observed_grace(terms)
    return m.where(state.epistemic_type == EpistemicType.OBSERVED, shown_until, otherwise)


def known_as(new: MemoryState, old: MemoryState, terms: Terms, at: Any, m: Engine = SCALAR) -> MemoryState:
    """A belief known in another way, or whose condition was settled: a segment under the profile it has now.

    What has become OBSERVED keeps its confidence for 180 days from when it was last shown.
    """
    now = standing(old, terms, at, m)
    profile = _profile(m, new, terms)
    stability, difficulty = _learnt(m, profile, terms)
    begun = replace(
        _segment(m, new, now, age=now.age),
        modified_at=at,
        decay_profile=profile,
        stability=m.known(new.stability, stability),
        difficulty=m.known(new.difficulty, difficulty),
        confidence_from=m.greatest(now.at, old.confidence_from, _observed_until(m, new, terms, now.at)),
    )
    return with_future(scored(begun, terms, at, m), terms, at, m)


def left(state: MemoryState, terms: Terms, at: Any, to: LifecycleState, m: Engine = SCALAR) -> MemoryState:
    """Leaves ACTIVE by a caller's hand: scores stand from here on, and nothing but a ttl is due any more."""
    gone = replace(state, lifecycle_state=to, stopped_at=_here(m, state, at))
    return with_future(scored(gone, terms, at, m), terms, at, m)


def assigned(state: MemoryState, old: Terms, new: Terms, at: Any, m: Engine = SCALAR) -> MemoryState:
    """Under another policy from now on: values as they stand under the old one go on under the new one."""
    now = standing(state, old, at, m)
    starts = m.known(state.stopped_at, m.greatest(at, state.segment_at))
    profile = _profile(m, state, new)
    stability, difficulty = _learnt(m, profile, new)
    begun = replace(
        _segment(m, state, now, age=now.age),
        segment_at=starts,
        confidence_from=m.greatest(starts, state.confidence_from),
        stability=m.where(m.is_known(stability), m.known(state.stability, stability), stability),
        difficulty=m.where(m.is_known(difficulty), m.known(state.difficulty, difficulty), difficulty),
        decay_profile=profile,
        policy_id=new.policy.id,
        policy_version=new.policy.version,
    )
    return with_future(scored(begun, new, at, m), new, at, m)


def warned(state: MemoryState, m: Engine = SCALAR) -> MemoryState:
    """Once it was warned, what comes next is due."""
    return _due(state, earliest(m, m.null, state.exit_at, state.exit_rule, state.expires_at, True))


def departed(state: MemoryState, terms: Terms, m: Engine = SCALAR) -> MemoryState:
    """Moved out of ACTIVE by the rule that is due, at its instant, for the state that follows from the scores there."""
    at = m.known(state.exit_at, 0)
    numbers = _numbers(m, state, terms)
    scores = evaluate(m, numbers, state, at)
    gone = replace(
        state,
        lifecycle_state=leaves_for(m, numbers, state.exit_rule, scores.confidence),
        salience=scores.salience,
        confidence=scores.confidence,
        decayed_at=at,
        fact_at=at,
        stopped_at=at,
    )
    return _expiring_only(m, gone, state.expires_at)


def tombstoned(state: MemoryState, terms: Terms, at: Any, erased: Any, m: Engine = SCALAR) -> MemoryState:
    """Expired, or erased: archived for good, its time stopped, nothing due any more."""
    salience, confidence = shown(state, terms, at, m)
    return replace(
        state,
        lifecycle_state=LifecycleState.ARCHIVED,
        salience=salience,
        confidence=confidence,
        due_at=m.null,
        due_rule=None,
        exit_at=m.null,
        exit_rule=None,
        stopped_at=_here(m, state, at),
        tombstoned_at=at,
        erased_at=m.known(state.erased_at, m.where(erased, at, m.null)),
    )
