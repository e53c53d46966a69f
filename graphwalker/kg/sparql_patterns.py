"""A query taken apart: its triple patterns, and what stands around them, so that another can be made of the parts.

What is read is what the grammar of ``sparql.lark`` derives.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lark import Token as LarkToken
from lark import Tree

from graphwalker.errors import QueryRefused
from graphwalker.kg.sparql_grammar import structure, syntax_tree
from graphwalker.kg.sparql_tokens import Token

Tokens = tuple[Token, ...]
_TAKES_GROUP = ("EXISTS", "MINUS", "OPTIONAL", "UNION")
_BEGINS = ("BIND", "FILTER", "MINUS", "OPTIONAL", "VALUES")


@dataclass(frozen=True, slots=True)
class TriplePattern:
    """Subject, predicate and object as their tokens: a literal has up to three, a property path any number.

    ``depth`` is 1 in the outer group, more in OPTIONAL, EXISTS, UNION and sub-queries. What stands in brackets is a
    variable of its own, ``?blank1`` and so on.
    """

    subject: Tokens
    predicate: Tokens
    object: Tokens
    depth: int


@dataclass(frozen=True, slots=True)
class QueryParts:
    """``head`` stands before the outer group, ``tail`` behind it (ORDER BY, LIMIT, …), ``rest`` in it beside its own
    triples: filters, groups, VALUES, each from the word that begins it."""

    head: Tokens
    patterns: tuple[TriplePattern, ...]
    rest: tuple[Tokens, ...]
    tail: Tokens


def query_parts(tokens: Sequence[Token]) -> QueryParts:
    """The parts of a query of ``dialect.normal_tokens``.

    Raises `QueryRefused` for what is no query, and for a collection ``( … )`` in a pattern.

    >>> from graphwalker.kg.sparql_tokens import spell, tokenize
    >>> parts = query_parts(tokenize("SELECT ?x { <a> <b> ?x . FILTER(?x != <a>) ?x <c> ?y } LIMIT 1"))
    >>> [spell(p.predicate) for p in parts.patterns], [spell(part) for part in parts.rest], spell(parts.tail)
    (['<b>', '<c>'], ['FILTER( ?x != <a> )'], 'LIMIT 1')
    """
    structure(list(tokens))
    tree = syntax_tree(tokens)
    (group,) = (child for child in tree.children if isinstance(child, Tree) and child.data == "group")
    first, last = _place(group.children[0]), _place(group.children[-1])
    patterns = tuple(_Reader(tokens).below(tree, 0))
    return QueryParts(tuple(tokens[:first]), patterns, tuple(_rest(group, tokens)), tuple(tokens[last + 1 :]))


def _place(item: Tree | LarkToken) -> int:
    """Where an item of the tree begins."""
    while isinstance(item, Tree):
        item = item.children[0]
    return int(item.start_pos or 0)


def _rest(group: Tree, tokens: Sequence[Token]) -> Iterator[Tokens]:
    part: list[Token] = []
    for child, after in zip(group.children[1:-1], group.children[2:], strict=True):
        kind = child.data if isinstance(child, Tree) else child.type
        place = _place(child)
        word = tokens[place - 1].word()
        separate = kind in ("triples", "DOT")
        if separate or kind in (*_BEGINS, "graph", "subselect") or (kind == "group" and word not in _TAKES_GROUP):
            if part:
                yield tuple(part)
            part = []
        if not separate:
            part += tokens[place : _place(after)]
    if part:
        yield tuple(part)


class _Reader:
    """Reads patterns out of a syntax tree."""

    def __init__(self, tokens: Sequence[Token]):
        self._tokens, self._blanks = tokens, 0

    def below(self, tree: Tree, depth: int) -> Iterator[TriplePattern]:
        for child in tree.children:
            if isinstance(child, LarkToken):
                continue
            if child.data == "triples":
                yield from self._triples(child, depth)
            else:
                yield from self.below(child, depth + (child.data == "group"))

    def _triples(self, tree: Tree, depth: int) -> Iterator[TriplePattern]:
        subject, *others = (child for child in tree.children if isinstance(child, Tree))
        node, patterns = self._node(subject, depth)
        yield from patterns
        yield from self._properties(node, others, depth)

    def _properties(self, subject: Tokens, children: Sequence[Tree], depth: int) -> Iterator[TriplePattern]:
        verb: Tokens = ()
        for child in children:
            if child.data == "verb":
                verb = self._text(child)
                continue
            node, patterns = self._node(child, depth)
            yield TriplePattern(subject, verb, node, depth)
            yield from patterns

    def _node(self, tree: Tree, depth: int) -> tuple[Tokens, list[TriplePattern]]:
        """A term, and the patterns in its brackets."""
        if tree.data == "node":
            return self._text(tree), []
        if tree.data == "collection":
            raise QueryRefused("a collection ( … ) in a pattern")
        self._blanks += 1
        node = (Token("VAR", f"blank{self._blanks}"),)
        inside = [child for child in tree.children if isinstance(child, Tree)]
        return node, list(self._properties(node, inside, depth))

    def _text(self, tree: Tree) -> Tokens:
        """The tokens of an item without groups; all of its tokens are in the tree."""
        return tuple(self._tokens[int(token.start_pos or 0)] for token in tree.scan_values(lambda _: True))
