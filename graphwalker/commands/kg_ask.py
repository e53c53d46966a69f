"""`graphwalker kg index | search | sparql`."""

import argparse
import json
import sys


def add_parser(commands: argparse._SubParsersAction) -> None:
    index = commands.add_parser("index", help="make the index that `kg search` reads")
    index.add_argument("kg", help="the folder of a built knowledge graph; the index goes into it")
    index.add_argument("--quiet", action="store_true", help="no progress bar")

    search = commands.add_parser("search", help="find entities by name, with mistakes too, or by description")
    search.add_argument("kg", help="the folder of a built knowledge graph")
    search.add_argument("text", help="a name, or words of a description")
    search.add_argument("--descriptions", action="store_true", help="search descriptions instead of names and aliases")
    search.add_argument("--type", help="only entities of this type, such as location.country")
    search.add_argument("--limit", type=int, default=10, help="how many entities to show (default: 10)")
    search.add_argument("--json", action="store_true", help="print JSON Lines")

    sparql = commands.add_parser("sparql", help="run a SELECT or an ASK (Oxigraph stores and endpoints)")
    sparql.add_argument("kg", help="the folder of a knowledge graph built with --store oxigraph")
    sparql.add_argument("query", help="the query; Virtuoso's dialect is understood, prefixes of the schema are known")
    sparql.add_argument("--rows", type=int, default=100, help="rows to show at most (default: 100)")
    sparql.add_argument("--seconds", type=float, default=60.0, help="time limit (default: 60)")


def run(args: argparse.Namespace) -> int:
    return {"index": _index, "search": _search, "sparql": _sparql}[args.kg_command](args)


def _index(args: argparse.Namespace) -> int:
    from graphwalker.kg.open import open_kg
    from graphwalker.kg.search_index import build_index

    print(f"wrote {build_index(open_kg(args.kg), args.kg, progress=not args.quiet)}")
    return 0


def _search(args: argparse.Namespace) -> int:
    """Print one entity a line; 0 when any was found, else 1."""
    from graphwalker.errors import UserError
    from graphwalker.kg.open import open_kg
    from graphwalker.kg.search import EntitySearch

    if args.limit < 1:
        raise UserError("--limit must be at least 1")
    search = EntitySearch.open(open_kg(args.kg), args.kg, progress=True)
    find = search.descriptions if args.descriptions else search.names
    hits = find(args.text, limit=args.limit, type=args.type)
    for hit in hits:
        if args.json:
            print(json.dumps(hit._asdict(), ensure_ascii=False))
        else:
            shown = [hit.id, hit.name or "(no name)", f"{hit.match} {hit.score:.0f}", f"{hit.relations} relations"]
            print("\t".join([*shown, ", ".join(hit.types[:3]), *([hit.text] if hit.text != hit.name else [])]))
    if not hits:
        of_type = f" of type {args.type}" if args.type else ""
        print(f"no entity{of_type} is {'described' if args.descriptions else 'called'} so, nor nearly", file=sys.stderr)
    return 0 if hits else 1


def _sparql(args: argparse.Namespace) -> int:
    from graphwalker.errors import QueryRefused, UserError
    from graphwalker.kg.guard import QueryLimits
    from graphwalker.kg.open import open_kg
    from graphwalker.kg.sparql_store import SparqlStore
    from graphwalker.kg.worker import NO_SPARQL

    if args.rows < 1 or args.seconds <= 0:
        raise UserError("--rows and --seconds must be positive")
    store = open_kg(args.kg)
    if not isinstance(store, SparqlStore):
        raise UserError(f"{args.kg} {NO_SPARQL}")
    try:
        answer = store.execute(args.query, QueryLimits(rows=args.rows, seconds=args.seconds))
    except QueryRefused as error:
        raise UserError(str(error)) from error
    if answer.boolean is not None:
        print("true" if answer.boolean else "false")
        return 0
    variables = list(dict.fromkeys(variable for row in answer.rows for variable in row))
    print("\t".join(f"?{variable}" for variable in variables))
    for row in answer.rows:
        print("\t".join(row.get(variable, "") for variable in variables))
    if answer.truncated:
        print(f"... more than {args.rows} rows")
    return 0
