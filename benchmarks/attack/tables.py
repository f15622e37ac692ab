"""Mutated tables, labels and features, given to the commands that read them: each must work or be refused in one line.

    python benchmarks/attack/tables.py                 # 5,000 files
    python benchmarks/attack/tables.py --quick
    python benchmarks/attack/tables.py --files 20000 --seed 7

CSV and Parquet tables, labels, and features with and without names of rows, in .npz and .npy files, too, have bits
flipped, bytes set, parts cut, doubled or cleared. Crafted ones have other cells, names, types, line ends or shapes, or
millions of rows. `epls fit`, `transform`, `classify` and `compare` read them in a child process whose memory is
limited. They must end with exit code 0, or with 1 or 2 and one line that says why; never with a traceback, and never by
saying that this is a bug.
"""

import contextlib
import csv
import io

import numpy as np
import pyarrow as pa
from common import damaged, limit_memory, main, watch
from pyarrow import parquet

from epls.cli.main import run

N_ROWS = 40
CELLS = [
    "", " ", "0", "-0", "1e400", "-1e400", "1e-400", "nan", "NaN", "inf", "-Infinity", "null", "None", "true", "FALSE",
    "1,5", '"', '""', '"a', "a\nb", "a\rb", "\0", "\x1b[31mred", "\x9b31m", "=1+2", "@SUM(A1)", "é", "\u202eabc",
    "9" * 400, "0x10", "1_000", "2020-01-01", "12:30", "1e5", "a" * 300, "-1", "39", "40", "1e999999", "given",
    "predicted", "label", "row", "file", "\udcff", "\ud800", "\ufeff", "😀",
]  # fmt: skip


def rows_of_table():
    random = np.random.RandomState(0)
    numbers = (random.normal(size=(N_ROWS, 4)) + np.arange(N_ROWS)[:, None] % 2 * 3).round(4)
    return ["width", "height", "depth", "mass"], numbers


def text(rows, delimiter=",", end="\n"):
    """Rows of cells as the bytes of a CSV file."""
    found = io.StringIO(newline="")
    csv.writer(found, delimiter=delimiter, lineterminator=end).writerows(rows)
    return found.getvalue().encode("utf-8", "surrogatepass")


def subjects(folder):
    """For each kind of file: its name, its content, how to craft another one, and the command that reads it."""
    names, numbers = rows_of_table()
    table = [names, *numbers.tolist()]
    labels = [["row", "label"], *([str(k), "ab"[k % 2]] for k in range(0, N_ROWS, 3))]
    predictions = [["row", "label", "confidence", "source"], *([k, "ab"[k % 2], "0.75" if k % 3 else "1.0000",
                   "predicted" if k % 3 else "given"] for k in range(N_ROWS))]  # fmt: skip
    labelled = [[*row, "class" if k == 0 else "xy"[k % 2]] for k, row in enumerate(table)]
    intact, known, model = folder / "intact.csv", folder / "known.csv", folder / "model.epls"
    intact.write_bytes(text(table))
    known.write_bytes(text(labels))
    columns = dict(zip(names, numbers.T, strict=True))
    as_parquet, array, named_parquet, known_parquet, known_array = (io.BytesIO() for _ in range(5))
    parquet.write_table(pa.table(columns), as_parquet)
    np.save(array, numbers.astype(np.float32))
    ids = {"id": [str(k) for k in range(N_ROWS)]}
    named = [[*row, "id" if k == 0 else str(k - 1)] for k, row in enumerate(table)]
    parquet.write_table(pa.table(columns | ids), named_parquet)
    known_columns = {"row": np.arange(N_ROWS), "label": np.array(["a", "", "b", ""] * (N_ROWS // 4))}
    parquet.write_table(pa.table(known_columns), known_parquet)
    np.save(known_array, known_columns["label"])
    arrays = {"features": numbers.astype(np.float32), "names": np.array(ids["id"])}
    quick = ("--n-components", 3, "--set", "max_iter=2", "--force")
    result = run_quietly(["fit", intact, "-o", model, *quick])
    assert result[0] == 0, result

    def fit(path):
        return ["fit", path, "-o", folder / "new.epls", *quick]

    def transform(path):
        return ["transform", model, path, "-o", folder / "features.csv", "--force"]

    def classify(path):
        return ["classify", intact, "--labels", path, "-o", folder / "predicted.csv", "--force"]

    def classify_features(path):
        return [*classify(known), "--features", path]

    def compare(path):
        return ["compare", path, "--learner", "raw", "--n-folds", 2, "--output", folder / "compared", "--force"]

    for reader in (fit, transform):
        yield "table.csv", text(table), crafted_csv(table), reader
        yield "table.parquet", as_parquet.getvalue(), crafted_parquet(columns), reader
    yield "labels.csv", text(labels), crafted_csv(labels), classify
    yield "labels.csv", text(predictions), crafted_csv(predictions), classify
    yield "labels.parquet", known_parquet.getvalue(), crafted_parquet(known_columns), classify
    yield "labels.npy", known_array.getvalue(), crafted_npy(known_columns["label"]), classify
    yield "features.npz", as_npz({"features": arrays["features"]}), crafted_npz(arrays), classify_features
    yield "named.npz", as_npz(arrays), crafted_npz(arrays), classify_features
    yield "named.parquet", named_parquet.getvalue(), crafted_parquet(columns | ids), classify_features
    yield "named.csv", text(named), crafted_csv(named), classify_features
    yield "features.npy", array.getvalue(), crafted_npy(arrays["features"]), classify_features
    yield "labelled.csv", text(labelled), crafted_csv(labelled), compare


def crafted_csv(rows):
    def craft(random):
        other = [list(row) for row in rows]
        for _ in range(1 + random.randint(4)):
            kind, k = random.randint(9), random.randint(len(other))
            if kind <= 3:
                row = other[0 if random.randint(3) == 0 else k]
                if row:
                    row[random.randint(len(row))] = CELLS[random.randint(len(CELLS))]
            elif kind == 4:
                other.insert(k, list(other[random.randint(len(other))]))
            elif kind == 5:
                del other[k : k + 1 + random.randint(60)]
                other = other or [[]]
            elif kind == 6:
                other[k] = [CELLS[random.randint(len(CELLS))] for _ in range(random.randint(8))]
            elif kind == 7:
                place = random.randint(1 + max(map(len, other)))
                for row in other:
                    row[place : place + random.randint(2)] = [CELLS[random.randint(len(CELLS))]]
            else:
                other = [row * random.choice([1, 2, 200]) for row in other[: 1 + random.randint(5)]]
        content = text(other, [",", ",", ",", ";", "\t"][random.randint(5)], ["\n", "\r\n", "\r"][random.randint(3)])
        before = [b"", b"", b"\xef\xbb\xbf", b"\n\n", b"\xff\xfe"][random.randint(5)]
        return before + (content.decode("utf-8", "ignore").encode("utf-16") if random.randint(12) == 0 else content)

    return craft


def as_npz(arrays):
    """Arrays as the bytes of a .npz file."""
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def odd_array(array, random):
    """An array of some kind that a NumPy file may have, which may be far larger than the given one."""
    n_rows = int(random.choice([0, 1, N_ROWS, N_ROWS, 10**6, 10**8]))
    makers = [
        lambda: array[: random.randint(N_ROWS + 1)],
        lambda: array[random.randint(len(array), size=N_ROWS)],
        lambda: array.T,
        lambda: array.astype(random.choice(["S5", "U5", "S4000", "V8", "c8", "O"])),
        lambda: np.zeros(n_rows, random.choice(["i1", "u1", "?", "S1"])),
        lambda: np.zeros((n_rows, 1), "i1"),
        lambda: np.zeros(N_ROWS, [("a", "i4"), ("b", "f8")]),
        lambda: np.arange(N_ROWS).astype(random.choice(["i8", "f4", "M8[s]", "m8[s]"])),
        lambda: np.array([CELLS[random.randint(len(CELLS))] for _ in range(N_ROWS)]),
        lambda: np.array(["a" * int(random.choice([1, 5000, 10**6]))] * N_ROWS),
    ]
    with contextlib.suppress(ValueError, TypeError):  # not all types can become each other
        return makers[random.randint(len(makers))]()
    return array[::-1]


def crafted_npy(array):
    def craft(random):
        content = io.BytesIO()
        np.save(content, odd_array(array, random))
        return content.getvalue()

    return craft


def crafted_npz(arrays):
    def craft(random):
        name = str(random.choice([*arrays, "names", "X"]))
        return as_npz(arrays | {name: odd_array(arrays.get(name, arrays["names"]), random)})

    return craft


def odd_columns(numbers, random):
    """A column of some kind that a Parquet file may have."""
    n = len(numbers)
    whole = random.randint(-5, 5, size=n)
    makers = [
        lambda: pa.array(numbers.astype(np.float16)),
        lambda: pa.array(numbers.astype(np.float32)),
        lambda: pa.array(whole.astype(np.int8)),
        lambda: pa.array(np.full(n, 2**64 - 1, np.uint64)),
        lambda: pa.array(numbers > 0),
        lambda: pa.array([None, *numbers[1:]]),
        lambda: pa.array(np.where(whole > 3, np.nan, numbers)),
        lambda: pa.array(np.full(n, np.inf)),
        lambda: pa.nulls(n),
        lambda: pa.array([str(value) for value in whole]),
        lambda: pa.array([b"\xff\0"] * n),
        lambda: pa.array([str(value) for value in whole]).dictionary_encode(),
        lambda: pa.array(whole).dictionary_encode(),
        lambda: pa.array([[1, 2]] * n),
        lambda: pa.array([{"a": 1, "b": "x"}] * n),
        lambda: pa.array(whole).cast(pa.timestamp("s")),
        lambda: pa.array(whole).cast(pa.duration("s")),
        lambda: pa.array(np.abs(whole).astype(np.int32)).cast(pa.time32("s")),
        lambda: pa.array(whole).cast(pa.decimal128(30, 3)),
        lambda: pa.array([1e300] * n),
        lambda: pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int64())),
    ]
    return makers[random.randint(len(makers))]()


def crafted_parquet(columns):
    def craft(random):
        names, arrays = list(columns), [pa.array(values) for values in columns.values()]
        for _ in range(1 + random.randint(3)):
            k = random.randint(len(names))
            if random.randint(2):
                arrays[k] = odd_columns(next(iter(columns.values())), random)
            elif random.randint(2):
                names[k] = CELLS[random.randint(len(CELLS))].encode("utf-8", "replace").decode()
            else:
                names, arrays = [*names, "more"], [*arrays, odd_columns(next(iter(columns.values())), random)]
        table = pa.Table.from_arrays(arrays, names).slice(0, random.choice([N_ROWS, N_ROWS, 1, 0]))
        if random.randint(20) == 0:  # millions of rows in a few bytes
            numbers, texts = np.zeros(int(random.choice([10**5, 10**7]))), ["./" + "0" * int(random.choice([1, 10**6]))]
            shared = pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), texts)
            table = pa.table({name: shared if random.randint(2) else numbers for name in columns})
        content = io.BytesIO()
        parquet.write_table(table, content)
        return content.getvalue()

    return craft


def run_quietly(arguments):
    """The exit code of a command and what it prints on stderr, but for progress and warnings."""
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    return code, err.getvalue()


def outcome_of(code, err):
    """Whether a command ended as it should."""
    if "Traceback" in err or "this is a bug" in err:
        return f"BAD: {err.splitlines()[-1][:200]}"
    if any((ord(character) < 32 and character != "\n") or 127 <= ord(character) < 160 for character in err):
        return f"BAD: control characters: {err!r}"[:200]
    if code == 0:
        return "accepted"
    reasons = [line for line in err.splitlines() if line.startswith(("epls: ", "Error: "))]
    reasons = [line for line in reasons if not line.startswith("epls: warning")]
    others = [line for line in err.splitlines() if line.startswith((" ", "\t"))]
    if code not in (1, 2) or len(reasons) != 1 or others:
        return f"BAD: exit code {code} and {err!r}"[:300]
    return f"refused ({code})"


def attack(folder, random, n_files):
    """The outcome of each of some files; runs in a child."""
    opened = list(subjects(folder))
    for name, content, _, command in opened:  # also compiles and imports all that is needed
        path = folder / name
        path.write_bytes(content)
        code, err = run_quietly(command(path))
        assert code == 0, (name, err)
    limit_memory()
    for _ in range(n_files):
        name, content, craft, command = opened[random.randint(len(opened))]
        is_crafted = craft is not None and random.randint(2) == 0
        path = folder / f"mutated-{name}"
        path.write_bytes(craft(random) if is_crafted else damaged(content, random, header=100))
        found, error, slow = watch(lambda command=command, path=path: run_quietly(command(path)))
        bad = None if error is None else f"BAD: {type(error).__name__}: {error}"[:200]
        outcome = bad or slow or outcome_of(*found)
        yield f"{command.__name__} {name.split('.')[-1]}: {outcome}"


if __name__ == "__main__":
    main(attack, __doc__, n_files=5_000, n_quick=100)
