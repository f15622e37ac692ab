"""Deep features as pre-training: a network fine-tuned from learned weights, from random ones, and a linear SVM.

    python benchmarks/fine_tuning.py                                             # scikit-learn's digits
    python benchmarks/fine_tuning.py STL10 CIFAR10 --folds 3 --json table.json   # folders of the official files
    python benchmarks/fine_tuning.py --quick

A stack of two layers of ``--learner`` is learned without labels. With 10, 100 and all labels a class (at most
``--most``), each of these is trained and tested on images that it has not seen:

- "learned, fine-tuned": ``epls.torch.to_module`` of the stack and a linear head, all trained by Adam;
- "random, fine-tuned": the same network, trained alike, from random weights;
- "learned, SVM": ``L2SVMCV`` on the features of the stack, which stay as they are;
- "random, SVM": the same on the features of the network with random weights.

The learning rate of each network is the one of ``--rates`` with the best accuracy on a fifth of the labelled images,
held out; then it is trained on all of them. STL-10: the labels are those of an official fold, and the other training
images are the test. CIFAR-10: choices are made on the fifth batch, so that it is the test here, unless ``--final`` asks
for the official one. Test images of STL-10 take part in learning without labels, those of CIFAR-10 don't.
"""

import argparse
import json
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from epls import EPLS, DeepFeatures, Directions, Layer
from epls.datasets import load_cifar10, load_stl10
from epls.paper.judge import judge
from epls.torch import to_module

LEARNERS = {"directions": Directions, "epls": EPLS}
BATCH, HEAD_RATE = 50, 1e-3
ARMS = ("learned, fine-tuned", "random, fine-tuned", "learned, SVM", "random, SVM")


class Data:
    """Images to learn from without labels, and for each fold labelled ones and those of the test."""

    def __init__(self, where, options):
        self.name = "digits" if where == "digits" else "STL-10" if holds(where, "stl10_binary") else "CIFAR-10"
        random = np.random.RandomState(0)
        if self.name == "digits":
            images, labels = load_digits().images.astype(np.float32), load_digits().target
            test = random.permutation(len(images))[-600:]
            pools = [np.setdiff1d(np.arange(len(images)), test)] * options.folds
        elif self.name == "STL-10":
            data = load_stl10(where)
            images, labels, pools, test = data.train_images, data.train_labels, data.folds[: options.folds], None
        else:
            data = load_cifar10(where)
            images, labels = data.train_images, data.train_labels
            test = np.arange(4 * len(images) // 5, len(images))
            pools = [np.arange(4 * len(images) // 5)] * options.folds
            if options.final:
                images = np.concatenate([images, data.test_images])
                labels = np.concatenate([labels, data.test_labels])
                pools, test = [np.arange(len(images) - 10_000)] * options.folds, np.arange(len(images))[-10_000:]
        self.images, self.labels, self.pools, self._test = images, labels, pools, test
        self.unlabelled = np.arange(len(images)) if test is None else np.setdiff1d(np.arange(len(images)), test)
        self._n_test = options.test_images

    def test(self, fold):
        others = np.setdiff1d(np.arange(len(self.images)), self.pools[fold]) if self._test is None else self._test
        return np.sort(np.random.RandomState(1).permutation(others)[: self._n_test])

    def labelled(self, fold, n_labels):
        """So many images of each class, of those in a fold."""
        random, pool = np.random.RandomState(fold), self.pools[fold]
        classes = [pool[self.labels[pool] == label] for label in np.unique(self.labels)]
        return np.concatenate([random.permutation(some)[:n_labels] for some in classes])

    def stack(self, options):
        """Two layers for images of this size."""
        learner, settings = LEARNERS[options.learner], {"n_patches": 2000} if options.quick else {}
        settings |= {"encoder": learner.own_encoder, "whiten": learner.whitens, "pooling": "mean"}  # as usual_layers
        sizes = {"digits": (3, 1, 2, 2), "STL-10": (7, 2, 3, 3), "CIFAR-10": (6, 1, 3, 3)}
        size, stride, pool, second_size = sizes[self.name]
        first = Layer(learner(options.units[0]), patch_size=size, stride=stride, pool=pool, **settings)
        return [first, Layer(learner(options.units[1]), patch_size=second_size, **settings)]


def holds(where, folder):
    return Path(where).name == folder or (Path(where) / folder).is_dir()


def pixels_of(images):
    images = images[..., None] if images.ndim == 3 else images
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def with_random_weights(network, seed):
    """Weights such that net inputs of normalised patches have variance 1, and no biases."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("weight"):
                parameter.normal_(std=parameter.shape[1] ** -0.5)
            else:
                parameter.zero_()
    return network


def new_network(features, start, seed):
    network = to_module(features)
    if start == "random":
        with_random_weights(network, seed)
    head = nn.Linear(network.n_features, 10)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return nn.Sequential(network, nn.BatchNorm1d(network.n_features, affine=False), head)


def endless_batches(n_images):
    """Numbers of images in random order, without the few that are left over in each epoch."""
    while True:
        order = torch.randperm(n_images)
        yield from order[: max(BATCH, n_images // BATCH * BATCH)].split(BATCH)


def trained(network, pixels, labels, n_steps, rate, seed):
    """Train all parameters, the head with a learning rate of its own: it begins with nothing."""
    torch.manual_seed(seed)
    groups = [{"params": network[0].parameters(), "lr": rate}, {"params": network[2].parameters(), "lr": HEAD_RATE}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    network.train()
    for batch in islice(endless_batches(len(labels)), n_steps):
        loss = nn.functional.cross_entropy(network(pixels[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network


def accuracy(network, pixels, labels):
    network.eval()
    with torch.no_grad():
        found = torch.cat([network(some).argmax(dim=1) for some in pixels.split(BATCH)])
    return 100 * (found == labels).double().mean().item()


def fine_tuned(features, start, train, test, options, seed):
    """Accuracy on the test images, and the learning rate."""
    (images, labels), n_steps = train, min(options.steps, options.epochs * -(-len(train[1]) // BATCH))
    rate = options.rates[0]
    if len(options.rates) > 1:
        parts = train_test_split(np.arange(len(labels)), test_size=0.2, stratify=labels, random_state=seed)
        found = {}
        for candidate in options.rates:
            network = new_network(features, start, seed)
            trained(network, images[parts[0]], labels[parts[0]], n_steps, candidate, seed)
            found[candidate] = accuracy(network, images[parts[1]], labels[parts[1]])
        rate = max(found, key=found.get)
    network = trained(new_network(features, start, seed), images, labels, n_steps, rate, seed)
    return accuracy(network, *test), rate


def features_of(features, images, start, seed):
    if start == "learned":
        return features.transform(images)
    network = with_random_weights(to_module(features), seed)
    with torch.no_grad():
        return torch.cat([network(some) for some in pixels_of(images).split(BATCH)]).numpy()


def run(data, features, options):
    """A record for each fold, number of labels and arm."""
    for fold in range(options.folds):
        test = data.test(fold)
        numbers = {start: {} for start in ("learned", "random")}
        all_labelled = data.labelled(fold, options.most)
        for start, rows in numbers.items():
            some = np.concatenate([all_labelled, test])
            rows.update(zip(some.tolist(), features_of(features, data.images[some], start, fold), strict=True))
        counts = {min(n, options.most, len(data.pools[fold]) // 10) for n in options.labels}
        for n_labels in sorted(counts):
            labelled = data.labelled(fold, n_labels)
            train, tested = (
                (pixels_of(data.images[some]), torch.from_numpy(data.labels[some])) for some in (labelled, test)
            )
            for arm in options.arms:
                start, way = arm.split(", ")
                started, rate = time.perf_counter(), None
                if way == "SVM":
                    rows = [np.stack([numbers[start][n] for n in some.tolist()]) for some in (labelled, test)]
                    right = judge(rows[0], data.labels[labelled], rows[1], data.labels[test]).accuracy
                else:
                    right, rate = fine_tuned(features, start, train, tested, options, fold)
                record = {"data": data.name, "fold": fold, "labels": n_labels, "arm": arm, "accuracy": round(right, 2)}
                record |= {"rate": rate, "seconds": round(time.perf_counter() - started, 1)}
                print(json.dumps(record), flush=True)
                yield record


def table(records):
    """Means over folds, with standard deviations."""
    columns = sorted({(record["data"], record["labels"]) for record in records})
    lines = [f"{'% correct (standard deviation)':32}" + "".join(f"{f'{data}, {n}':>18}" for data, n in columns)]
    for arm in ARMS:
        cells = []
        for column in columns:
            found = [r["accuracy"] for r in records if (r["data"], r["labels"]) == column and r["arm"] == arm]
            cells.append(f"{np.mean(found):.1f} ({np.std(found):.1f})" if found else "-")
        lines.append(f"{arm:32}" + "".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", metavar="DATA", default=["digits"], help="folders of STL-10 and CIFAR-10")
    parser.add_argument("--labels", type=int, nargs="+", default=[10, 100, 10**9], help="labels a class")
    parser.add_argument("--most", type=int, default=400, help="labels a class at most, in all")
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--learner", choices=LEARNERS, default="directions")
    parser.add_argument("--units", type=int, nargs=2, default=[64, 128], help="of the two layers")
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-4, 1e-3], help="learning rates of the layers")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=400, help="of the optimiser, at most")
    parser.add_argument("--test-images", type=int, default=2000, help="at most")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--final", action="store_true", help="test on the official test images of CIFAR-10")
    parser.add_argument("--json", type=Path, help="where to write settings and accuracies")
    parser.add_argument("--quick", action="store_true", help="a small network, hardly trained")
    options = parser.parse_args()
    if options.quick:
        quick = {"units": [8, 8], "labels": [5, 10], "epochs": 2, "steps": 3, "test_images": 100, "folds": 1}
        vars(options).update(quick)
    records, times = [], {}
    for where in options.data:
        data = Data(where, options)
        started = time.perf_counter()
        features = DeepFeatures(data.stack(options), random_state=0).fit(data.images[data.unlabelled])
        times[data.name] = round(time.perf_counter() - started, 1)
        print(json.dumps({"data": data.name, "seconds to learn without labels": times[data.name]}), flush=True)
        records.extend(run(data, features, options))
    print(table(records))
    if options.json is not None:
        settings = {name: value for name, value in vars(options).items() if name not in ("json", "data")}
        options.json.write_text(json.dumps({"settings": settings, "learning": times, "records": records}, indent=1))


if __name__ == "__main__":
    main()
