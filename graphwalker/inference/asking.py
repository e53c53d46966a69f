"""What searchers ask for beside turns and values (`graphwalker.search.requests`): the graph, judgements, texts.

Every method gives the samples that the searchers ask for next.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Completion, Sampling
from graphwalker.inference.judging import Judging, reflection_ids
from graphwalker.inference.question_search import QuestionSearch, Sample
from graphwalker.search.requests import Begin, Verdict, Written


@dataclass(frozen=True, slots=True)
class _Consulted:
    """What a search has asked the graph, to be told from engine step ``due`` on."""

    search: QuestionSearch
    futures: Sequence[Future]
    due: int


class Asking:
    """Answers the requests of many searches; the claims of all that wait are judged in one batch."""

    def __init__(
        self,
        tokenizer: Any,
        chat_for: Callable[[Any], ChatTokens],
        sampling: Sampling,
        judging: Judging | None,
        threads: ThreadPoolExecutor,
        network_delay: int,
    ):
        self.tokenizer, self.chat_for, self.sampling = tokenizer, chat_for, sampling
        self.judging, self.threads, self.network_delay = judging, threads, network_delay
        self.consulted: deque[_Consulted] = deque()

    def answer(self, running: Sequence[QuestionSearch], now: int) -> list[Sample]:
        """Answer what searches ask of the tokenizer and the graph; one over a network answers later (`due`)."""
        samples: list[Sample] = []
        for search in running:
            while search.asking is not None:
                asking, search.asking = search.asking, None
                if isinstance(asking, Begin):
                    chat = self.chat_for(search.root.episode)
                    samples += search.told([chat.prompt([{"role": "user", "content": m}]) for m in asking.messages])
                elif search.root.episode.waits:
                    futures = [self.threads.submit(call) for call in asking.calls]
                    self.consulted.append(_Consulted(search, futures, now + self.network_delay))
                else:
                    samples += self._told(search, asking.calls)
        return samples

    def due(self, now: int, *, idle: bool) -> list[Sample]:
        """Tell searches what a graph over a network has answered: what is due, or all where nothing else goes on."""
        samples: list[Sample] = []
        while self.consulted and (self.consulted[0].due <= now or idle):
            consulted = self.consulted.popleft()
            if not consulted.search.over:
                samples += self._told(consulted.search, [future.result for future in consulted.futures])
        return samples

    def judge(self, searches: Sequence[QuestionSearch]) -> list[Sample]:
        """Judge the claims of all searches in one batch; where that fails, of each by itself.

        Raises ``UserError`` where nothing can be judged, as by a server that is gone.
        """
        try:
            found = self._verdicts(searches)
        except UserError:
            raise
        except Exception as error:
            if len(searches) == 1:
                searches[0].fail(error)
                return []
            return [sample for search in searches for sample in self.judge([search])]
        pairs = zip(searches, found, strict=True)
        return [sample for search, verdicts in pairs for sample in search.judged(verdicts)]

    def opening(self, sample: Sample) -> tuple[list[int], Sampling]:
        """The tokens of a row that writes after a claim, and how it is decoded."""
        ids = [*sample.parent.tokens(), *self._claim_ids(sample)]
        return ids, replace(self.sampling, temperature=0.0, stop=self._ids(sample.stop))

    def written(self, sample: Sample, done: Completion | None) -> Written:
        """What a row wrote; nothing where there was no room for one."""
        if done is None:
            return Written("", [], [], self._claim_ids(sample))
        ids, logprobs = (done.ids[:-1], done.logprobs[:-1]) if done.stopped else (done.ids, done.logprobs)
        text = self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return Written(text, ids, logprobs, self._claim_ids(sample))

    def sampling_for(self, episode: Any) -> Sampling:
        """How turns of an episode are decoded: some protocols have turns that end at tokens of theirs."""
        stops = getattr(episode, "stops", ())
        return replace(self.sampling, stop=self._ids(stops)) if stops else self.sampling

    def _ids(self, tokens: Sequence[str]) -> tuple[int, ...]:
        return tuple(self._reflection[token] for token in tokens)

    @cached_property
    def _reflection(self) -> dict[str, int]:
        return reflection_ids(self.tokenizer)

    def _claim_ids(self, sample: Sample) -> list[int]:
        assert sample.claim is not None
        return self.chat_for(sample.search.root.episode).text(sample.claim.text)

    def _told(self, search: QuestionSearch, calls: Sequence[Callable[[], Any]]) -> list[Sample]:
        began = time.perf_counter()
        try:
            answers = [call() for call in calls]
        except KGUnavailable as problem:
            search.out_of_order(problem)
            return []
        except Exception as error:
            search.fail(error)
            return []
        search.cost.seconds += time.perf_counter() - began
        return search.told(answers)

    def _verdicts(self, searches: Sequence[QuestionSearch]) -> list[list[Verdict]]:
        if self.judging is None:
            raise UserError("this searcher asks for reflection tokens, and nothing judges them: give a labeller")
        began = time.perf_counter()
        found = self.judging([search.judging for search in searches if search.judging])
        share = (time.perf_counter() - began) / max(1, sum(map(len, found)))
        for search, verdicts in zip(searches, found, strict=True):
            search.cost.seconds += share * len(verdicts)
            search.cost.value_seconds += share * len(verdicts)
        return found
