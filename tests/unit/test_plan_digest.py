"""The digest of a plan: the same for the same changes however their table is parted, another for any other value."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from ebbtide.policy.document import policy_from
from ebbtide.replay.plan import CORRECTED, SCHEMA, Asked, Plan

ASKED = Asked("default@1.0.0", policy_from({"id": "default", "version": "1.0.1"}), None)
VALUES = {
    pa.string(): ["a", None, "bc"],
    pa.int64(): [1, None, 0],
    pa.float64(): [0.5, None, 0.0],
    pa.bool_(): [True, None, False],
}
ROWS = pa.table({f.name: pa.array(VALUES[f.type], f.type) for f in SCHEMA}, schema=SCHEMA)
DECIDES = ("namespace_id", "object_id", "lifecycle_state", *CORRECTED)


def digest(rows: pa.Table) -> str:
    return Plan(ASKED, 0, {}, 3, rows).digest()


def with_value(name: str, place: int, value: object) -> pa.Table:
    field = SCHEMA.field(name)
    values = ROWS[name].to_pylist()
    values[place] = value
    return ROWS.set_column(SCHEMA.get_field_index(name), field, pa.array(values, field.type))


def test_it_does_not_hang_on_how_the_rows_are_parted():
    parted = pa.concat_tables([ROWS.slice(0, 1), SCHEMA.empty_table(), ROWS.slice(1, 2)])
    sliced = pa.concat_tables([ROWS, ROWS]).slice(3, 3)
    assert digest(parted) == digest(sliced) == digest(ROWS)
    assert digest(SCHEMA.empty_table()) == digest(SCHEMA.empty_table().combine_chunks()) != digest(ROWS)


@pytest.mark.parametrize("name", DECIDES)
def test_every_value_and_every_null_counts(name):
    first, second, third = ROWS[name].to_pylist()
    found = [digest(with_value(name, 1, third)), digest(with_value(name, 0, None)), digest(with_value(name, 2, first))]
    assert len({*found, digest(ROWS)}) == 4, second


def test_texts_do_not_run_into_each_other():
    one = ROWS.slice(0, 2).set_column(1, SCHEMA.field(1), pa.array(["ab", "c"]))
    other = ROWS.slice(0, 2).set_column(1, SCHEMA.field(1), pa.array(["a", "bc"]))
    assert digest(one) != digest(other)


def test_what_is_asked_counts():
    other = policy_from({"id": "default", "version": "1.0.2"})
    asked = [ASKED, replace(ASKED, begins=1), replace(ASKED, replaced="default@0.9.0"), replace(ASKED, by=other)]
    assert len({Plan(one, 0, {}, 3, ROWS).digest() for one in asked}) == 4
