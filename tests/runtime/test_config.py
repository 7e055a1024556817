"""vgpu.conf: the agent's parser and the library's accept and refuse the same texts."""

import random
import re
import subprocess
from pathlib import Path

import pytest

from tests.runtime.conftest import card
from vgpu_runtime import config
from vgpu_runtime.config import ConfigError, SliceConfig, render
from vgpu_runtime.rocm import parse

GOOD = render(SliceConfig("6a1f-42", "main", (card(), card(gpu_id=7, uuid="DCU-2")), "kill"))


def edited(pattern: str, replacement: str, count: int = 1, text: str = GOOD) -> str:
    text, done = re.subn(pattern, replacement, text, count=count, flags=re.MULTILINE)
    assert done, pattern
    return text


BAD = {
    "empty": "",
    "only a comment": "# nothing\n",
    "truncated": GOOD[:-1],
    "no card": GOOD.split("\n[card]")[0],
    "garbage": "\x00\x01\x7f" * 100 + "\n",
    "future version": edited("version = 6", "version = 7"),
    "earlier version": edited("version = 6", "version = 5"),
    "version of two digits": edited("version = 6", "version = 66"),
    "no version": edited("version = 6\n", ""),
    "blank inside of a request": edited("^request = (.*):", r"request = \1: "),
    "empty request": edited("^request = .*", "request = "),
    "long request": edited("^request = .*", "request = " + "x" * 257),
    "request that is not ASCII": edited("^request = .*", "request = \x7f"),
    "request in the family": edited(r"^(request = .*\n)(.*\n\[rocm\]\n)", r"\2\1"),
    "request at the head": edited("^pod", "request = x:1\npod"),
    "model that begins with a blank": edited("model = ", "model =  "),
    "model that ends with a blank": edited("^model = (.*)", r"model = \1 "),
    "blank model": edited("^model = .*", "model =   "),
    "long model": edited("^model = .*", "model = " + "x" * 257),
    "blank inside of another value": edited("^pci = .*", "pci = 0 0"),
    "model in the family": edited(r"^(model = .*\n)((?:.*\n){2}\[rocm\]\n)", r"\2\1"),
    "unknown mode": edited("= kill", "= kills"),
    "mode in upper case": edited("= kill", "= KILL"),
    "card without its family": edited(r"^\[rocm\]\n(.*\n){7}", ""),
    "family without a card": edited(r"^\[card\]\n(.*\n){5}", ""),
    "family before the cards": edited(r"^\[card\]", "[rocm]\n[card]"),
    "family twice": edited(r"^\[rocm\]", "[rocm]\n[rocm]"),
    "two families": edited("^mask = .*\n", "mask = 0x1\n[rocm]\n"),
    "family of another driver": edited(r"^\[rocm\]", "[cuda]"),
    "card key in the family": edited(r"^mem_bytes = (.*)\n\[rocm\]", r"[rocm]\nmem_bytes = \1"),
    "family key in the card": edited(r"^\[rocm\]\n(.*)\n", r"\1\n[rocm]\n"),
    "unknown key": edited("^xcc", "surprise = 1\nxcc"),
    "missing key": edited("^xcc = .*\n", ""),
    "missing model": edited("^model = .*\n", ""),
    "missing request": edited("^request = .*\n", ""),
    "missing enforcement": edited("^enforcement = .*\n", ""),
    "card key missing": edited("^pci = .*\n", ""),
    "repeated key": edited("^xcc = .*", "xcc = 1\nxcc = 1"),
    "card key at the head": edited("^pod", "xcc = 1\npod"),
    "head key in a card": edited("^xcc", "pod = x\nxcc"),
    "unknown section": edited(r"\[card\]", "[gpu]"),
    "no blanks": edited(" = ", "="),
    "two blanks": edited("xcc = ", "xcc =  "),
    "trailing blank": edited("xcc = 1", "xcc = 1 "),
    "no value": edited("xcc = 1", "xcc = "),
    "carriage return": GOOD.replace("\n", "\r\n"),
    "leading blank": edited("^xcc", " xcc"),
    "long value": edited("pod = .*", "pod = " + "x" * 257),
    "not ASCII": edited("pod = .*", "pod = ü"),
    "too long": GOOD + "#" * config.MAX_BYTES + "\n",
    "leading zero": edited("xcc = 1", "xcc = 01"),
    "plus": edited("xcc = 1", "xcc = +1"),
    "negative": edited("mem_bytes = .*", "mem_bytes = -1"),
    "no memory": edited("mem_bytes = .*", "mem_bytes = 0"),
    "too much memory": edited("mem_bytes = .*", f"mem_bytes = {2**50 + 1}"),
    "overflowing number": edited("mem_bytes = .*", f"mem_bytes = {2**64 + 1}"),
    "gpu_id 0": edited("gpu_id = .*", "gpu_id = 0"),
    "gpu_id too large": edited("gpu_id = .*", f"gpu_id = {2**32}"),
    "gpu_id twice": edited("gpu_id = .*", "gpu_id = 5", count=2),
    "paired 2": edited("paired = .*", "paired = 2"),
    "paired yes": edited("paired = .*", "paired = yes"),
    "masks of nobody": edited("^masks = .*", "masks = none"),
    "masks in upper case": edited("^masks = .*", "masks = VENDOR"),
    "masks missing": edited("^masks = .*\n", ""),
    "xcc 0": edited("xcc = .*", "xcc = 0"),
    "xcc 17": edited("xcc = .*", "xcc = 17"),
    "units 0": edited("compute_units = .*", "compute_units = 0"),
    "units 1025": edited("compute_units = .*", "compute_units = 1025"),
    "mask empty": edited("mask = .*", "mask = 0x0"),
    "mask without digits": edited("mask = .*", "mask = 0x"),
    "mask decimal": edited("mask = .*", "mask = 15"),
    "mask upper case": edited("mask = .*", "mask = 0xF"),
    "mask underscore": edited("mask = .*", "mask = 0x1_0"),
    "mask beyond the units": edited("mask = .*", f"mask = {1 << 60:#x}"),
    "mask too long": edited("mask = .*", "mask = 0x" + "0" * 256 + "1"),
    "pair split": edited("paired = 0", "paired = 1").replace("0x1fffc00", "0x7"),
    "XCC without a unit": edited("xcc = 1", "xcc = 2").replace("0x1fffc00", "0x5"),
    "seventeen cards": GOOD + "".join(
        GOOD.split("\n[card]")[1].join(["\n[card]", ""]).replace("13261", str(100 + i)) for i in range(15)
    ),
}  # fmt: skip

FINE = {
    "as rendered": GOOD,
    "comments and blank lines": "# one\n\n" + GOOD.replace("\n", "\n#ü\n\n"),
    "another order": edited("version = 6\npod = (.*)", r"pod = \1\nversion = 6"),
    "model of several words": edited("^model = .*", "model = RX 6800/RX 6800 XT  (2)"),
    "long model": edited("^model = .*", "model = " + "x" * 255 + "y"),
    "model of one letter": edited("^model = .*", "model = x"),
    "unknown request": edited("^request = .*", "request = ?"),
    "long request": edited("^request = .*", "request = " + "x" * 256),
    "leading zeros of a mask": edited("mask = 0x", "mask = 0x000"),
    "pairs": edited("paired = 0", "paired = 1").replace("0x1fffc00", "0x3f0c"),
    "eight XCCs": edited("xcc = 1", "xcc = 8"),
    "masks of the maker's driver": edited("^masks = .*", "masks = vendor"),
    "sixteen cards": "\n[card]".join(
        [GOOD.split("\n[card]")[0], *(GOOD.split("\n[card]")[1].replace("13261", str(i)) for i in range(20, 36))]
    ),
}  # fmt: skip


def accepted_by_library(built: Path, texts: list[str]) -> list[bool]:
    blobs = [text.encode("utf-8") for text in texts]
    stream = b"".join(b"%d\n%s" % (len(blob), blob) for blob in blobs)
    done = subprocess.run([built / "parse"], input=stream, capture_output=True, check=True, timeout=60)
    answers = done.stdout.decode().splitlines()
    assert len(answers) == len(texts)
    return [answer == "ok" for answer in answers]


def accepted_by_agent(text: str) -> bool:
    try:
        parse(text)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("name", BAD)
def test_agent_refuses(name: str) -> None:
    with pytest.raises(ConfigError):
        parse(BAD[name])


@pytest.mark.parametrize("name", FINE)
def test_agent_accepts(name: str) -> None:
    assert parse(FINE[name]).container == "main"


def test_library_refuses_and_accepts_the_same(built: Path) -> None:
    assert dict(zip(BAD, accepted_by_library(built, list(BAD.values())), strict=True)) == dict.fromkeys(
        BAD, False
    )
    assert dict(zip(FINE, accepted_by_library(built, list(FINE.values())), strict=True)) == dict.fromkeys(
        FINE, True
    )


def test_both_agree_on_damaged_texts(built: Path, rng: random.Random) -> None:
    texts = []
    for _ in range(4000):
        text = list(GOOD)
        for _ in range(rng.choice([1, 1, 2])):
            at = rng.randrange(len(text))
            kind = rng.randrange(3)
            if kind == 0:
                text[at] = rng.choice("0189af x=\n#[]_~")
            elif kind == 1:
                del text[at]
            else:
                text.insert(at, rng.choice("01fx= \n"))
        texts.append("".join(text))
    library = accepted_by_library(built, texts)
    agent = [accepted_by_agent(text) for text in texts]
    assert [text for text, a, b in zip(texts, agent, library, strict=True) if a != b] == []
    assert any(library)
    assert not all(library)


def test_a_card_of_a_family_that_the_reader_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[card\] and \[rocm\]"):
        config.parse(GOOD, ())


def test_round_trip() -> None:
    slices = SliceConfig("pod", "main", (card(xcc=8, compute_units=304, mask=(1 << 64) - 1),))
    assert parse(render(slices)) == slices


@pytest.mark.parametrize(
    ("name", "value"),
    [("RX 6950 XT", "RX 6950 XT"), (" Z100\n", "Z100?"), ("显卡", "??"), ("", "?"), ("x" * 300, "x" * 256)],
)
def test_a_cards_name_is_written_as_a_value_that_can_be_read(name: str, value: str) -> None:
    assert config.model_value(name) == value
    slices = SliceConfig("pod", "main", (card(model=value),))
    assert parse(render(slices)) == slices


@pytest.mark.parametrize(
    ("resource", "amount", "value"),
    [
        ("hygon.com/dcu-mem", 4, "hygon.com/dcu-mem:4"),
        ("x" * 254, 1, "x" * 254 + ":1"),
        ("x" * 254, 10, "?"),
        ("显/卡", 1, "?"),
        ("a b", 1, "?"),
    ],
)
def test_a_containers_limit_is_written_as_a_value_that_can_be_read(
    resource: str, amount: int, value: str
) -> None:
    assert config.request_value(resource, amount) == value
    slices = SliceConfig("pod", "main", (card(request=value),))
    assert parse(render(slices)) == slices


@pytest.mark.parametrize("text", [GOOD, edited("version = 6\n", "version = 9\nsurprise = 1\n")])
def test_the_cards_of_a_file_of_any_version_are_found(text: str) -> None:
    assert config.card_uuids(text) == {"DCU-1", "DCU-2"}


@pytest.mark.parametrize(
    "text", [GOOD[:-1], edited("^uuid = .*\n", ""), edited("version = 6\n", ""), "# none\n"]
)
def test_a_file_in_which_a_card_may_be_missing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        config.card_uuids(text)


def test_render_refuses_a_value_that_would_break_the_line() -> None:
    with pytest.raises(ConfigError):
        render(SliceConfig("pod", "main\nxcc = 9", (card(),)))
