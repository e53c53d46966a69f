"""Gold queries walked through the interactive tools on the toy KG: what is kept, why not, and what its steps use."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from data_pipelines import actor
from data_pipelines.actor import actor_trajectories
from data_pipelines.actor_demo import prepare_actor_demo
from data_pipelines.gold_queries import NotWalkable, read_gold
from data_pipelines.importers.counts import Counts
from data_pipelines.importers.paths import PathWalker
from data_pipelines.mentions import content_words, find_mention
from data_pipelines.support import unsupported
from envs.factory import EnvConfig
from graphwalker.cli import main
from graphwalker.errors import KGUnavailable
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.protocol.interactive import EXECUTE, SEARCH_NODES, SEARCH_PATTERNS, SEARCH_TYPES, parse_call
from graphwalker.rewards import em_set
from graphwalker.tools.kbqa.toolbox import Said
from graphwalker.tools.observation import Observation
from graphwalker.types import Entity, Question, Trajectory

NS = "PREFIX ns: <http://rdf.freebase.com/ns/> "
LANGUAGE = "FILTER (!isLiteral(?x) OR lang(?x) = '' OR langMatches(lang(?x), 'en')) "
GRAILQA = """PREFIX : <http://rdf.freebase.com/ns/> SELECT (?x0 AS ?value) WHERE { SELECT DISTINCT ?x0 WHERE {
?x0 :type.object.type :location.country . VALUES ?x1 { :m.paris } ?x0 :location.country.capital ?x1 .
FILTER ( ?x0 != ?x1 ) } }"""
QUERIES = {
    "1-hop": (
        "what is the capital of france?",
        f"SELECT DISTINCT ?x WHERE {{ FILTER (?x != ns:m.fr) {LANGUAGE} ns:m.fr ns:location.country.capital ?x . }}",
        ["Paris"],
    ),
    "mediator": (
        "Which countries adjoin France?",
        "SELECT DISTINCT ?x WHERE { FILTER (?x != ns:m.fr) ns:m.fr ns:location.location.adjoin_s ?y . "
        "?y ns:location.adjoining_relationship.adjoins ?x . }",
        ["Spain"],
    ),
    "2-hop": (
        "In which country is the place of birth of Ann Lee?",
        "SELECT DISTINCT ?x WHERE { ns:m.ann2 ns:people.person.place_of_birth ?y . "
        "?y ns:location.location.containedby ?x . }",
        ["France"],
    ),
    "conjunction": (
        "Who was born in Lyon, a place contained by France?",
        "SELECT DISTINCT ?x WHERE { ?x ns:people.person.place_of_birth ns:m.lyon . "
        "ns:m.fr ns:location.location.contains ns:m.lyon . }",
        ["Ann Lee"],
    ),
    "count": (
        "How many places does France contain?",
        "SELECT COUNT(?x) WHERE { ns:m.fr ns:location.location.contains ?x . }",
        ["2"],
    ),
    "order": (
        "What is the first place that France contains?",
        "SELECT ?x WHERE { ns:m.fr ns:location.location.contains ?x . ?x ns:location.location.containedby ?c . } "
        "ORDER BY ?x LIMIT 1",
        ["Lyon"],
    ),
    "value": (
        "Is the area of France more than 500000?",
        'ASK { ns:m.fr ns:location.location.area ?a . FILTER (?a > "500000"^^xsd:decimal) }',
        ["true"],
    ),
    "inner": (
        "What does France contain that is contained by something, not the place where Ann Lee was born?",
        "SELECT DISTINCT ?x WHERE { ns:m.fr ns:location.location.contains ?x . "
        "FILTER(EXISTS { ?x ns:location.location.containedby ?c }) "
        "FILTER(NOT EXISTS { ns:m.ann1 ns:people.person.place_of_birth ?x }) }",
        [],  # both are somebody's called Ann Lee
    ),
    "class": ("Which country has the capital Paris?", GRAILQA, ["France"]),
    "by name": (
        "What is the capital of France?",
        'SELECT ?x WHERE { ?e ns:type.object.name "France"@en . ?e ns:location.country.capital ?x . }',
        ["Paris"],
    ),
}


def ask(text: str, sparql: str | None, answers: list[str], **fields) -> Question:
    gold = tuple(map(Entity, answers))
    return Question(text, text, answers=gold, sparql=sparql and NS + sparql, **fields)


@pytest.fixture
def walk(toy_kbqa_env):
    def walked(*questions: Question, env=None):
        counts = Counts()
        return list(actor_trajectories(questions, env or toy_kbqa_env(), counts=counts)), counts

    return walked


def calls(trajectory) -> list:
    return [parse_call(turn.action) for turn in trajectory.turns if turn.kind == "query"]


@pytest.mark.parametrize("shape", [name for name in QUERIES if name != "inner"])
def test_every_shape_of_query_comes_to_its_gold(walk, shape, toy_kbqa_toolbox):
    text, sparql, answers = QUERIES[shape]
    (found,), counts = walk(ask(text, sparql, answers))
    assert counts.kept == 1 and found.ending == "answered" and list(found.answer) == answers
    assert found.extra["protocol"] == "interactive" and found.extra["executable"]
    assert all(turn.status == "ok" for turn in found.turns) and found.turns[-1].kind == "answer"
    assert unsupported(found, toy_kbqa_toolbox.store.schema, strict=True) == ""
    tools = [call.tool for call in calls(found)]
    assert tools[-1] == EXECUTE and tools.count(EXECUTE) == 1 and SEARCH_PATTERNS in tools


def test_the_steps_of_a_chain(walk):
    text, sparql, answers = QUERIES["2-hop"]
    (found,), _ = walk(ask(text, sparql, answers))
    nodes, first, second, execute = calls(found)
    assert (nodes.tool, nodes.arguments) == (SEARCH_NODES, {"name": "Ann Lee"})
    named = '?e0 ns:type.object.name "Ann Lee"@en .'
    assert first.arguments == {
        "sparql": f"SELECT ?e WHERE {{ {named.replace('?e0', '?e')} }}",
        "semantic": "country place birth",
    }
    assert second.arguments["sparql"] == f"SELECT ?e WHERE {{ {named} ?e0 ns:people.person.place_of_birth ?e . }}"
    body = "?e0 ns:people.person.place_of_birth ?y . ?y ns:location.location.containedby ?x ."
    assert execute.arguments["sparql"] == f"SELECT DISTINCT ?x WHERE {{ {named} {body} }}"
    assert found.turns[2].thought == "people.person.place_of_birth is a predicate I want. I look for what that has."


def test_a_filter_on_language_goes_and_all_others_stay(walk):
    text, sparql, answers = QUERIES["1-hop"]
    (found,), _ = walk(ask(text, sparql, answers))
    query = calls(found)[-1].arguments["sparql"]
    assert query.endswith("?e0 ns:location.country.capital ?x . FILTER(?x != ?e0) }") and "lang" not in query
    assert calls(found)[0].arguments["name"] == "france"  # the question's spelling


def test_a_class_is_looked_up_where_the_question_names_it(walk):
    text, sparql, answers = QUERIES["class"]
    (found,), _ = walk(ask(text, sparql, answers))
    assert (
        calls(found)[0].tool == SEARCH_TYPES
        and "?x0 ns:type.object.type ns:location.country ." in calls(found)[-1].arguments["sparql"]
    )
    (without,), _ = walk(ask("What has the capital Paris?", sparql, answers))
    assert SEARCH_TYPES not in [call.tool for call in calls(without)]
    assert "location.country ." not in calls(without)[-1].arguments["sparql"]


@pytest.mark.parametrize(
    ("text", "sparql", "answers", "reason"),
    [
        ("What is its capital?", QUERIES["1-hop"][1], ["Paris"], "an entity of its query is not named in the question"),
        ("What is the capital of france?", QUERIES["1-hop"][1], ["Lyon"], "another answer than its gold"),
        (QUERIES["inner"][0], QUERIES["inner"][1], ["Lyon"], "another answer than its gold"),
        ("Mayor of France?", "SELECT ?x { ns:m.fr ns:town.mayor ?x }", ["Paris"], "does not show a relation"),
        ("Is the area of France large?", QUERIES["value"][1], ["true"], "a value of its query is neither in"),
        ("Where in France?", "SELECT ?x { ns:m.fr ns:a.b/ns:c.d ?x }", ["Paris"], "it has a property path"),
        ("What of France?", "SELECT ?p { ns:m.fr ?p ?x }", ["Paris"], "it asks for a relation"),
        ("What?", "SELECT ?x { ?x ns:location.country.capital ?y }", ["France"], "it names no entity"),
        ("What of Atlantis?", "SELECT ?x { ns:m.atlantis ns:a.b ?x }", ["Paris"], "is not in the KG, or has no name"),
        ("What of France?", "SELECT ?x { ns:m.fr ns:a.b ?x", ["Paris"], "its SPARQL cannot be read"),
        ("What of France?", None, ["Paris"], "it has neither SPARQL nor a gold path"),
    ],
)  # fmt: skip
def test_why_a_question_is_dropped(walk, text, sparql, answers, reason):
    found, counts = walk(ask(text, sparql, answers))
    ((why, count),) = counts.dropped.items()
    assert not found and count == 1 and reason in why


def test_turns_and_outages(walk, toy_kbqa_env, monkeypatch):
    question = ask(*QUERIES["2-hop"])
    _, counts = walk(question, env=toy_kbqa_env(max_turns=4))
    assert list(counts.dropped) == ["it takes more turns than there are"]
    env = toy_kbqa_env()
    monkeypatch.setattr(env.toolbox, "run", lambda action: Said(Observation("down", "kg_error", "refused")))
    with pytest.raises(KGUnavailable, match="born|birth"):
        walk(question, env=env)


def test_gold_paths_serve_as_well(toy_kbqa_toolbox, walk):
    """Every path of one and two hops on the toy KG: the query that it becomes, and each step of its trajectory."""
    store = toy_kbqa_toolbox.store
    walker, questions = PathWalker(store), []
    for node in ("m.fr", "m.es", "m.paris", "m.lyon", "m.odd"):
        for first in store.steps(node):
            for path in _paths(store, walker, node, first):
                ends = walker.walk(node, path)
                names = [store.names([end])[0] for end in sorted(ends)]
                words = " then ".join(hop.removeprefix("^").replace(".", " ").replace("_", " ") for hop in path)
                text = f"What is {words} of {store.names([node])[0]}?"
                topic, gold = Entity(store.names([node])[0], node), tuple(Entity(name) for name in names if name)
                questions += [Question(f"{node} {path}", text, (topic,), gold, paths=(path,))] if gold else []
    found, counts = walk(*questions)
    assert len(questions) > 20 and counts.kept / counts.read > 0.8, counts.dropped
    for trajectory in found:
        assert unsupported(trajectory, store.schema, strict=True) == ""
        assert em_set(trajectory.answer, trajectory.question.answers) == 1


def _paths(store, walker, node, first):
    hop = ("^" if first.inverse else "") + first.relation
    yield (hop,)
    for middle in sorted(walker.walk(node, (hop,))):
        for second in [] if middle.startswith('"') else store.steps(middle):
            yield (hop, ("^" if second.inverse else "") + second.relation)


def test_what_a_step_does_not_rest_on_is_found(walk, toy_kbqa_toolbox):
    schema = toy_kbqa_toolbox.store.schema
    (found,), _ = walk(ask(*QUERIES["2-hop"]))
    for place, old, new, missing in [
        (3, "location.location.containedby", "location.location.area", "location.location.area"),
        (3, '"Ann Lee"', '"Bob Lee"', "Bob Lee"),
        (3, " ?x . }", " ?x . FILTER(?x != 1789) }", "1789"),
    ]:
        action = found.turns[place].action.replace(old, new)
        turns = (*found.turns[:place], replace(found.turns[place], action=action), *found.turns[place + 1 :])
        assert unsupported(replace(found, turns=turns), schema) == f"turn {place + 1} uses {missing!r}"
    guess = replace(found.turns[0], action='SearchNodes("Ann Leigh")')
    guessed = replace(found, turns=(guess, *found.turns[1:]))
    assert unsupported(guessed, schema) == "" and "Ann Leigh" in unsupported(guessed, schema, strict=True)


@pytest.mark.parametrize(
    ("text", "names", "mention"),
    [
        ("who does the uk trade with?", ["United Kingdom", "UK"], "uk"),
        ("where is Sao Paulo?", ["São Paulo"], "Sao Paulo"),
        ("what did obama study?", ["Barack Obama"], "obama"),
        ("who played in star wars?", ["Star Wars Episode I: The Phantom Menace"], "star wars"),
        ("who is martin luther king jr?", ["Martin Luther King, Jr."], "martin luther king jr"),
        ("where is rome's airport?", ["Rome"], "rome"),
        ("who was the king of united nations?", ["United Kingdom"], None),
        ("what is Romeo?", ["Rome"], "Romeo"),
        ("what is it?", ["The"], None),
    ],
)
def test_where_a_question_names_an_entity(text, names, mention):
    span = find_mention(text, names)
    assert (span and text[slice(*span)]) == mention


def test_the_meaning_is_the_rest_of_the_question():
    assert (
        content_words("Which language is spoken in Peru and spoken in Chile?", [(28, 32), (47, 52)])
        == "language spoken"
    )
    assert content_words("Where is Peru?", [(9, 13)]) == "Where is"


def test_published_queries_are_read(toy_kbqa_toolbox):
    """What the query keeps of its own: order, optional parts, and a name that would clash with an entity's variable."""
    query = (
        "SELECT DISTINCT ?e WHERE { ns:m.fr ns:location.location.contains ?e . "
        "OPTIONAL { ?e ns:location.location.area ?a } } ORDER BY DESC(?a) LIMIT 2"
    )
    gold = read_gold(ask("x", query, []), toy_kbqa_toolbox.store)
    variables = {gold.entities[0].term: "?e0"}
    statements = [gold.name_statement(gold.entities[0])]
    assert gold.whole(statements, variables) == (
        'SELECT DISTINCT ?ve WHERE { ?e0 ns:type.object.name "France"@en . '
        "OPTIONAL { ?ve ns:location.location.area ?a } } ORDER BY DESC(?a) LIMIT 2"
    )
    kinds = Counter(pattern.depth for pattern in (*gold.patterns, *gold.inner))
    assert kinds == {1: 1, 2: 1}
    with pytest.raises(NotWalkable, match="cannot be read"):
        read_gold(ask("x", "DELETE WHERE { ?s ?p ?o }", []), toy_kbqa_toolbox.store)


def test_from_the_console(toy_sparql_kg, tmp_path, capsys):
    questions = [ask(*QUERIES[shape]) for shape in ("1-hop", "2-hop")] + [ask("What of France?", None, ["Paris"])]
    write_jsonl(tmp_path / "questions.jsonl", questions)
    files = [str(tmp_path / "questions.jsonl"), str(tmp_path / "out.jsonl"), "--kg", str(toy_sparql_kg)]
    assert main(["data", "actor", *files]) == 0
    assert "read 3, kept 2, dropped 1" in capsys.readouterr().out
    assert [t.question.id for t in read_jsonl(tmp_path / "out.jsonl", Trajectory)] == [q.id for q in questions[:2]]
    counts = json.loads((tmp_path / "out.counts.json").read_text("utf-8"))
    assert counts["dropped"] == {"it has neither SPARQL nor a gold path for each topic": 1}
    files[1] = str(tmp_path / "few.jsonl")
    assert main(["data", "actor", *files, "--limit", "1", "--names-shown", "1"]) == 0
    assert len(list(read_jsonl(tmp_path / "few.jsonl", Trajectory))) == 1
    write_jsonl(tmp_path / "questions.jsonl", questions[2:])
    capsys.readouterr()
    for options, message in (([], "no question is left"), (["--limit", "0"], "--limit must be at least 1")):
        files[1] = str(tmp_path / "none.jsonl")
        assert main(["data", "actor", *files, *options]) == 2
        assert message in capsys.readouterr().err and not (tmp_path / "none.jsonl").exists()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), KGUnavailable("down", "kg_error")])
def test_interrupted_it_goes_on_where_it_stopped(toy_sparql_kg, tmp_path, monkeypatch, interrupt):
    asked = [ask("What of France?", None, ["Paris"])] + [ask(*QUERIES[s]) for s in ("1-hop", "mediator", "2-hop")]
    write_jsonl(tmp_path / "questions.jsonl", asked)
    walked = []
    run = actor._Walk.run

    def watched(walk):
        walked.append(walk.question.text)
        if interrupt is not None and walk.question == asked[3]:
            raise interrupt
        return run(walk)

    monkeypatch.setattr(actor._Walk, "run", watched)

    def command(name, *options):
        files = [str(tmp_path / "questions.jsonl"), str(tmp_path / name), "--kg", str(toy_sparql_kg), *options]
        try:
            return main(["data", "actor", *files])
        except KeyboardInterrupt:
            return 130

    partial = tmp_path / "out.partial.jsonl"
    assert command("out.jsonl") != 0 and not (tmp_path / "out.jsonl").exists()
    assert len(walked) == 3 and len(partial.read_text("utf-8").splitlines()) == 1 + 3
    partial.write_bytes(partial.read_bytes()[:-9])  # cut mid-write
    interrupt = None
    walked.clear()
    assert command("out.jsonl") == 0 and walked == [asked[2].text, asked[3].text] and not partial.exists()
    assert command("whole.jsonl") == 0
    for suffix in ("jsonl", "counts.json"):
        assert (tmp_path / f"out.{suffix}").read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()
    interrupt = KeyboardInterrupt()
    command("other.jsonl")
    interrupt = None
    walked.clear()
    assert command("other.jsonl", "--names-shown", "5") == 0 and len(walked) == 3  # other settings: anew


def test_the_demos_trajectories_are_made_once(walk, toy_sparql_kg, tmp_path):
    made, _ = walk(ask(*QUERIES["1-hop"]), ask(*QUERIES["2-hop"]))
    write_jsonl(tmp_path / "graphsynth.jsonl", made)  # of which only the questions count
    env, out = EnvConfig(kg=str(toy_sparql_kg), protocol="interactive", names_shown=3), tmp_path / "actor.jsonl"
    prepare_actor_demo(tmp_path, env, questions=1, progress=False)
    (one,) = read_jsonl(out, Trajectory)
    assert one.question == made[0].question and one.turns[-1].kind == "answer"
    out.write_text("kept", "utf-8")
    prepare_actor_demo(tmp_path, env, questions=1, progress=False)
    assert out.read_text("utf-8") == "kept"
    prepare_actor_demo(tmp_path, replace(env, names_shown=4), questions=2, progress=False)
    assert len(list(read_jsonl(out, Trajectory))) == 2
