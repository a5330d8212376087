"""The built-in summariser: of all sentences those that say most of what the others say, in their order.

A sentence's rank is its degree centrality: the sum of its cosine similarities to all sentences, over TF-IDF weights
of words (Erkan and Radev's LexRank, continuous, without the walk). Nothing is made up, and nothing leaves the machine.
It needs the libraries of `ebbtide[summarise]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from ebbtide.model.errors import NotInstalled

_LIBRARIES = ("sentencex", "sklearn")


def refuse_missing() -> None:
    """Raises `NotInstalled` where a library is missing."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise NotInstalled(
            f"the built-in summariser needs {' and '.join(missing)}: pip install 'ebbtide[summarise]', or give "
            "Ebbtide a summariser of your own",
            field="task",
        )


def extract(texts: Sequence[str], *, sentences: int) -> str:
    """At most so many sentences of the texts, those that stand for the others, in the order they came in."""
    refuse_missing()
    # Heavy, and needed by few: imported where it is used.
    import numpy as np  # noqa: PLC0415
    from sentencex import segment  # noqa: PLC0415
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415

    found = list(dict.fromkeys(one.strip() for text in texts for one in segment("en", text) if one.strip()))
    if len(found) <= sentences:
        return " ".join(found)
    # Words, and each other sign by itself, so that no sentence is without any.
    weights = TfidfVectorizer(token_pattern=r"\w+|[^\w\s]").fit_transform(found)
    ranks = np.asarray(weights @ weights.sum(axis=0).T).ravel()
    best = sorted(range(len(found)), key=lambda place: (-round(float(ranks[place]), 9), place))[:sentences]
    return " ".join(found[place] for place in sorted(best))
