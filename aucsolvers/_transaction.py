"""Fits that end whole or not at all."""

from functools import wraps


def transactional(method):
    """Decorate a method that fits: where it ends in an error or an interrupt, the attributes are what they were before.

    A model that has the new data's classes or number of features and the old one's weights would answer with nonsense.
    An interrupt that a compiled function hands on as SystemError, which model selection would take for a failed fit,
    is a KeyboardInterrupt again.
    """

    @wraps(method)
    def fit(self, *args, **kwargs):
        before = vars(self).copy()
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            vars(self).clear()
            vars(self).update(before)
            if isinstance(error, SystemError) and is_of_interrupt(error):
                raise KeyboardInterrupt from error
            raise

    return fit


def is_of_interrupt(error):
    """Tell whether an error is an interrupt or came of one: a kernel that returns while one arrives makes another."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
