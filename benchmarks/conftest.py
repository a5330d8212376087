"""The stores of the tests serve the benchmarks too."""

from tests.conftest import (  # noqa: F401 - fixtures
    duckdb_template,
    make_url_for,
    postgres_template,
    postgres_url,
    url,
)
