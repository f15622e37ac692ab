"""The official files of STL-10 and CIFAR-10, and their downloads."""

import hashlib
import io
import re
import subprocess
import sys
import tarfile
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import random_images, stl10_bytes

from epls.datasets import load_cifar10, load_stl10, official

IMAGE = 96 * 96 * 3


@pytest.mark.parametrize("itself", [False, True])
def test_images_labels_and_folds(stl10_folder, itself):
    data = load_stl10(stl10_folder if itself else str(stl10_folder.parent))
    np.testing.assert_array_equal(data.train_images, random_images(3, 96, 96, 3))
    assert data.train_images.dtype == np.uint8
    np.testing.assert_array_equal(data.train_labels, [0, 9, 3])
    assert data.train_labels.dtype == np.int64
    np.testing.assert_array_equal(data.folds, [[0, 2]] * 5 + [[1, 2]] * 5)
    assert data.test_images is data.test_labels is data.unlabelled_images is None
    assert data.class_names[:3] == ("airplane", "bird", "car")
    assert len(data.class_names) == 10


def test_images_are_mapped_and_cannot_be_written(stl10_folder):
    images = load_stl10(stl10_folder).train_images
    assert isinstance(images, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        images[0, 0, 0, 0] = 1


def test_the_parts_that_may_be_missing(stl10_folder):
    test, unlabelled = random_images(2, 96, 96, 3, seed=1), random_images(1, 96, 96, 3, seed=2)
    (stl10_folder / "test_X.bin").write_bytes(stl10_bytes(test))
    (stl10_folder / "test_y.bin").write_bytes(bytes([7, 1]))
    (stl10_folder / "unlabeled_X.bin").write_bytes(stl10_bytes(unlabelled))
    data = load_stl10(stl10_folder)
    np.testing.assert_array_equal(data.test_images, test)
    np.testing.assert_array_equal(data.test_labels, [6, 0])
    np.testing.assert_array_equal(data.unlabelled_images, unlabelled)


@given(st.integers(0, IMAGE - 1), st.integers(0, 255))
def test_every_byte_of_the_file_is_the_pixel_that_it_should_be(tmp_path_factory, place, value):
    home = tmp_path_factory.mktemp("stl10")
    content = bytearray(IMAGE)
    content[place] = value
    (home / "train_X.bin").write_bytes(content)
    (home / "train_y.bin").write_bytes(b"\1")
    (home / "fold_indices.txt").write_text("0\n" * 10)
    image = load_stl10(home).train_images[0]
    channel, column, row = place // (96 * 96), place // 96 % 96, place % 96
    assert image[row, column, channel] == value
    assert image.sum() == value


def test_indices_beyond_a_byte(tmp_path):
    """300 images that take no room on the disk."""
    with open(tmp_path / "train_X.bin", "wb") as file:
        file.truncate(300 * IMAGE)
    (tmp_path / "train_y.bin").write_bytes(b"\1" * 300)
    (tmp_path / "fold_indices.txt").write_text("299 256\n" * 10)
    np.testing.assert_array_equal(load_stl10(tmp_path).folds, [[299, 256]] * 10)


@pytest.mark.parametrize("name", ["train_X.bin", "train_y.bin", "fold_indices.txt"])
def test_a_missing_file_is_named(stl10_folder, name):
    (stl10_folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"no file .*{re.escape(name)}.*download=True"):
        load_stl10(stl10_folder)


def test_half_a_test_set_is_an_error(stl10_folder):
    (stl10_folder / "test_y.bin").write_bytes(b"\1")
    with pytest.raises(FileNotFoundError, match=r"no file .*test_X\.bin"):
        load_stl10(stl10_folder)
    (stl10_folder / "test_y.bin").rename(stl10_folder / "test_X.bin")
    with pytest.raises(FileNotFoundError, match=r"no file .*test_y\.bin"):
        load_stl10(stl10_folder)


def test_a_folder_instead_of_a_file(stl10_folder):
    (stl10_folder / "fold_indices.txt").unlink()
    (stl10_folder / "fold_indices.txt").mkdir()
    with pytest.raises(OSError, match=r"fold_indices\.txt cannot be read"):
        load_stl10(stl10_folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train_X.bin", bytes(3 * IMAGE - 1), r"train_X\.bin has 82943 bytes.*train_y\.bin has 3.*82944.*too short"),
        ("train_X.bin", bytes(2 * IMAGE), r"train_X\.bin has 55296 bytes, which is 2 times the 27648 .*82944"),
        ("train_X.bin", bytes(4 * IMAGE), r"train_X\.bin has 110592 bytes.*too long"),
        ("train_X.bin", b"", r"train_X\.bin has 0 bytes"),
        ("train_y.bin", b"", r"train_y\.bin has 0 bytes"),
        ("train_y.bin", b"\1\1", r"train_X\.bin has 82944 bytes.*train_y\.bin has 2"),
        ("train_y.bin", b"\1\1\0", r"train_y\.bin has label 0 at position 2 .*1 to 10"),
        ("train_y.bin", b"\1\x0b\0", r"train_y\.bin has label 11 at position 1 "),
        ("unlabeled_X.bin", bytes(IMAGE + 7), r"unlabeled_X\.bin has 27655 bytes.*whole number"),
        ("unlabeled_X.bin", b"", r"unlabeled_X\.bin has 0 bytes"),
        ("fold_indices.txt", b"0 1\n" * 9, r"fold_indices\.txt has 9 lines"),
        ("fold_indices.txt", b"0 1\n" * 9 + b"0", r"fold_indices\.txt has 10 lines of 1 or 2 indices"),
        ("fold_indices.txt", b"\n" * 10, r"fold_indices\.txt has 10 lines of 0 indices"),
        ("fold_indices.txt", b"", r"fold_indices\.txt has 0 lines"),
        ("fold_indices.txt", b"0 1\n" * 9 + b"0 x", r"fold_indices\.txt .*only integers.*'x'"),
        ("fold_indices.txt", b"\xff\n" * 10, r"fold_indices\.txt .*only integers"),
        (
            "fold_indices.txt",
            b"0 1\n" * 9 + b"0 3",
            r"fold_indices\.txt, line 10, has index 3, but the training images are 0 to 2",
        ),
        ("fold_indices.txt", b"-1 1\n" * 10, r"fold_indices\.txt, line 1, has index -1"),
        ("fold_indices.txt", b"0 1\n" * 9 + b"2 2", r"fold_indices\.txt, line 10, has index 2 2 times"),
    ],
)
def test_damaged_files_are_named(stl10_folder, name, content, message):
    (stl10_folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_stl10(stl10_folder)


def test_repr_shows_shapes(stl10_folder):
    shown = repr(load_stl10(stl10_folder))
    assert "STL10(train_images=uint8 (3, 96, 96, 3), " in shown
    assert "test_images=None" in shown


RECORD = 1 + 32 * 32 * 3


@pytest.mark.parametrize("itself", [False, True])
def test_images_and_labels(cifar10_folder, itself):
    data = load_cifar10(cifar10_folder if itself else cifar10_folder.parent)
    expected = np.concatenate([random_images(2, 32, 32, 3, seed=k) for k in range(5)])
    np.testing.assert_array_equal(data.train_images, expected)
    np.testing.assert_array_equal(data.train_labels, [0, 9, 1, 8, 2, 7, 3, 6, 4, 5])
    np.testing.assert_array_equal(data.test_images, random_images(2, 32, 32, 3, seed=5))
    np.testing.assert_array_equal(data.test_labels, [5, 4])
    assert data.train_images.dtype == np.uint8
    assert data.train_labels.dtype == np.int64
    assert data.train_images.flags.c_contiguous
    assert data.class_names[6] == "frog"
    assert len(data.class_names) == 10


@pytest.mark.parametrize("name", ["data_batch_4.bin", "test_batch.bin"])
def test_a_missing_batch_is_named(cifar10_folder, name):
    (cifar10_folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"no file .*{re.escape(name)}.*download=True"):
        load_cifar10(cifar10_folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data_batch_3.bin", bytes(RECORD), r"data_batch_3\.bin has 3073 bytes.*6146"),
        ("data_batch_3.bin", bytes(3 * RECORD), r"data_batch_3\.bin has 9219 bytes.*6146"),
        ("test_batch.bin", bytes(RECORD + 1), r"test_batch\.bin has 3074 bytes.*3073 of one"),
        ("test_batch.bin", b"", r"test_batch\.bin has 0 bytes"),
        (
            "data_batch_5.bin",
            bytes(RECORD) + b"\n" + bytes(RECORD - 1),
            r"data_batch_5\.bin has label 10 at position 1 ",
        ),
    ],
)
def test_damaged_batches_are_named(cifar10_folder, name, content, message):
    (cifar10_folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_cifar10(cifar10_folder)


def test_import_loads_nothing_optional():
    code = "import sys, epls.datasets; print([m for m in ('PIL', 'pooch', 'sklearn') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# Downloads, from a server on this machine.


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder whose files are at the address that comes with it."""
    pytest.importorskip("pooch")
    monkeypatch.setenv("no_proxy", "*")
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def archive(served, cifar10_folder, monkeypatch):
    """The made-up CIFAR-10 as an archive that the loader takes for the official one; with more in it than it should."""
    folder, address = served
    path = folder / "cifar.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(cifar10_folder, "cifar-10-batches-bin")
        for name in ("../outside.bin", "cifar-10-batches-bin/readme.html"):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    made_up = replace(
        official.CIFAR10_ARCHIVE, url=f"{address}/{path.name}", md5=hashlib.md5(path.read_bytes()).hexdigest()
    )
    monkeypatch.setattr(official, "CIFAR10_ARCHIVE", made_up)
    return made_up


def files_below(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["new/data", "new/cifar-10-batches-bin"])
def test_files_are_fetched_and_the_archive_is_not_kept(archive, tmp_path, name):
    folder = tmp_path / name
    data = load_cifar10(folder, download=True)
    np.testing.assert_array_equal(data.test_images, random_images(2, 32, 32, 3, seed=5))
    home = folder if folder.name == archive.folder else folder / archive.folder
    assert files_below(tmp_path / "new") == sorted(
        (home / name).relative_to(tmp_path / "new").as_posix() for name in archive.files
    )


def test_what_is_there_is_not_fetched_again(archive, served, cifar10_folder):
    (served[0] / "cifar.tar.gz").unlink()
    load_cifar10(cifar10_folder, download=True)


def test_only_what_is_missing_is_unpacked(archive, cifar10_folder):
    mine = bytes(2 * 3073)
    (cifar10_folder / "data_batch_1.bin").write_bytes(mine)
    (cifar10_folder / "data_batch_2.bin").unlink()
    load_cifar10(cifar10_folder, download=True)
    assert (cifar10_folder / "data_batch_1.bin").read_bytes() == mine


def test_an_archive_that_was_there_is_used_and_kept(archive, served, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    (served[0] / "cifar.tar.gz").rename(folder / "cifar.tar.gz")
    load_cifar10(folder, download=True)
    assert (folder / "cifar.tar.gz").exists()


def test_wrong_checksum(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(official, "CIFAR10_ARCHIVE", replace(archive, md5="0" * 32))
    with pytest.raises(
        OSError, match=r"CIFAR-10 could not be downloaded from http.*cifar\.tar\.gz .*hash.*another way"
    ):
        load_cifar10(tmp_path / "new", download=True)
    assert files_below(tmp_path / "new") == []


def test_no_such_address(archive, served, tmp_path):
    (served[0] / "cifar.tar.gz").unlink()
    with pytest.raises(OSError, match=r"could not be downloaded.*404"):
        load_cifar10(tmp_path / "new", download=True)
    assert files_below(tmp_path / "new") == []


def test_a_connection_that_breaks(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(QuietHandler, "copyfile", lambda self, source, target: target.write(source.read(100)))
    with pytest.raises(OSError, match=r"could not be downloaded.*100 bytes read"):
        load_cifar10(tmp_path / "new", download=True)
    assert files_below(tmp_path / "new") == []


def test_an_archive_that_cannot_be_unpacked(archive, served, tmp_path, monkeypatch):
    """As when the disk is full: no part of a file under its name."""

    def fail(source, target, *_):
        target.write(source.read(10))
        raise OSError("no room")

    monkeypatch.setattr("epls.datasets.official.shutil", SimpleNamespace(copyfileobj=fail))
    with pytest.raises(OSError, match=r"could not be downloaded.*no room"):
        load_cifar10(tmp_path / "new", download=True)
    assert files_below(tmp_path / "new") == ["cifar.tar.gz"]


def test_without_pooch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r'pip install "epls\[data\]"; or unpack http'):
        load_stl10(tmp_path, download=True)


@pytest.mark.parametrize(("load", "name"), [(load_stl10, "stl10_binary"), (load_cifar10, "cifar-10-batches-bin")])
def test_nothing_is_fetched_unless_asked_for(tmp_path, monkeypatch, load, name):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match=f"holds neither a folder {name}.*download=True"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no folder .*nothing"):
        load(tmp_path / "nothing")


@pytest.mark.parametrize("download", [False, True])
def test_a_file_for_a_folder(tmp_path, download):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file is a file"):
        load_cifar10(tmp_path / "file", download=download)
