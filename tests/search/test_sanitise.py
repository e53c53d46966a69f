"""The sanitised history of every tool, line by line (MCTS-KBQA, appendix A.1)."""

import pytest

from graphwalker.protocol import interactive
from graphwalker.protocol.parse import parse_turn
from graphwalker.search.sanitise import history
from graphwalker.types import Entity, Question, Turn

QUESTION = Question(
    "q", "Who directed Blade Runner, the film by Ridley?", (Entity("Blade Runner", aliases=("Bladerunner",)),)
)
FILM = 'SELECT ?e WHERE { ?e ns:type.object.name "Blade Runner"@en }'


def act(action, observation="", status="ok", thought="Blade Runner was directed by whom?"):
    """A turn of Interactive-KBQA."""
    parsed = interactive.parse_turn(f"Thought: {thought}\nAction: {action}")
    return Turn(
        f"Thought: {thought}\nAction: {action}", parsed.thought, parsed.kind, parsed.action, observation, status
    )


def walk(text, observation="", status="ok"):
    """A turn of GraphWalker."""
    parsed = parse_turn(f"<think>Who directed it?</think>{text}")
    return Turn(text, parsed.thought, parsed.kind, parsed.action, observation, status)


def query(call, *rest):
    return walk(f"<kg-query>{call}</kg-query>", *rest)


def test_search_nodes_keeps_its_name_alone():
    found = history([act('SearchNodes("Blade Runner, the film")', "['\"Blade Runner\" | a film']")], QUESTION)
    assert found == "SearchNodes()\n['\"Blade Runner\" | a film']\n"


def test_search_types_keeps_its_name_alone():
    assert history([act('SearchTypes("film director")', "['film.director']")], QUESTION) == (
        "SearchTypes()\n['film.director']\n"
    )


@pytest.mark.parametrize("semantic", [', semantic="directed by"', ', "directed by"', ""])
def test_search_graph_patterns_keeps_its_query_without_the_meaning(semantic):
    found = history([act(f"SearchGraphPatterns('{FILM}'{semantic})", "[(?e, film.film.directed_by, ?x)]")], QUESTION)
    assert found == f'SearchGraphPatterns("{FILM}")\n[(?e, film.film.directed_by, ?x)]\n'


def test_a_query_is_one_line_without_comments():
    sparql = "SELECT ?x # who directed Blade Runner\\nWHERE {\\n  ?x ?p <http://a#b>\\n}".replace("\\n", "\n")
    assert history([act(f"ExecuteSPARQL('''{sparql}''')", "['Ridley Scott']")], QUESTION) == (
        "ExecuteSPARQL(\"SELECT ?x WHERE { ?x ?p <http://a#b> }\")\n['Ridley Scott']\n"
    )


def test_only_the_last_observation_stays_and_no_thought():
    turns = [act('SearchNodes("Blade Runner")', "seen first"), act(f"ExecuteSPARQL('{FILM}')", "seen last")]
    assert history(turns, QUESTION) == f'SearchNodes()\nExecuteSPARQL("{FILM}")\nseen last\n'


def test_done_is_bare_and_what_was_executed_is_its_evidence():
    turns = [act(f"ExecuteSPARQL('{FILM}')", "['Ridley Scott']"), act("Done. Ridley Scott directed Blade Runner.")]
    assert history(turns, QUESTION) == f"ExecuteSPARQL(\"{FILM}\")\nDone\n['Ridley Scott']\n"


def test_what_was_not_run_keeps_no_parameter_and_its_error_does_not_repeat_it():
    copied = "who directed Blade Runner"
    turn = act(f"ExecuteSPARQL('{copied}')", f"Error: not SPARQL at {copied}", "bad_query")
    assert history([turn], QUESTION) == "ExecuteSPARQL()\nError: not SPARQL at \n"
    lost = act('SearchNodes("Blade Runner film")', "Error: nothing is named Blade Runner film.", "empty")
    assert history([lost], QUESTION) == "SearchNodes()\nError: nothing is named .\n"


def test_a_query_that_took_too_long_was_run():
    turn = act(f"ExecuteSPARQL('{FILM}')", "Error: it took too long.", "kg_timeout")
    assert history([turn], QUESTION) == f'ExecuteSPARQL("{FILM}")\nError: it took too long.\n'


@pytest.mark.parametrize("action", ['Guess("who directed Blade Runner")', "SearchNodes(Blade Runner", "the director"])
def test_what_is_no_call_leaves_nothing(action):
    turn = act(action, "Error: this is not a call.", "bad_query")
    assert history([turn], QUESTION) == "Error: this is not a call.\n"


def test_an_entity_that_the_question_names_goes():
    turns = [
        query('get_relations("Blade Runner")', "film.film.directed_by"),
        query('get_triples("bladerunner", ["film.film.directed_by"])', "[Blade Runner, film.film.directed_by, X]"),
    ]
    assert history(turns, QUESTION) == (
        'get_relations()\nget_triples(["film.film.directed_by"])\n[Blade Runner, film.film.directed_by, X]\n'
    )


def test_a_name_in_the_text_of_the_question_goes_but_not_a_part_of_a_word():
    assert history([query('get_relations("Ridley")', "a.b")], QUESTION) == "get_relations()\na.b\n"
    assert history([query('get_relations("Rid")', "a.b")], QUESTION) == 'get_relations("Rid")\na.b\n'


def test_an_entity_out_of_an_observation_stays():
    turns = [query('get_triples("Ridley Scott", ["people.person.gender"])', "[Ridley Scott, people.person.gender, M]")]
    assert history(turns, QUESTION) == (
        'get_triples("Ridley Scott", ["people.person.gender"])\n[Ridley Scott, people.person.gender, M]\n'
    )


def test_an_answer_without_the_names_of_the_question():
    turns = [
        query('get_relations("X")', "[X, a.b, Ridley Scott]"),
        walk('<answer>["Ridley Scott", "Blade Runner"]</answer>'),
    ]
    assert history(turns, QUESTION) == 'get_relations("X")\n["Ridley Scott"]\n[X, a.b, Ridley Scott]\n'


def test_a_made_up_entity_goes_from_the_query_and_from_its_error():
    name = "the person who directed the film Blade Runner, which Ridley made long ago"
    error = f"Error: no entity is named {name[:60]}…. Copy a name."
    turn = query(f'get_relations("{name}")', error, "unknown_entity")
    assert history([turn], QUESTION) == "get_relations()\nError: no entity is named . Copy a name.\n"


def test_a_state_without_turns_has_no_history():
    assert history([], QUESTION) == ""


def test_real_dialogues_leave_no_thought_and_no_meaning(data_dir):
    """60 dialogues of a GPT-4o agent: no thought, no searched name and no semantic is in the history of any state."""
    from data_pipelines.importers.interactive_kbqa import read

    dialogues = list(read(data_dir / "samples" / "interactive_kbqa" / "dialogues" / "cwq_gpt4o_60.json"))
    for found in dialogues:
        trajectory = found.item
        for end in range(1, len(trajectory.turns) + 1):
            turns = trajectory.turns[:end]
            text = history(turns, trajectory.question)
            calls = text.removesuffix(f"{turns[-1].observation}\n") if turns[-1].observation else text
            assert "semantic=" not in calls and "Thought" not in calls
            assert all(turn.thought not in text for turn in turns if len(turn.thought) > 20)
    assert len(dialogues) == 60
