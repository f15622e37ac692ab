"""Is what `epls classify` and the page of `epls explore` say true? Each claim beside the truth.

    python benchmarks/claims.py calibration --stl10 DATA --features embeddings.npy learned.npy
    python benchmarks/claims.py duplicates --stl10 DATA --photographs FOLDER
    python benchmarks/claims.py live --stl10 DATA --features embeddings.npy learned.npy

Calibration: 5, 10 and 20 labels of each class, five draws. Told are the share of the other samples whose predicted
label is right, the mean confidence in these labels, and how often the interval of the accuracy contains that share;
then a table of the share that is right by confidence. Digits and wine come with scikit-learn. DATA holds the official
stl10_binary folder; a file of features has a row for each of its training images.

Live: the page's own script in node, on 60 images of each class. Told are its accuracy and that of `epls classify` with
the same labels; what random labels reach, and as many of those that the page proposes, ten at a time; and the clicks,
one for each label, to 80 % of what the command reaches with ten labels of each class. A file of features may also have
a row for each of these images only. The time is that of the processor, for as many copies of the samples as make
at least 10,000.

Duplicates: copies of 20 of 200 images of STL-10 for each way to change them, and of those in a folder of photographs
without copies. Told are the share that is found at the similarity the page begins with, other pairs, and the seconds
of processor time for all 5,000 images.
"""

import argparse
import base64
import io
import json
import shutil
import subprocess
import time
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_wine

from epls.datasets import load_stl10
from epls.evaluation.few_labels import classify
from epls.images.reading import ImageCollection
from epls.report.duplicates import duplicate_pictures
from epls.report.explore import packed_codes
from epls.report.similarity import comparable
from epls.report.thumbnails import thumbnails_of

BINS = np.array([0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1])
PERSON = """
const { codes, y, draws, random, batch, clicks } = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const data = rowsOf({ values: new Int8Array(Buffer.from(codes.values, "base64")), scales: codes.scales });
// Classes that nobody has named yet do not exist on the page.
function after(samples, fair) {
  const names = [...new Set(samples.map((sample) => y[sample]))];
  const classOf = new Int16Array(data.n).fill(-1);
  for (const sample of samples) classOf[sample] = names.indexOf(y[sample]);
  if (names.length < 2) return { classOf, doubt: null, right: 0 };
  const started = process.cpuUsage().user;
  const model = learn(data, classOf, names.length);
  const { label, confidence, margin } = predict(data, model);
  const milliseconds = (process.cpuUsage().user - started) / 1000;
  const rest = y.map((_, sample) => sample).filter((sample) => classOf[sample] < 0);
  const share = (is) => rest.reduce((sum, sample) => sum + is(sample), 0) / rest.length;
  const checked = accuracyOf(model, fair ?? samples);
  const right = share((sample) => Number(names[label[sample]] === y[sample]));
  return { classOf, doubt: margin.map((value) => 1 - value), right, confidence: share((sample) => confidence[sample]),
    left_out: checked.share, covered: checked.low <= right && right <= checked.high, milliseconds };
}
const told = ({ classOf, doubt, ...figures }) => figures;
const checks = [];
const proposed = random.map((order) => {
  const propose = newProposer(data, Uint32Array.from(order.slice(0, 0.8 * data.n))); // others each time
  let [samples, now] = [[], { classOf: new Int16Array(data.n).fill(-1), doubt: null }];
  const curve = [];
  while (samples.length < clicks) {
    for (const sample of propose(now.classOf, now.doubt, batch)) {
      samples = [...samples, sample];
      now = after(samples);
      curve.push(told(now));
    }
  }
  const fair = order.filter((sample) => !samples.includes(sample)).slice(0, 20);
  checks.push(...[20, 40].map((many) => told(after([...samples.slice(0, many), ...fair], fair))));
  return curve;
});
const byChance = random.map((order) => Array.from({ length: clicks }, (_, k) => told(after(order.slice(0, k + 1)))));
console.log(JSON.stringify({ drawn: draws.map((samples) => told(after(samples))), proposed, byChance, checks }));
"""


def labelled_sets(arguments):
    """Name, features and classes of each data set."""
    yield "digits", *load_digits(return_X_y=True)
    yield "wine", *load_wine(return_X_y=True)
    if arguments.stl10:
        classes = load_stl10(arguments.stl10).train_labels
        for path in arguments.features:
            yield f"STL-10, {path.stem}", np.load(path), classes


def drawn(y, per_class, seed):
    """Known labels, as `classify` takes them, and the samples without one."""
    random = np.random.RandomState(seed)
    known = np.concatenate([random.permutation(np.flatnonzero(y == k))[:per_class] for k in np.unique(y)])
    labels = np.full(len(y), None, object)
    labels[known] = y[known].astype(str)
    return labels, np.setdiff1d(np.arange(len(y)), known)


def calibration(arguments):
    """Print how confident and how right predictions are."""
    confidences, rights, covered = [], [], []
    print(f"{'':30} labels  right  confidence  interval covers")
    for name, X, y in labelled_sets(arguments):
        for per_class in (5, 10, 20):
            rows = []
            for seed in range(arguments.seed, arguments.seed + arguments.draws):
                labels, rest = drawn(y, per_class, seed)
                found = classify(X, list(labels))
                right, confidence = found.labels[rest] == y[rest].astype(str), found.confidence[rest]
                low, high = found.interval
                rows.append((right.mean(), confidence.mean(), low <= right.mean() <= high))
                confidences.append(confidence)
                rights.append(right)
            covered += [row[2] for row in rows]
            share, sure, inside = np.mean(rows, axis=0)
            print(f"{name:30} {per_class:6} {100 * share:6.1f} {100 * sure:11.1f} {inside:10.1f}", flush=True)
    print(f"\nthe interval covers the truth in {sum(covered)} of {len(covered)}\n")
    confidence, right = np.concatenate(confidences), np.concatenate(rights)
    print("| confidence | predictions | mean confidence | right |\n|---|---|---|---|")
    for low, high in pairwise(BINS):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            figures = f"{100 * confidence[inside].mean():.1f} | {100 * right[inside].mean():.1f}"
            print(f"| {low:g} to {high:g} | {inside.sum():,} | {figures} |")


def recompressed(image):
    """The image after JPEG of quality 30."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=30)
    return Image.open(file).convert("RGB")


COPIES = {
    "mirrored": lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "5 % cut off each side": lambda image: image.crop([round(k * side) for k in (0.05, 0.95) for side in image.size]),
    "gray": lambda image: image.convert("L").convert("RGB"),
    "half size": lambda image: image.resize([side // 2 for side in image.size]),
    "JPEG, quality 30": recompressed,
    "turned by 90 degrees": lambda image: image.transpose(Image.Transpose.ROTATE_90),
    "turned by 180 degrees": lambda image: image.transpose(Image.Transpose.ROTATE_180),
    "turned by 270 degrees": lambda image: image.transpose(Image.Transpose.ROTATE_270),
}


def pictures_of(images):
    """The small pictures that the page compares."""
    arrays = [np.asarray(image) for image in images]
    return thumbnails_of(ImageCollection(arrays, 1), lambda *progress: None)[0]


def duplicates(arguments):
    """Print which copies of each kind are found, and how many pairs are none."""
    sets = {}
    if arguments.stl10:
        stl10 = [Image.fromarray(image) for image in load_stl10(arguments.stl10).train_images]
        sets["200 images of STL-10"] = [stl10[k] for k in np.random.RandomState(arguments.seed).permutation(5000)[:200]]
    if arguments.photographs:
        files = sorted(arguments.photographs.iterdir())
        sets[f"{len(files)} photographs"] = [Image.open(file).convert("RGB") for file in files]
    for name, images in sets.items():
        random = np.random.RandomState(arguments.seed)
        originals = {kind: random.permutation(len(images))[:20] for kind in COPIES}
        print(f"\n{name}")
        for kind, chosen in originals.items():
            found = duplicate_pictures(pictures_of(images + [COPIES[kind](images[k]) for k in chosen]))
            pairs = {(first, second) for first, second, score in found.pairs if score >= found.usual}
            copies = {(int(k), len(images) + place) for place, k in enumerate(chosen)}
            print(
                f"{kind:24} {len(copies & pairs):3} of {len(copies)} found, {len(pairs - copies)} other pairs",
                flush=True,
            )
    if arguments.stl10:
        pictures = pictures_of(stl10)
        started = time.process_time()
        found = duplicate_pictures(pictures)
        seconds = time.process_time() - started
        n_pairs = sum(score >= found.usual for *_, score in found.pairs)
        print(f"\n{len(stl10):,} images: {n_pairs} pairs, {seconds:.1f} s of processor time")


def person(codes, y, draws, random, clicks):
    """What a person sees on the page after some labels, and after each of the proposed and of random ones."""
    script = files("epls.report").joinpath("assets", "classifier.js").read_text() + PERSON
    task = {"codes": codes, "y": y.tolist(), "draws": [draw.tolist() for draw in draws]}
    task |= {"random": [order.tolist() for order in random], "batch": 10, "clicks": clicks}
    done = subprocess.run([shutil.which("node"), "-e", script], input=json.dumps(task), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def live(arguments):
    """Print what a person who labels on the page reaches."""
    for name, X, y in labelled_sets(arguments):
        of_class = [
            np.random.RandomState(k).permutation(np.flatnonzero(y == name)) for k, name in enumerate(np.unique(y))
        ]
        some = np.sort(np.concatenate([own[:60] for own in of_class]))
        X, y = X[some] if len(X) == len(y) else X, y[some]
        n_draws, sizes = arguments.draws, (3, 5, 10)
        labels = {k: [drawn(y, k, seed)[0] for seed in range(n_draws)] for k in sizes}
        draws = [np.flatnonzero(own != None) for k in sizes for own in labels[k]]  # noqa: E711
        random = [np.random.RandomState(seed).permutation(len(y)) for seed in range(n_draws)]
        codes = packed_codes(comparable(X, np.random.RandomState(0)), "standardized", np.random.RandomState(0))
        found = person(codes, y, draws, random, 60)
        print(f"{name}: {len(y)} samples, {n_draws} draws")
        for k, page in zip(sizes, np.split(np.array(found["drawn"]), len(sizes)), strict=True):
            told = {key: 100 * np.mean([one[key] for one in page]) for key in page[0]}
            results = [classify(X, list(own)).labels == y.astype(str) for own in labels[k]]
            command = 100 * np.mean([right[own == None].mean() for right, own in zip(results, labels[k], strict=True)])  # noqa: E711
            print(
                f"  {k:2} labels a class: page {told['right']:.1f}, command {command:.1f}; confidence "
                f"{told['confidence']:.1f}, left out {told['left_out']:.1f}, covered {told['covered']:.0f} %"
            )
        for key, what in (("proposed", "proposed"), ("byChance", "random")):
            curve = 100 * np.mean([[step["right"] for step in one] for one in found[key]], axis=0)
            reached = " ".join(f"{n}: {curve[n - 1]:.1f}" for n in range(10, 61, 10))
            enough = np.flatnonzero(curve >= 0.8 * command)
            covered = np.mean([[step["covered"] for step in one[19:]] for one in found[key]])
            first = f"{enough[0] + 1} clicks" if len(enough) else "more than 60 clicks"
            print(f"  {what:8} {reached}; {first} to 80 % of {command:.1f}; covered {100 * covered:.0f} %", flush=True)
        checks = found["checks"]
        off = np.mean([one["left_out"] - one["right"] for one in checks])
        covered = np.mean([one["covered"] for one in checks])
        times = -(-10_000 // len(y))
        many = codes | {"values": base64.b64encode(base64.b64decode(codes["values"]) * times).decode()}
        spent = np.median([one["milliseconds"] for one in person(many, np.tile(y, times), draws, [], 0)["drawn"]])
        print(f"  {times * len(y):,} samples are predicted in {spent:.0f} ms")
        print(f"  20 random ones after 20 or 40 proposed: off by {100 * off:+.1f}, covered {100 * covered:.0f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("claim", choices=["calibration", "duplicates", "live"])
    parser.add_argument("--stl10", type=Path, metavar="DATA")
    parser.add_argument("--features", type=Path, nargs="*", default=[], metavar="FILE.npy")
    parser.add_argument("--photographs", type=Path, metavar="FOLDER")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    chosen = parser.parse_args()
    {"calibration": calibration, "duplicates": duplicates, "live": live}[chosen.claim](chosen)
