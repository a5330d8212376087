"""The whole OpenAPI document, tried out by schemathesis on both databases: nothing that it can think of is a 500.

EBB_SOAK=1 tries more; `EBB_SEED` repeats a run.
"""

from __future__ import annotations

import os
import re
from contextlib import nullcontext

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.service.serving import serving

EXAMPLES = 60 if os.environ.get("EBB_SOAK") else 1
ALL = list(HealthCheck)
SEED = int(os.environ.get("EBB_SEED", "1"))
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def served(request, make_url_for_module):
    yield from serving(make_url_for_module(request.param))


def operations(document):
    return [(path, method) for path, item in document["paths"].items() for method in item]


def test_the_document_is_openapi_3_1_and_describes_every_route(served):
    document = served.client().get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    for path, method in operations(document):
        said = document["paths"][path][method]
        assert said["description"], (path, method)
        assert said["security"] == [{"token": []}]
        for status in ("401", "404", "422", "503"):
            assert list(said["responses"][status]["content"]) == ["application/problem+json"], (path, status)
        for media in said.get("requestBody", {}).get("content", {}).values():
            names = re.findall(r"#/components/schemas/([\w-]+)", str(media["schema"]))
            schemas = [document["components"]["schemas"][name] for name in names]
            assert any({"example", "examples"} & set(one) for one in (media, media["schema"], *schemas)), path


def cases(operation, mode: GenerationMode) -> list[Case]:
    """Requests to an operation: such as the document allows, or such as it forbids."""
    found: list[Case] = []

    @seed(SEED)
    @settings(max_examples=EXAMPLES, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=ALL)
    @given(case=operation.as_strategy(generation_mode=mode))
    def collect(case: Case) -> None:
        found.append(case)

    try:
        collect()
    except Unsatisfiable:
        assert mode == GenerationMode.NEGATIVE, "nothing can be asked of it"
    return found


def test_no_request_that_the_document_allows_or_forbids_is_a_500(served):
    headers = {"Authorization": served.operator.headers["Authorization"]}
    tried = 0
    for result in schemathesis.openapi.from_asgi("/openapi.json", served.app).get_all_operations():
        operation = result.ok()
        # A connection kept open spares DuckDB from opening its file each time, where nobody else has to open it.
        alone = operation.path.startswith(("/v1/audit/", "/v1/sql", "/v1/scrub")) or "erase" in operation.path
        with nullcontext() if alone else served.ebb.store.db.engine().connect():
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                for case in cases(operation, mode):
                    case.validate_response(case.call(headers=headers), checks=CHECKS)
                    tried += 1
    assert tried > 100
