"""Files appear whole or not at all, with the permissions of any other new file."""

import os
import stat
import subprocess
import sys

import pytest

from epls.utils.files import atomic_file, open_regular, write_atomically


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no umask")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077])
def test_permissions_follow_the_umask(umask, tmp_path):
    """In a process of its own: a umask belongs to the whole process."""
    script = (
        "import os, sys; from pathlib import Path; from epls.utils.files import write_atomically\n"
        f"os.umask({umask})\n"
        "write_atomically(Path(sys.argv[1]), b'content')\n"
        "Path(sys.argv[2]).write_bytes(b'content')\n"
    )
    ours, plain = tmp_path / "ours", tmp_path / "plain"
    subprocess.run([sys.executable, "-c", script, str(ours), str(plain)], check=True)
    assert permissions(ours) == permissions(plain) == 0o666 & ~umask


def test_nothing_process_wide_changes(tmp_path, monkeypatch):
    """Another thread that creates a file meanwhile would have the wrong permissions, or the wrong folder."""

    def forbidden(*arguments):
        raise AssertionError("changes the whole process")

    for name in ("umask", "chdir"):
        monkeypatch.setattr(os, name, forbidden)
    write_atomically(tmp_path / "a", b"content")
    assert (tmp_path / "a").read_bytes() == b"content"


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with atomic_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_all_is_as_before(tmp_path, error):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def write_half():
        with atomic_file(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_nothing(tmp_path, full_disk):
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "a", b"content")
    assert list(tmp_path.iterdir()) == []


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    path = tmp_path / "a"
    with atomic_file(path) as first, atomic_file(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first"  # the second one was complete before it
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        write_atomically(tmp_path / "missing" / "a", b"content")


def test_a_replaced_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write_atomically(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b"new"


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        write_atomically(tmp_path / "pipe", b"new")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    with pytest.raises(OSError, match="pipe is not a regular file"):
        open_regular(tmp_path / "pipe")  # without waiting for somebody to write to it


def test_only_regular_files_are_opened(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for name in ("a", "link"):
        with open_regular(tmp_path / name) as file:
            assert file.read() == b"content"
    with pytest.raises(OSError, match="is not a regular file"):
        open_regular(tmp_path)
    with pytest.raises(OSError, match="is not a regular file"):
        open_regular(os.devnull)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nothing")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from epls.utils.files import atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as file:\n"
        "    file.write(b'half'); file.flush(); print('writing', flush=True); time.sleep(60)\n"
    )
    path, other = tmp_path / "a[1].npy", tmp_path / ".epls-0123456789ab-01234567"
    other.write_bytes(b"of somebody else")
    with subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "writing\n"
        write_atomically(path, b"while another process writes")
        assert len(list(tmp_path.glob(".epls-*"))) == 2  # which is left alone
        writer.kill()
    assert path.read_bytes() == b"while another process writes"
    write_atomically(path, b"after it was killed")
    assert path.read_bytes() == b"after it was killed"
    assert sorted(tmp_path.iterdir()) == sorted([path, other])


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed there")
def test_a_file_that_another_process_takes_for_abandoned_is_made_again(tmp_path, monkeypatch):
    """Between the moment when it is created and the one when it is locked."""
    from epls.utils import files

    lock, removed = files._lock, []

    def late(file):
        if not removed:
            removed.append(file.name)
            os.unlink(file.name)
        lock(file)

    monkeypatch.setattr(files, "_lock", late)
    write_atomically(tmp_path / "a", b"content")
    assert removed
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_disks_without_locks_will_do(tmp_path, monkeypatch):
    import fcntl

    def missing(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", missing)
    with atomic_file(tmp_path / "a") as first:
        first.write(b"first")
        write_atomically(tmp_path / "a", b"second")  # nobody knows whether the first is still written
    assert (tmp_path / "a").read_bytes() == b"first"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows counts characters, not bytes")
@pytest.mark.parametrize("name", ["a" * 255, "ä" * 127])
def test_the_longest_names(tmp_path, name):
    write_atomically(tmp_path / name, b"content")
    assert [path.name for path in tmp_path.iterdir()] == [name]
