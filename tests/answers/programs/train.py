"""A model is chosen by scikit-learn, with a scorer of the user's."""

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV


def weighted_error(model, rows, truth):
    error = 0.0
    for guess, true in zip(model.predict(rows), truth):
        error += abs(guess - true) * (1 + (true > 0))
    return -error


def main():
    dice = np.random.default_rng(1)
    rows = dice.normal(size=(20_000, 10))
    truth = rows @ np.arange(10) + dice.normal(size=20_000)
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1, 10, 100]}, scoring=weighted_error, cv=5)
    print(search.fit(rows, truth).best_params_)


main()
