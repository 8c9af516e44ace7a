"""Arrays in PostgreSQL's binary format, compared with ones that are put together value by value."""

import random
import struct

import pytest

from infer_app.database.engine.array_upsert import BIGINT, BYTES, DOUBLE, INTEGER, JSON, TEXT, binary_array

ELEMENTS = [TEXT, JSON, BYTES, INTEGER, BIGINT, DOUBLE]


def by_value(values, element):
    array = struct.pack(">iiIii", 1, 1, element.oid, len(values), 1)
    for value in values:
        content = b"" if value is None else element.encode(value)
        array += struct.pack(">i", -1 if value is None else len(content)) + content
    return array


def some(element, chance, count):
    value = {
        "text": lambda: chance.choice(["", "cat", "😀", "a" * 300]),
        "json": lambda: '{"a": 1}',
        "bytea": lambda: chance.randbytes(chance.randrange(300)),
        "integer": lambda: chance.choice([0, -1, 2**31 - 1, -(2**31), chance.randrange(10**6)]),
        "bigint": lambda: chance.choice([0, -1, 2**63 - 1, -(2**63), chance.randrange(10**12)]),
        "float8": lambda: chance.choice([0.0, -0.0, 1e-320, 1.7e308, float("inf"), 3, chance.random()]),
    }
    return [value[element.name]() for _ in range(count)]


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
def test_an_array_is_that_of_its_values_one_by_one(element):
    chance = random.Random(1)
    for count in [0, 1, 2, 63, 1000]:
        values = some(element, chance, count)
        assert binary_array(values, element) == by_value(values, element)
        values.insert(count // 2, None)
        assert binary_array(values, element) == by_value(values, element)


def test_an_array_by_hand():
    header = bytes.fromhex("00000001 00000001 00000017 00000002 00000001")
    assert binary_array([1, -2], INTEGER) == header + bytes.fromhex("00000004 00000001 00000004 fffffffe")


@pytest.mark.parametrize(("element", "value"), [(INTEGER, 2**31), (BIGINT, 2**63), (INTEGER, 0.5), (DOUBLE, "1")])
def test_a_value_that_does_not_fit_is_refused(element, value):
    for values in ([value], [None, value]):
        with pytest.raises(struct.error):
            binary_array(values, element)


def test_text_that_no_database_takes_is_refused():
    with pytest.raises(UnicodeEncodeError):
        binary_array(["\udce4"], TEXT)
