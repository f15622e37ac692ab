"""Commands whose output does not fit on the disk: a limit on the size of files stops the write in the middle of it."""

import sys
from contextlib import redirect_stderr

import numpy as np
import pytest
from killed_process import run_in_child

from epls import EPLS, save_model
from epls.cli.main import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Vectors, labels of some of them, and a model of them."""
    folder = tmp_path_factory.mktemp("data")
    X = np.random.RandomState(0).normal(size=(300, 5)).astype(np.float32) + np.arange(300)[:, None] % 2 * 4
    np.save(folder / "x.npy", X)
    rows = [f"{k},{'ab'[k % 2]}" for k in range(20)]
    (folder / "labels.csv").write_text("\n".join(["row,label", *rows, ""]))
    save_model(EPLS(4, max_iter=2, random_state=0).fit(X), folder / "model.epls")
    return folder


def with_half_of_the_room(arguments, folder, ending):
    """In a process of its own: write a file as a whole, then again where there is room for half of it."""
    import resource

    arguments = [*map(str, arguments), "--force", "--threads", "1", "-o"]
    whole, half = folder / f"whole{ending}", folder / f"half{ending}"
    half.write_bytes(b"old")
    assert run([*arguments, str(whole)]) == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (folder / "messages").open("w") as messages, redirect_stderr(messages):
        resource.setrlimit(resource.RLIMIT_FSIZE, (whole.stat().st_size // 2, before[1]))
        code = run([*arguments, str(half)])
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    sys.exit(code)


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        (["explore", "x.npy"], ".html"),
        (["classify", "x.npy", "--labels", "labels.csv"], ".csv"),
        (["cluster", "x.npy", "--clusters", "3"], ".csv"),
        (["transform", "model.epls", "x.npy"], ".csv"),
        (["transform", "model.epls", "x.npy"], ".parquet"),
        (["transform", "model.epls", "x.npy"], ".npz"),
        (["transform", "model.epls", "x.npy"], ".npy"),
    ],
)
def test_nothing_is_left_half_written(data, tmp_path, command, ending):
    arguments = [data / word if (data / word).exists() else word for word in command]
    assert run_in_child(with_half_of_the_room, arguments, tmp_path, ending) == 1
    told = [line for line in (tmp_path / "messages").read_text().splitlines() if line.startswith("epls:")]
    (message,) = told
    assert message.startswith(f"epls: no room for a file of this size ({tmp_path / f'half{ending}'}): free some space")
    assert (tmp_path / f"half{ending}").read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == {f"half{ending}", f"whole{ending}", "messages"}
