"""A plugin of pytest that has scikit-learn's own tests meet `RegretlessSearchCV` as their `RandomizedSearchCV`."""

import sklearn.model_selection
from sklearn.model_selection import _search

import regretless as rg

sklearn.model_selection.RandomizedSearchCV = rg.RegretlessSearchCV
_search.RandomizedSearchCV = rg.RegretlessSearchCV
