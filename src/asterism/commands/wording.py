"""The library's sentences in the words of the command line.

An error, a warning or a reason to stop names what the Python caller can change: ``sort=True``,
``time_step``. Whoever typed a command knows flags instead. All such sentences pass through
:func:`in_flags`, so this table is the only place that knows both names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import click

#: keywords that are flags under the same or another name
FLAGS = {
    "n_candidates": "--candidates",
    "n_init": "--n-init",
    "n_jobs": "--jobs",
    "n_observations": "--observations",
    "n_states": "--n-states",
    "n_trajectories": "--trajectories",
    "n_transitions": "--transitions",
    "family_prior": "--family-prior",
    "max_parents": "--max-parents",
    "max_sweeps": "--max-sweeps",
    "min_parents": "--min-parents",
    "random_state": "--seed",
    "refine_emissions": "--refine-emissions",
    "time_step": "--time-step",
}

#: keywords that are common words too: flags only where they open a sentence about their value
PLAIN_WORDS = (
    "duration|interval|missing|tolerance|initial|exogenous|required|forbidden|method|prior|search"
)

#: whole phrases, before single keywords are looked for; each is tried in this order
PHRASES: Sequence[tuple[str, str]] = (
    (r"pass sort=True", "use --sort"),
    (r"name their column with trajectory=", "name their column with --trajectory"),
    (r"pass ties='order'", "use --ties order"),
    (r"list the column in labels=", "name the column with --labels"),
    (r"give both in start= and end=", "give both with --start and --end"),
    (r"\(start=\)", "(--start)"),
    (r"give end=", "give it with --end"),
    (r"exact=(?=')", "--exact "),
    (r"a column, a boolean mask or 'first'", "a column or 'first'"),
    (r"is not among nodes=", "is not among --nodes"),
    (r"(with|use) verify=False", "with --unverified"),
    (r"overwrite it with force=True", "use --force"),
    (r"or start anew\.", "or start anew with --force."),
    (r"Make room and resume\.", "Make room and go on with --resume."),
    (r"leave it out, or name its other states with states=", "leave it out of --nodes"),
    (r"the nodes of states=", "the nodes in the side file"),
    (
        r"; give states=\{node: labels\} with (\d+) to (\d+) of them",
        r", and \1 to \2 are possible; choose another --emission, or leave it out of --nodes",
    ),
    (
        r"; give states=\{node: labels\}",
        "; choose another --emission, or leave it out of --nodes",
    ),
    (r"; give means=", "; give them, as in --emission NODE=gaussian:-1,1:0.2"),
    (r"; give scale=", "; give it, as in --emission NODE=gaussian:-1,1:0.2"),
    (r"; give mean= and scale=", "; give them, as in --emission NODE=threshold:0:1"),
    (
        r"Gaussian needs means and a scale unless learn=True",
        "Give means and scale: gaussian:-1,1:0.2",
    ),
    (r"Poisson needs means unless learn=True", "Give the means, as in poisson:1,10"),
    (r", or None\b", ""),
    (r" or None, got", ", got"),
    (r", or raise joint_limit", ""),
    (r", or raise the limit", ""),
    (r"; give its rates as SummaryRates\(.*", "; use a smaller --max-parents."),
    (r"; use kind='long'", "; rename it"),
    (
        r"; give an array, SummaryRates, or None for a node whose path the data always give",
        "; its network file must hold them, or null for a node whose path the data always give",
    ),
    (r"; use Observations\.from_frame\(table\)", ""),
)

#: what only ``infer`` can do is said so in other commands
EXACT_ELSEWHERE = "asterism infer --method exact"


def in_flags(text: str, command: str | None = None) -> str:
    """The same sentence with flags for keywords; ``command`` is the one that is running.

    Names in quotes stay as they are: they are the user's, whatever they look like.
    """
    command = command or _running()
    for pattern, replacement in PHRASES:
        text = re.sub(pattern, replacement, text)
    text = re.sub(r"\b(method|search)=(['\"])(\w+)\2 or \2(\w+)\2", r"--\1 \3 or \4", text)
    text = re.sub(r"\b(method|search|ties|kind)=(['\"])(\w+)\2", r"--\1 \3", text)
    if command != "infer":
        text = re.sub(r"(?<!infer )--method exact", EXACT_ELSEWHERE, text)
        text = text.replace(" or exact", f" or {EXACT_ELSEWHERE}")
    text = re.sub(rf"(?m)^(Warning: )?({PLAIN_WORDS}) (?=is |must |names |'|\")", r"\1--\2 ", text)
    names = "|".join(FLAGS)
    return re.sub(rf"(?<![\w'\"/.-])({names})(?![\w'\"])(=?)", _flag(), text)


def _flag() -> Callable[[re.Match[str]], str]:
    return lambda found: FLAGS[found[1]] + (" " if found[2] else "")


def _running() -> str | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.info_name
