"""Maximum likelihood of a family of curves, and what bootstrapping its objects says of the numbers found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ebbtide.fit.exposures import Exposures
from ebbtide.fit.measures import LEAST
from ebbtide.fit.models import Family, faded
from ebbtide.model.errors import BadInput
from ebbtide.model.words import DecayProfile
from ebbtide.policy.document import Params

_STEP = 1e-5
_STARTS = (1.0, 0.1, 10.0)
_MOST = 700.0


@dataclass(frozen=True, slots=True)
class Likelihood:
    """How likely what was counted is under a family, by the logarithms of its free numbers.

    All signals of an object tell what was learnt; those `counted` are predicted.
    """

    family: Family
    base: Params
    name: DecayProfile
    found: Exposures
    counted: Any

    def params(self, values: Any) -> Params:
        """The policy's parameters with the profile that some numbers make."""
        within = [
            float(min(free.high, max(free.low, value))) for free, value in zip(self.family.free, values, strict=True)
        ]
        named = dict(zip((free.name for free in self.family.free), within, strict=True))
        return self.family.params(self.base, self.name, named)

    def fading(self, logs: Any) -> Any:
        """−ln R of what is counted."""
        return faded(self.params(np.exp(logs)), self.name, self.found)[self.counted]

    def jacobian(self, logs: Any, fading: Any) -> Any:
        """How −ln R changes with each number: an exposure a row, by small differences that stay within the ends."""
        _, high = self.ends()
        steps = np.where(logs + _STEP > high, -_STEP, _STEP)
        columns = [(self.fading(logs + step) - fading) / step.sum() for step in np.diag(steps)]
        return np.stack(columns, axis=1)

    def ends(self) -> tuple[Any, Any]:
        """The least and the most of the numbers' logarithms."""
        return tuple(np.log([getattr(free, end) for free in self.family.free]) for end in ("low", "high"))  # type: ignore[return-value]

    def slope(self, fading: Any) -> Any:
        """The derivative of the log likelihood by −ln R."""
        odds = _odds(fading)
        return np.where(self.found.recalled[self.counted], -1.0, odds)


def _odds(fading: Any) -> Any:
    """R/(1 − R), where R is below 1 by the least that counts."""
    return 1 / np.expm1(np.clip(fading, LEAST, _MOST))


def _loss(fading: Any, recalled: Any) -> Any:
    """−ln of the probability of what happened, by −ln R: to any depth, so that there is a slope to follow."""
    return np.where(recalled, fading, -np.log(-np.expm1(-np.clip(fading, LEAST, _MOST))))


def maximise(likelihood: Likelihood, near: Any = None) -> Any:
    """The logarithms of the most likely numbers, sought from where they are known to be near, if they are."""
    minimize = _minimize()
    low, high = likelihood.ends()
    recalled = likelihood.found.recalled[likelihood.counted]

    def loss(logs: Any) -> tuple[float, Any]:
        fading = likelihood.fading(logs)
        gradient = -(likelihood.slope(fading) @ likelihood.jacobian(logs, fading)) / len(fading)
        return float(_loss(fading, recalled).mean()), gradient

    if near is None:
        start = np.log([free.start for free in likelihood.family.free])
        starts = [np.clip(start + np.eye(len(start))[0] * np.log(factor), low, high) for factor in _STARTS]
        near = min(starts, key=lambda logs: _loss(likelihood.fading(logs), recalled).mean())
    found = minimize(loss, near, jac=True, method="L-BFGS-B", bounds=list(zip(low, high, strict=True)))
    return np.clip(found.x, low, high)


def _minimize() -> Any:
    try:
        from scipy.optimize import minimize  # noqa: PLC0415
    except ImportError as error:
        raise BadInput("fitting needs scipy: pip install 'ebbtide[fit]'") from error
    return minimize


def resampled(objects: int, resamples: int, dice: np.random.Generator) -> Any:
    """How often each object stands in each sample of as many objects, drawn with replacement: a sample a row."""
    return dice.multinomial(objects, np.full(objects, 1 / objects), size=resamples)


def interval(values: Any) -> tuple[Any, Any]:
    """The middle 95 % of each column."""
    low, high = np.quantile(values, [0.025, 0.975], axis=0)
    return low, high


def bootstrapped(likelihood: Likelihood, best: Any, counts: Any) -> Any:
    """The numbers' logarithms by sample of objects: from the best ones a step of Fisher scoring with its weights.

    A number that is at an end of what a policy may say stays there.
    """
    inside = _inside(likelihood, best)
    score, information = _by_object(likelihood, best)
    total = np.einsum("bo,oij->bij", counts, information[:, inside][:, :, inside]) + _TINY * np.eye(inside.sum())
    found = np.tile(best, (len(counts), 1))
    found[:, inside] += np.linalg.solve(total, (counts @ score[:, inside])[:, :, None])[:, :, 0]
    return np.clip(found, *likelihood.ends())


def is_told(likelihood: Likelihood, best: Any) -> bool:
    """Whether the log says more of the first number than its magnitude: 95 % of a normal error within a factor of ten.

    That is the rate, or the stability to begin with. It must not be at an end of what a policy may say either.
    """
    inside = _inside(likelihood, best)
    information = _by_object(likelihood, best)[1].sum(axis=0)[inside][:, inside] + _TINY * np.eye(inside.sum())
    return bool(inside[0] and 1.96 * np.sqrt(np.linalg.inv(information)[0, 0]) < np.log(10))


_TINY = 1e-9
"""What keeps a direction of which nothing is known from being divided by zero."""


def _inside(likelihood: Likelihood, best: Any) -> Any:
    low, high = likelihood.ends()
    return (best > low) & (best < high)


def _by_object(likelihood: Likelihood, best: Any) -> tuple[Any, Any]:
    """The slope of the log likelihood, and Fisher's information, as each object adds to them."""
    fading = likelihood.fading(best)
    jacobian = likelihood.jacobian(best, fading)
    objects = np.unique(likelihood.found.object[likelihood.counted], return_inverse=True)[1]
    free, size = len(best), int(objects.max()) + 1
    score, information = np.zeros((size, free)), np.zeros((size, free, free))
    np.add.at(score, objects, jacobian * likelihood.slope(fading)[:, None])
    np.add.at(information, objects, jacobian[:, :, None] * jacobian[:, None, :] * _odds(fading)[:, None, None])
    return score, information
