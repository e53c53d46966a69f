"""Readers of published data sets and knowledge graphs, in the formats in which their authors publish them.

``formats`` lists them, each a module with a ``read`` function over ``records`` (JSON, JSON Lines, Parquet) or ``lines``
(text); ``importing`` runs one, holds its questions against a KG (``on_kg``) and counts what is kept and dropped;
``patterns`` reads relation paths out of published SPARQL, ``paths`` walks them on a KG; ``kgs`` builds knowledge bases.
"""
