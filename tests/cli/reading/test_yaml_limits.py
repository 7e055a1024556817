"""What a hostile YAML file costs `vgpu convert` and `vgpu fit`: an error, at once."""

from pathlib import Path

import pytest

from device_plugin.cli.convert.command import ConvertError, _documents
from device_plugin.cli.convert.pods import templates
from device_plugin.cli.reading import yaml_limits
from device_plugin.cli.reading.manifests import ManifestError, read_manifests

# Nine levels of ten aliases each: a thousand million values in 600 characters.
LAUGHS = "\n".join(
    ["l0: &l0 [lol, lol]", *(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10))]
)
POD = "kind: Pod\nmetadata: {name: a, annotations: {b: %s}}\nspec: {containers: [{name: main}]}\n"
HOSTILE = {
    "aliases": (LAUGHS, "aliases stand for more than"),
    "aliases in a pod": (f"{LAUGHS}\n{POD % '*l9'}", "aliases stand for more than"),
    "long aliases": ("a: &a " + "x" * 100_000 + f"\nb: [{', '.join(['*a'] * 200)}]", "aliases stand for"),
    "depth": ("[\n" * 2000, "nested too deeply"),
    "a number of 5,000 digits": (f"a: {'9' * 5000}", "digits"),
    "a date that is none": ("a: 2001-99-99", "month"),
    "many documents": ("--- {}\n" * 1001, "write at most 1000"),
    "a long file": ("#" * (yaml_limits.MOST_CHARACTERS + 1), "longer than"),
}


@pytest.mark.parametrize(("text", "said"), HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_would_cost_much_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConvertError, match=said):
        _documents(str(file))
    with pytest.raises(ManifestError, match=said):
        read_manifests(str(file), "default")


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}"])
def test_what_is_a_part_of_itself_ends(tmp_path: Path, text: str) -> None:
    file = tmp_path / "endless.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError, match="itself a part"):
        read_manifests(str(file), "default")
    # The reader of `vgpu convert` reads such an alias as null.
    assert [*templates(_documents(str(file)))] == []


def test_usual_aliases_are_read(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(f"x: &x {{a: b}}\ny: [*x, *x]\n{POD % 'c'}", encoding="utf-8")
    assert len(_documents(str(file))) == 1
    assert [each.name for each in read_manifests(str(file), "default")] == ["a"]
