"""The published formats that can be imported, each a module of this package with a function ``read``."""

QUESTIONS = {
    "agentbench": ("agentbench", "AgentBench's knowledge-graph task (JSON)"),
    "cwq": ("cwq", "ComplexWebQuestions: the official JSON, or the layouts with answers_raw and topic_entity"),
    "grailqa": ("grailqa", "GrailQA's JSON"),
    "graphquestions": ("grailqa", "GraphQuestions' JSON"),
    "kqapro": ("kqapro", "KQA Pro's train.json, val.json or test.json"),
    "lcquad1": ("lcquad", "LC-QuAD 1's JSON (DBpedia)"),
    "lcquad2": ("lcquad", "LC-QuAD 2's JSON (Wikidata)"),
    "metaqa": ("metaqa", "MetaQA's folder, one of its N-hop folders, or a question file"),
    "pathquestion": ("pathquestion", "PathQuestion's and PQL's text files"),
    "qald": ("qald", "QALD 9 and 10: the official JSON, or the layout with topic_entity"),
    "rog": ("rog", "records with a subgraph: RoG's (JSON Lines or Parquet), GRAFT-Net's and NSM's (JSON Lines)"),
    "simplequestions": ("simplequestions", "SimpleQuestions' text files, with Freebase or Wikidata ids"),
    "webqsp": ("webqsp", "WebQSP's official JSON"),
}
TRAJECTORIES = {
    "graphwalker": (
        "graphwalker_json",
        "the GraphWalker authors' trajectories, or their predictions with traces (JSON)",
    ),
    "interactive-kbqa": ("interactive_kbqa", "Interactive-KBQA's dialogues (JSON), or its few-shot texts"),
}
MISSING = ("error", "drop", "keep")
OPTIONS = {"parses": "webqsp", "language": "qald"}
"""Option -> the format that has it."""

KGS = {
    "freebase-slice": "FB15k-237's folder, as the slice of Freebase it was cut from",
    "kqapro": "KQA Pro's kb.json",
    "metaqa": "MetaQA's kb.txt or its folder",
    "pathquestion": "PathQuestion's and PQL's KB files (2H-kb.txt)",
    "rog": "the subgraphs of RoG's, GRAFT-Net's or NSM's records: of all, or of one",
}
