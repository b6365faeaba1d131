"""What LLVM made of the kernels, as numba prints it with NUMBA_DUMP_OPTIMIZED=1."""

import re

NAME = r'(?:"[^"]+"|[\w.$-]+)'
LABEL = re.compile(rf"({NAME}):")
FUNCTION = re.compile(rf"define .*?@({NAME})\(")
GUARD, BODY = "vector.memcheck", "vector.body"  # the test whether arrays overlap, the loop over lanes
BETWEEN = re.compile(r"vector\.|vec\.epilog|iter\.check|vector\.main\.loop")
LANES_SUMMED = re.compile(r"= phi .*<\d+ x (?:double|float)>")


def guarded_loops(printed):
    """Yield (function, whether it sums floats) for each vectorised loop that runs only where arrays do not overlap.

    The same loop is done one by one where they do overlap. If it sums, the order of the sum, so its last bits, are
    decided by where the arrays happen to lie.
    """
    for function, blocks in _functions(printed):
        for guard in (label for label in blocks if GUARD in label):
            for body in _bodies_after(guard, blocks):
                yield function, any(LANES_SUMMED.search(line) for line in blocks[body])


def _functions(printed):
    function = None
    for line in printed.splitlines():
        if started := FUNCTION.match(line):
            function, blocks, lines = started[1], {}, []
        elif function and line == "}":
            yield function, blocks
            function = None
        elif function and (label := LABEL.match(line)):
            lines = blocks.setdefault(label[1].strip('"'), [])
        elif function:
            lines.append(line)


def _bodies_after(guard, blocks):
    seen, todo = {guard}, [guard]
    while todo:
        for label in re.findall(rf"label %({NAME})", "\n".join(blocks[todo.pop()])):
            label = label.strip('"')
            if label in seen or label not in blocks:
                continue
            seen.add(label)
            if BODY in label:
                yield label
            elif BETWEEN.match(label):
                todo.append(label)
