"""Parameters of estimators: what is refused, and with which words."""

import numbers

import numpy as np

# Parameters that had another name when models of theirs were stored.
FORMER = {f"max_{what}_bytes": "max_bytes" for what in ("alpha", "buffer", "covariance", "feature")}
SOURCES = np.random.RandomState, np.random.Generator, np.random.BitGenerator, np.random.SeedSequence


class FormerNames:
    """A mixin for estimators: what an earlier version has stored comes back under the names of today."""

    def __setstate__(self, state):
        former = FORMER.keys() - self._get_param_names()  # a subclass may have such a name of its own
        super().__setstate__({FORMER[name] if name in former else name: value for name, value in state.items()})


def check_positive(name, value):
    """Return value as a float, or say that it must be a finite number above 0, and one that can be divided by."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < value < np.inf:
        raise ValueError(f"Expected {name} to be a finite number > 0, got {value!r}. Set {name} accordingly.")
    if value < np.finfo(np.float64).tiny:
        raise ValueError(
            f"Expected {name} of 2.3e-308 or more, got {value!r}: 1 divided by it is infinite. Raise {name}."
        )
    return float(value)


def check_non_negative(name, value):
    """Return value as a float, or say that it must be a finite number of at least 0 (a tol of 0: use up the budget)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= value < np.inf:
        raise ValueError(f"Expected {name} to be a finite number >= 0, got {value!r}. Set {name} accordingly.")
    return float(value)


def check_count(name, value, least=1):
    """Return value as an int, or say that it must be an integer of at least so much."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"Expected {name} to be an integer >= {least}, got {value!r}. Set {name} accordingly.")
    return int(value)


def check_choice(name, value, choices):
    """Return value, or list the values that the parameter may take."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"Expected {name} to be one of {', '.join(map(repr, choices))}, got {value!r}. Choose one.")
    return value


def check_gamma(value, named):
    """Return value: one of the names, or a finite number above 0."""
    if isinstance(value, str) and value in named:
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < value < np.inf:
        listed = ", ".join(map(repr, named))
        raise ValueError(f"Expected gamma to be {listed} or a finite number > 0, got {value!r}. Set gamma accordingly.")
    return float(value)


def check_flags(estimator, *names):
    """Raise ValueError for the first of these parameters that is no bool: a text, such as "no", would count as True."""
    for name in names:
        value = getattr(estimator, name)
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"Expected {name} to be True or False, got {value!r}. Set either (in YAML true or false).")


def check_class_weight(value):
    """Return value, or say that it must be None, "balanced", or numbers of at least 0 by label."""
    if value is None or (isinstance(value, str) and value == "balanced"):
        return value
    if not isinstance(value, dict) or not value:
        raise ValueError(
            f"Expected class_weight to be None, 'balanced' or a weight for each label, got {value!r}. Set either."
        )
    for label, weight in value.items():
        check_non_negative(f"class_weight of {label!r}", weight)
    return value


def as_generator(random_state):
    """Return a numpy Generator: the one given, one seeded by an int or by a draw from a RandomState, or a fresh one."""
    integer = isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool) and random_state >= 0
    if random_state is not None and not integer and not isinstance(random_state, SOURCES):
        raise ValueError(
            f"Expected random_state to be None, an integer >= 0, a RandomState or a Generator, got {random_state!r}. "
            "Give an integer for the same draws in every fit."
        )
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(random_state)
