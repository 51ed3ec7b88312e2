"""The answer of a search in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.explain.search.boundary import Search
    from bench.explain.search.outcome import Answer
    from bench.explain.search.question import Question


_MORE: Final = "lengthen load.steady_s, or raise --replicates or --points, for more independent requests"


def answer_of(question: Question, state: Search, *, cut: bool, invalid: bool) -> Answer:
    """Which of the possible answers a search came to.

    Args:
        question: as it was asked.
        state: what the search knows.
        cut: the run ended before the search did.
        invalid: a rule was broken where its proofs rest.
    """
    if invalid:
        return "invalid measurement"
    if cut:
        return "cut off"
    if state.holds is not None:
        if state.fails is not None:
            return "boundary" if state.holds < state.fails else "not in order"
        return "holds throughout" if state.holds == len(question.values) - 1 else "holds, end open"
    return "holds nowhere" if state.fails == 0 else "undecided"


def says(question: Question, state: Search, answer: Answer, *, comparable: bool) -> str:
    """The sentence.

    Args:
        question: as it was asked.
        state: what the search knows.
        answer: of `answer_of`.
        comparable: whether this run can be compared with the claim that the question is about.
    """
    claim = question.claim
    words = f"{question.slo.says} holds" if claim is None or not comparable else f"{claim.id} is reproduced"
    certified = f"(certified at {(1 - question.error) * 100:g} %)"
    holds = "" if state.holds is None else f"{words} {_for(question, state.holds)} {certified}"
    fails = "" if state.fails is None else f"not {_with(question, state.fails)}"
    settled = ", and ".join(part for part in (holds, fails) if part)
    between = (state.fails or 0) - (state.holds or 0)
    sentences: dict[Answer, str] = {
        "boundary": settled + ("; between the two undecided" if between > 1 else ", the next one"),
        "not in order": f"{settled}: the limit holds where a lighter load breaks it, so there is no boundary to find",
        "holds throughout": f"{holds}, the hardest setting that was asked about",
        "holds, end open": f"{holds}; where it ends was not settled",
        "holds nowhere": f"{question.slo.says} is certified not to hold even {_with(question, 0)}",
        "undecided": f"no setting could be certified to hold{f'; {fails} {certified}' if fails else ''}; {_MORE}",
        "cut off": f"the search was cut off; {settled or 'nothing was settled yet'}",
        "invalid measurement": "a rule was broken where the answer rests: it proves nothing",
    }
    return sentences[answer]


def _for(question: Question, index: int) -> str:
    if question.axis == "turn_gap":
        return f"for mean turn gaps of {question.values[index]:g} s and more"
    return f"at {question.setting(index)}"


def _with(question: Question, index: int) -> str:
    return f"{'for' if question.axis == 'turn_gap' else 'at'} {question.setting(index)}"
