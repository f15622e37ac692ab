"""
A step of a pipeline
====================

EPLS is a scikit-learn transformer like any other. You can put it before a classifier in a ``Pipeline``, and
``GridSearchCV`` can choose the number of units. Here it does so by cross-validation on 1,200 images of digits. Of the
other 597 images, 98.8 % are then classified correctly; the same classifier reaches 97.2 % from pixels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS
from epls.plotting import plot_filters

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=597, stratify=y, random_state=0)

# %%
# The search
# ----------
#
# Pixels have a common scale, so EPLS needs no scaler before it. Its outputs are standardised for the classifier. In
# each fold, the features are learned from the training part alone, so the test part is new to all steps.

pipeline = Pipeline(
    [
        ("features", EPLS(random_state=0)),
        ("scale", StandardScaler()),
        ("classify", LogisticRegression(max_iter=1000)),
    ]
)
N_UNITS = [10, 50, 200]
search = GridSearchCV(pipeline, {"features__n_components": N_UNITS}, cv=3).fit(X_train, y_train)

# %%
# The same pipeline on pixels, without the features.

without = pipeline.set_params(features="passthrough")
without_scores = cross_val_score(without, X_train, y_train, cv=3)

print(f"chosen: {search.best_params_['features__n_components']} units")
print(f"new images classified correctly: {100 * search.score(X_test, y_test):.1f} % with EPLS")
print(f"                       {100 * without.fit(X_train, y_train).score(X_test, y_test):.1f} % from pixels")

# %%
# The result
# ----------
#
# ``search.best_estimator_`` is the pipeline with the best number of units, fitted to all training images. The pictures
# show what a unit stands for: the mean of the images, weighted by the output of the unit, minus the mean of all images.
# Gray means no difference.

means = 100 * search.cv_results_["mean_test_score"]
deviations = 100 * search.cv_results_["std_test_score"]
best = search.best_estimator_.named_steps["features"]
codes = best.transform(X_train)
exciting = codes.T @ X_train / codes.sum(axis=0)[:, np.newaxis] - X_train.mean(axis=0)

figure, (curve, units) = plt.subplots(1, 2, figsize=(10.5, 4.6), width_ratios=[1.15, 1], layout="constrained")
curve.errorbar(N_UNITS, means, deviations, marker="D", color="tab:red", capsize=3, label="EPLS")
curve.axhline(100 * without_scores.mean(), color="0.35", linestyle="--", label="pixels")
curve.set(xscale="log", xlabel="units", ylabel="% correct in cross-validation\n(bar: standard deviation over folds)")
curve.set_xticks(N_UNITS, N_UNITS)
curve.minorticks_off()
curve.grid(alpha=0.3)
curve.legend(loc="lower right")
plot_filters(exciting, (8, 8), n_filters=100, ax=units)
units.set_title(f"what excites 100 of the {len(best.components_)} units chosen")
plt.show()

# %%
# The largest number of units was best here; more than 200 were not tried.
