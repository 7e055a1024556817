"""A hostile YAML file ends `vgpu convert`, `vgpu fit` and the reading of a kubeconfig with an error, at once."""

from pathlib import Path

import pytest

from device_plugin.adapters import yaml_text
from device_plugin.adapters.yaml_text import NotYamlError, YamlFileError, parse
from device_plugin.cli.convert import files
from device_plugin.cli.reading.manifests import read_manifests


def levels(first: str, made_of: str, aliases: int, number: int) -> str:
    """A mapping of `number` levels, each made of as many aliases of the one before."""
    names = [f"l{n}: &l{n} {made_of % ', '.join([f'*l{n - 1}'] * aliases)}" for n in range(1, number)]
    return "\n".join([f"l0: &l0 {first}", *names])


# Nine levels of ten aliases each: a thousand million values in 600 characters.
LAUGHS = levels("[lol, lol]", "[%s]", 10, 10)
POD = "kind: Pod\nmetadata: {name: a, annotations: {b: %s}}\nspec: {containers: [{name: main}]}\n"
HOSTILE = {
    "aliases": (LAUGHS, "aliases stand for more than"),
    "aliases in a pod": (f"{LAUGHS}\n{POD % '*l9'}", "aliases stand for more than"),
    "long aliases": ("a: &a " + "x" * 100_000 + f"\nb: [{', '.join(['*a'] * 200)}]", "aliases stand for"),
    "merged mappings": (levels("{a: b}", "{<<: [%s]}", 10, 10), "aliases stand for more than"),
    "a list in itself": ("a: &a [*a]", "aliases stand for more than"),
    "a mapping in itself": ("a: &a {b: *a}", "aliases stand for more than"),
    "depth": ("[\n" * 2000, "nested deeper than 100 levels"),
    "depth of aliases": (levels("[a]", "[%s]", 1, 101), "nested deeper than 100 levels"),
    "a number of 5,000 digits": (f"a: {'9' * 5000}", "digits"),
    "a date that is none": ("a: 2001-99-99", "month"),
    "an alias of nothing": ("a: *b", "undefined alias"),
    "a long file": ("#" * (yaml_text.MOST_CHARACTERS + 1), "longer than"),
}
MANY = "--- {}\n" * 1001


@pytest.mark.parametrize(
    ("text", "said"),
    [*HOSTILE.values(), (MANY, "more than 1000 documents")],
    ids=[*HOSTILE, "many documents"],
)
def test_a_file_that_would_cost_much_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_text(text, encoding="utf-8")
    # Nothing of a date counts for a conversion, and the date stays as it is.
    for read in (files.read, lambda name: read_manifests(name, "default"))["2001-99-99" in text :]:
        with pytest.raises(YamlFileError, match=said):
            read(str(file))


@pytest.mark.parametrize(("text", "said"), HOSTILE.values(), ids=HOSTILE)
def test_so_is_a_text_of_one_document(text: str, said: str) -> None:
    with pytest.raises(NotYamlError, match=said):
        parse(text)


def test_a_file_of_100_levels_is_read(tmp_path: Path) -> None:
    nested = "[" * 99 + "]" * 99
    assert parse(f"a: {nested}")
    aliased = levels("[a]", "[%s]", 1, 99)
    assert parse(aliased)
    (tmp_path / "deep.yaml").write_text(aliased)
    assert len(files.read(str(tmp_path / "deep.yaml")).documents) == 1


def test_usual_aliases_are_read(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(f"x: &x {{a: b}}\ny: [*x, *x]\nz: {{<<: *x}}\n{POD % 'c'}", encoding="utf-8")
    assert len(files.read(str(file)).documents) == 1
    assert [each.name for each in read_manifests(str(file), "default")] == ["a"]
