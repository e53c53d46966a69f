"""Readers of published data sets and knowledge graphs, in the formats in which their authors publish them.

``counts`` says what an import kept and dropped, ``paths`` walks gold relation paths on a KG; ``metaqa``, ``webqsp`` and
``freebase_slice`` hold one format each.
"""
