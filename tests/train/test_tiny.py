"""The tiny model starts with heads that copy, and its tokenizer writes a name alike wherever it stands."""

import random

import torch

from graphwalker.train import tiny

SYLLABLES = ["ba", "do", "ke", "lim", "nor", "pas", "ru", "shi", "tav", "vel", "zun", "gor"]


def names(rng, count):
    return ["".join(rng.choice(SYLLABLES) for _ in range(4)).capitalize() for _ in range(count)]


def repeated_share(model, tokenizer, rng, episodes=40):
    """The share of tokens that a model predicts right in the second telling of a list of names."""
    right = total = 0
    for _ in range(episodes):
        told = " | ".join(names(rng, 4))
        once = tokenizer(told + " | ", add_special_tokens=False)["input_ids"]
        again = tokenizer(told, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([once + again])).logits[0]
        predicted = logits.argmax(-1)[len(once) - 1 : -1].tolist()
        right += sum(p == t for p, t in zip(predicted[1:], again[1:], strict=True))
        total += len(again) - 1
    return right / total


def test_untrained_copying_heads_copy(monkeypatch):
    rng = random.Random(0)
    tokenizer = tiny.train_tokenizer([" | ".join(names(rng, 4)) for _ in range(200)], 400)
    wired = tiny.make_model(tokenizer, seed=0)
    assert repeated_share(wired, tokenizer, random.Random(1)) > 0.1
    monkeypatch.setattr(tiny, "start_with_copying_heads", lambda model: None)
    assert repeated_share(tiny.make_model(tokenizer, seed=0), tokenizer, random.Random(1)) < 0.03


def test_a_name_is_the_same_tokens_wherever_it_stands():
    place = "Kelimpas Norruvel"
    contexts = [
        f"Where is {place}?",
        f'<kg-query>get_relations("{place}")</kg-query>',
        f'get_triples("{place}", ["location.location.containedby"])',
        f"[{place}, location.location.containedby, {place}]",
        f'<answer>["{place}"]</answer>',
    ]
    tokenizer = tiny.train_tokenizer(contexts * 20 + ["user\nQuestion"], 420)
    alone = tokenizer.tokenize(place)
    for context in contexts:
        tokens = tokenizer.tokenize(context)
        found = [i for i in range(len(tokens)) if tokens[i : i + len(alone)] == alone]
        assert len(found) == context.count(place), context


def test_a_frequent_relation_is_one_token():
    tokenizer = tiny.train_tokenizer(['get_triples("A", ["location.country.capital"])'] * 50, 400)
    assert "location.country.capital" in tokenizer.tokenize('get_triples("B", ["location.country.capital"])')


def test_any_text_round_trips():
    tokenizer = tiny.train_tokenizer(["<think>Start.</think>"], 300)
    for text in ("São Tomé\n\n  12,345", "<answer>[\"日本\", '\\u003c']</answer>", "\u202eabc\t\x00"):
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text
