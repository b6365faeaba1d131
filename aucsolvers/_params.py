"""Parameters of estimators: what is refused, and with which words."""

import numbers

import numpy as np


def check_positive(name, value):
    """Return value as a float, or say that it must be a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < value < np.inf:
        raise ValueError(f"Expected {name} to be a finite number > 0, got {value!r}. Set {name} accordingly.")
    return float(value)


def check_tolerance(value):
    """Return tol as a float, or say that it must be a finite number of at least 0 (0: use up the budget)."""
    return 0.0 if value == 0 and not isinstance(value, bool) else check_positive("tol", value)


def check_count(name, value):
    """Return value as an int, or say that it must be an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"Expected {name} to be an integer >= 1, got {value!r}. Set {name} accordingly.")
    return int(value)


def check_choice(name, value, choices):
    """Return value, or list the values that the parameter may take."""
    if value not in choices:
        raise ValueError(f"Expected {name} to be one of {', '.join(map(repr, choices))}, got {value!r}. Choose one.")
    return value


def as_generator(random_state):
    """Return a numpy Generator: the one given, one seeded by an int or by a draw from a RandomState, or a fresh one."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(random_state)
