"""What was done stays done, whatever interrupts it."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from killed_process import run_in_child

from epls import EPLS
from epls.evaluation import cache as caching
from epls.evaluation.cache import Cache, fingerprint

SHAPE = (10, 2, 3)


def row(number):
    return np.full(SHAPE[1:], number, np.float32)


def rows(start, stop):
    return np.stack([row(number) for number in range(start, stop)])


def all_rows(start):
    return iter(rows(start, SHAPE[0]))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """With an entry in the journal for every row."""
    monkeypatch.setattr("epls.evaluation.cache._SECONDS", 0)
    return Cache(tmp_path / "stages")


class Failing:
    """Makes rows, but not those from ``limit`` on."""

    def __init__(self, limit, error):
        self.limit, self.error, self.made = limit, error, []

    def __call__(self, start):
        for number in range(start, SHAPE[0]):
            if number >= self.limit:
                raise self.error
            self.made.append(number)
            yield row(number)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(28, "No space left on device"), ValueError("bad image")]
)
def test_rows_go_on_where_they_were_interrupted(cache, error):
    with pytest.raises(type(error)):
        cache.rows({"a": 1}, SHAPE, Failing(8, error))
    assert not list(cache.folder.glob("*.npy"))
    second = Failing(99, None)
    found, seconds = cache.rows({"a": 1}, SHAPE, second)
    assert second.made == [8, 9]
    np.testing.assert_array_equal(found, rows(0, 10))
    assert seconds > 0
    third = Failing(0, None)
    np.testing.assert_array_equal(cache.rows({"a": 1}, SHAPE, third)[0], rows(0, 10))
    assert third.made == []


def test_rows_that_the_journal_does_not_know_are_made_again(cache):
    with pytest.raises(KeyboardInterrupt):
        cache.rows({}, SHAPE, Failing(6, KeyboardInterrupt()))
    (partial,) = cache.folder.glob("*.part")
    with partial.open("ab") as file:
        file.write(b"half a row")  # written, but the journal was not
    np.testing.assert_array_equal(cache.rows({}, SHAPE, all_rows)[0], rows(0, 10))


def test_a_cut_file_starts_anew(cache):
    with pytest.raises(KeyboardInterrupt):
        cache.rows({}, SHAPE, Failing(6, KeyboardInterrupt()))
    (partial,) = cache.folder.glob("*.part")
    with partial.open("r+b") as file:
        file.truncate(partial.stat().st_size - 60)
    with pytest.warns(UserWarning, match="damaged and is computed again"):
        np.testing.assert_array_equal(cache.rows({}, SHAPE, all_rows)[0], rows(0, 10))
    (path,) = cache.folder.glob("*.npy")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 60)
    with pytest.warns(UserWarning, match="damaged and is computed again"):
        np.testing.assert_array_equal(cache.rows({}, SHAPE, all_rows)[0], rows(0, 10))


@pytest.mark.parametrize("place", [-1, -60, 90, 20])
@pytest.mark.parametrize("suffix", ["npy", "part"])
def test_a_changed_bit_is_noticed_and_mended(cache, place, suffix):
    """It once changed accuracies without a word."""
    if suffix == "npy":
        cache.rows({}, SHAPE, all_rows)
    else:
        with pytest.raises(KeyboardInterrupt):
            cache.rows({}, SHAPE, Failing(6, KeyboardInterrupt()))
    (path,) = cache.folder.glob(f"*.{suffix}")
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(bytes(content))
    with pytest.warns(UserWarning, match="damaged and is computed again"):
        np.testing.assert_array_equal(cache.rows({}, SHAPE, all_rows)[0], rows(0, 10))
    np.testing.assert_array_equal(cache.rows({}, SHAPE, Failing(0, KeyboardInterrupt()))[0], rows(0, 10))


def test_a_lost_journal_is_mended(cache):
    cache.rows({}, SHAPE, all_rows)
    (journal,) = cache.folder.glob("*.json")
    journal.unlink()
    with pytest.warns(UserWarning, match="damaged and is computed again"):
        found, seconds = cache.rows({}, SHAPE, all_rows)
    np.testing.assert_array_equal(found, rows(0, 10))
    assert np.isfinite(seconds)


@pytest.mark.parametrize("damage", ['{"items": [99], "digest": "x"}', '{"items": 7}', "[1, 2", "[99]", ""])
def test_damaged_items_are_made_again(cache, damage):
    assert cache.items("stage", {}, [lambda: 1, lambda: 2]) == [1, 2]
    (path,) = cache.folder.glob("stage-*")
    path.write_text(damage)
    with pytest.warns(UserWarning, match="damaged and is computed again"):
        assert cache.items("stage", {}, [lambda: 1, lambda: 2]) == [1, 2]
    assert cache.items("stage", {}, []) == [1, 2]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"rows": 4}'])
def test_a_damaged_journal_starts_anew(cache, damage):
    with pytest.raises(KeyboardInterrupt):
        cache.rows({}, SHAPE, Failing(4, KeyboardInterrupt()))
    (record,) = cache.folder.glob("*.json")
    record.write_text(damage)
    np.testing.assert_array_equal(cache.rows({}, SHAPE, all_rows)[0], rows(0, 10))


def test_other_inputs_have_another_place(cache):
    first, _ = cache.rows({"seed": 0}, SHAPE, all_rows)
    second, _ = cache.rows({"seed": 1}, SHAPE, lambda start: -rows(start, 10))
    np.testing.assert_array_equal(first, -second)


def make_rows(folder, log):
    """In a process of its own: what it makes, it notes."""

    def noted_rows(start):
        with log.open("a", buffering=1) as file:
            for number in range(start, SHAPE[0]):
                file.write(f"{number}\n")
                yield row(number)

    caching._SECONDS = 0
    Cache(folder).rows({}, SHAPE, noted_rows)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    ("module", "name", "n_calls", "n_known"),
    [
        # For every row: os.fsync of the rows, then write_atomically, with os.fsync and os.replace of the journal.
        ("os", "fsync", 1, 0),
        ("epls.evaluation.cache", "write_atomically", 5, 4),  # the row is on the disk and the journal is not
        ("os", "fsync", 10, 4),  # the journal is half written
        ("os", "replace", 5, 4),  # it is whole, but not in its place
        ("os", "fsync", 11, 5),  # it knows all rows but the one that is being written
        ("os", "replace", 11, 10),  # all is done, but for the final name
    ],
)
def test_rows_survive_kill_9(tmp_path, module, name, n_calls, n_known):
    folder, first, second = tmp_path / "stages", tmp_path / "first", tmp_path / "second"
    assert run_in_child(make_rows, folder, first, kill_at=(module, name, n_calls)) == -signal.SIGKILL
    assert first.read_text().split() == [str(number) for number in range(min(n_known + 1, 10))]
    assert not list(folder.glob("*.npy"))
    second.touch()
    assert run_in_child(make_rows, folder, second) == 0
    assert second.read_text().split() == [str(number) for number in range(n_known, 10)]  # from the last entry on
    (path,) = folder.glob("*.npy")
    np.testing.assert_array_equal(np.load(path), rows(0, 10))


def test_models_are_made_once_and_again_if_damaged(cache):
    X = np.random.RandomState(0).standard_normal((100, 4))
    made = []

    def make():
        made.append(1)
        return EPLS(3, random_state=0, max_iter=2).fit(X)

    first, seconds = cache.model({"n": 3}, make)
    second, seconds_then = cache.model({"n": 3}, make)
    assert len(made) == 1
    assert seconds == seconds_then > 0
    np.testing.assert_array_equal(first.components_, second.components_)
    (path,) = cache.folder.glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:50])
    with pytest.warns(UserWarning, match="damaged and is computed again"):
        cache.model({"n": 3}, make)
    assert len(made) == 2


def test_items_are_made_once(cache):
    made = []

    def maker(number):
        def make():
            if number == 2 and len(made) < 3:
                made.append("interrupted")
                raise KeyboardInterrupt
            made.append(number)
            return {"number": number}

        return make

    makers = [maker(number) for number in range(4)]
    with pytest.raises(KeyboardInterrupt):
        cache.items("verdicts", {}, makers)
    assert cache.items("verdicts", {}, makers) == [{"number": number} for number in range(4)]
    assert made == [0, 1, "interrupted", 2, 3]


def test_one_run_at_a_time(cache):
    with cache.locked(), pytest.raises(RuntimeError, match="another run is using"), Cache(cache.folder).locked():
        pass
    with cache.locked():
        pass


@pytest.mark.slow
def test_the_lock_holds_between_processes_and_ends_with_its_process(cache):
    script = """
import sys
from pathlib import Path
from epls.evaluation.cache import Cache
with Cache(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", script, str(cache.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(RuntimeError, match="another run is using"), cache.locked():
            pass
        other.kill()
    with cache.locked():
        pass


def test_fingerprints_tell_images_apart():
    images = np.random.RandomState(0).randint(256, size=(30, 5, 5, 3)).astype(np.uint8)
    assert fingerprint(images) == fingerprint(images.copy())
    assert fingerprint(images) == fingerprint(np.asfortranarray(images))
    others = [images[:-1], images[::-1], images.astype(int), images.reshape(30, 5, 3, 5)]
    assert len({fingerprint(other) for other in [images, *others]}) == 5


def test_records_tell_what_went_in(cache):
    cache.rows({"encoder": "natural"}, SHAPE, all_rows)
    (record,) = cache.folder.glob("codes-*.json")
    assert json.loads(record.read_text())["inputs"] == {"encoder": "natural"}


def test_what_holds_nan_is_made_again(cache):
    """A figure that another program spoiled."""
    assert cache.items("verdicts", {}, [lambda: 0.5]) == [0.5]
    (path,) = cache.folder.glob("verdicts-*.json")
    path.write_text(path.read_text().replace("0.5", "NaN"))
    with pytest.warns(UserWarning, match="is damaged and is computed again"):
        assert cache.items("verdicts", {}, [lambda: 0.5]) == [0.5]
    with pytest.raises(ValueError, match="JSON"):
        cache.items("verdicts", {"other": 1}, [lambda: float("nan")])
