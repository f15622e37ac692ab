"""What a benchmark ran on, what it measured, and what got slower since the last run on the same processor.

    python benchmarks/history.py                   # this machine, and the last run of each benchmark on its processor
    python benchmarks/history.py --history FILE

Every benchmark that measures times has ``--history FILE``. A run adds one line of JSON to the file, and prints how its
figures compare with those of the last run with the same arguments on the same processor, with as many cores and
threads. Without the option, the file is history.jsonl in this folder, which is under version control: commit lines of
runs on an idle machine. Lines of two branches are merged by keeping both (.gitattributes). A quick run, made to
see that a benchmark works, is recorded only where ``--history`` names a file.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from threadpoolctl import threadpool_info

import epls

HOME = Path(__file__).parent / "history.jsonl"
INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16")
BLAS_FACTS = ("internal_api", "version", "architecture")
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "torch")
SAME = 1.05  # figures of two runs that differ by a smaller factor are called equal
SAME_MACHINE = ("processor", "instructions", "cores", "threads")
# Figures by kind, and whether more of it is worse. Ratios and gains are against something measured in the same run, so
# runs at different times can be compared; seconds depend on what else the machine does.
KINDS = {"ratios": True, "gains": False, "seconds": True}
FIELDS = ("benchmark", "when", "commit", "arguments", "machine", *KINDS)


def processor(path=Path("/proc/cpuinfo")):
    """The model of the processor, and which of the instructions that matter it has; None if that is not known."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine(), None
    facts = {}
    for line in lines:
        name, _, value = line.partition(":")
        facts.setdefault(name.strip().lower(), value.strip())
    flags = facts.get("flags", facts.get("features", "")).split()
    return facts.get("model name") or platform.machine(), [name for name in INSTRUCTIONS if name in flags]


def n_cores():
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def machine():
    """What times depend on, as plain values."""
    model, instructions = processor()
    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    versions = {"epls": epls.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return {
        "processor": model,
        "instructions": instructions,
        "cores": n_cores(),
        "threads": max((library["num_threads"] for library in blas), default=1),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "blas": sorted(" ".join(str(b[k]) for k in BLAS_FACTS if b.get(k)) for b in blas),
        "versions": versions,
    }


def described(found):
    """The machine in two lines."""
    instructions = "instructions unknown" if found["instructions"] is None else " ".join(found["instructions"])
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items() if number)
    return (
        f"{found['processor']} ({instructions}), {found['cores']} core(s), {found['threads']} thread(s), "
        f"load {found['load']} at the start\n{versions}, {', '.join(found['blas'])}"
    )


def add_option(parser):
    """Give a parser the option ``--history``."""
    parser.add_argument(
        "--history", type=Path, metavar="FILE", help=f"add the figures to this file (default: {HOME.name} beside it)"
    )


def plain_arguments(options):
    """The arguments that decide what is measured; of files and folders only that they were given, not where."""
    found = {}
    for name, value in vars(options).items():
        if name in ("history", "json") or value is None or value is False:
            continue
        is_place = isinstance(value, Path) or (isinstance(value, str) and (os.sep in value or Path(value).exists()))
        found[name] = True if is_place else value
    return found


class Run:
    """A run of a benchmark. Made at its start, it prints what it runs on and notes the load.

    Parameters
    ----------
    options : argparse.Namespace
        The parsed arguments, with that of :func:`add_option`.
    benchmark : str or None
        Its name; None is that of the running script.
    """

    def __init__(self, options, *, benchmark=None):
        self.path = options.history or (None if getattr(options, "quick", False) else HOME)
        if self.path and not os.access(self.path if self.path.exists() else self.path.parent, os.W_OK):
            raise SystemExit(f"cannot write the history to {self.path}: give --history a file that can be written")
        self.entry = {
            "benchmark": benchmark or Path(sys.argv[0]).stem,
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": commit(),
            "arguments": json.loads(json.dumps(plain_arguments(options), allow_nan=False)),
            "machine": machine(),
            **{kind: {} for kind in KINDS},
        }
        print(described(self.entry["machine"]), file=sys.stderr, flush=True)

    def add(self, *, ratios=None, gains=None, seconds=None):
        """Add figures by name; see :data:`KINDS`."""
        for kind, figures in (("ratios", ratios), ("gains", gains), ("seconds", seconds)):
            self.entry[kind] |= {name: float(f"{float(value):.4g}") for name, value in (figures or {}).items()}

    def finish(self):
        """Add the run to the history, and print how it compares with the last one that is like it."""
        if self.path is None:
            return
        last = last_like(self.entry, read(self.path))
        with self.path.open("a") as file:
            file.write(json.dumps(self.entry, allow_nan=False) + "\n")
        print("\n".join(comparison(self.entry, last)), file=sys.stderr, flush=True)


def commit():
    """The commit of the library, with "-dirty" if files were changed; None if git does not know."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    folder = Path(epls.__file__).parent
    try:
        found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip() or None


def read(path):
    """All runs in a file, in their order; none if there is no file."""
    if not path.exists():
        return []
    entries = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict) or not set(FIELDS) <= set(entry):
            raise SystemExit(
                f"line {number} of {path} is not the JSON of a run, with {', '.join(FIELDS)}: remove the line, or give "
                f"--history another file"
            )
        entries.append(entry)
    return entries


def last_like(entry, entries):
    """The last of some runs with the same benchmark, arguments and machine; None if there is none."""

    def key(one):
        return one["benchmark"], one["arguments"], [one["machine"].get(name) for name in SAME_MACHINE]

    like = [one for one in entries if key(one) == key(entry)]
    return sorted(like, key=lambda one: one["when"])[-1] if like else None


def comparison(entry, last):
    """What got slower and what got faster, as lines to print."""
    if last is None:
        return [f"no earlier run of {entry['benchmark']} with these arguments on this processor to compare with"]
    lines = [f"against the run of {last['when']}, commit {last['commit']}:"]
    for kind, more_is_worse in KINDS.items():
        for name, value in entry[kind].items():
            before = last.get(kind, {}).get(name)
            if before is None or before <= 0 or value <= 0:
                continue
            change = value / before if more_is_worse else before / value
            verdict = "SLOWER" if change > SAME else "faster" if change < 1 / SAME else "equal"
            change_told = "" if verdict == "equal" else f", {change:.2f} times as long"
            unit = " s" if kind == "seconds" else ""
            lines.append(f"  {verdict:6}  {name}: {before:.4g}{unit} before, {value:.4g}{unit} now{change_told}")
    loads = [one["machine"]["load"] for one in (last, entry)]
    if None not in loads and max(loads) > 0.5:
        lines.append(f"  the load was {loads[0]} before and {loads[1]} now: trust seconds of idle machines only")
    changed = [
        f"{name} {last['machine']['versions'].get(name)} before, {number} now"
        for name, number in entry["machine"]["versions"].items()
        if number != last["machine"]["versions"].get(name)
    ]
    return lines + [f"  other versions: {', '.join(changed)}"] * bool(changed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_option(parser)
    options = parser.parse_args()
    here, entries = machine(), read(options.history or HOME)
    print(described(here))
    own = [e for e in entries if all(e["machine"].get(n) == here[n] for n in ("processor", "instructions", "cores"))]
    print(f"{len(entries)} run(s) in the history, {len(own)} of them on this processor")
    newest = {json.dumps([e["benchmark"], e["arguments"], e["machine"]["threads"]], sort_keys=True): e for e in own}
    for entry in newest.values():
        before = [one for one in own if one is not entry]
        print(f"\n{entry['benchmark']} {json.dumps(entry['arguments'])}, {entry['when']}, commit {entry['commit']}")
        print("\n".join(comparison(entry, last_like(entry, before))))


if __name__ == "__main__":
    main()
