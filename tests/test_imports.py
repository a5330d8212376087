"""Imports go downwards only, the pure layers stay pure, and SQL stands in the layers that are made of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ebbtide

ROOT = Path(ebbtide.__file__).parent
LAYERS = (
    {"cli", "service"},
    {"bench", "charts"},
    {"api", "ebbtide"},
    {"memory", "organise", "replay", "audit", "pack", "fit", "access"},
    {"project"},
    {"log"},
    {"store"},
    {"decay", "draw"},
    {"policy"},
    {"model"},
)
HEIGHT = {name: -depth for depth, layer in enumerate(LAYERS) for name in layer}

# Narrower than "downwards": what these layers may know at all.
ONLY = {
    "model": set(),
    "policy": {"model"},
    "decay": {"model", "policy"},
    "draw": {"model"},
    "store": {"model", "policy.files"},
    "log": {"model", "store"},
}
# Side by side, and yet kept apart: requests come from callers, passes from the clock.
APART = {("memory", "organise"), ("organise", "memory")}
WITHOUT_DATABASE = {"model", "policy", "decay", "draw", "charts", "cli", "service"}
DATABASE = {"sqlalchemy", "duckdb", "psycopg", "alembic"}
WITH_SQL = {"store", "log", "project", "memory", "organise", "audit", "bench"}
SQL = re.compile(
    r"\s*(SELECT\b.+\bFROM\b|INSERT\s+INTO\b|UPDATE\b.+\bSET\b|DELETE\s+FROM\b|MERGE\s+INTO\b|WITH\b.+\bAS\s*\("
    r"|(CREATE|ALTER|DROP)\s+(TABLE|VIEW|INDEX|SCHEMA|ROLE|FUNCTION|TRIGGER|OR\s+REPLACE|TEMP)|TRUNCATE\b"
    r"|COPY\b.+\b(FROM|TO)\b|GRANT\b.+\bTO\b|VACUUM\b|CHECKPOINT\b|PRAGMA\b)",
    re.DOTALL,
)


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package by its dotted name below `ebbtide`, parsed."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__") or "ebbtide"
        yield name, ast.parse(path.read_text(encoding="utf-8"))


MODULES = dict(modules())
NAMES = {name for name in MODULES if name != "ebbtide"}


def layer_of(name: str) -> str:
    return name.partition(".")[0]


def imports(name: str, tree: ast.Module) -> set[str]:
    """What a module imports, wherever in it; modules of its own package without `ebbtide.`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                is_package = (ROOT / Path(*name.split(".")) / "__init__.py").exists()
                above = name.split(".")[: len(name.split(".")) - node.level + is_package]
                base = ".".join(["ebbtide", *above, *([base] if base else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                found.add(whole if whole.removeprefix("ebbtide.") in NAMES else base)
    return {target.removeprefix("ebbtide.") if target != "ebbtide" else target for target in found}


IMPORTS = {name: imports(name, tree) for name, tree in MODULES.items()}
WITHIN = [
    (name, target)
    for name, targets in IMPORTS.items()
    for target in sorted(targets)
    if target == "ebbtide" or target in NAMES
]


def docstrings(tree: ast.Module) -> set[int]:
    """The string constants that are no values: docstrings, and the like below assignments."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def sql_in(tree: ast.Module) -> list[str]:
    prose = docstrings(tree)
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        if SQL.match(node.value)
    ]


def test_every_module_is_in_a_layer():
    """A new folder has to say where it stands before it can be imported."""
    assert len(MODULES) > 25
    assert len(WITHIN) > 80
    assert {name for name in MODULES if layer_of(name) not in HEIGHT} == set()


def test_imports_go_downwards_only():
    """A layer knows those below it, and its neighbours at most; never one above."""
    upwards = [pair for pair in WITHIN if HEIGHT[layer_of(pair[1])] > HEIGHT[layer_of(pair[0])]]
    assert upwards == []


@pytest.mark.parametrize("layer", ONLY)
def test_a_low_layer_knows_only_what_it_may(layer):
    """model nothing, draw and policy the model, decay both, store model and shipped files, log model and store."""
    others = [(name, target) for name, target in WITHIN if layer_of(name) == layer != layer_of(target)]
    assert [pair for pair in others if not {layer_of(pair[1]), pair[1]} & ONLY[layer]] == []


def test_memory_and_organise_know_nothing_of_each_other():
    assert [pair for pair in WITHIN if (layer_of(pair[0]), layer_of(pair[1])) in APART] == []


def test_pure_layers_and_commands_know_no_database():
    """Words, policies and formulas are pure; commands and routes print what others have read."""
    known = {
        (name, target)
        for name, targets in IMPORTS.items()
        for target in targets
        if layer_of(name) in WITHOUT_DATABASE and layer_of(target) in DATABASE
    }
    assert known == set()


def test_sql_stands_only_where_it_belongs():
    """No module outside of the layers made of SQL writes any, be it in a string."""
    found = {name: sql_in(tree) for name, tree in MODULES.items() if layer_of(name) not in WITH_SQL}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_the_search_for_sql_finds_some():
    """The test before means something: SQL is found where it may stand, and prose is not taken for it."""
    assert {layer_of(name) for name, tree in MODULES.items() if sql_in(tree)} >= {"store"}
    for statement in ("SELECT 1 FROM t", "\n  INSERT INTO t", "UPDATE t\nSET x = 1", "DROP TABLE t"):
        assert SQL.match(statement)
    for prose in ("UPDATE is refused", "SELECT it", "select one from these", "CREATE", "COPY of a file"):
        assert not SQL.match(prose)
