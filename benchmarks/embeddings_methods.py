"""The methods of embeddings.py: from vectors, a number of units and a seed to features and the units.

Rivals get their usual settings: vectors centred and brought to one scale where the method is not indifferent to it.
scikit-learn's linear methods have at most as many units as the vectors have dimensions.
"""

from functools import partial

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF, PCA, FastICA, MiniBatchDictionaryLearning
from sklearn.preprocessing import normalize, scale

from epls import EPLS, OMP, BalancedKMeans, Prototypes, SoftThresholdEncoder, TriangleEncoder

AUTOENCODERS = ("TopK auto-encoder", "BatchTopK auto-encoder")
SPARSITIES = (4, 16, 32)  # active units for each sample, of auto-encoders
# Of auto-encoders. The rate was chosen on words and digits. With 0.001, TopK with k = 32 has 47.1 instead of 48.5 on
# words (ridge, ten labels) and 87.9 instead of 86.6 on STL-10: behind the vectors themselves with both.
N_STEPS, BATCH, RATE, AUXILIARY = 2000, 128, 3e-3, 1 / 32  # the last is the weight of the auxiliary loss


def one_scale(X):
    """Centred, and of mean square 1."""
    centred = X - X.mean(axis=0)
    return centred / centred.std()


def unchanged(prepare, X, n_units, seed):
    return prepare(X), None


def linear(make, X, n_units, seed):
    model = make(min(n_units, np.linalg.matrix_rank(X - X.mean(axis=0))), random_state=seed)
    features = model.fit_transform(X)
    return features, model.mixing_.T if hasattr(model, "mixing_") else model.components_


def nmf(X, n_units, seed):
    if X.min() < 0:
        raise ValueError("some values are negative")
    return linear(partial(NMF, init="nndsvda", tol=0, max_iter=100), X, n_units, seed)


def dictionary(X, n_units, seed):
    settings = {"alpha": 1.0, "transform_alpha": 1.0, "fit_algorithm": "cd", "transform_algorithm": "lasso_cd"}
    model = MiniBatchDictionaryLearning(n_units, **settings, max_iter=5, random_state=seed)
    return model.fit_transform(one_scale(X)), model.components_


def omp(X, n_units, seed):
    samples = one_scale(X)
    units = OMP(n_units, random_state=seed).fit(samples).components_
    return SoftThresholdEncoder(units, alpha=1.0, split_sign=False).fit_transform(samples), units


def epls(X, n_units, seed):
    model = EPLS(n_units, random_state=seed).fit(X)
    return model.transform(X), model.components_


def random_samples(X, n_units, seed):
    return triangle(X, X[np.random.RandomState(seed).permutation(len(X))[:n_units]])


def kmeans(X, n_units, seed):
    return triangle(X, KMeans(n_units, n_init=1, random_state=seed).fit(X).cluster_centers_)


def balanced(X, n_units, seed):
    return triangle(X, BalancedKMeans(n_units, random_state=seed).fit(X).cluster_centers_)


def prototypes(X, n_units, seed, soft=False, **settings):
    units = Prototypes(n_units, random_state=seed, **settings).fit(X).components_
    return (soft_threshold if soft else triangle)(X, units)


def triangle(X, units):
    return TriangleEncoder(units).fit_transform(X), units - X.mean(axis=0)


def soft_threshold(X, units):
    centred = units - X.mean(axis=0)
    return SoftThresholdEncoder(centred, alpha=0.25, split_sign=False).fit_transform(one_scale(X)), centred


def autoencoder(X, n_units, seed, k, over_batch=False):
    """TopK of Gao and others (2024), or BatchTopK of Bussmann and others (2024), with the auxiliary loss of both.

    Of each sample, the k largest outputs are kept; with ``over_batch``, of a batch the k times its size largest, and
    afterwards those above the mean of the smallest kept. Units that were silent for an epoch reconstruct the error.
    """
    import torch

    torch.manual_seed(seed)
    samples = torch.from_numpy(np.ascontiguousarray(one_scale(X), np.float32))
    (n_samples, n_columns), k = samples.shape, min(k, n_units)
    decoder = torch.nn.functional.normalize(torch.randn(n_units, n_columns), dim=1).requires_grad_()
    encoder = decoder.detach().clone().requires_grad_()
    biases, start = torch.zeros(n_units, requires_grad=True), torch.zeros(n_columns, requires_grad=True)
    optimizer = torch.optim.Adam([encoder, decoder, biases, start], lr=RATE)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, 5 * (1 - step / N_STEPS)))
    silent, threshold = torch.zeros(n_units), torch.zeros(())

    def kept(outputs, k):
        if not over_batch:
            largest, where = outputs.topk(k, dim=1)
            return torch.zeros_like(outputs).scatter(1, where, largest)
        smallest = outputs.flatten().topk(k * len(outputs)).values[-1]
        return outputs * (outputs >= smallest)

    for _ in range(N_STEPS):
        batch = samples[torch.randint(n_samples, (min(BATCH, n_samples),))]
        outputs = torch.relu((batch - start) @ encoder.T + biases)
        code = kept(outputs, k)
        error = batch - start - code @ decoder
        loss = error.square().sum() / batch.square().sum()
        silent = torch.where((code > 0).any(dim=0), 0, silent + len(batch))
        dead = silent > n_samples
        if dead.any():
            some = (outputs * dead).topk(min(n_columns // 2, int(dead.sum())), dim=1)
            mended = torch.zeros_like(outputs).scatter(1, some.indices, some.values) @ decoder
            loss = loss + AUXILIARY * (error.detach() - mended).square().sum() / error.detach().square().sum()
        optimizer.zero_grad()
        loss.backward()
        decoder.grad -= (decoder.grad * decoder).sum(dim=1, keepdim=True).detach() * decoder.detach()
        optimizer.step()
        decay.step()
        with torch.no_grad():
            decoder /= decoder.norm(dim=1, keepdim=True)
            threshold = 0.99 * threshold + 0.01 * code[code > 0].min() if (code > 0).any() else threshold
    with torch.no_grad():
        outputs = torch.relu((samples - start) @ encoder.T + biases)
        code = outputs * (outputs > threshold) if over_batch else kept(outputs, k)
    return code.numpy(), decoder.detach().numpy()


METHODS = {
    "raw, standardised": partial(unchanged, lambda X: scale(X.astype(np.float64))),
    "raw, unit length": partial(unchanged, normalize),
    "PCA": partial(linear, PCA),
    "PCA, 100": lambda X, n_units, seed: linear(PCA, X, 100, seed),
    "FastICA, 100": lambda X, n_units, seed: linear(partial(FastICA, whiten="unit-variance"), X, 100, seed),
    "NMF": nmf,
    "random samples, triangle": random_samples,
    "k-means, triangle": kmeans,
    "OMP-1, soft threshold": omp,
    "BalancedKMeans, triangle": balanced,
    "EPLS, natural": epls,
    "Prototypes": prototypes,
    "Prototypes of unit length": lambda X, n_units, seed: prototypes(normalize(X), n_units, seed),
    "Prototypes, soft threshold": partial(prototypes, soft=True),
    "MiniBatchDictionaryLearning": dictionary,
    **{f"TopK auto-encoder, k = {k}": partial(autoencoder, k=k) for k in SPARSITIES},
    **{f"BatchTopK auto-encoder, k = {k}": partial(autoencoder, k=k, over_batch=True) for k in SPARSITIES},
}
# What the defaults of Prototypes are chosen by: the number of epochs, and the number of units beside its rivals.
LENGTHS = {f"Prototypes, {n} epochs": partial(prototypes, max_iter=n) for n in (2, 5, 20, 100)}
N_UNITS = (25, 50, 100, 200, 400, 800, 1600)
RULED = ("Prototypes", "Prototypes, soft threshold", "BalancedKMeans, triangle", "k-means, triangle")
