"""Policy files: the built-in ones and a folder of the operator's own, TOML or JSON."""

from __future__ import annotations

import json
import tomllib
from importlib import resources
from pathlib import Path

from ebbtide.model.errors import BadInput, NotFound
from ebbtide.policy.document import Policy, policy_from


def shipped(folder: str) -> Path:
    """A folder that travels in the wheel and stands at the top of a checkout."""
    packaged = Path(str(resources.files("ebbtide"))) / folder
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3] / folder


def load(path: Path) -> Policy:
    """Reads and validates one policy file; the error names the file and the field."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot be read: {error}", file=str(path)) from error
    try:
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except RecursionError as error:
        raise BadInput("is nested too deeply", file=str(path)) from error
    except ValueError as error:
        raise BadInput(
            f"is not valid {'TOML' if path.suffix == '.toml' else 'JSON'}: {error}", file=str(path)
        ) from error
    return policy_from(data, str(path))


def library(folder: Path | None = None) -> dict[str, tuple[Policy, Path]]:
    """All policies at hand by `id@version`: the built-in ones and those of `folder`, each with its file."""
    if folder is not None and not folder.is_dir():
        raise BadInput("is no folder", file=str(folder))
    found: dict[str, tuple[Policy, Path]] = {}
    for place in (shipped("policies"), *([folder] if folder else [])):
        for path in sorted((*place.glob("*.toml"), *place.glob("*.json"))):
            policy = load(path)
            known = found.get(policy.name)
            if known is not None and known[0].digest() != policy.digest():
                raise BadInput(
                    f"{policy.name} stands in {known[1].name} with other content: give it a new version",
                    file=str(path),
                )
            found.setdefault(policy.name, (policy, path))
    return found


def pick(name: str, folder: Path | None = None) -> Policy:
    """A policy by `id@version`, or by its file's path."""
    if name.endswith((".toml", ".json")):
        return load(Path(name))
    at_hand = library(folder)
    if name not in at_hand:
        raise NotFound(f"there is no policy {name}: `ebb policy list` names those at hand")
    return at_hand[name][0]
