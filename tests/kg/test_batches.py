"""Questions of several threads in one."""

import threading
import time

from graphwalker.kg.batches import Batches


def test_what_several_threads_ask_is_answered_together_and_fails_alone():
    asked, both_wait = [], threading.Barrier(3)

    def answer(questions):
        asked.append(sorted(questions))
        if len(asked) == 1:
            both_wait.wait(5)
            while len(batches._queue) < 2:
                time.sleep(0.001)
        if "bad" in questions:
            raise ValueError(questions)
        return [question.upper() for question in questions]

    batches, got = Batches(answer, 8, 1), {}

    def ask(question):
        if question != "first":
            both_wait.wait(5)
        try:
            got[question] = batches.get(question)
        except ValueError as error:
            got[question] = error.args[0]

    threads = [threading.Thread(target=ask, args=(question,)) for question in ("first", "bad", "good")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert got == {"first": "FIRST", "good": "GOOD", "bad": ["bad"]}
    assert asked[:2] == [["first"], ["bad", "good"]] and sorted(asked[2:]) == [["bad"], ["good"]]
