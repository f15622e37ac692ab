"""Downloads, from a server on this machine."""

import hashlib
import io
import sys
import tarfile
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
from made_up import MNIST_IMAGES, MNIST_LABELS, random_images, write_mnist

from epls.datasets import cifar10, load_cifar10, load_mnist, load_stl10, mnist


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
    official = cifar10.ARCHIVE
    made_up = replace(official, url=f"{address}/{path.name}", md5=hashlib.md5(path.read_bytes()).hexdigest())
    monkeypatch.setattr(cifar10, "ARCHIVE", made_up)
    return made_up


@pytest.fixture(params=["mnist", "fashion-mnist"])
def idx_files(request, served, monkeypatch):
    """The name of a data set and its files: made-up ones that the loader takes for the official ones."""
    folder, address = served
    write_mnist(folder, end=".gz")
    made_up = {}
    for name, official in mnist.DOWNLOADS[request.param].items():
        md5 = hashlib.md5((folder / official.name).read_bytes()).hexdigest()
        made_up[name] = replace(official, url=f"{address}/{official.name}", md5=md5)
    monkeypatch.setitem(mnist.DOWNLOADS, request.param, made_up)
    return request.param, made_up


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
    monkeypatch.setattr(cifar10, "ARCHIVE", replace(archive, md5="0" * 32))
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

    monkeypatch.setattr("epls.datasets._download.shutil", SimpleNamespace(copyfileobj=fail))
    with pytest.raises(OSError, match=r"could not be downloaded.*no room"):
        load_cifar10(tmp_path / "new", download=True)
    assert files_below(tmp_path / "new") == ["cifar.tar.gz"]


def test_single_files_are_fetched_and_kept_as_they_are(idx_files, served, tmp_path):
    data = load_mnist(tmp_path / "new" / "data", download=idx_files[0])
    np.testing.assert_array_equal(data.train_images, MNIST_IMAGES)
    np.testing.assert_array_equal(data.test_labels, MNIST_LABELS[:2])
    assert files_below(tmp_path / "new" / "data") == files_below(served[0])


@pytest.mark.parametrize(("mark", "end"), [("-", ".gz"), (".", "")])
def test_only_single_files_that_are_missing_are_fetched(idx_files, served, tmp_path, mark, end):
    folder = tmp_path / "mine"
    folder.mkdir()
    write_mnist(folder, mark, end)
    before = files_below(folder)
    (folder / f"t10k-labels{mark}idx1-ubyte{end}").unlink()
    for path in served[0].glob("*-images-*"):
        path.unlink()
    load_mnist(folder, download=idx_files[0])
    before.remove(f"t10k-labels{mark}idx1-ubyte{end}")
    assert files_below(folder) == sorted([*before, "t10k-labels-idx1-ubyte.gz"])
    for path in served[0].iterdir():
        path.unlink()
    load_mnist(folder, download=idx_files[0])  # nothing is missing


def test_wrong_checksum_of_a_single_file(idx_files, tmp_path, monkeypatch):
    name, files = idx_files
    bad = "t10k-images-idx3-ubyte"
    monkeypatch.setitem(mnist.DOWNLOADS, name, files | {bad: replace(files[bad], md5="0" * 32)})
    with pytest.raises(
        OSError,
        match=r"MNIST could not be downloaded from http.*t10k-images-idx3-ubyte\.gz .*hash.*another way, put it",
    ):
        load_mnist(tmp_path / "new", download=name)
    assert files_below(tmp_path / "new") == ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]


def test_no_such_address_of_a_single_file(idx_files, served, tmp_path):
    (served[0] / "train-images-idx3-ubyte.gz").unlink()
    with pytest.raises(OSError, match=r"could not be downloaded.*404"):
        load_mnist(tmp_path / "new", download=idx_files[0])
    assert files_below(tmp_path / "new") == []


@pytest.mark.parametrize(("load", "download", "by_hand"), [(load_stl10, True, "unpack"), (load_mnist, "mnist", "put")])
def test_without_pooch(tmp_path, monkeypatch, load, download, by_hand):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=rf'pip install "epls\[data\]"; or {by_hand} http'):
        load(tmp_path, download=download)


@pytest.mark.parametrize(("load", "name"), [(load_stl10, "stl10_binary"), (load_cifar10, "cifar-10-batches-bin")])
def test_nothing_is_fetched_unless_asked_for(tmp_path, monkeypatch, load, name):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match=f"holds neither a folder {name}.*download=True"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no folder .*nothing"):
        load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("load", "download"),
    [(load_cifar10, False), (load_cifar10, True), (load_mnist, None), (load_mnist, "fashion-mnist")],
)
def test_a_file_for_a_folder(tmp_path, load, download):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file is a file"):
        load(tmp_path / "file", download=download)
