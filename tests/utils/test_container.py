"""Files with a checksum: whole, or refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from epls.utils.container import LARGEST_HEADER, DamagedError, VersionError, read_container, write_container

ARRAYS = {"a": np.arange(12.0).reshape(3, 4), "b": np.arange(5, dtype=np.int64), "c": np.zeros((2, 0), np.float32)}
HEADER = {"format": 3, "settings": {"alpha": 0.5, "names": ["x", "ü"]}, "none": None}


def test_round_trip(tmp_path):
    write_container(tmp_path / "f", HEADER, ARRAYS | {"t": ARRAYS["a"].T})
    header, arrays = read_container(tmp_path / "f", 3)
    assert header == HEADER
    for name, array in (ARRAYS | {"t": ARRAYS["a"].T}).items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


@given(st.data())
def test_a_changed_bit_is_noticed(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "bits"
    write_container(path, HEADER, ARRAYS)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(bytes(content))
    try:
        header, arrays = read_container(path, 3)
    except (DamagedError, VersionError):
        return
    assert header == HEADER  # a space of the header became another
    assert all((arrays[name] == array).all() for name, array in ARRAYS.items())


@given(st.binary(max_size=300))
def test_anything_else_is_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "anything"
    path.write_bytes(content)
    with pytest.raises(DamagedError):
        read_container(path, 3)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[1]", "null", "{", '{"a": 1}', '{"format": []}', json.dumps({"format": 3})]
)
def test_headers_that_are_none(tmp_path, text):
    save_file({"a": np.zeros(3)}, tmp_path / "f", metadata={"epls": text})
    with pytest.raises((DamagedError, VersionError)):
        read_container(tmp_path / "f", 3)


def test_a_header_that_would_fill_the_memory(tmp_path):
    (tmp_path / "f").write_bytes((50_000_000).to_bytes(8, "little") + b"{" * 50_000_000)
    with pytest.raises(DamagedError, match="header has 50,000,000 bytes"):
        read_container(tmp_path / "f", 3)
    with pytest.raises(ValueError, match="at most"):
        write_container(tmp_path / "g", {"format": 3, "notes": "x" * LARGEST_HEADER}, {})
    assert not (tmp_path / "g").exists()


def test_no_nan_in_json(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_container(tmp_path / "f", {"format": 3, "figure": float("nan")}, {})


def test_another_format_is_told_from_damage(tmp_path):
    write_container(tmp_path / "f", HEADER | {"format": 4, "epls": "9.9"}, ARRAYS)
    with pytest.raises(VersionError, match=r"format 4, written by epls 9.9"):
        read_container(tmp_path / "f", 3)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_does_not_know_are_neither_written_nor_read(tmp_path, number):
    path = tmp_path / "file"
    with pytest.raises(ValueError, match="must be finite numbers"):
        write_container(path, {"format": 1, "a": number}, {})
    assert not path.exists()
    text = json.dumps({"format": 1, "a": number, "digest": "0"})
    save_file({"x": np.zeros(1)}, path, metadata={"epls": text})
    with pytest.raises(DamagedError):
        read_container(path, 1)
