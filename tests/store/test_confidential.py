"""Errors are logged, and contents are among the parameters of statements: an error does not say them."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError


def test_an_error_does_not_say_the_values_of_its_statement(ebb) -> None:
    with pytest.raises(DBAPIError) as found, ebb.store.begin() as connection:
        connection.execute(text("SELECT :said FROM nowhere"), {"said": "CANARY"})
    assert "nowhere" in str(found.value)
    assert "CANARY" not in str(found.value)
