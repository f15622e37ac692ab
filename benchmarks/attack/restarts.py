"""Kill processes of a training that torchrun runs, at random moments: it must restart them and learn the same bits.

    python benchmarks/attack/restarts.py                      # 30 kills
    python benchmarks/attack/restarts.py --kills 5 --seed 7 --processes 3

`torchrun --max-restarts 3 -m epls fit --checkpoint` learns from made-up vectors. Each run has a folder of its own; one
of its processes is killed with SIGKILL between its first line of code and its last. torchrun then starts all of them
again. The model must be that of a run that was left alone, bit for bit but for seconds that were measured, and nothing
else may be left in the folder. Checkpoints are written every 20 ms instead of every minute.

torchrun listens on all addresses of the machine, so where the system allows it (Linux), everything runs in a network of
its own, which has nothing but the loopback address.
"""

import argparse
import faulthandler
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from kills import all_files, difference

OFTEN = 0.02  # seconds from one checkpoint to the next
LATEST = 1.2  # of the time of a run that is left alone: the machine may be slower by then
NETWORK = []  # set by main


def in_a_network_of_its_own():
    """What comes before a command so that it has a network with only the loopback address; nothing if that fails."""
    inside = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    possible = shutil.which("unshare") and subprocess.run([*inside, "true"], check=False).returncode == 0
    return inside if possible else []


def learn():
    """What each process does: `epls fit`, with checkpoints very often."""
    from epls.algorithm.checkpoint import Checkpoint
    from epls.cli.main import run

    Checkpoint.__init__.__kwdefaults__["seconds"] = OFTEN
    faulthandler.dump_traceback_later(60, exit=True)  # where it hangs, if it does
    sys.exit(run(sys.argv[2:]))


def started(folder, n_processes):
    """A new run of torchrun in a folder; its messages go to a file beside that."""
    folder.mkdir()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n_processes),
                "--max-restarts", "3", "--monitor-interval", "0.1"]  # fmt: skip
    learning = ["--learner", "epls", "--units", "64", "--set", "max_iter=20"]
    fit = ["fit", "../x.npy", "-o", "out.epls", "--checkpoint", "kept", *learning]
    with folder.with_suffix(".log").open("w") as log:
        command = [*NETWORK, *torchrun, os.path.abspath(__file__), "--learn", *fit]
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})


def children(process):
    """The numbers of the processes that another one has started."""
    return [int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def finished(run, folder):
    """The files of a run that has ended well."""
    try:
        code = run.wait(timeout=120)
    except subprocess.TimeoutExpired:
        for process in (*children(run.pid), run.pid):
            os.kill(process, signal.SIGKILL)
        code = None
    if code != 0:
        raise RuntimeError(f"torchrun failed:\n{folder.with_suffix('.log').read_text()[-3000:]}")
    return all_files(folder)


def kill_once(folder, n_processes, victim, moment, expected):
    """Kill one process of a run at a moment after its start; whether it was still alive, and what is wrong."""
    run = started(folder, n_processes)
    while len(children(run.pid)) < n_processes:
        time.sleep(0.01)
    time.sleep(moment)
    alive = children(run.pid)
    if len(alive) <= victim:
        run.wait()
        return False, ""
    os.kill(alive[victim], signal.SIGKILL)
    return True, difference(finished(run, folder), expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    NETWORK.extend(in_a_network_of_its_own())
    print("in a network of its own" if NETWORK else "torchrun listens on all addresses", flush=True)
    random, n_done, n_tried, n_bad = np.random.RandomState(options.seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as place:
        np.save(Path(place, "x.npy"), random.normal(size=(20_000, 50)).astype(np.float32))
        first = Path(place, "first")
        finished(started(first, options.processes), first)  # compiles what is not compiled yet
        began, second = time.perf_counter(), Path(place, "second")
        expected = finished(started(second, options.processes), second)
        seconds = time.perf_counter() - began
        while n_done < options.kills:
            n_tried += 1
            folder, victim = Path(place, str(n_tried)), random.randint(options.processes)
            moment = random.uniform(0, LATEST * seconds)
            killed, problem = kill_once(folder, options.processes, victim, moment, expected)
            if not killed:
                continue
            n_done, n_bad = n_done + 1, n_bad + bool(problem)
            print(f"{n_done}: process {victim} after {moment:.1f} of {seconds:.1f} s: {problem or 'same'}", flush=True)
            shutil.rmtree(folder)
    print(f"{n_done} kills, {n_done - n_bad} times the same files")
    sys.exit(bool(n_bad))


if __name__ == "__main__":
    learn() if sys.argv[1:2] == ["--learn"] else main()
