"""Kill commands at random moments, give the same command again, and compare all that it wrote.

    python benchmarks/attack/kills.py                         # 50 kills of each command
    python benchmarks/attack/kills.py --kills 10 --seed 7 fit transform
    python benchmarks/attack/kills.py --kills 60 explore      # while and after the page is written
    python benchmarks/attack/kills.py --quick                 # 2 of each

`epls fit --checkpoint`, `reproduce`, `compare`, `transform` and `explore` run on small made-up data. Each run has a
folder of its own and is killed once, between its first line of code and its last, every fifth time with SIGTERM and
else with SIGKILL. Then the very same command is given again. All files in the folder must then be those of a run that
was left alone, bit for bit but for seconds that were measured: no result may differ, and nothing may be left behind.

`epls explore` computes for long and writes for milliseconds, so random moments would hardly ever hit the write. It is
killed only when it has begun to write: the calls that bring the page to the disk and to its name are slowed down, and
the kills land before, between and after them.

The processes are forked from one that has imported the package, so that the kills hit the work and not the imports.
Checkpoints and journals are written every 20 ms instead of every minute or every three seconds.
"""

import argparse
import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors import safe_open
from sklearn.datasets import load_sample_images

from epls.algorithm.checkpoint import Checkpoint
from epls.cli.main import run
from epls.evaluation.cache import Cache

OFTEN = 0.02  # seconds from one checkpoint, or entry of a journal, to the next
SLOW = 0.05  # seconds before and after each call that writes the page of explore
LATEST = 1.3  # of the time of a run that is left alone: the machine may be slower by then
LONGEST = 120  # seconds of a run
MEASURED = ("seconds", "digest")  # digests are over the seconds, too
SMALL = ["--units", "16", "--patches", "3000", "--threads", "1"]
FOLDS = ["--folds", "3", "--stride", "2"]
# All of them write to "out", in a folder beside that of the data.
COMMANDS = {
    "fit": ["fit", "../data/photos", "-o", "out", "--checkpoint", "kept", "--patch-size", "6", *SMALL],
    "reproduce": ["reproduce", "stl10", "--data", "../data", "--output", "out", "--set", "max_iter=4", *SMALL, *FOLDS],
    "compare": ["compare", "../data/photos", "--output", "out", "--learner", "epls", "--learner", "kmeans", "--set",
                "epls.max_iter=4", "--patch-size", "6", *SMALL, *FOLDS],
    "transform": ["transform", "../data/model.epls", "../data/photos", "-o", "out.npz", "--threads", "1"],
    "explore": ["explore", "../data/photos", "--model", "../data/model.epls", "-o", "out.html", "--threads", "1"],
}  # fmt: skip


def make_data(folder):
    """Pieces of photographs in three classes: a folder of images, and the official files of STL-10."""
    first, second = load_sample_images().images
    sources = (first, second, first[::-1, :, ::-1])
    random, labels = np.random.RandomState(0), np.arange(60) % 3
    corners = random.randint((300, 500), size=(60, 2))
    images = np.stack([sources[k][t : t + 96, x : x + 96] for k, (t, x) in zip(labels, corners, strict=True)])
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = folder / "photos" / f"class {label}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[:64, :64]).save(place / f"{number}.png")
    official = folder / "stl10_binary"
    official.mkdir()
    images.transpose(0, 3, 2, 1).tofile(official / "train_X.bin")
    (labels + 1).astype(np.uint8).tofile(official / "train_y.bin")
    folds = [random.permutation(60)[:36] for _ in range(10)]
    (official / "fold_indices.txt").write_text("".join(" ".join(map(str, fold)) + "\n" for fold in folds))


def slowly(function):
    """A function that waits before it does something, and afterwards."""

    def slow(*arguments):
        time.sleep(SLOW)
        result = function(*arguments)
        time.sleep(SLOW)
        return result

    return slow


def started(arguments, folder):
    """The number of a new process that runs a command in a folder; its messages go to a file beside that."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        messages = os.open(folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(messages, 1)
        os.dup2(messages, 2)
        os.chdir(folder)
        if arguments[0] == "explore":
            for name in ("fsync", "replace"):
                setattr(os, name, slowly(getattr(os, name)))
        code = run(arguments)
    finally:
        os._exit(code)


def outcome(child, seconds=None, sent=signal.SIGKILL, written=None):
    """The exit code of a process and how long it took; it is sent a signal after so many seconds.

    Both are counted from the first file in the folder ``written``, if one is given.
    """
    began = time.perf_counter()
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        passed = time.perf_counter() - began
        if passed > LONGEST:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimeoutError(f"a run took more than {LONGEST} s")
        if written is not None and any(written.iterdir()):
            began, passed, written = time.perf_counter(), 0, None
        if seconds is not None and written is None and passed >= seconds:
            os.kill(child, sent)
            seconds = None
        time.sleep(0.001)
    return os.waitstatus_to_exitcode(ended[1]), time.perf_counter() - began


def content(path):
    """What a file holds, without the seconds that were measured."""
    found = path.read_bytes()
    if path.suffix == ".json":
        return json.dumps(_without_measured(json.loads(found)))
    if path.suffix == ".html":
        return re.sub(rb'"(learn|encode|judge)":[0-9.e-]+', b"", found)
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
            header = _without_measured(json.loads(file.metadata()["epls"]))
    except Exception:  # not a model
        return found
    return json.dumps(header) + "".join(
        f"{name} {array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
        for name, array in sorted(arrays.items())
    )


def _without_measured(value):
    if isinstance(value, dict):
        return {key: _without_measured(item) for key, item in value.items() if key not in MEASURED}
    return [_without_measured(item) for item in value] if isinstance(value, list) else value


def names_in(folder):
    """All files in a folder and below, but for locks, which stay and are empty."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock")
    return [str(path.relative_to(folder)) for path in paths]


def all_files(folder):
    """What is in a folder, by name."""
    return {name: content(folder / name) for name in names_in(folder)}


def difference(found, expected):
    """In what the files of two runs differ, or nothing."""
    names = {name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)}
    said = {True: "left behind", False: "different"}
    return ", ".join(
        f"{name} {'missing' if name not in found else said[name not in expected]}" for name in sorted(names)
    )


def kill_once(name, folder, expected, seconds, sent):
    """Kill a command and run it again; whether it was killed, which files there were, and what is wrong."""
    folder.mkdir()
    code, _ = outcome(started(COMMANDS[name], folder), seconds, sent, folder if name == "explore" else None)
    if code == 0:
        return False, [], ""  # it had ended
    left = names_in(folder)
    code, _ = outcome(started(COMMANDS[name], folder))
    refused = code == 1 and "already exists" in folder.with_suffix(".log").read_text()
    found = all_files(folder)
    if refused:  # killed after the result was written: it must be whole, and checkpoints may not have been cleared
        found = {name: content for name, content in found.items() if not name.startswith("kept")}
    problem = difference(found, expected)
    if code != 0 and not refused:
        problem = f"exit code {code}: {folder.with_suffix('.log').read_text()[-500:]}; {problem}"
    return True, left, problem


def left_alone(name, folder):
    """The files of a command that nobody kills, and the seconds that it takes."""
    folder.mkdir()
    code, seconds = outcome(started(COMMANDS[name], folder), written=folder if name == "explore" else None)
    if code != 0:
        raise RuntimeError(f"epls {name} fails even if it is left alone:\n{folder.with_suffix('.log').read_text()}")
    return all_files(folder), seconds


def attack(name, place, n_kills, random):
    """Kill a command so often; what went wrong."""
    first, _ = left_alone(name, place / f"{name}-first")  # compiles what is not compiled yet
    expected, seconds = left_alone(name, place / f"{name}-second")
    if problem := difference(first, expected):
        raise RuntimeError(f"two runs of epls {name} that were left alone differ: {problem}")
    n_done, n_tried, n_written, problems = 0, 0, 0, []
    while n_done < n_kills:
        n_tried += 1
        moment = random.uniform(0, LATEST * seconds)
        sent = signal.SIGTERM if n_done % 5 == 4 else signal.SIGKILL
        killed, left, problem = kill_once(name, place / f"{name}-{n_tried}", expected, moment, sent)
        if not killed:
            continue
        n_done += 1
        n_written += set(left) == set(expected)
        kind = signal.Signals(sent).name
        print(
            f"{name} {n_done}: {kind} after {moment:.2f} of {seconds:.2f} s, {len(left)} file(s): {problem or 'same'}",
            flush=True,
        )
        if problem:
            problems.append(problem)
        else:
            shutil.rmtree(place / f"{name}-{n_tried}")
    told = f"{n_done} kills, {n_written} of them when all files were written"
    print(f"epls {name}: {told}; {n_done - len(problems)} times the same files in the end", flush=True)
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", choices=[*COMMANDS, []], metavar="command", help="default: all")
    parser.add_argument("--kills", type=int, default=50, help="of each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    Checkpoint.__init__.__kwdefaults__["seconds"] = OFTEN
    Cache.__init__.__kwdefaults__["seconds"] = OFTEN
    for module in COMMANDS:
        importlib.import_module(f"epls.cli.{module}")
    for module in ("evaluation.comparison", "evaluation.summary", "paper.table",
                   "encoders.sparse_coding", "learners.kmeans", "images.models", "datasets.opening", "report",
                   "plotting"):  # fmt: skip
        importlib.import_module(f"epls.{module}")
    importlib.import_module("matplotlib.pyplot")
    random, problems = np.random.RandomState(options.seed), []
    with tempfile.TemporaryDirectory() as place:
        make_data(Path(place, "data"))
        fitted = ["fit", "photos", "-o", "model.epls", "--patch-size", "6", *SMALL]
        code, _ = outcome(started(fitted, Path(place, "data")))
        if code != 0:
            raise RuntimeError(Path(place, "data.log").read_text())
        for name in options.commands or COMMANDS:
            problems += attack(name, Path(place), 2 if options.quick else options.kills, random)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
