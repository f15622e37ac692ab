"""What the attacks share: mutations of files, and children in which mutated files are opened under watch."""

import argparse
import collections
import logging
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

MEMORY = 2**30  # bytes beyond what a child has at the start
SECONDS = 5.0
HANG = 30  # seconds of processor time for one file after which a child is ended
STUCK = 300  # seconds in which a child uses no processor time after which it is ended
_AT_A_TIME = 2500


def damaged(content, random, header=4096):
    """A file that is no longer what was written. Half of the changes are in its first bytes, the header."""
    content = bytearray(content)
    kind, size = random.randint(6), len(content)
    places = random.randint(size if random.randint(2) else min(size, header), size=1 + random.randint(8))
    if kind <= 1:
        for place in places[: 1 if kind == 0 else None]:
            content[place] ^= 1 << random.randint(8)
    elif kind == 2:
        for place in places:
            content[place] = random.randint(256)
    elif kind == 3:
        del content[places[0] :]
    elif kind == 4:
        content[places[0] : places[0]] = content[places[-1] : places[-1] + random.randint(64)]
    else:
        start, stop = sorted((int(places[0]), int(places[-1])))
        content[start:stop] = bytes(stop - start)
    return bytes(content)


def watch(read):
    """What ``read`` returns or raises, and a complaint if it computes for too long. The parent ends one that hangs."""
    started = time.process_time()
    result = error = None
    try:
        result = read()
    except BaseException as caught:
        error = caught.with_traceback(None)  # whose frames, this one among them, would keep what was read
    seconds = time.process_time() - started
    return result, error, f"BAD: {seconds:.0f} s" if seconds > SECONDS else None


def limit_memory():
    """From here on, this process gets no more than a gigabyte beyond what it has."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def _child(attack, folder, seed, n_files, outcomes):
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    np.seterr(all="ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries in C print what they think of a file
    try:
        for outcome in attack(Path(tempfile.mkdtemp(dir=folder)), np.random.RandomState(seed), n_files):
            outcomes.send(outcome)
    except Exception as error:
        outcomes.send(f"BAD: the attack itself failed: {error!r}")
    outcomes.send(None)


def _processor_seconds(pid):
    """The processor time of a process, which other work on the machine hardly changes; 0 after its end."""
    try:
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _answer_comes(receiver, pid):
    """Wait for an outcome; whether one comes before the child has computed, or slept, for too long."""
    at_start = used = _processor_seconds(pid)
    woke = time.monotonic()
    while not receiver.poll(5):
        before, used = used, _processor_seconds(pid)
        if used > before:
            woke = time.monotonic()
        if used - at_start > HANG or time.monotonic() - woke > STUCK:
            return False
    return True


def _run(attack, folder, seed, n_files):
    """The outcomes of a child; its end, if it does not come to the end of its files."""
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    child = spawn.Process(target=_child, args=(attack, folder, seed, n_files, sender))
    child.start()
    sender.close()
    outcomes = collections.Counter()
    try:
        while (answers := _answer_comes(receiver, child.pid)) and (outcome := receiver.recv()) is not None:
            outcomes[outcome if "BAD" not in outcome else f"{outcome}, seed {seed}, file {outcomes.total()}"] += 1
        if not answers:
            child.kill()
            outcomes[f"BAD: hangs, seed {seed}, file {outcomes.total()}"] += 1
    except EOFError:
        child.join()
        outcomes[f"BAD: the process ended with {child.exitcode}, seed {seed}, file {outcomes.total()}"] += 1
    child.join()
    return outcomes


def main(attack, description, n_files, n_quick):
    """Run ``attack(folder, random, n_files)``, which yields an outcome for each file, and print how many of each."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=n_files)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help=f"only {n_quick} files")
    options = parser.parse_args()
    n_files = n_quick if options.quick else options.files
    outcomes = collections.Counter()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        jobs = [(attack, folder, options.seed + k, min(_AT_A_TIME, n_files - start))
                for k, start in enumerate(range(0, n_files, _AT_A_TIME))]  # fmt: skip
        for found in pool.map(_run, *zip(*jobs, strict=True)):
            outcomes += found
            bad = sum(number for outcome, number in outcomes.items() if "BAD" in outcome)
            print(f"{outcomes.total():8,} of {n_files:,} files, {bad} bad", file=sys.stderr, flush=True)
    for outcome, number in outcomes.most_common():
        print(f"{number:8,} {outcome}")
    raise SystemExit(any("BAD" in outcome for outcome in outcomes))
