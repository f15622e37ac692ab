import sys
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from epls import EPLS, DeepFeatures, ImageFeatures, Layer, NaturalEncoder, load_model, save_model
from epls.algorithm import half
from epls.algorithm.half import HalfWeights, half_product, rounded, uses_half, why_not

DIGITS = load_digits().images[:300]


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    monkeypatch.setattr(half, "_told", set())
    why_not.cache_clear()
    yield
    why_not.cache_clear()


@pytest.fixture
def simulated(monkeypatch):
    """The numbers of bfloat16 on any processor."""
    monkeypatch.setattr(half, "_simulated", True)


@pytest.fixture
def in_torch(monkeypatch):
    """Torch's bfloat16 on any processor, however slow."""
    pytest.importorskip("torch")
    monkeypatch.setattr(half, "why_not", lambda device: "")


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def test_rounding_is_that_of_torch():
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=10_000).astype(np.float32) ** 5
    values[:4] = 0.0, -0.0, 1 + 2**-8, 1 + 3 * 2**-8  # the last two lie in the middle
    assert (rounded(values) == torch.from_numpy(values).bfloat16().float().numpy()).all()


def test_simulated_products_are_those_of_torch(in_torch, monkeypatch):
    random = np.random.default_rng(0)
    inputs, weights = (random.normal(size=(n, 30)).astype(np.float32) for n in (40, 50))
    weights.flags.writeable = False  # as those of a model that was loaded
    found = {}
    for simulated in (True, False):
        monkeypatch.setattr(half, "_simulated", simulated)
        of_weights = HalfWeights(weights).products(inputs, np.empty((40, 50), np.float32))
        wide = np.empty((40, 51), np.float32)
        found[simulated] = of_weights, half_product(inputs, weights.T, wide[:, :-1])
    exact = inputs.astype(np.float64) @ weights.T
    for by_torch, by_numpy in zip(found[False], found[True], strict=True):
        assert relative(by_torch, exact) < 2**-8
        assert np.mean(by_torch == by_numpy) > 0.95  # sums may be in another order
        assert relative(by_torch, by_numpy) < 2**-9


def test_what_cannot_be_had_is_told_once(monkeypatch):
    monkeypatch.setattr(half, "why_not", lambda device: f"no {device}")
    with pytest.warns(UserWarning, match="falls back to float32: no cpu"):
        assert not uses_half("bfloat16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not uses_half("bfloat16")
        assert not uses_half("auto")
        assert not uses_half("float32")


@pytest.mark.parametrize(("share", "fast"), [(0.4, True), (0.95, False), (60.0, False)])
def test_an_emulation_is_not_taken(share, fast, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    monkeypatch.setattr(half, "_time_against_float32", lambda device: share)
    assert (why_not("cpu") == "") is fast
    assert uses_half("auto") is fast


def test_a_processor_without_it_is_not_timed(monkeypatch):
    torch = pytest.importorskip("torch")
    for name in ("avx512_bf16", "amx_tile"):
        monkeypatch.setattr(torch.cpu, f"_is_{name}_supported", lambda: False, raising=False)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(half, "_time_against_float32", None)
    assert "AVX512_BF16" in why_not("cpu")


def test_the_time_is_a_share():
    pytest.importorskip("torch")
    assert 0.01 < half._time_against_float32("cpu") < 10_000


def test_without_torch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.warns(UserWarning, match=r"pip install \"epls\[torch\]\""):
        assert not uses_half("bfloat16")


@pytest.mark.parametrize(
    "encoder", ["natural", "soft_threshold", NaturalEncoder(split_sign=True)], ids=["natural", "threshold", "split"]
)
def test_features_of_images_are_within_a_hundredth(encoder, simulated):
    features = ImageFeatures(EPLS(20, max_iter=3), patch_size=5, encoder=encoder, n_patches=2000, random_state=0)
    exact = features.fit(DIGITS).transform(DIGITS)
    found = features.set_params(precision="bfloat16").transform(DIGITS)
    assert 0 < relative(found, exact) < 0.01
    assert (features.set_params(precision="auto").transform(DIGITS) == found).all()


@pytest.mark.parametrize("device", [None, "cpu"])
def test_features_by_torch(device, in_torch):
    features = ImageFeatures(EPLS(20, max_iter=3), patch_size=5, n_patches=2000, random_state=0, device=device)
    exact = features.fit(DIGITS[:40]).transform(DIGITS[:40])
    assert 0 < relative(features.set_params(precision="bfloat16").transform(DIGITS[:40]), exact) < 0.01


def test_codes_that_are_no_layer_stay_float32(simulated):
    features = ImageFeatures(EPLS(20, max_iter=3), patch_size=5, encoder="triangle", n_patches=2000, random_state=0)
    exact = features.fit(DIGITS).transform(DIGITS)
    assert (features.set_params(precision="auto").transform(DIGITS) == exact).all()
    with pytest.warns(UserWarning, match="TriangleEncoder are not the outputs of one layer"):
        assert (features.set_params(precision="bfloat16").transform(DIGITS) == exact).all()


@pytest.mark.parametrize("device", [None, "cpu"])
def test_deep_features_are_within_a_hundredth(device, in_torch):
    layers = [Layer(EPLS(20, max_iter=3), patch_size=3, n_patches=2000), Layer(EPLS(10, max_iter=3), patch_size=2)]
    features = DeepFeatures(layers, random_state=0, device=device).fit(DIGITS)
    exact = features.transform(DIGITS[:30])
    assert 0 < relative(features.set_params(precision="bfloat16").transform(DIGITS[:30]), exact) < 0.01
    features.set_params(precision="float32")
    assert (features.transform(DIGITS[:30]) == exact).all()


def test_codes_of_samples(simulated, tmp_path):
    X = load_digits().data.astype(np.float32)
    model = EPLS(30, max_iter=10, random_state=0, precision="bfloat16").fit(X)
    found = model.transform(X)
    assert (model.set_params(precision="auto").transform(X) == found).all()
    wide = model.transform(X.astype(np.float64))
    save_model(model, tmp_path / "model.epls")
    exact = load_model(tmp_path / "model.epls")
    assert exact.precision == "float32"
    assert 0 < relative(found, exact.transform(X)) < 0.01
    assert (wide == exact.transform(X.astype(np.float64))).all()  # float64 stays float64


@pytest.mark.parametrize("device", [None, "cpu"])
def test_training_is_as_good(device, in_torch):
    X = load_digits().data.astype(np.float32)[:600]
    exact = EPLS(20, max_iter=20, random_state=0, device=device).fit(X)
    model = EPLS(20, max_iter=20, random_state=0, device=device, precision="bfloat16").fit(X)
    assert (model.components_ != exact.components_).any()
    assert model.components_.dtype == np.float32
    assert model.loss_curve_[-1] == pytest.approx(exact.loss_curve_[-1], rel=0.05)
    assert np.ptp(np.bincount(model.winners(X), minlength=20)) <= 1
    auto = EPLS(20, max_iter=20, random_state=0, device=device, precision="auto").fit(X)
    assert (auto.components_ == exact.components_).all()  # trains in float32


def test_training_has_the_same_bits_each_time(simulated):
    X = load_digits().data.astype(np.float32)[:600]
    models = [EPLS(20, max_iter=5, random_state=0, precision="bfloat16").fit(X) for _ in range(2)]
    assert (models[0].components_ == models[1].components_).all()
