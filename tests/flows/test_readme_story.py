"""The README's story, run as it is printed: its commands in one shell, their output against what the README shows."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from installed import AUCFLOW
from ready_made import bare_environment

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
STORY = README[README.index("## From nothing to a champion") : README.index("## Commands")]
MARK = "-- command --"
PATIENCE_S = 600


def story():
    """Return the commands of the story, each with what the README says that it prints."""
    told = []
    for block in re.findall(r"```console\n(.*?)```", STORY, flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                told.append(([line[2:]], []))
            elif line.startswith("> ") and not told[-1][1]:
                told[-1][0].append(line[2:])
            else:
                told[-1][1].append(line)
    return [("\n".join(command), "\n".join(output)) for command, output in told]


def outline(text):
    """Return a text without what differs from run to run: numbers, digests, folders and the lines on the machine."""
    text = re.sub(r"\bwith\s+changes\b", "", text)
    text = re.sub(r"(?<!\w)/[\w./-]+/", "/", text)
    text = re.sub(r"^environment .*?^(?=ledger )", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\b(m-)?(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", "#", text)
    text = re.sub(r"-?\d[\d.,:e-]*", "#", text)
    return " ".join(text.split())


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What each command of the story prints, in its own words."""
    folder = tmp_path_factory.mktemp("story")
    lines = [f"echo '{MARK}'\n{command}" for command, _ in story()]
    script = "\n".join([*lines, f"echo '{MARK}'", "kill $(jobs -p)", "wait"])
    surroundings = bare_environment(folder / "prefect")  # from nothing: Prefect has to make its tables too
    surroundings["PATH"] = f"{AUCFLOW.parent}{os.pathsep}{surroundings['PATH']}"
    with (folder / "errors").open("w") as errors:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=surroundings,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = shell.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            pytest.fail((folder / "errors").read_text()[-2000:] + (folder / "serve.log").read_text())
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
    return output.split(f"{MARK}\n")[1:-1]


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_S + 60)
def test_every_command_prints_what_the_readme_shows(printed):
    assert len(printed) == len(story())
    for (command, expected), got in zip(story(), printed, strict=True):
        assert outline(got) == outline(expected), command


@pytest.mark.slow
def test_the_scores_are_those_that_the_readme_shows(printed):
    """Not to the last bit: another machine's BLAS and another Python may round otherwise."""

    def scores(text):
        return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]

    (place,) = [place for place, (command, _) in enumerate(story()) if "/invocations" in command]
    assert len(scores(printed[place])) == 2
    assert scores(printed[place]) == pytest.approx(scores(story()[place][1]), rel=1e-3)
