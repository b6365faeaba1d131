"""Fits that end whole or not at all."""

from contextlib import contextmanager
from functools import wraps

import numpy as np

from aucsolvers.process import one_thread_in_shared_pools


def transactional(method):
    """Decorate a method that fits: where it ends in an error or an interrupt, the attributes are what they were before.

    A model that has the new data's classes or number of features and the old one's weights would answer with nonsense.
    An interrupt that a compiled function hands on as SystemError, which model selection would take for a failed fit, is
    what it was again.

    BLAS works on one thread meanwhile. NumPy and SciPy have one each, whose threads go on looking for work a while: of
    short products and systems that take turns on two cores, either has to wait for the other's (20 times as long).
    """

    @wraps(method)
    def fit(self, *args, **kwargs):
        before = vars(self).copy()
        try:
            with one_thread_in_shared_pools():
                return method(self, *args, **kwargs)
        except BaseException as error:
            vars(self).clear()
            vars(self).update(before)
            hand_on_interrupt(error)
            raise

    return fit


@contextmanager
def all_or_nothing(state):
    """Put a state to go on from back to what it was if the block is left by an error or an interrupt.

    Kernels change its arrays in place, but for the rows kept, which others take the place of.
    """
    before = {
        name: value.copy() if isinstance(value, np.ndarray) and name != "rows" else value
        for name, value in state.items()
    }
    drawn = state["generator"].bit_generator.state
    try:
        yield
    except BaseException:
        state.update(before)
        state["generator"].bit_generator.state = drawn
        raise


def hand_on_interrupt(error):
    """Raise again the interrupt that a compiled function has made a SystemError of, returning while it arrived.

    It is no Exception: a KeyboardInterrupt, or what another handler of signals raises.
    """
    interrupt = error.__cause__ if isinstance(error, SystemError) else None
    while isinstance(interrupt, Exception):
        interrupt = interrupt.__cause__
    if interrupt is not None:
        # another one, for the error comes of this; not by its constructor, whose arguments are its own affair
        again = type(interrupt).__new__(type(interrupt), *interrupt.args)
        vars(again).update(vars(interrupt))
        if isinstance(interrupt, SystemExit):
            again.code = interrupt.code  # the one attribute that lies elsewhere: without it a process would end well
        raise again from error
