"""The wheel, installed into an empty environment far from the checkout: it brings all that it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
Ebb = Callable[..., "subprocess.CompletedProcess[str]"]


def call(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("EBB_", "PYTHON", "COV_"))}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, text=True, capture_output=True, check=False
    )


def built(*command: object, cwd: Path) -> str:
    done = call(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout; the build backend comes from the package index."""
    folder = tmp_path_factory.mktemp("wheel")
    built(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment: ebbtide from the wheel, what it depends on from the running environment."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False, symlinks=True)
    executable = folder / "bin" / "python"
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site_packages = Path(built(executable, "-c", asked, cwd=folder).strip())
    # A path file found by way of another one is not read, so an editable ebbtide does not come along.
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", executable)
    built(*pip, "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", wheel, cwd=folder)
    return executable


@pytest.fixture
def ebb(python: Path, tmp_path: Path) -> Ebb:
    """Runs the installed command in an empty folder."""
    return lambda *arguments: call(python.parent / "ebb", *arguments, cwd=tmp_path)


def files_below(folder: Path, *patterns: str) -> set[str]:
    found = {path for pattern in patterns for path in folder.rglob(pattern)}
    return {path.relative_to(folder.parent).as_posix() for path in found if "__pycache__" not in path.parts}


def test_the_wheel_holds_the_package_its_migrations_its_policies_and_its_queries(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    shipped = files_below(ROOT / "migrations", "*.py", "*.mako") | files_below(ROOT / "policies", "*.toml", "*.json")
    shipped |= files_below(ROOT / "queries", "*.sql")
    assert len(shipped) > 5
    assert {f"ebbtide/{name}" for name in shipped} <= names
    assert files_below(ROOT / "src" / "ebbtide", "*.py", "py.typed", "*.html", "*.css", "*.svg") <= names
    assert "ebbtide/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"ebbtide", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}
    assert any(name.endswith("LICENSE") for name in names)
    assert not any("__pycache__" in name or name.endswith(".pyc") for name in names)


def test_the_package_comes_from_the_wheel(python, tmp_path):
    asked = "import ebbtide, ebbtide.policy.files as f; print(ebbtide.__file__, f.shipped('migrations'), sep='\\n')"
    places = built(python, "-c", asked, cwd=tmp_path).splitlines()
    assert len(places) == 2
    for place in places:
        assert Path(place).is_relative_to(python.parents[1])
        assert not Path(place).is_relative_to(ROOT)


def test_the_installed_command_works_from_an_empty_folder(ebb, tmp_path):
    """Sets up a store, lives through the sample, lists the policies that came along."""
    done = ebb("init")
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["ebbtide.duckdb"]
    sample = ROOT / "examples" / "maya.jsonl"
    done = ebb("ingest", sample, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["refused"] == 0
    assert json.loads(done.stdout)["appended"] >= len(sample.read_text(encoding="utf-8").splitlines())
    listed = json.loads(ebb("policy", "list", "--format", "json").stdout)["policies"]
    built_in = {path.stem.replace("-1.0.0", "@1.0.0") for path in (ROOT / "policies").glob("*-1.0.0.toml")}
    assert {policy["policy"] for policy in listed} == built_in
    assert json.loads(ebb("list", "-n", "maya", "--all", "--format", "json").stdout)["memories"] != []
    # All that was due in two years at once is more than the guard lets go.
    assert ebb("organise", "--no-guard").returncode == 0
    assert ebb("doctor").stdout == "All is well.\n"
    assert ebb("--version").stdout.startswith("ebb ")
