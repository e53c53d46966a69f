"""WebQSP's official JSON, on hand-made questions over the toy KG (France, Paris, Lyon, Spain across a mediator)."""

import json

import pytest

from data_pipelines.importers.counts import Counts
from data_pipelines.importers.importing import import_from
from data_pipelines.importers.on_kg import GOLD_IS_PART
from graphwalker.errors import FileFormatError, UserError
from graphwalker.types import Question


def answer(mid, name, kind="Entity"):
    return {"AnswerType": kind, "AnswerArgument": mid, "EntityName": name}


def parse(topic="m.fr", chain=("location.country.capital",), answers=(("m.paris", "Paris"),), **other):
    return {
        "ParseId": "P0",
        "Sparql": "SELECT ?x",
        "TopicEntityName": "France",
        "TopicEntityMid": topic,
        "InferentialChain": None if chain is None else list(chain),
        "Constraints": [],
        "Answers": [answer(*a) for a in answers],
        **other,
    }


@pytest.fixture
def file(tmp_path):
    def write(*parses, **fields):
        questions = [
            {"QuestionId": f"WebQTrn-{i}", "RawQuestion": f"question {i}?", "Parses": ps, **fields}
            for i, ps in enumerate(parses)
        ]
        path = tmp_path / "WebQSP.train.json"
        path.write_text(json.dumps({"Version": "1.0", "Questions": questions}, indent=1), "utf-8")
        return path

    return write


def read(source, **options):
    counts = Counts()
    return list(import_from("webqsp", source, counts, **options)), counts


def test_a_question(file):
    (question,), counts = read(file([parse()]))
    assert question == Question.from_json(question.to_json())
    assert (question.id, question.text, question.dataset, question.split) == (
        "WebQTrn-0",
        "question 0?",
        "webqsp",
        "train",
    )
    assert question.paths == (("location.country.capital",),) and question.structure == "1-hop"
    assert question.topic_entities[0].id == "m.fr" and question.answers[0].name == "Paris"
    assert question.sparql == "SELECT ?x" and counts.kept == 1


def test_a_chain_through_a_mediator_is_one_hop(file, toy_store):
    chain = ("location.location.adjoin_s", "location.adjoining_relationship.adjoins")
    path = file([parse(chain=chain, answers=[("m.es", "Spain")])])
    for store in (None, toy_store):
        (question,), _ = read(path, store=store)
        assert question.paths == ((".".join(chain),),) and question.hops == 1


def test_a_chain_through_a_named_entity_is_two_hops(file, toy_store):
    chain = ("location.location.contains", "location.location.containedby")
    (question,), _ = read(file([parse(chain=chain, answers=[("m.es", "Spain")])]), store=toy_store)
    assert question.paths == (chain,) and question.hops == 2


def test_the_first_usable_parse_is_taken_or_all(file):
    path = file(
        [parse(answers=()), parse(topic=None), parse(), parse(answers=[("m.lyon", "Lyon"), ("m.paris", "Paris")])]
    )
    (question,), counts = read(path)
    assert [a.name for a in question.answers] == ["Paris"]
    assert counts.notes["its first parse is not usable, a later one is taken"] == 1
    assert counts.notes["it has several parses"] == 1
    (question,), _ = read(path, parses="union")
    assert [a.name for a in question.answers] == ["Paris", "Lyon"] and len(question.topic_entities) == 1


def test_a_null_topic_is_kept_and_noted(file):
    (null, _), counts = read(file([parse(topic=None)], [parse()]))
    assert (null.id, null.topic_entities, null.paths, null.structure) == ("WebQTrn-0", (), (), "no path")
    assert [a.name for a in null.answers] == ["Paris"] and counts.notes["it has no topic entity"] == 1


def test_what_has_no_answer_is_dropped_and_counted(file):
    found, counts = read(file([parse(answers=())], [], [parse()]))
    assert [q.id for q in found] == ["WebQTrn-2"] and counts.dropped == {"no parse has answers": 2}


def test_several_parses_are_all_kept(file, toy_store):
    path = file([parse(topic=None), parse(), parse(answers=[("m.lyon", "Lyon-FR")])], [parse()])
    for store in (None, toy_store):
        (several, one), _ = read(path, store=store)
        assert [len(p.topic_entities) for p in several.parses] == [0, 1, 1] and one.parses == ()
        assert several == Question.from_json(several.to_json())
    assert several.parses[2].answers[0].name == "Lyon"  # the KG's name


def test_constraints_and_a_missing_path_are_noted(file):
    found, counts = read(file([parse(Constraints=[{"Operator": "Equal"}])], [parse(chain=None)]))
    assert found[0].structure == "1-hop+constraints"
    assert (found[1].structure, found[1].paths, found[1].hops) == ("no path", (), None)
    assert counts.notes["its path has constraints, and alone gives more than the gold"] == 1
    assert counts.notes["it has no gold path"] == 1


def test_the_kg_names_and_webqsp_aliases(file, toy_store):
    path = file([parse(answers=[("m.paris", "Paris-GB")], TopicEntityName="France-GB")])
    (question,), _ = read(path, store=toy_store)
    assert (question.answers[0].name, question.answers[0].aliases) == ("Paris", ("Paris-GB",))
    assert question.topic_entities[0].name == "France"
    assert question.topic_entities[0].aliases == ("France-GB", "French Republic")


def test_answers_without_a_name_and_values(file):
    (question,), _ = read(file([parse(answers=[("m.0", None), ("1975-04-03", "", "Value")])]))
    assert [(a.name, a.id) for a in question.answers] == [("m.0", "m.0"), ("1975-04-03", None)]


def test_a_closed_world_keeps_what_the_kg_has(file, toy_store):
    path = file(
        [parse(answers=[("m.paris", "Paris"), ("m.gone", "Gone")])],
        [parse(answers=[("m.gone", "Gone")])],
        [parse(topic="m.nowhere")],
    )
    found, counts = read(path, store=toy_store)
    assert [len(q.answers) for q in found] == [2]
    assert counts.dropped == {"no answer is in the KG": 1, "its topic entity is not in the KG": 1}
    assert counts.notes["some of its answers are not in the KG"] == 1
    assert [len(q.answers) for q in read(path, store=toy_store, closed_world=True)[0]] == [1]


def test_only_exact_gold(file, toy_store):
    contains = ("location.location.contains",)
    path = file(
        [parse()],
        [parse(chain=contains)],
        [parse(chain=contains, answers=[("m.paris", "Paris"), ("m.lyon", "Lyon")])],
        [parse(Constraints=[{"Operator": "Equal"}])],
        [parse(chain=None)],
        [parse(answers=()), parse()],
    )
    found, counts = read(path, store=toy_store, only_exact=True)
    assert [q.id for q in found] == ["WebQTrn-0", "WebQTrn-2"]
    assert sorted(counts.dropped) == [
        "it has no gold path",
        "its first parse is not usable",
        "its gold path has constraints",
        GOLD_IS_PART,
    ]
    with pytest.raises(UserError, match="need a KG"):
        read(path, only_exact=True)


def test_an_unknown_topic_can_be_an_error(file, toy_store):
    path = file([parse()], [parse(topic="m.nowhere")])
    with pytest.raises(
        FileFormatError, match=r"train.json:\d+: record 2: WebQTrn-1: unknown topic entity 'm.nowhere'"
    ) as caught:
        read(path, store=toy_store, missing="error")
    begin, then = path.read_text("utf-8").split("\n")[caught.value.line - 1 : caught.value.line + 1]
    assert begin.strip() == "{" and "WebQTrn-1" in then


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Answers": "Paris"}, r"record 1: field 'Parses\[0\].Answers': Expected `array \| null`, got `str`"),
        ({"Answers": [{"AnswerType": "Entity"}]}, r"Answers\[0\]': Object missing required field `AnswerArgument`"),
        ({"Answers": [answer("m.paris", 7)]}, r"Answers\[0\].EntityName': Expected `str \| null`, got `int`"),
        ({"InferentialChain": [1]}, r"InferentialChain\[0\]': Expected `str`, got `int`"),
        ({"TopicEntityMid": 7}, r"TopicEntityMid': Expected `str \| null`, got `int`"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(file, change, message):
    with pytest.raises(FileFormatError, match=message) as caught:
        read(file([{**parse(), **change}]))
    assert str(caught.value).startswith(f"{caught.value.path}:{caught.value.line}: ") and caught.value.line > 1


def test_wrong_questions_are_named(file, tmp_path):
    with pytest.raises(FileFormatError, match="field 'Parses': Expected `array`, got `str`"):
        read(file("x"))
    with pytest.raises(FileFormatError, match="field 'RawQuestion': Expected `str . null`, got `int`"):
        read(file([parse()], RawQuestion=7))
    path = tmp_path / "other.json"
    for text, message in [
        ('{"Questions": [\n}', "other.json:2: not JSON"),
        ("{}", "expected a list, or an object with a list 'Questions'"),
        ('{"Questions": [3]}', "record 1: Expected `object`, got `int`"),
    ]:
        path.write_text(text, "utf-8")
        with pytest.raises(FileFormatError, match=message):
            read(path)
    path.write_bytes(b'{"Questions":\n "\xff"}')
    with pytest.raises(FileFormatError, match="other.json:2: not JSON: .*UTF8"):
        read(path)
    with pytest.raises(UserError, match="no such file"):
        read(tmp_path / "none.json")
    with pytest.raises(UserError, match="unknown choice of parses 'best'"):
        read(file([parse()]), parses="best")
