"""This project against what people use today, side by side in one run. Ratios, not seconds, are what carries over.

``python -m benchmarks`` runs the parts (``benchmarks/parts``, one module each) and writes ``docs/benchmarks.md`` and
the summary in the README. ``part.py`` says what a part is, ``contest.py`` how two sides are timed, ``data.py`` on what,
``machine.py`` where, ``tables.py`` how the numbers are shown; ``peers/`` holds the ways to peers that are not Python
estimators.
"""
