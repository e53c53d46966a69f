"""ArG's training texts on the toy KG: what rules call right, what is judged beside a path, and what is dropped."""

import dataclasses
import json
import re

import pytest

from data_pipelines.arg_candidates import ArgSettings, sample_paths
from data_pipelines.arg_critic import Case, RuleCritic, flattened, gold_of
from data_pipelines.arg_paths import Hop, PathSearch
from data_pipelines.arg_texts import DROPPED_LABEL, DROPPED_PATH, NO_IDS, ArgMaker
from data_pipelines.importers.counts import Counts
from graphwalker import cli
from graphwalker.errors import UserError
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.kg.hops import Hops
from graphwalker.protocol.reflection import RELEVANCE, UNREASONABLE, UNRELEVANT, parse
from graphwalker.protocol.reflection_data import ReflectionRecord
from graphwalker.tools.retriever import BM25Retriever
from graphwalker.types import Entity, Question

FRANCE, PARIS, LYON, SPAIN = (
    Entity(*pair) for pair in (("France", "m.fr"), ("Paris", "m.paris"), ("Lyon", "m.lyon"), ("Spain", "m.es"))
)
CONTAINS, CAPITAL = "location.location.contains", "location.country.capital"
ADJOIN, ADJOINS = "location.location.adjoin_s", "location.adjoining_relationship.adjoins"
CAPITAL_OF = Question("capital", "What is the capital of France?", (FRANCE,), (PARIS,), paths=((CAPITAL,),))


@pytest.fixture
def search(toy_store):
    return PathSearch(Hops(toy_store))


@pytest.fixture
def make(search):
    def of(question, critic=None, counts=None, **settings):
        maker = ArgMaker(search, BM25Retriever(), critic or RuleCritic(search), ArgSettings(**settings))
        return maker.records(question, Counts() if counts is None else counts)

    return of


def _gold(search, question):
    paths = [p for a in question.answers for p in search.paths(question.topic_entities[0].id, a.id).paths]
    return gold_of(question, question.topic_entities[0], paths, search)


def test_what_leads_to_the_answer_alone_is_right(search):
    gold = _gold(search, dataclasses.replace(CAPITAL_OF, paths=()))
    assert gold.right == {((CAPITAL, False),)}  # one answer of one
    assert gold.partly == {((CONTAINS, False),)}  # one of two, with Lyon: F1 of two thirds


def test_a_gold_path_settles_what_is_right_whatever_else_fits_better(search):
    contained = dataclasses.replace(CAPITAL_OF, paths=((CONTAINS,),))
    gold = _gold(search, contained)
    assert gold.right == {((CONTAINS, False),), ((CAPITAL, False),)}  # the other is right to the letter


def test_a_gold_path_across_a_mediator_is_known_again(search):
    (path, *_) = (
        p for p in search.paths("m.fr", "m.es").paths if [h.edge for h in p] == [(ADJOIN, False), (ADJOINS, False)]
    )
    assert flattened(path, search) == (f"{ADJOIN}.{ADJOINS}",)
    back = tuple(
        Hop((relation, True), node) for (relation, _), node in (((ADJOINS, 0), "m.cvt1"), ((ADJOIN, 0), "m.es"))
    )
    assert flattened(back, search) == (f"^{ADJOIN}.{ADJOINS}",)


def test_labels_of_a_path_and_of_what_stands_beside_it(make):
    first, second = make(CAPITAL_OF)
    texts = {record.text.split("</paragraph>")[0].split("<paragraph>")[1]: record for record in (first, second)}
    assert texts[CAPITAL].text.endswith(
        "[Fully Relevant][Entity Retrieval]<paragraph>Paris</paragraph>[Fully Relevant][Fully Reasonable]"
        "[No Retrieval]Paris[Utility:5]"
    )
    assert texts[CONTAINS].text.endswith(
        "[Partially Relevant][Entity Retrieval]<paragraph>Paris</paragraph>[Partially Relevant][Partially Reasonable]"
        "[No Retrieval]Paris[Utility:4]"
    )
    judged = {(b.kind, b.read): b.trained for b in texts[CAPITAL].branches}
    assert judged["relation", f"<paragraph>{CONTAINS}</paragraph>"] == "[Partially Relevant]"
    assert judged["relation", f"<paragraph>{ADJOIN}</paragraph>"] == UNRELEVANT
    assert ("entity", "<paragraph>Lyon</paragraph>") in {(b.kind, b.read) for b in texts[CONTAINS].branches}


def test_every_text_is_well_formed_and_every_branch_leaves_its_path_at_a_token(make):
    neighbour = Question("n", "What borders France?", (FRANCE,), (SPAIN,))
    for question in (CAPITAL_OF, neighbour):
        for record in make(question, k_paths=9):
            assert parse(record.text).problems == ()
            assert parse(record.text).path.utility is not None
            for branch in record.branches:
                assert record.text[: branch.at].endswith(("Retrieval]", "</paragraph>"))
                assert parse(record.text[: branch.at] + branch.read + branch.trained).problems == ()
                assert branch.trained.startswith("[")


def test_a_mediator_is_at_most_partial(make):
    for record in make(Question("n", "What borders France?", (FRANCE,), (SPAIN,)), k_paths=9):
        steps = parse(record.text).path.steps
        mediator = next(step for step in steps if step.name == "m.cvt1")
        assert (mediator.relevance, mediator.rationality) == ("[Partially Relevant]", "[Partially Reasonable]")


def test_an_unreasonable_step_is_answered_at_once_and_a_wrong_answer_is_of_little_use(make):
    branches = [branch for record in make(CAPITAL_OF) for branch in record.branches]
    stops = [b for b in branches if b.trained.startswith(UNREASONABLE)]
    stop = f"{UNREASONABLE}[No Retrieval]Paris[Utility:3]"
    assert {(b.trained, b.ended) for b in stops} == {(stop, True), (UNREASONABLE, False)}
    assert all("[Entity Retrieval]" in b.read for b in stops if b.ended)  # after a wrong relation
    wrong = [b for b in branches if b.kind == "utility"]
    assert wrong and all(b.trained in ("[Utility:1]", "[Utility:2]") and "Paris" not in b.read for b in wrong)


class _Says(RuleCritic):
    """A critic that gives set labels and the rules' for what is not set."""

    def __init__(self, search, **labels):
        super().__init__(search)
        self.labels = labels

    def relation(self, case, edge):
        return self.labels.get("relation", super().relation(case, edge))

    def entity(self, case, hop):
        return self.labels.get("entity", super().entity(case, hop))

    def rationality(self, case):
        return self.labels.get("rationality", super().rationality(case))

    def utility(self, case, answers, right):
        return self.labels.get("utility", 5)


def test_a_critic_that_calls_the_path_unreasonable_ends_it(make, search):
    (record, *_) = make(CAPITAL_OF, _Says(search, rationality=UNREASONABLE))
    assert record.text.endswith(f"{UNREASONABLE}[No Retrieval]Paris[Utility:5]") and record.ended


def test_a_critic_that_calls_a_step_unrelevant_cuts_the_path(make, search):
    for kind in ("relation", "entity"):
        (record, *_) = make(CAPITAL_OF, _Says(search, **{kind: UNRELEVANT}))
        assert record.text.endswith(UNRELEVANT) and not record.ended


@pytest.mark.parametrize("kind", ["rationality", "utility"])
def test_a_path_without_a_label_is_left_out_and_counted(make, search, kind):
    counts = Counts()
    assert make(CAPITAL_OF, _Says(search, **{kind: None}), counts) == []
    assert counts.notes[DROPPED_PATH] == 2 and sum(counts.dropped.values()) == 1


def test_a_candidate_without_a_label_is_left_out_and_counted(make, search):
    class Silent(_Says):
        def relation(self, case, edge):
            return None if edge[0] == ADJOIN else super().relation(case, edge)

    counts = Counts()
    records = make(CAPITAL_OF, Silent(search), counts)
    assert records and counts.notes[DROPPED_LABEL] == len(records)
    assert not any(
        ADJOIN in branch.read for record in records for branch in record.branches if branch.kind == "relation"
    )


def test_questions_that_give_nothing_say_why(make):
    counts = Counts()
    assert make(Question("a", "?", (Entity("France"),), (PARIS,)), counts=counts) == []
    assert make(Question("b", "?", (FRANCE,), (Entity("Nowhere", "m.none"),)), counts=counts) == []
    assert dict(counts.dropped) == {NO_IDS: 1, "no path from the topic to the answer": 1}


def test_a_literal_answer_is_found_by_its_gold_path(make):
    area = Question(
        "area", "How large is France?", (FRANCE,), (Entity("543965"),), paths=(("location.location.area",),)
    )
    (record,) = make(area)
    assert record.text.endswith("[No Retrieval]543965[Utility:5]")


def test_paths_are_drawn_from_each_sequence_of_relations_in_turn():
    def walk(relation, node, topic="m.t"):
        return topic, (Hop((relation, False), node),)

    def relations(drawn):
        return [path[0].edge[0] for _, path in drawn]

    walks = [walk("many", f"n{i}") for i in range(50)] + [walk("few", "n0")]
    drawn = sample_paths(walks, ArgSettings(k_paths=3), "q")
    assert sorted(relations(drawn)) == ["few", "many", "many"]
    assert drawn == sample_paths(list(reversed(walks)), ArgSettings(k_paths=3), "q")
    assert drawn != sample_paths(walks, ArgSettings(k_paths=3, seed=1), "q")
    stray = [*walks, *(walk(f"stray{i}", "n0") for i in range(9))]
    by_chance = {("m.t", ((f"stray{i}", False),)) for i in range(9)}
    drawn = relations(sample_paths(stray, ArgSettings(k_paths=4), "q", by_chance))
    assert sorted(relation[:5] for relation in drawn) == ["few", "many", "many", "stray"]
    assert len(sample_paths([walk("stray1", "n0")], ArgSettings(k_paths=4), "q", by_chance)) == 1
    assert relations(sample_paths(stray, ArgSettings(k_paths=1), "q", by_chance)) in (["few"], ["many"])
    shared = [walk("few", "n0", topic) for topic in ("m.a", "m.b")]
    assert sorted(sample_paths(shared, ArgSettings(k_paths=2), "q")) == shared
    with pytest.raises(UserError, match="k_paths: must be at least 1"):
        ArgSettings(k_paths=0)


def test_topics_that_share_a_relation_to_the_answer_have_a_path_each(make):
    both = Question("both", "What lies in France and in France?", (FRANCE, SPAIN), (Entity("CVT", "m.cvt1"),))
    by_topic = {record.topic: record.text for record in make(both)}
    assert by_topic.keys() == {FRANCE, SPAIN} and len(set(by_topic.values())) == 1
    twice = dataclasses.replace(CAPITAL_OF, topic_entities=(FRANCE, FRANCE), paths=())
    assert len(make(twice)) == len(make(dataclasses.replace(CAPITAL_OF, paths=())))


def test_the_rules_judge_by_where_a_step_leads(search):
    critic, gold = RuleCritic(search), _gold(search, CAPITAL_OF)
    case = Case(gold)
    assert critic.relation(case, (CAPITAL, False)) == RELEVANCE[0]
    assert critic.entity(case, Hop((CONTAINS, False), "m.lyon")) == UNRELEVANT
    assert critic.rationality(case.then(Hop((CONTAINS, False), "m.lyon"))) == UNREASONABLE
    assert critic.utility(case.then(Hop((CAPITAL, False), "m.paris")), ["Paris"], True) == 5
    assert critic.utility(case.then(Hop((CAPITAL, False), "m.lyon")), ["Lyon"], False) == 2
    assert critic.utility(case.then(Hop((ADJOIN, False), "m.cvt1")), ["m.cvt1"], False) == 1


def test_the_command_writes_records_and_counts(tmp_path, toy_kg, capsys):
    unreachable = Question("u", "?", (FRANCE,), (Entity("Nowhere", "m.none"),))
    write_jsonl(tmp_path / "q.jsonl", [CAPITAL_OF, unreachable])
    out = tmp_path / "arg.jsonl"
    assert cli.main(["data", "arg", str(tmp_path / "q.jsonl"), str(out), "--kg", str(toy_kg)]) == 0
    records = list(read_jsonl(out, ReflectionRecord))
    assert len(records) == 2 and all(record.question == CAPITAL_OF for record in records)
    counts = json.loads((tmp_path / "arg.counts.json").read_text())
    assert (counts["kept"], counts["dropped"]) == (1, {"no path from the topic to the answer": 1})
    assert "2 paths" in capsys.readouterr().out
    before = out.read_bytes()
    assert cli.main(["data", "arg", str(tmp_path / "q.jsonl"), str(out), "--kg", str(toy_kg)]) == 0
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "odd"}, "kind: expected one of relation"),
        ({"at": 10_000}, "at: 10000, but the text has"),
        ({"ended": 1}, "ended: expected true or false"),
        ({"more": 1}, "unknown field 'more' in a Branch"),
        ({"trained": ""}, "trained: nothing stands in it"),
        ({"trained": "[Fully Reasonable]"}, "read: no path with reflection tokens: [Fully Reasonable] does not fit"),
    ],
)
def test_a_broken_record_is_named_by_its_line(make, tmp_path, change, said):
    record = make(CAPITAL_OF)[0].to_json()
    record["branches"] = [{**record["branches"][0], **change}]
    write_jsonl(tmp_path / "arg.jsonl", [record])
    with pytest.raises(UserError, match=re.escape(f"arg.jsonl:1: branches: {said}") + "|" + re.escape(f":1: {said}")):
        list(read_jsonl(tmp_path / "arg.jsonl", ReflectionRecord))


@pytest.mark.parametrize(
    "text", ["", "Paris", "[Relation Retrieval]<paragraph>a.b", "<|im_end|>[No Retrieval]A[Utility:1]"]
)
def test_a_text_that_is_no_path_is_not_trained(make, tmp_path, text):
    write_jsonl(tmp_path / "arg.jsonl", [{**make(CAPITAL_OF)[0].to_json(), "text": text, "branches": []}])
    with pytest.raises(UserError, match="arg.jsonl:1: text: no path with reflection tokens"):
        list(read_jsonl(tmp_path / "arg.jsonl", ReflectionRecord))
