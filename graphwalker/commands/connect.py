"""`graphwalker kg connect`: a folder that names a SPARQL endpoint."""

import argparse


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "connect",
        help="make a SPARQL endpoint a knowledge graph",
        description="Asks the endpoint for its relations and names once and writes a folder that opens like a built "
        "knowledge graph. User and password of the server come from GRAPHWALKER_SPARQL_USER and "
        "GRAPHWALKER_SPARQL_PASSWORD, further headers from GRAPHWALKER_SPARQL_HEADERS (JSON).",
    )
    parser.add_argument("url", help="such as http://localhost:8890/sparql")
    parser.add_argument("out", help="the folder to write")
    parser.add_argument("--schema", default="rdf", help="freebase, rdf, or a YAML file (default: rdf)")
    parser.add_argument("--graph", default="", metavar="IRI", help="the named graph to ask (default: the server's own)")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds a query may take (30)")
    parser.add_argument("--connections", type=int, default=16, metavar="N", help="queries under way at a time (16)")
    parser.add_argument("--rate", type=float, default=0.0, metavar="N", help="queries a second at most (no limit)")
    parser.add_argument(
        "--max-rows", type=int, default=10_000, metavar="N", help="rows after which the server cuts an answer (10000)"
    )
    parser.add_argument(
        "--names", type=int, default=1_000_000, metavar="N", help="list names where there are at most so many (1000000)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bars")


def run(args: argparse.Namespace) -> int:
    """Make the folder and print what is in it."""
    from graphwalker.commands.kg import print_counts
    from graphwalker.kg.connect import EDGES, connect_kg
    from graphwalker.kg.meta import read_meta
    from graphwalker.kg.sparql_http import Endpoint

    settings = {
        "url": args.url,
        "graph": args.graph,
        "timeout": args.timeout,
        "connections": args.connections,
        "rate": args.rate,
        "max_rows": args.max_rows,
    }
    endpoint = Endpoint.from_json(settings, "kg connect")
    out = connect_kg(endpoint, args.out, args.schema, names=args.names, progress=not args.quiet)
    print(f"connected {out}")
    if (looked := read_meta(out)["extra"]["edges_looked_at"]) < EDGES:
        print(
            f"note: the server had too little time: flattened relations were read off the first {looked:,} edges of "
            f"some predicates, not {EDGES:,}, so that rare ones can be missing; connect again when it is less busy"
        )
    return print_counts(out)
