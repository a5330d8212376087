"""Fitting a policy: per profile every family of curves, each judged on objects that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from ebbtide.fit.estimate import Likelihood, bootstrapped, interval, is_told, maximise, resampled
from ebbtide.fit.exposures import Exposures
from ebbtide.fit.measures import auc, bins, losses, rmse
from ebbtide.fit.models import FAMILIES, FSRS_DEFAULTS, Family, faded, under
from ebbtide.model.errors import CheckFailed
from ebbtide.model.words import DecayProfile
from ebbtide.policy.document import Params, Policy, Profile

FOLDS = 5
"""Objects are parted into so many: each part is predicted by what was fitted to the others."""

SURE = 0.95
"""In which share of the samples a curve must predict better than a plainer one, or the one in force, to be taken."""

LEAST_OBJECTS, LEAST_RECALLS, LEAST_MISSES = 20, 20, 20
"""What a profile must have for its curve to be fitted: fewer say next to nothing of a rate, and less of a shape."""


@dataclass(frozen=True, slots=True)
class Number:
    """A fitted number, with the middle 95 % of what bootstrapping the objects gives."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Score:
    """How well a model predicts exposures of objects that it was not fitted to: log loss, calibration, and order.

    `kind` is what it is: constant, fitted, current or built-in. What is fitted is not `told` where the log leaves its
    rate open to a factor of ten: it may predict well here, and is not taken into a policy.
    """

    model: str
    kind: str
    log_loss: float
    log_loss_low: float
    log_loss_high: float
    rmse: float
    auc: float | None
    told: bool = True
    numbers: list[Number] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProfileFit:
    """One profile: what there was of it, why it was not fitted, or how the models did, and which one is taken.

    `fitted` are the numbers of the model taken, of all exposures; `chosen` is `current` where nothing fitted is better.
    """

    profile: str
    objects: int
    recalls: int
    misses: int
    refused: str | None
    scores: list[Score] = field(default_factory=list)
    chosen: str = "current"


@dataclass(frozen=True, slots=True)
class Fit:
    """A fit: what each profile came to, and the policy that follows, which is neither registered nor assigned."""

    current: str
    seed: int
    resamples: int
    min_days: float
    profiles: list[ProfileFit]
    policy: Policy


@dataclass(frozen=True)
class Fitting:
    """How a fit is made. `families` are the names of those that are tried, `built_in` what they are compared with."""

    current: Policy
    built_in: Sequence[Policy] = ()
    families: Sequence[str] = tuple(family.name for family in FAMILIES)
    min_days: float = 1.0
    seed: int = 0
    resamples: int = 200
    progress: Callable[[int, int], None] = lambda done, total: None

    def run(self, found: Exposures, policy_id: str, version: str) -> Fit:
        """Fits every profile that has exposures; `CheckFailed` where none has enough, or no fit beats what is."""
        decaying = [name for name in DecayProfile if name != DecayProfile.PERMANENT]
        names = [name for name in decaying if (found.profile == name.value).any()]
        params, fits, total = self.current.params, list[ProfileFit](), len(names) * len(self.families)
        for name in names:
            mine = found.at(np.flatnonzero(found.profile == name.value))
            done = len(fits) * len(self.families)
            fit, params = self._profile(mine, name, params, lambda one, done=done: self.progress(done + one, total))  # type: ignore[misc]
            fits.append(fit)
        self._worth_writing(fits)
        chosen = ", ".join(f"{fit.profile} {fit.chosen}" for fit in fits if fit.chosen != "current")
        note = f"Fitted, from {self.current.name}: {chosen}."
        policy = Policy.model_validate({"id": policy_id, "version": version, "note": note, "params": params})
        return Fit(self.current.name, self.seed, self.resamples, self.min_days, fits, policy)

    @staticmethod
    def _worth_writing(fits: Sequence[ProfileFit]) -> None:
        if not fits:
            raise CheckFailed("there is nothing to fit: the log has no REINFORCE and no PENALTY")
        if all(fit.refused for fit in fits):
            told = "; ".join(f"{fit.profile} {fit.refused}" for fit in fits)
            raise CheckFailed(f"there is too little to fit: {told}")

    def _profile(
        self, found: Exposures, name: DecayProfile, params: Params, progress: Callable[[int], None]
    ) -> tuple[ProfileFit, Params]:
        counted = (found.idle >= self.min_days) & ~found.stood
        objects = np.unique(found.object[counted])
        recalls = int(found.recalled[counted].sum())
        misses = int(counted.sum()) - recalls
        about = (name.value, len(objects), recalls, misses)
        refused = _too_little(*about[1:])
        if refused is not None:
            return ProfileFit(*about, refused), params
        judged = _Judge.of(found, counted, objects, self)
        fade = {policy.name: np.exp(-under(policy, found)) for policy in (self.current, *self.built_in)}
        constant = np.full(len(found), recalls / (recalls + misses))
        best = _Trial(self.current.name, "current", fade.pop(self.current.name))
        trials = [_Trial("constant", "constant", constant), best]
        for place, family in enumerate(one for one in FAMILIES if one.name in self.families):
            progress(place)
            trials.append(self._family(family, name, judged))
            if trials[-1].told and judged.is_better(trials[-1].recall, best.recall):
                best = trials[-1]
        trials.append(_Trial("FSRS-6's defaults", "built-in", np.exp(-faded(FSRS_DEFAULTS, name, found))))
        trials += [_Trial(model, "built-in", recall) for model, recall in fade.items()]
        if best.profile is not None:
            params = params.model_copy(update={"profiles": {**params.profiles, name: best.profile}})
        chosen = "current" if best.profile is None else best.model
        return ProfileFit(*about, None, [judged.score(trial) for trial in trials], chosen), params

    def _family(self, family: Family, name: DecayProfile, judged: _Judge) -> _Trial:
        """How a family predicts what it was not fitted to, and its profile fitted to all there is."""
        found = judged.found
        whole = Likelihood(family, self.current.params, name, found, judged.counted)
        logs = maximise(whole)
        recall = np.full(len(found), np.nan)
        for fold, rest in judged.folds():
            part = replace(whole, counted=rest)
            recall[fold] = np.exp(-faded(part.params(np.exp(maximise(part, logs))), name, found)[fold])
        told = is_told(whole, logs)
        low, high = interval(bootstrapped(whole, logs, judged.samples)) if told else whole.ends()
        numbers = [
            Number(free.name, *map(_six, values))
            for free, *values in zip(family.free, np.exp(logs), np.exp(low), np.exp(high), strict=True)
        ]
        profile = whole.params([number.value for number in numbers]).profiles[name]
        return _Trial(family.name, "fitted", recall, numbers, told, profile)


@dataclass(frozen=True)
class _Trial:
    """One model's predictions of all exposures, and of what is fitted the numbers and the profile that they make."""

    model: str
    kind: str
    recall: Any
    numbers: Sequence[Number] = ()
    told: bool = True
    profile: Profile | None = None


def _six(number: float) -> float:
    """Six digits: more than any log can tell."""
    return float(f"{number:.6g}")


def _too_little(objects: int, recalls: int, misses: int) -> str | None:
    """Why a profile is not fitted."""
    needs = (("objects", objects, LEAST_OBJECTS), ("recalls", recalls, LEAST_RECALLS), ("misses", misses, LEAST_MISSES))
    lacks = [f"{has} of {least} {what}" for what, has, least in needs if has < least]
    return f"has {', '.join(lacks)}" if lacks else None


@dataclass(frozen=True)
class _Judge:
    """The exposures that count, by which models are judged, in parts; and samples of their objects."""

    found: Exposures
    counted: Any
    part: Any
    samples: Any

    @classmethod
    def of(cls, found: Exposures, counted: Any, objects: Any, fitting: Fitting) -> Self:
        dice = np.random.default_rng(fitting.seed)
        parts = dice.permutation(np.arange(len(objects)) % FOLDS)
        part = parts[np.minimum(np.searchsorted(objects, found.object), len(objects) - 1)]
        return cls(found, counted, part, resampled(len(objects), fitting.resamples, dice))

    def folds(self) -> Iterator[tuple[Any, Any]]:
        """What is predicted, and what of all else is fitted to."""
        for fold in range(FOLDS):
            yield self.counted & (self.part == fold), self.counted & (self.part != fold)

    def is_better(self, recall: Any, than: Any) -> bool:
        """Whether predictions lose less than others in nearly all samples: what is plainer, or in force, stays else."""
        less = self._by_object(recall) - self._by_object(than)
        return bool(np.mean(self.samples @ less < 0) >= SURE)

    def score(self, trial: _Trial) -> Score:
        """How predictions do."""
        out, recall = self.found.at(np.flatnonzero(self.counted)), trial.recall[self.counted]
        loss, sizes = self._by_object(trial.recall), np.bincount(self._places())
        low, high = interval((self.samples @ loss) / (self.samples @ sizes))
        mean, error = loss.sum() / sizes.sum(), rmse(recall, out.recalled, bins(out))
        order, numbers = auc(recall, out.recalled), list(trial.numbers)
        return Score(trial.model, trial.kind, float(mean), float(low), float(high), error, order, trial.told, numbers)

    def _places(self) -> Any:
        return np.unique(self.found.object[self.counted], return_inverse=True)[1]

    def _by_object(self, recall: Any) -> Any:
        """What each object adds to the loss."""
        loss = losses(recall[self.counted], self.found.recalled[self.counted])
        return np.bincount(self._places(), weights=loss)
