"""Features and the names of their rows come back as they were written, from one file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from epls.datasets.arrays import load_array
from epls.datasets.writing import check_ending, features_file

# All that Linux allows in the name of a file, read with os.fsdecode: bytes that are no UTF-8 become lone surrogates.
NAMES = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)) | st.characters(
        min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=("Cs",)
    ), min_size=1), min_size=1,
)  # fmt: skip


@given(names=NAMES, n_features=st.integers(1, 5), n_parts=st.integers(1, 4))
def test_any_name_survives(tmp_path_factory, names, n_features, n_parts):
    path = tmp_path_factory.mktemp("features") / "f.npz"
    features = np.random.RandomState(0).normal(size=(len(names), n_features)).astype(np.float32)
    with features_file(path, features.shape, names) as write:
        for part in np.array_split(features, n_parts):
            write(part)
    with np.load(path, allow_pickle=False) as found:
        assert found["names"].tolist() == names
        np.testing.assert_array_equal(found["features"], features, strict=True)
    np.testing.assert_array_equal(load_array(path), features)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".NPY"])
def test_rows_without_names(tmp_path, ending):
    features = np.eye(3, 4, dtype=np.float64)
    with features_file(tmp_path / f"f{ending}", (3, 4)) as write:
        write(features[:2])
        write(sparse.csr_matrix(features[2:]))
    np.testing.assert_array_equal(load_array(tmp_path / f"f{ending}"), features.astype(np.float32), strict=True)
    if ending == ".npz":
        assert np.load(tmp_path / "f.npz").files == ["features"]


@pytest.mark.parametrize("ending", [".npy", ".npz"])
@pytest.mark.parametrize("n_rows", [2, 4])
def test_too_few_or_too_many_rows_leave_nothing(tmp_path, ending, n_rows):
    with (
        pytest.raises(ValueError, match=f"3 rows .* expected, and {n_rows} were"),
        features_file(tmp_path / f"f{ending}", (3, 1)) as w,
    ):
        w(np.zeros((n_rows, 1)))
    assert list(tmp_path.iterdir()) == []


def test_names_have_no_place_in_npy(tmp_path):
    with pytest.raises(ValueError, match=r"give a name that ends in \.npz"):
        check_ending(tmp_path / "f.npy", has_names=True)
    with pytest.raises(ValueError, match=r"as \.npy or \.npz, so"):
        check_ending(tmp_path / "f.txt", has_names=False)


def test_the_same_features_are_the_same_file(tmp_path):
    for name in ("a.npz", "b.npz"):
        with features_file(tmp_path / name, (2, 2), ["x", "y"]) as write:
            write(np.ones((2, 2)))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
